"""The estimate of a round as soon as it closes, from the counts it needs alone.

Row for row what `sudare.counting.estimate` makes of the whole tally, without the other rounds: a
survey of a million rounds publishes one at a time. For `tree` a round needs the stretches that its
prefix is a sum of, otherwise its own cell. Whether `rappor` takes the population interval each
round decides for itself: given how many reported in it, either interval holds.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sudare import checks
from sudare.counting import tree
from sudare.counting.estimation import (
    Estimates,
    binomial_interval,
    by_population,
    deviations,
    population_interval,
    raw_shares,
)
from sudare.counting.survey import Survey

Counts = NDArray[np.int64]
Array = NDArray[np.float64]


def due_in(survey: Survey, round_: int) -> Counts:
    """The cells whose reports are due in a round: for `tree`, of the stretches that end in it."""
    if survey.method != "tree":
        return np.array([round_])
    ending = ((level, tree.stretch_ending(round_, level)) for level in range(survey.levels))
    return np.array(
        [tree.offset(survey.rounds, level) + i for level, i in ending if i is not None], np.int64
    )


def rounds_of(survey: Survey, cells: Counts) -> Counts:
    """The round in which each cell's reports are due."""
    if survey.method != "tree":
        return cells
    starts = np.array([tree.offset(survey.rounds, level) for level in range(survey.levels)])
    level = np.searchsorted(starts, cells, side="right") - 1
    rounds: Counts = ((cells - starts[level] + 1) << level) - 1
    return rounds


def needed(survey: Survey, round_: int) -> Counts:
    """The cells that a round's estimate is made from."""
    if survey.method != "tree":
        return np.array([round_])
    prefix = round_ + 1
    return np.array(
        [
            tree.offset(survey.rounds, level) + (prefix >> level) - 1
            for level in range(survey.levels)
            if prefix >> level & 1
        ],
        np.int64,
    )


def estimate_rounds(
    survey: Survey,
    reporters: Sequence[Counts],
    ones: Sequence[Counts],
    *,
    users: int,
    beta: float,
) -> Estimates:
    """Some rounds' estimates, each from the counts of the cells it needs; `users` is the number of
    people taking part so far."""
    checks.proportion(beta=beta)
    if survey.method == "tree":
        each = [
            _tree_round(survey, *counts, users, beta)
            for counts in zip(reporters, ones, strict=True)
        ]
        heard = np.array([counts.sum() for counts in reporters], np.int64)
        raw, low, high, std = np.array(each).reshape(-1, 4).T
        return Estimates(heard, raw, low, high, std, beta)
    n, y = (np.array(counts, np.int64).reshape(-1) for counts in (reporters, ones))
    c, level = survey.attenuation, beta / survey.rounds
    low, high = binomial_interval(n, y, c, level)
    for i in np.flatnonzero(n) if survey.method == "rappor" else ():
        one = slice(i, i + 1)
        if by_population(n[one], survey, users, "auto"):
            low[one], high[one] = population_interval(n[one], y[one], c, users, level)
    return Estimates(n, raw_shares(n, y, survey, users), low, high, deviations(n, y, c), beta)


def _tree_round(
    survey: Survey, reporters: Counts, ones: Counts, users: int, beta: float
) -> tuple[float, float, float, float]:
    """Raw share, ends of the interval, standard deviation."""
    if not reporters.all():
        return np.nan, 0.0, 1.0, np.inf
    c = survey.attenuation
    weight = survey.levels / (users * c)
    raw = weight * (2 * ones - reporters).sum()
    variance = np.array(weight * reporters.size / c)
    half = tree.bernstein(variance, weight + 1 / users, beta / survey.rounds)
    return raw, np.clip(raw - half, 0.0, 1.0), np.clip(raw + half, 0.0, 1.0), np.sqrt(variance)
