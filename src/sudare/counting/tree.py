"""Counting users who seldom change, by dyadic stretches of time.

A user's bit v_t, zero before the first round, changes at most k times. Each user is given a level ℓ
and at the end of each stretch of 2^ℓ rounds sends one bit about how much v moved over it: −1, 0 or
1. A prefix of t + 1 rounds is a sum of stretches of different levels, one for each binary digit of
t + 1, so μ_t is a sum of at most log₂T mean movements (Erlingsson et al. 2019).

Privacy. Before any data, the device draws a mask of k flips (`sudare.foundations.masks`) and a fair
coin for each stretch. The j-th movement that is not zero is sent through the j-th flip; a zero, and
a movement after the k-th, sends its coin (after Ohrimenko, Wirth and Wu 2022). A transcript of m
bits then has a probability between 2^{k−m}·p and 2^{k−m}·p·e^ε, p that of an unlikely mask, for
every input at all: a flip not yet used averages over masks, and a coin is the average of both. So
all reports of a user are together ε-LDP, also when the user changes more often; only the count
suffers then. A level of m stretches has at most m movements, so that min(k, m) flips lose none of
them and send each with less noise: surveys that say so (`flips`) give a ticket no more.

Accuracy. With L levels drawn independently and N users, μ̂_t = Σ ±L/(N·c_ℓ) over the reports about
t's stretches: a sum of independent terms of size at most L/(Nc) and total variance at most
L/N·Σ 1/c_ℓ² over the levels ℓ at which t + 1 has the digit one, c the least c_ℓ; whence Bernstein's
interval.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sudare.counting._survey import Survey
from sudare.foundations import checks

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def offset(rounds: int, level: int) -> int:
    """The first cell of a level; stretch i of the level is cell offset + i."""
    return sum(rounds >> lower for lower in range(level))


def stretch_ending(round_: int, level: int) -> int | None:
    """Which stretch of the level ends with this round, if one does."""
    stretch, rest = divmod(round_ + 1, 1 << level)
    return stretch - 1 if rest == 0 else None


@lru_cache(maxsize=16)
def prefix_cells(rounds: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each round the cells whose movements add up to its share, and which of them count.

    Column ℓ belongs to level ℓ: where t + 1 has digit ℓ, the stretch that ends after its higher
    digits and this one.
    """
    level = np.arange(rounds.bit_length())
    prefix = np.arange(1, rounds + 1)[:, None]
    used = (prefix >> level) & 1 == 1
    starts = np.array([offset(rounds, int(each)) for each in level])
    cells = np.where(used, starts + (prefix >> level) - 1, 0)
    cells.setflags(write=False)
    used.setflags(write=False)
    return cells, used


@lru_cache(maxsize=64)
def dampings(survey: Survey) -> Array:
    """c/c_ℓ of every level: how much less than at level 0 its reports have to be scaled up."""
    laws = (survey.law_at(level) for level in range(survey.levels))
    relative = np.array([survey.attenuation / law.attenuation for law in laws])
    relative.setflags(write=False)
    return relative


@lru_cache(maxsize=64)
def loads(survey: Survey) -> Array:
    """Σ (c/c_ℓ)² over each round's stretches: its variance is at most L/(N·c²) times that."""
    prefix = np.arange(1, survey.rounds + 1)
    total = np.zeros(survey.rounds)
    for level, damping in enumerate(dampings(survey)):
        total += (prefix >> level & 1) * damping**2
    total.setflags(write=False)
    return total


def due_in(survey: Survey, round_: int) -> Counts:
    """The cells whose reports are due in a round: for `tree`, of the stretches that end in it."""
    if survey.method != "tree":
        return np.array([round_])
    ending = ((level, stretch_ending(round_, level)) for level in range(survey.levels))
    return np.array(
        [offset(survey.rounds, level) + i for level, i in ending if i is not None], np.int64
    )


def rounds_of(survey: Survey, cells: Counts) -> Counts:
    """The round in which each cell's reports are due."""
    if survey.method != "tree":
        return cells
    starts = np.array([offset(survey.rounds, level) for level in range(survey.levels)])
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
            offset(survey.rounds, level) + (prefix >> level) - 1
            for level in range(survey.levels)
            if prefix >> level & 1
        ],
        np.int64,
    )


def estimates(
    reporters: Counts, ones: Counts, survey: Survey, users: int | None, beta: float
) -> tuple[Counts, Array, Array, Array, Array]:
    """Reporters, raw shares, interval ends and deviations of every round."""
    checks.proportion(beta=beta)
    if users is None:  # those of long stretches are not heard of until late
        raise checks.InvalidInput("Expected users: tree divides by their number")
    heard = (
        reporters[offset(survey.rounds, level) :][: survey.rounds >> level].max(initial=0)
        for level in range(survey.levels)
    )
    if sum(heard) > users:
        raise checks.InvalidInput(f"Expected users={users} to be at least those who reported")
    cells, used = prefix_cells(survey.rounds)
    return estimates_of(survey, used, reporters[cells], ones[cells], users, beta)


def estimates_of(
    survey: Survey,
    used: NDArray[np.bool_],
    reporters: Counts,
    ones: Counts,
    users: int,
    beta: float,
) -> tuple[Counts, Array, Array, Array, Array]:
    """The same for some rounds: a row for each, a column for each level, of which those `used`
    count: the binary digits of t + 1."""
    c, damping = survey.attenuation, dampings(survey)
    known = np.where(used, reporters, 0)
    complete = (known > 0).sum(axis=1) == used.sum(axis=1)
    weight = survey.levels / (users * c)
    moved = np.where(used, 2 * ones - reporters, 0)
    raw = weight * (moved * damping).sum(axis=1)
    variance = weight * (used * damping**2).sum(axis=1) / c
    half = bernstein(variance, weight + 1 / users, np.log(2 / (beta / survey.rounds)))
    low, high = np.clip(raw - half, 0.0, 1.0), np.clip(raw + half, 0.0, 1.0)
    return (
        known.sum(axis=1),
        np.where(complete, raw, np.nan),
        np.where(complete, low, 0.0),
        np.where(complete, high, 1.0),
        np.where(complete, np.sqrt(variance), np.inf),
    )


def digits(survey: Survey, rounds: Sequence[int]) -> NDArray[np.bool_]:
    """For each round the levels of the stretches that its prefix is a sum of."""
    prefix = np.array(rounds, np.int64)[:, None] + 1
    used: NDArray[np.bool_] = prefix >> np.arange(survey.levels) & 1 == 1
    return used


def bernstein(variance: Array | float, largest: float, log: float) -> Array:
    """Half an interval: x with 2·exp(−½x²/(variance + largest·x/3)) = level, where `log` is
    ln(2/level)."""
    linear = largest * log / 3
    half: Array = linear + np.sqrt(linear**2 + 2 * variance * log)
    return half
