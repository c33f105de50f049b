"""Coefficients in a study's own units: what one more year does, or another category.

    θ   for rows at most 1 long, their constant feature last; what `_solving` gives
    β   for the study's columns: score = intercept + Σ β_k·value_k, values 0 or 1 for categories

β = Lθ is linear, so that its covariance is LCLᵀ. For regression the score is the target; for
classes the log-odds of the second one; for counts the log of the expected number.
"""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sudare.foundations import checks
from sudare.study import Categories, Study, label_text

Array = NDArray[np.float64]
Family = Literal["linear", "logistic", "poisson"]
"""Of the regression."""
RATIOS: Mapping[Family, str] = {"logistic": "odds ratio", "poisson": "rate ratio"}
"""What the exponential of a coefficient is called."""
INTERCEPT = "intercept"
HIDDEN = "hidden by the noise"
TOO_FAR = (
    "not told: the last session was evaluated too far from where its sums lead, as the noise of "
    "those before it was large"
)
INTERCEPT_HIDDEN = "not told, because another coefficient is hidden by the noise"
_LARGEST_EXPONENT = 700.0


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """What a coefficient multiplies."""

    name: str
    column: str | None = None
    """None for the intercept."""
    level: str | None = None
    """The category that it compares with `reference`; None for numbers."""
    reference: str | None = None
    missing: bool = False
    """1 where the column's value was missing (its stand-in is used beside it), else 0."""


class Coefficient(msgspec.Struct, frozen=True, kw_only=True):
    """One coefficient with its interval, in the study's units; or why it is not told."""

    term: Term
    told: bool
    estimate: float | None = None
    std_error: float | None = None
    """Noise and sampling together."""
    low: float | None = None
    high: float | None = None
    z: float | None = None
    """Estimate over standard error; for several sites Student's t."""
    p: float | None = None
    """Of the hypothesis that it is zero, two-sided."""
    reason: str = ""
    """Why it is not told."""

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Estimate, low and high as odds or rate ratios."""
        value, low, high = (math.exp(min(each, _LARGEST_EXPONENT)) for each in self.numbers)
        return value, low, high

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Estimate, low and high of a coefficient that is told."""
        assert self.estimate is not None
        assert self.low is not None
        assert self.high is not None
        return self.estimate, self.low, self.high


class SiteEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What one release says of a coefficient by itself."""

    name: str
    rows: int
    coefficient: Coefficient
    weight: float
    """In the mean over sites; all of them add up to 1."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Coefficients of everybody's rows, with what their readers have to know."""

    study: str
    family: Family
    n: int
    """Rows; public and exact."""
    level: float
    coefficients: tuple[Coefficient, ...]
    """One for each feature, in the study's order, then the intercept."""
    sites: tuple[tuple[SiteEstimate, ...], ...] | None = None
    """For each coefficient what each site says; None for a model of one sum."""
    between_deviations: tuple[float | None, ...] | None = None
    """For each coefficient, how far sites' own ones stand from their mean; at least, if bounded."""
    bounded: bool = False
    """Whether residuals were taken to be as large as the public bound of the target allows."""
    covariance: tuple[tuple[float, ...], ...] | None = None
    """Of all coefficients' errors, in their order; None if any is hidden, and for sites."""
    residual_deviation: float | None = None
    """Linear: of the target about the model."""
    noise_std: float | None = None
    """Of the sums, in units of ‖x‖ ≤ 1; None for sites."""
    noise_share: float | None = None
    """Of the variance of the coefficients that are told, the median part that is due to noise."""
    notes: tuple[str, ...] = ()


def check_level(level: float) -> float:
    """A confidence level that can be computed with."""
    checks.between(0.5, 0.9999, level=level)
    return level


def study_terms(study: Study) -> tuple[Term, ...]:
    """One for each feature, in their order, then the intercept."""
    found = []
    for feature in study.features:
        column = study.columns[feature.column]
        level = reference = None
        if feature.category is not None:
            assert isinstance(column, Categories)
            level = label_text(feature.category)
            reference = label_text(column.categories[0])
        flag = level is None and feature.name != feature.column
        found.append(
            Term(
                name=feature.name,
                column=feature.column,
                level=level,
                reference=reference,
                missing=flag,
            )
        )
    return (*found, Term(name=INTERCEPT))


def in_study_units(study: Study, family: Family) -> tuple[Array, float]:
    """L and what is added to the intercept: β = Lθ + (0, …, 0, shift)."""
    contract, features = study.contract, study.features
    p, norm = contract.dimension, contract.full_norm
    reach = study.target_reach if family == "linear" else 1.0
    matrix = np.zeros((len(features) + 1, p))
    for place, feature in enumerate(features):
        matrix[place, place] = reach / (norm * feature.scale)
        matrix[-1, place] = -matrix[place, place] * feature.centre
    if contract.constant > 0:
        matrix[-1, -1] = reach * contract.constant / norm
    return matrix, study.target_middle if family == "linear" else 0.0


def coefficient(
    term: Term, estimate: float, variance: float, level: float, freedom: float = math.inf
) -> Coefficient:
    """With its interval, by the normal law or Student's."""
    law = stats.norm if math.isinf(freedom) else stats.t(freedom)
    std_error = math.sqrt(variance)
    half = float(law.ppf((1 + level) / 2)) * std_error
    z = estimate / std_error if std_error > 0 else math.copysign(math.inf, estimate)
    return Coefficient(
        term=term,
        told=True,
        estimate=estimate,
        std_error=std_error,
        low=estimate - half,
        high=estimate + half,
        z=z,
        p=float(2 * law.sf(abs(z))),
    )


def not_told(term: Term, reason: str) -> Coefficient:
    """In the place of a number."""
    return Coefficient(term=term, told=False, reason=reason)
