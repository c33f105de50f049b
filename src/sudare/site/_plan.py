"""The plan of a release: everything about it that is decided before a row is read.

It is made once, from the study and the number of rows, and handed on to whoever needs a part of it:
the ledger (its price), the learner, the certificate, and those who verify the release later.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import msgspec

from sudare.foundations import checks
from sudare.foundations.privacy import Event, account
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from sudare.study import Categories, Feature, Study

SIGNS = (-1.0, 1.0)
"""How rows are labelled inside; the study says what the two stand for."""
EDITION = 2
"""Of the calibrations that decide the noise. The first, which certificates do not name, had up to
half as much noise again for the same promise (CHANGELOG.md, **Privacy**)."""
_FEW = 10
"""Rows from which no statistic is usually published, noise or not."""


class FeatureNoise(NamedTuple):
    """What the noise of a release comes to for one feature, in the study's own units."""

    feature: str
    unit: str
    """Of what the noise is on."""
    noise_std: float
    scale: float
    """What to compare it with: how far a value of the column is from its centre, by the study."""


@dataclass(frozen=True)
class ReleasePlan:
    """What a release will be made of, its noise and its price: public numbers only."""

    study: Study
    n: int
    event: Event
    numbers: int
    """How many numbers are released."""
    noise_std: float
    """About the noise on each, in the units of the release."""
    radius: float | None
    """Coefficients keep within this; None for moments."""
    slack: float | None
    """How far the last noise can carry them beyond it; None for moments."""
    edition: int | None = EDITION
    """Of the calibrations; None for a release of the first, whose certificate does not say."""

    @classmethod
    def of(cls, study: Study, n: int) -> Self:
        """The plan for a release of n rows."""
        checks.count(n=n)
        if n > study.privacy.plausible_rows:
            raise checks.InvalidInput(
                f"Expected at most {study.privacy.plausible_rows} rows: the study holds more to be "
                "impossible"
            )
        learner, dimension = make_learner(study), study.contract.dimension
        public = learner.public_noise(n, len(study.features))
        event = learner.plan_for(n, len(study.features))
        event = msgspec.structs.replace(event, unit=study.privacy.unit)
        numbers = dimension
        if study.privacy.model == "moments":
            numbers += dimension * (dimension + 1) // 2
        return cls(study, n, event, numbers, *public)

    @cached_property
    def sentence(self) -> str:
        """The promise, in words."""
        return str(account([self.event], self.study.privacy.delta))

    @cached_property
    def in_units(self) -> tuple[FeatureNoise, ...]:
        """The noise on each column's mean or share (moments), or on each coefficient.

        A release of moments without a constant feature says nothing of means: then nothing is told.
        """
        study, contract = self.study, self.study.contract
        if self.radius is not None:
            ratios = study.task == "classification"
            what = "log-odds" if ratios else study.target.column
            size = 1.0 if ratios else study.target_reach
            return tuple(
                FeatureNoise(
                    each.name,
                    what if _is_flag(each) else f"{what} for 1 of {each.column}",
                    self.noise_std * size / each.scale,
                    math.inf,  # a coefficient has no such size
                )
                for each in study.features
            )
        if contract.constant == 0:
            return ()
        # Sums are in units of the longest row, and a mean is the sum with the constant feature.
        longest = contract.row_norm**2 + contract.constant**2
        mean_std = self.noise_std * longest / (self.n * contract.constant)
        root = math.sqrt(contract.features)  # by which the study divides all features
        return tuple(
            FeatureNoise(
                each.name,
                "share of rows" if _is_flag(each) else f"mean of {each.column}",
                mean_std * each.scale,
                each.scale / root,
            )
            for each in study.features
        )

    @property
    def hardly_useful(self) -> bool:
        """Whether others can learn next to nothing from it: so few rows, or so much noise."""
        few = self.n < max(_FEW, self.study.contract.dimension + 1)
        if self.radius is not None:
            root = math.sqrt(self.study.contract.dimension)
            return few or self.noise_std * root >= self.radius
        return few or any(each.noise_std >= each.scale for each in self.in_units)

    @property
    def parameters(self) -> dict[str, float | int | str | bool | None]:
        """What a certificate says of how the release was made; whoever verifies computes it too."""
        told: dict[str, float | int | str | bool | None] = {
            "model": self.study.privacy.model,
            "task": self.study.task,
            "rows": self.n,
            "numbers": self.numbers,
            "noise_std": self.noise_std,
            "radius": self.radius,
            "row_norm": self.study.privacy.row_norm,
        }
        told |= _of_rows(self.study)
        return told if self.edition is None else told | {"edition": self.edition}


def _is_flag(feature: Feature) -> bool:
    """Whether it is 0 or 1: a category, or an indicator of what is missing."""
    return feature.category is not None or feature.name.endswith(" missing")


def _of_rows(study: Study) -> dict[str, str]:
    """What was agreed on about gaps, unlisted categories and people with several rows."""
    told = {}
    if study.leaves_out:
        told["incomplete_rows"] = "left out: one public row stands for each of them"
    others = [
        name
        for name, column in study.columns.items()
        if isinstance(column, Categories) and column.other is not msgspec.UNSET
    ]
    if others:
        told["unlisted_categories"] = f"counted as another one: {', '.join(others)}"
    if study.person_column is not None:
        told["person"] = (
            f"all rows with the same {study.person_column} are averaged and count as one row: the "
            f"promise is to each {study.privacy.unit}, for all of their rows together"
        )
    return told


def make_learner(study: Study) -> Any:
    """The estimator that makes a release under this study, not yet fitted."""
    terms = study.privacy
    settings: dict[str, Any] = {
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "row_norm": terms.row_norm,
        "fit_intercept": terms.intercept,
    }
    if study.task == "classification":
        settings["classes"] = SIGNS
        if terms.model == "moments":
            return MomentsClassifier(**settings)
        if terms.radius is not None:
            settings["radius"] = terms.radius
        return PrivateLogisticRegression(mechanism=terms.model, **settings)
    settings["target_bound"] = 1.0
    if terms.model == "moments":
        return MomentsRegressor(**settings)
    return PrivateRidge(mechanism=terms.model, radius=terms.radius, **settings)
