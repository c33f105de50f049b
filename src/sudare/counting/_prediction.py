"""The expected error of a survey, computed rather than simulated, in milliseconds.

E max_t |estimate − share| by the law of one round, as if rounds were independent. In one round
n ~ Bin(N, g/T) users report, and Y of them say one. Y is taken for Bin(n, π), π = ½ + c(μ − ½), its
deviations shrunk by the factor that hearing n *different* users gives for the standard deviation; a
round nobody reports in is off by max(μ, 1 − μ). Where everybody is heard, the law is that of flips.

Within 2 % of simulation unless errors come from a few users. Too high where rounds share what is
rare: by about a tenth for `tree`, whose rounds share reports, and for masks over nearly all rounds
with so large an ε that few masks flip anything.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr

from sudare.counting import tree
from sudare.counting._survey import Survey
from sudare.foundations import checks

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_NODES = 41
"""Numbers of reports at which the law of a round is evaluated."""
_GRID = 192
"""Errors at which it is."""
_MANY_FLIPS = 20
"""A standard deviation from which flips are close enough to normal."""


def predict_error(survey: Survey, users: int, share: float | None = None) -> float:
    """E max_t |estimate − share|, not clipped to [0, 1], for a share that stays the same.

    Without a share, at the one that is worst for the method: ½, but 1 for `harmony`, which takes
    every silence for a zero.
    """
    checks.count(users=users)
    if share is not None:
        checks.share(share=share)
    else:
        share = 1.0 if survey.method == "harmony" else 0.5
    match survey.method:
        case "tree":
            return _tree(survey, users)
        case "harmony":
            return _harmony(survey, users, share)
        case "harmony-signed":
            return _harmony_signed(survey, users)
        case _ if survey.method == "rappor" or survey.slots == survey.rounds:
            return _heard_all(survey, users, share)
        case _:
            return _heard_some(survey, users, share)


def count_variance(attenuation: float, share: float, reports: float, users: int) -> float:
    """Of the ones among so many reports, each by a different user."""
    c = attenuation
    unheard = max(0.0, (users - reports) / max(users - 1, 1))
    return reports * ((1 - c * c) / 4 + c * c * share * (1 - share) * unheard)


def _tree(survey: Survey, users: int) -> float:
    # Rounds of equal loads have equal laws; sums in different orders may differ in the last digits.
    load, times = np.unique(tree.loads(survey).round(12), return_counts=True)
    spread = np.sqrt(survey.levels / users * load)[:, None] / survey.attenuation
    return _worst(
        lambda x: np.prod(_normal(x / spread) ** times[:, None], axis=0), float(spread.max())
    )


def _harmony_signed(survey: Survey, users: int) -> float:
    c, rounds = survey.attenuation, survey.rounds
    std = math.sqrt(rounds / users * (1 - c * c / rounds)) / (2 * c)
    if std == 0:
        return 0.0
    return _worst(lambda x: _normal(x / std) ** rounds, std)


def _harmony(survey: Survey, users: int, share: float) -> float:
    c, rounds = survey.attenuation, survey.rounds
    p, q = (1 + c) / 2 / rounds, (1 - c) / 2 / rounds
    variance = users * (share * p * (1 - p) + (1 - share) * q * (1 - q))
    scale = users * c / rounds
    law = _Round(
        np.array([users]),
        np.ones(1),
        q + (p - q) * share,
        np.array([variance]),
        np.array([scale]),
    )
    return _worst(lambda x: law(x) ** rounds, math.sqrt(variance) / scale)


def _heard_some(survey: Survey, users: int, share: float) -> float:
    c, rounds = survey.attenuation, survey.rounds
    n, weight = _reports(survey, users)
    silent = float(weight[n == 0].sum())
    n, weight = n[n > 0], weight[n > 0]
    variance = np.array([count_variance(c, share, each, users) for each in n])
    law = _Round(n, weight, 0.5 + c * (share - 0.5), variance, n.astype(float) * c)
    off = max(share, 1 - share)
    usual = max(1.0, users * survey.slots / rounds)
    spread = math.sqrt(count_variance(c, share, usual, users)) / (usual * c)
    return _worst(lambda x: (law(x) + silent * (x >= off)) ** rounds, spread)


def _heard_all(survey: Survey, users: int, share: float) -> float:
    """Everybody reports in every round: only flips are left, few of them if ε is large."""
    c, rounds = survey.attenuation, survey.rounds
    q = (1 - c) / 2
    std = math.sqrt(users * q * (1 - q))
    if std > _MANY_FLIPS:
        return _worst(lambda x: _normal(x * (users * c / std)) ** rounds, std / (users * c))
    held = round(users * share)
    reach = np.arange(min(users, math.ceil(users * q + 10 * std + 20)) + 1)
    up, down = (
        np.diff(bdtr(np.minimum(reach, n), n, q), prepend=0.0) for n in (users - held, held)
    )
    law = np.convolve(up, down[::-1])
    moved = np.arange(law.size) - (down.size - 1) - q * (users - 2 * held)
    off = np.abs(moved) / (users * c)
    order = np.argsort(off)
    reached = np.minimum(np.cumsum(law[order]), 1.0) ** rounds
    return float(np.diff(reached, prepend=0.0) @ off[order])


@dataclass(frozen=True)
class _Round:
    """P(|error| ≤ x) in one round: a mixture over numbers of trials n of binomial counts."""

    n: Counts
    weight: Array
    mean: float
    variance: Array
    """Of the count, given n; at most that of Bin(n, mean)."""
    scale: Array
    """Counts by which an error of one shows."""

    def __call__(self, x: Array) -> Array:
        n = self.n[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            wider = np.sqrt(n * self.mean * (1 - self.mean) / self.variance[:, None])
        # 0/0 is a count that cannot vary; a reach beyond n changes nothing.
        reach = np.multiply(self.scale[:, None] * x, np.nan_to_num(wider, nan=1.0))
        reach = np.minimum(reach, n + 1.0)
        high = np.floor(np.minimum(n * self.mean + reach + 1e-9, n))
        low = np.ceil(np.maximum(n * self.mean - reach - 1e-9, 0.0)) - 1
        below = np.where(low >= 0, bdtr(np.maximum(low, 0), n, self.mean), 0.0)
        inside: Array = self.weight @ (bdtr(high, n, self.mean) - below)
        return np.clip(inside, 0.0, 1.0)


def _reports(survey: Survey, users: int) -> tuple[Counts, Array]:
    """Numbers of reports in a round and their probabilities, thinned out where there are many."""
    p = survey.slots / survey.rounds
    std = math.sqrt(users * p * (1 - p))
    first = max(0, math.floor(users * p - 7 * std - 7))
    last = min(users, math.ceil(users * p + 7 * std + 7))
    edges = np.arange(first, last + 2)
    if edges.size > 2 * _NODES:
        edges = np.linspace(first, last + 1, _NODES + 1).astype(np.int64)
    below = np.where(edges > 0, bdtr(np.maximum(edges - 1, 0), users, p), 0.0)
    weight: Array = np.diff(below)
    middle = (edges[:-1] + edges[1:] - 1) // 2
    return middle, weight / weight.sum()


def _worst(within: Callable[[Array], Array], spread: float) -> float:
    """E of the largest error, ∫ P(error > x) dx, for P(error ≤ x) = `within`."""
    most = max(4 * spread, 1e-6)
    while 1 - within(np.array([most]))[0] > 1e-7:
        most *= 1.5
    x = np.linspace(0.0, most, _GRID + 1)
    # At the middle of each step, as laws on a grid jump.
    middle = (x[:-1] + x[1:]) / 2
    return float((1 - within(middle)).sum() * (x[1] - x[0]))


def _normal(z: Array) -> Array:
    """P(|Z| ≤ z) of a standard normal."""
    within: Array = 1 - 2 * ndtr(-z)
    return within
