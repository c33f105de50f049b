"""How good predictions are, in single numbers: plain functions of labels and predictions.

Labels are true (or above zero) for rows of the second class; probabilities are of that class. Each
measure also comes as `weighted_…`: for many resamples at once, whose counts say how often each row
was drawn (one line for each resample). Where a measure does not exist, as in a resample of one
class, it is NaN there; the plain functions refuse such labels.

Calibration is by regression of what came out on what was predicted: on the log-odds of the
probability by logistic regression [Cox 1958], on a predicted number by least squares. Slope 1 and
intercept 0 are best. A slope below 1 says that predictions are too extreme.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from sudare.foundations import checks

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
_SURE = 1e-12
"""Probabilities are kept so far from 0 and 1: one certain mistake does not outweigh all rows."""
_MOST_STEPS = 200
_CLOSE = 1e-10


class Calibration(NamedTuple):
    """The line through what came out against what was predicted."""

    slope: float
    """Infinite where predictions separate the classes: no finite slope is steep enough."""
    intercept: float
    """NaN where the slope is infinite."""


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Chance that a row of the second class scores above one of the first; ties count half."""
    second, numbers = _both_classes(labels, scores)
    return float(weighted_auc(second, numbers, _once(numbers))[0])


def brier(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean squared distance of the probability from what came out, 1 or 0."""
    return float(squared_distances(*_pair(labels, probabilities)).mean())


def log_loss(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean of −log of the probability given to what came out."""
    return float(log_losses(*_pair(labels, probabilities)).mean())


def calibration(labels: ArrayLike, probabilities: ArrayLike) -> Calibration:
    """Slope and intercept of the labels' log-odds against the predicted ones."""
    second, chances = _both_classes(labels, probabilities)
    slopes, intercepts = weighted_calibration(second, chances, _once(chances))
    return Calibration(float(slopes[0]), float(intercepts[0]))


def squared_distances(second: Flags, probabilities: Array) -> Array:
    """Each row's part of the Brier score."""
    distances: Array = (probabilities - second) ** 2
    return distances


def log_losses(second: Flags, probabilities: Array) -> Array:
    """Each row's part of the log loss."""
    told = np.where(second, probabilities, 1 - probabilities)
    losses: Array = -np.log(np.maximum(told, _SURE))
    return losses


def weighted_mean(values: Array, counts: Array) -> Array:
    """The mean over each resample; NaN where it has no row that counts."""
    return _ratio(counts @ values, counts.sum(axis=1))


def weighted_auc(second: Flags, scores: Array, counts: Array) -> Array:
    """AUC of each resample, by ranks: rows with the same score share theirs."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    drawn, ours = counts[:, order], second[order]
    positive = np.add.reduceat(drawn * ours, starts, axis=1)
    negative = np.add.reduceat(drawn * ~ours, starts, axis=1)
    below = np.cumsum(negative, axis=1) - negative / 2
    wins = (positive * below).sum(axis=1)
    return _ratio(wins, positive.sum(axis=1) * negative.sum(axis=1))


def weighted_calibration(second: Flags, probabilities: Array, counts: Array) -> tuple[Array, Array]:
    """Slopes and intercepts of all resamples."""
    odds = logit(np.clip(probabilities, _SURE, 1 - _SURE))
    steep = _separated(second, odds, counts)
    slopes, intercepts = steep.copy(), np.full(len(counts), np.nan)
    finite = steep == 0
    if finite.any():
        slopes[finite], intercepts[finite] = _logistic_lines(second, odds, counts[finite])
    return slopes, intercepts


def weighted_line(targets: Array, predictions: Array, counts: Array) -> tuple[Array, Array]:
    """Least squares of targets on predictions: slopes and intercepts; NaN if these are all one."""
    middle = float(predictions.mean())
    centred = predictions - middle
    mean_x, mean_y = weighted_mean(centred, counts), weighted_mean(targets, counts)
    spread = weighted_mean(centred**2, counts) - mean_x**2
    spread[spread <= _CLOSE**2 * float(np.abs(predictions).max()) ** 2] = 0.0
    slopes = _ratio(weighted_mean(centred * targets, counts) - mean_x * mean_y, spread)
    return slopes, mean_y - slopes * (mean_x + middle)


def weighted_r_squared(targets: Array, predictions: Array, counts: Array) -> Array:
    """Share of the targets' variance that predictions explain; below 0: worse than their mean."""
    centred = targets - targets.mean()
    spread = weighted_mean(centred**2, counts) - weighted_mean(centred, counts) ** 2
    spread[spread <= _CLOSE**2 * float(np.abs(targets).max()) ** 2] = 0.0
    return 1 - _ratio(weighted_mean((targets - predictions) ** 2, counts), spread)


def _separated(second: Flags, odds: Array, counts: Array) -> Array:
    """+∞ where every row of the second class has at least the odds of the first, −∞ where at most
    those; NaN where there is one class or one prediction only; 0 where a finite slope fits best."""
    order = np.argsort(odds, kind="stable")
    ranked, ours, drawn = odds[order], second[order], counts[:, order] > 0
    ends = []
    for group in (drawn & ~ours, drawn & ours):
        lowest = ranked[np.argmax(group, axis=1)]
        highest = ranked[group.shape[1] - 1 - np.argmax(group[:, ::-1], axis=1)]
        ends.append((group.any(axis=1), lowest, highest))
    (some, low, high), (others, other_low, other_high) = ends
    found = np.zeros(len(counts))
    found[other_low >= high] = np.inf
    found[other_high <= low] = -np.inf
    alone = ~(some & others)
    constant = np.minimum(low, other_low) == np.maximum(high, other_high)
    found[alone | constant] = np.nan
    return found


def _logistic_lines(second: Flags, odds: Array, counts: Array) -> tuple[Array, Array]:
    """Logistic regression on one number, for all resamples at once."""
    middle, spread = float(odds.mean()), float(odds.std())
    scaled = (odds - middle) / spread  # for the determinant's sake
    start = np.zeros((2, 1))
    if len(counts) > 1:  # all resamples together are near each of them
        start = _newton(second, scaled, counts.sum(axis=0, keepdims=True), start)
    intercepts, slopes = _newton(second, scaled, counts, np.repeat(start, len(counts), axis=1))
    return slopes / spread, intercepts - slopes / spread * middle


def _newton(second: Flags, odds: Array, counts: Array, start: Array) -> Array:
    """Intercepts and slopes with the least loss; a step that makes it worse is halved."""
    powers = np.stack([np.ones_like(odds), odds, odds**2], axis=1)
    observed = (counts @ (second[:, None] * powers[:, :2])).T
    ends = np.array([odds.min(), odds.max()])
    best, step = start.copy(), np.zeros_like(start)
    least = np.full(len(counts), np.inf)
    for _ in range(_MOST_STEPS):
        trial = best + step
        scores = trial[0][:, None] + trial[1][:, None] * odds
        away = np.exp(-np.abs(scores))
        chances = np.where(scores >= 0, 1.0, away) / (1 + away)
        loss = np.einsum("ij,ij->i", counts, np.maximum(scores, 0) + np.log1p(away))
        loss -= (trial * observed).sum(axis=0)
        weighted = counts * chances
        gradient = observed - (weighted @ powers[:, :2]).T
        level, tilt, bend = (weighted * (1 - chances) @ powers).T
        solved = np.stack(
            [bend * gradient[0] - tilt * gradient[1], level * gradient[1] - tilt * gradient[0]]
        )
        better = loss <= least + _CLOSE * np.abs(least)
        best = np.where(better, trial, best)
        least = np.where(better, loss, least)
        step = np.where(better, _ratio(solved, level * bend - tilt**2), step / 2)
        # By how much a log-odds still moves, at most.
        if not (np.abs(step[0] + np.outer(ends, step[1])) > _CLOSE).any():
            break
    return best


def _ratio(above: Array, below: Array) -> Array:
    """NaN where the divisor is zero."""
    ratios: Array = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
    return ratios


def _once(values: Array) -> Array:
    """The sample itself as a resample: each row once."""
    return np.ones((1, len(values)))


def _pair(labels: ArrayLike, numbers: ArrayLike) -> tuple[Flags, Array]:
    second = checks.finite_array(dimensions=1, labels=labels) > 0
    values = checks.finite_array(dimensions=1, predictions=numbers)
    if len(second) != len(values):
        raise checks.InvalidInput(
            f"Expected one label for each prediction, found {len(second)} for {len(values)}"
        )
    return second, values


def _both_classes(labels: ArrayLike, numbers: ArrayLike) -> tuple[Flags, Array]:
    second, values = _pair(labels, numbers)
    if second.all() or not second.any():
        raise checks.InvalidInput("Expected labels of both classes")
    return second, values
