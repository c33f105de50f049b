"""A model of all rows behind a release, from its noisy sums: one law for everybody.

    linear              from moments: exact propagation of the noise (docs/theory/estimates.md)
    logistic, Poisson   from a session that sums score and Hessian at a public θ₀

Everything is computed from what was released: it costs nobody anything.
"""

import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.estimation._coefficients import (
    HIDDEN,
    INTERCEPT_HIDDEN,
    TOO_FAR,
    Family,
    Model,
    check_level,
    coefficient,
    in_study_units,
    not_told,
    study_terms,
)
from sudare.estimation._forms import NoisySums
from sudare.estimation._solving import Equations, Solved, solve
from sudare.estimation._structure import (
    check_complete,
    known_moments,
    known_zeros,
    noise_variances,
)
from sudare.foundations import checks
from sudare.pooling import NewtonStep
from sudare.study import Number, Study

Array = NDArray[np.float64]
PRIORS: dict[Family, float] = {"linear": 2.0, "logistic": 10.0, "poisson": 10.0}
"""Standard deviation of the prior that holds hidden coefficients: score, or log, for a row of norm
1. Half of it is the uncertainty at which a coefficient counts as hidden."""
_NOISE_AT_MOST = 20.0
"""Standard deviations of one number's noise, or √2 times that on a diagonal: never by chance."""

_SLOPES: dict[Family, Callable[[Array], Array]] = {
    "logistic": lambda scores: -np.tanh(scores / 2),
    "poisson": np.ones_like,
}
"""Of a row's weight, relative to it: p(1 − p) has (1 − 2p), a mean has 1."""


def estimate_linear(
    sums: NoisySums, study: Study, *, level: float = 0.95, residuals: NoisySums | None = None
) -> Model:
    """A linear regression on everybody's rows, from one sum of moments.

    Args:
        sums: Of releases under this study (`NoisySums.of`).
        level: Probability with which an interval is to hold its number.
        residuals: Sums that hold Σy², of some of these rows, if `sums` do not: they tell how far
            targets stand from the model. Without any, as far as the public bound of the target
            allows: intervals are longer than they would have to be.
    """
    check_level(level)
    if study.task != "regression":
        raise checks.InvalidInput("Expected a study whose target is a number")
    if residuals is None and sums.squares is not None:
        residuals = sums
    equations = linear_equations(sums, study, residuals)
    return _model("linear", solve(equations), equations, study, sums.n, level, residuals is None)


def linear_equations(
    sums: NoisySums, study: Study, residuals: NoisySums | None = None
) -> Equations:
    """Normal equations: at 0 they are exact. Residuals as in `estimate_linear`."""
    if sums.contract != study.contract:
        raise checks.InvalidInput("Expected sums of this study: their bounds are others")
    check_complete(study)
    known = known_moments(study)
    told = sums if residuals is None else residuals
    total = sums.n if residuals is None else residuals.squares
    if total is None:
        raise checks.InvalidInput("Expected sums that hold the squares of the target")
    told_gram, gram = (np.where(np.isnan(known), s.gram, known * s.n) for s in (told, sums))

    def scale(theta: Array, covariance: Array, positive: Array) -> Array:
        """The mean squared residual of the law; fitting took some away, of sampling and noise."""
        squares = np.einsum("...i,...ij,...j->...", theta, told_gram, theta)
        left = total - 2 * np.einsum("...i,...i->...", theta, told.cross) + squares
        fitted = np.einsum("...ij,...ji->...", covariance, positive)
        return np.asarray(np.clip(left / told.n + fitted / sums.n, 0.0, 1.0))

    return Equations(
        start=np.zeros(study.contract.dimension),
        score=sums.cross,
        hessian=gram,
        noise_variance=sums.noise_std**2,
        hessian_variance=noise_variances(known, sums.noise_std),
        scale=scale,
        prior_std=PRIORS["linear"],
    )


def estimate_session(
    step: NewtonStep,
    n: int,
    study: Study,
    family: Family,
    *,
    level: float = 0.95,
    earlier: NewtonStep | None = None,
) -> Model:
    """A generalised linear model of everybody's rows, from score and Hessian at a public θ₀.

    Args:
        step: What the last session of a pool summed, and where.
        n: Rows of everybody.
        family: Whose log-likelihood it is.
        level: Probability with which an interval is to hold its number.
        earlier: What the session before it summed, with noise of its own.
    """
    if family == "linear":
        raise checks.InvalidInput("Expected a logistic or a Poisson session: sums tell linear ones")
    check_level(level)
    for each in (step, earlier):
        if each is not None:
            _refuse_impossible(each, n, study, family)
    equations = session_equations(step, study, family)
    if earlier is not None:
        equations = equations._replace(earlier=session_equations(earlier, study, family))
    return _model(family, solve(equations), equations, study, n, level, False)


def _refuse_impossible(step: NewtonStep, n: int, study: Study, family: Family) -> None:
    """Rows are at most 1 long, residuals at most 1 or the largest count, weights no larger."""
    counted = study.target.most if isinstance(study.target.most, int) else math.inf
    most = 1.0 if family == "logistic" else float(counted)
    for sums, std in ((step.score, step.noise_std), (step.hessian, step.hessian_noise_std)):
        if not np.abs(sums).max() <= n * most + _NOISE_AT_MOST * std:
            raise checks.InvalidInput(
                f"No {n} rows with this noise have such sums: somebody answered with numbers that "
                "are not a sum of rows. Nobody can tell who"
            )


