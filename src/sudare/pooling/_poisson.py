"""Counts: where a Poisson regression of all rows begins, and in parts of what its sessions sum.

All of it is computed from the sums of the moments' session, which everybody knows. The first
session of scores is one Newton step from the mean count of all, which moments alone can tell.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sudare.learners import inverse, solve
from sudare.pooling._estimate import WIDE
from sudare.pooling._sums import CountScale, MomentSums
from sudare.pooling._walk import positive, shortened
from sudare.releases import Contract

Array = NDArray[np.float64]
_WIDE_INTERCEPT = 40.0
"""Of counts: the logarithm of a rare event's mean, over a constant feature of about ¼."""
_STEEP, _ON_THE_WAY = 1.5, 2.0
"""Standard deviations of priors of log rates for a row of norm 1: where counts begin, and before
their last session."""
_MOST_SCORES = 0.5
"""Variance of log rates where counts begin: skewed rows make them look farther apart."""
_FEW = 4.0
_RAREST = 1024
"""A mean count begins at no less than the largest count over this: noise can hide it."""


def prior_stds(contract: Contract, *, on_the_way: bool = False) -> Array:
    """Of the coefficients of a Poisson regression, that of the constant feature last.

    On the way to the last session they are less wide: noise must not carry the next session far
    off, and where that is evaluated is free.
    """
    stds = np.full(contract.dimension, _ON_THE_WAY if on_the_way else WIDE)
    if contract.constant > 0:
        stds[-1] = _WIDE_INTERCEPT
    return stds


def count_scale(sums: MomentSums, n: int, constant: float, most_count: int) -> CountScale:
    """Weights are cut at a power of two between four and eight times the mean count.

    Rows whose mean is larger are few, and their residuals count in full: the coefficients tend to
    what they would without the cut. A lower cut means less noise on the Hessian.
    """
    if constant == 0:
        return CountScale(most_count, float(most_count))
    _, exponent = math.frexp(_FEW * _mean_count(sums, n, constant, most_count))
    return CountScale(most_count, min(float(most_count), math.ldexp(1.0, exponent)))


def poisson_from_moments(
    sums: MomentSums, n: int, noise_std: float, constant: float, most_count: int
) -> Array:
    """Where a Poisson regression begins: one step from the mean count of all rows.

    At a constant mean ȳ the score is Σ(y − ȳ)x and the Hessian ȳΣxxᵀ, so that the log rates are
    S⁻¹cov(x, y)/ȳ, S the rows' covariance; noise on the moments of y is counted. For normal rows
    this is the truth, with log ȳ − x̄·b − bᵀSb/2 for the intercept. Without a constant feature the
    mean is not known, and it begins at zero. Targets are in [−1, 1], where 1 is `most_count`.
    """
    p, half = len(sums.cross), most_count / 2
    if constant == 0:
        return np.zeros(p)
    second = sums.gram / n
    means = second[:-1, -1] / constant
    spread = positive(second[:-1, :-1] - np.outer(means, means))
    mean = _mean_count(sums, n, constant, most_count)
    pull = half * (sums.cross[:-1] - means * sums.cross[-1] / constant) / (n * mean)
    noise = (half / mean * noise_std / n) ** 2
    weighted = spread @ inverse(spread / (n * mean) + noise * np.eye(p - 1))
    rates = solve(weighted @ spread + np.eye(p - 1) / _STEEP**2, weighted @ pull)
    rates = shortened(rates, spread, _MOST_SCORES)
    intercept = math.log(mean) - float(rates @ means) - 0.5 * float(rates @ spread @ rates)
    return np.append(rates, intercept / constant)


def _mean_count(sums: MomentSums, n: int, constant: float, most_count: int) -> float:
    """Of all rows. Only operations that every machine rounds alike: a scale hangs on it."""
    found = most_count / 2 * (1 + float(sums.cross[-1]) / (n * constant))
    return min(max(found, most_count / _RAREST), float(most_count))
