"""Where the sessions of a pool are evaluated: a start that rows of other laws do not mislead.

All of it is computed from public sums, by everybody alike. A session is as private at one θ as at
another, as noise is made for its length; but what it tells is worth little far from where the sums
lead. So it is better to stop early than to go too far: curves are flatter, and rows weigh less,
beyond the truth than before it.

The start is what normal rows with the released moments would have, its scores no farther apart than
`MOST_SCORES`. A step is Newton's under a prior, cut where it would move scores by more than 1 (by
root mean square), or by √2 if it is far more than noise; and as weights fall along it, it is
lengthened as normal rows ask for.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, roots_hermitenorm

from sudare.learners import inverse, solve
from sudare.pooling._estimate import newton_step
from sudare.pooling._sums import MomentSums

Array = NDArray[np.float64]
MOST_SCORES = 1.5
"""Variance of log-odds at the start of logistic sessions."""
_STEEP, _ON_THE_WAY = 2.0, 4.0
"""Standard deviations of priors of log-odds for a row of norm 1: at the start, and after it."""
_WIDE_INTERCEPT = 40.0
_FARTHEST_STEP = 1.0
"""Mean square, over rows by weight, of how far a step moves scores if it may be noise; one more if
it cannot."""
_LONGEST, _PIECE, _HEAVIER = 2.0, 0.125, 3.0
"""How much longer a step may become, in which pieces, and how much heavier a row along it."""
_RAREST = 0.01
"""A share of rows in the rarer class begins at no less: noise can hide it."""
_ROUNDS, _ROUNDS_INSIDE, _LEAST_WEIGHT = 30, 8, 1e-3
_NODES, _WEIGHTS = roots_hermitenorm(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def logistic_start(sums: MomentSums, n: int, noise_std: float, constant: float) -> Array:
    """Where the sessions of a logistic regression begin.

    For normal rows with covariance S, cov(x, y) = S·b·E[σ′(z)] over their scores z, so that b
    follows from the moments and the variance bᵀSb, found in rounds and cut at `MOST_SCORES`; the
    intercept gives the classes their shares. Noise on the moments of y is counted.
    """
    second = sums.gram / n
    if constant > 0:
        means = second[:-1, -1] / constant
        share = (1 + float(sums.cross[-1]) / (n * constant)) / 2
        share = min(max(share, _RAREST), 1 - _RAREST)
        pull = (sums.cross[:-1] - means * sums.cross[-1] / constant) / (2 * n)
        spread = positive(second[:-1, :-1] - np.outer(means, means))
    else:
        means, share, pull, spread = np.zeros(len(second)), 0.5, sums.cross / (2 * n), second
        spread = positive(spread)
    p, sampling = len(pull), share * (1 - share) / n
    middle, weight, variance = math.log(share / (1 - share)), share * (1 - share), 0.0
    rates = np.zeros(p)
    for _ in range(_ROUNDS):
        noise = (noise_std / (2 * n * weight)) ** 2
        weighted = spread @ inverse(sampling / weight**2 * spread + noise * np.eye(p))
        rates = solve(weighted @ spread + np.eye(p) / _STEEP**2, weighted @ pull / weight)
        found = max(float(rates @ spread @ rates), 0.0)  # rounding of huge sums
        variance = (variance + min(found, MOST_SCORES)) / 2
        middle, weight = _classes(share, middle, math.sqrt(variance))
    rates = shortened(rates, spread, MOST_SCORES)
    if constant == 0:
        return rates
    return np.append(rates, (middle - float(rates @ means)) / constant)


def bounded_step(
    start: Array,
    score: Array,
    hessian: Array,
    noise: tuple[float, float],
    constant: float,
    prior: Array | None = None,
    flattens: bool = False,
) -> Array:
    """Where a session leads: Newton's step, not too far.

    How much of it is more than noise and sampling give, dᵀHd against its mean if there were
    nothing to find, decides how far it may go.

    Args:
        noise: Standard deviations, of the score's numbers and of the Hessian's off its diagonal.
        constant: Value of the constant feature, the last one; 0 if there is none.
        prior: Standard deviations of coefficients, by default those of log-odds.
        flattens: The weights are those of a logistic loss: along a step they fall, as for rows
            whose scores are normal, and a step that counts them as they are is too short.
    """
    if prior is None:
        prior = np.full(len(start), _ON_THE_WAY)
        if constant > 0:
            prior[-1] = _WIDE_INTERCEPT
    found = newton_step(start, score, hessian, *noise, prior)
    step, metric = found.theta - start, positive(hessian)
    square, doubt = float(step @ metric @ step), float(np.trace(metric @ found.covariance))
    certain = max(0.0, 1 - doubt / square) if square > 0 else 0.0
    weights = max(float(np.trace(metric)), 1e-9)
    if constant > 0:
        weights = max(weights, float(metric[-1, -1]) / constant**2)
    if flattens:
        mean = metric[-1] / (constant * weights) if constant > 0 else np.zeros(len(start))
        more = _lengthening(start, step, mean, metric / weights)
        step = step * (1 + certain * (more - 1))
    return np.asarray(start + shortened(step, metric, (_FARTHEST_STEP + certain) * weights))


def shortened(step: Array, metric: Array, most: float) -> Array:
    """The step, or as much of it as has a square of `most` in a metric."""
    square = float(step @ metric @ step)
    return step * math.sqrt(most / square) if square > most else step


def positive(matrix: Array) -> Array:
    """A symmetric matrix without its negative part, which only noise can have made."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _lengthening(start: Array, step: Array, mean: Array, second: Array) -> float:
    """By how much the root of the score is farther along a step than a straight line says.

    For rows that are normal by weight, with this mean and these second moments; `_LONGEST` at most.
    """
    spread = second - np.outer(mean, mean)
    variance = max(float(start @ spread @ start), 1e-9)
    slope = float(start @ spread @ step) / variance
    left = math.sqrt(max(float(step @ spread @ step) - slope**2 * variance, 0.0))
    away = math.sqrt(variance) * _NODES[:, None]
    scores = float(mean @ start) + away
    moves = float(mean @ step) + slope * away + left * _NODES
    counted = _WEIGHTS[:, None] * _WEIGHTS * moves**2
    total, reached, length = max(float(counted.sum()), 1e-300), 0.0, 0.0
    at_start = np.log(np.cosh(np.clip(scores / 2, -300, 300)))
    while reached < 1 and length < _LONGEST:
        there = np.log(np.cosh(np.clip((scores + (length + _PIECE / 2) * moves) / 2, -300, 300)))
        ratio = np.minimum(np.exp(2 * (at_start - there)), _HEAVIER)
        gained = _PIECE * max(min(float((counted * ratio).sum()) / total, 1.0), 1e-9)
        # Part of the last piece: two machines' rounding must not make a whole piece's difference.
        length += _PIECE * min((1 - reached) / gained, 1.0)
        reached += gained
    return max(length, 1.0)


def _classes(share: float, middle: float, deviation: float) -> tuple[float, float]:
    """Mean score at which a share is in the second class, and the mean weight of rows there."""
    for _ in range(_ROUNDS_INSIDE):
        likely = expit(middle + deviation * _NODES)
        weight = max(float((likely * (1 - likely)) @ _WEIGHTS), _LEAST_WEIGHT)
        middle -= (float(likely @ _WEIGHTS) - share) / weight
    likely = expit(middle + deviation * _NODES)
    return middle, max(float((likely * (1 - likely)) @ _WEIGHTS), _LEAST_WEIGHT)