def session_equations(step: NewtonStep, study: Study, family: Family) -> Equations:
    """Of the log-likelihood about the session's θ₀."""
    p = study.contract.dimension
    if np.shape(step.start)[-1:] != (p,) or np.shape(step.hessian)[-2:] != (p, p):
        raise checks.InvalidInput("Expected a session of this study: it has other features")
    check_complete(study)
    known = known_zeros(study)
    return Equations(
        start=step.start,
        score=step.score,
        hessian=np.where(np.isnan(known), step.hessian, known),
        noise_variance=step.noise_std**2,
        hessian_variance=noise_variances(known, step.hessian_noise_std),
        scale=_likelihood,
        prior_std=PRIORS[family],
        slope=_SLOPES[family],
        constant=study.contract.constant / study.contract.full_norm,
    )


def _likelihood(theta: Array, covariance: Array, positive: Array) -> Array:
    """The score of a likelihood varies by its Hessian."""
    return np.ones(theta.shape[:-1])


def _model(
    family: Family,
    solved: Solved,
    equations: Equations,
    study: Study,
    n: int,
    level: float,
    bounded: bool,
) -> Model:
    matrix, shift = in_study_units(study, family)
    values = matrix @ solved.theta
    values[-1] += shift
    covariance = matrix @ solved.covariance @ matrix.T
    hidden = solved.hidden
    if not (np.isfinite(values).all() and np.isfinite(covariance).all()):
        raise checks.InvalidInput("These sums are too far from those of any rows to compute with")
    found = []
    for place, term in enumerate(study_terms(study)):
        if solved.far:
            found.append(not_told(term, TOO_FAR))
        elif term.column is None and hidden.any():
            found.append(not_told(term, INTERCEPT_HIDDEN))
        elif term.column is not None and hidden[place]:
            found.append(not_told(term, HIDDEN))
        else:
            variance = float(covariance[place, place])
            found.append(coefficient(term, float(values[place]), variance, level))
    model = Model(
        study=study.name,
        family=family,
        n=n,
        level=level,
        coefficients=tuple(found),
        bounded=bounded,
        covariance=None if hidden.any() else tuple(map(tuple, covariance.tolist())),
        residual_deviation=_residual_deviation(family, solved, equations, study, bounded),
        noise_std=math.sqrt(equations.noise_variance),
        noise_share=_noise_share(solved, equations),
    )
    notes = tuple(_notes(model, study))
    return msgspec.structs.replace(model, notes=notes)


def _residual_deviation(
    family: Family, solved: Solved, equations: Equations, study: Study, bounded: bool
) -> float | None:
    if family != "linear" or solved.hidden.any() or bounded:
        return None
    found = equations.scale(solved.theta, solved.covariance, equations.hessian)
    return study.target_reach * math.sqrt(float(found))


def _noise_share(solved: Solved, equations: Equations) -> float | None:
    """What is left of the variance when that of sampling alone is taken off."""
    if solved.hidden.any() or np.linalg.matrix_rank(equations.hessian) < len(equations.hessian):
        return None
    scale = equations.scale(solved.theta, solved.covariance, equations.hessian)
    sampling = np.diag(np.linalg.inv(equations.hessian)) * float(scale)
    share = 1 - sampling / np.diag(solved.covariance)
    return float(np.clip(np.median(share), 0.0, 1.0))


def _notes(found: Model, study: Study) -> Iterator[str]:
    """What a reader has to know, in sentences; only what applies."""
    yield (
        f"Each interval holds its coefficient with probability {found.level:g}. It counts the "
        "noise that privacy added and that these rows are a sample."
    )
    yield (
        "All rows are taken to follow one law, whoever holds them. If organisations differ, "
        "intervals are too short: one sum does not say by how much."
    )
    if found.family == "linear":
        yield "Residuals are taken to vary by the same amount everywhere."
    elif found.family == "poisson":
        yield "Counts are taken to vary as Poisson's law says: more spread makes intervals longer."
    if found.coefficients[0].reason == TOO_FAR:
        yield (
            "Nothing is told: the last session was evaluated too far from where its sums lead. A "
            "larger ε or more rows would bring it nearer."
        )
    elif hidden := [each.term.name for each in found.coefficients if not each.told]:
        yield (
            f"Hidden by the noise: {', '.join(hidden)}. Hidden coefficients are held near zero by "
            "a prior, and the others' intervals allow for what they may be. More rows, a larger ε, "
            "or joining rare categories would help."
        )
    else:
        yield "Nothing is penalised: no prior, no shrinkage."
    if found.bounded:
        yield (
            "Separate releases do not hold the squares of the target: residuals are taken to be as "
            "large as the study's bounds allow. That makes intervals longer than they would have "
            "to be; a pool tells the squares, too."
        )
    if study.may_shorten:
        yield (
            "Rows longer than the study's row_norm were shortened, all columns by one factor. "
            "Coefficients are about the shortened rows."
        )
    if any(isinstance(each, Number) for each in study.columns.values()):
        yield "Values outside the study's bounds count as the nearest bound."
