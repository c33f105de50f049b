"""Counting users who seldom change, by dyadic stretches of time.

A user's bit v_t, zero before the first round, changes at most k times. Each user is given a level ℓ
and at the end of each stretch of 2^ℓ rounds sends one bit about how much v moved over it: −1, 0 or
1. A prefix of t + 1 rounds is a sum of stretches of different levels, one for each binary digit of
t + 1, so μ_t is a sum of at most log₂T mean movements (Erlingsson et al. 2019).

Privacy. Before any data, the device draws a mask of k flips (`sudare.calibration.masks`) and a fair
coin for each stretch. The j-th movement that is not zero is sent through the j-th flip; a zero, and
a movement after the k-th, sends its coin (after Ohrimenko, Wirth and Wu 2022). A transcript of m
bits then has a probability between 2^{k−m}·p and 2^{k−m}·p·e^ε, p that of an unlikely mask, for
every input at all: a flip not yet used averages over masks, and a coin is the average of both. So
all reports of a user are together ε-LDP, also when the user changes more often; only the count
suffers then.

Accuracy. With L levels drawn independently and N users, μ̂_t = L/(N·c)·Σ ±1 over the reports about
t's stretches: a sum of independent terms of size at most L/(Nc) and total variance at most
L·J/(N·c²), J the digits of t + 1 that are one, whence Bernstein's interval.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sudare import checks
from sudare.counting.survey import Survey

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
    levels = rounds.bit_length()
    level = np.arange(levels)
    prefix = np.arange(1, rounds + 1)[:, None]
    used = (prefix >> level) & 1 == 1
    starts = np.array([offset(rounds, int(each)) for each in level])
    cells = np.where(used, starts + (prefix >> level) - 1, 0)
    cells.setflags(write=False)
    used.setflags(write=False)
    return cells, used


def estimates(
    reporters: Counts, ones: Counts, survey: Survey, users: int | None, beta: float
) -> tuple[Counts, Array, Array, Array, Array]:
    """Reporters, raw shares, interval ends and deviations of every round."""
    checks.proportion(beta=beta)
    if users is None:  # those of long stretches are not heard of until late
        raise checks.InvalidInput("Expected users: tree divides by their number")
    levels, c = survey.levels, survey.attenuation
    heard = np.array(
        [
            reporters[offset(survey.rounds, level) :][: survey.rounds >> level].max(initial=0)
            for level in range(levels)
        ]
    )
    if heard.sum() > users:
        raise checks.InvalidInput(f"Expected users={users} to be at least those who reported")
    cells, used = prefix_cells(survey.rounds)
    known = np.where(used, reporters[cells], 0)
    complete = (known > 0).sum(axis=1) == used.sum(axis=1)
    weight = levels / (users * c)
    raw = weight * np.where(used, 2 * ones[cells] - reporters[cells], 0).sum(axis=1)
    largest = weight + 1 / users
    variance = weight * used.sum(axis=1) / c
    half = bernstein(variance, largest, beta / survey.rounds)
    low, high = np.clip(raw - half, 0.0, 1.0), np.clip(raw + half, 0.0, 1.0)
    return (
        known.sum(axis=1),
        np.where(complete, raw, np.nan),
        np.where(complete, low, 0.0),
        np.where(complete, high, 1.0),
        np.where(complete, np.sqrt(variance), np.inf),
    )


def bernstein(variance: Array, largest: float, level: float) -> Array:
    """Half an interval: x with 2·exp(−½x²/(variance + largest·x/3)) = level."""
    log = np.log(2 / level)
    linear = largest * log / 3
    half: Array = linear + np.sqrt(linear**2 + 2 * variance * log)
    return half
