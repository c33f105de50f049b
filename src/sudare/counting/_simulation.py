"""What a survey would have counted: runs of any method on made-up or recorded users.

Exact in distribution, not a normal approximation. How a run is drawn depends on what is known of
the users:

    by counts   A signal of shares says how many users hold a one in each round, A_t of N, and which
                ones is drawn afresh in every round. Then only counts matter: n_t reports, of which
                m_t are flipped, meet K ~ Hypergeometric(N, A_t, n_t) ones, J of them among the
                flipped, and y_t = K + m_t − 2J reports say one. The cost does not grow with N.
    by users    A matrix of bits, one row a user, says who holds a one: every user's rounds and mask
                are drawn. `tree` needs users even for shares, as it lives on how seldom they
                change: there user i of N holds a one as long as i < A_t.

In both, every user draws their rounds independently of all others, as in the papers. Tickets
(`blocks=True`) come in blocks that cover every round alike, so that each round hears g·N/T users,
give or take g: a little better. With several slots a block's users are drawn one by one.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sudare.calibration import MaskLaw
from sudare.counting import tree
from sudare.counting._estimation import deviations, raw_shares
from sudare.counting._simulated_users import Batch, Bits, ranked, slot_reports, tree_reports
from sudare.counting._survey import Survey
from sudare.counting.smoothing import smooth_many
from sudare.foundations import checks
from sudare.foundations.randomness import Generator, as_generator

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Progress = Callable[[int, int], object]

_MOST_USERS = 10**9 - 1
"""What numpy's hypergeometric law takes."""
_BATCH = 2**18
"""Numbers drawn at a time."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """Many runs of one survey; arrays have one row a run."""

    survey: Survey
    users: int
    truth: Array
    """The share of users that hold a one, round by round."""
    reporters: Counts
    ones: Counts
    raw: Array
    """Unbiased estimates, possibly outside [0, 1]; NaN where nobody reported."""
    std: Array

    @cached_property
    def errors(self) -> Array:
        """Each run's largest error over all rounds, of the raw estimates.

        A round without an estimate counts as the worst answer: off by max(share, 1 − share).
        """
        return self._worst(self.raw)

    @cached_property
    def smoothed(self) -> Array:
        """The smoothed curves (`sudare.counting.smoothing`)."""
        return smooth_many(self.raw, self.std)

    @cached_property
    def smoothed_errors(self) -> Array:
        """Each run's largest error of the smoothed curve."""
        return self._worst(self.smoothed)

    @property
    def mean_error(self) -> float:
        """The mean over runs of the largest error."""
        return float(self.errors.mean())

    @property
    def standard_error(self) -> float:
        """Of `mean_error`; NaN for a single run."""
        runs = len(self.errors)
        return float(self.errors.std(ddof=1) / runs**0.5) if runs > 1 else float("nan")

    def _worst(self, curves: Array) -> Array:
        off = np.abs(curves - self.truth)
        silent = np.isnan(off)
        if silent.any():
            off = np.where(silent, np.maximum(self.truth, 1 - self.truth), off)
        return cast(Array, off.max(axis=1))


def simulate(
    survey: Survey,
    signal: NDArray[np.generic],
    users: int | None = None,
    *,
    runs: int = 1,
    rng: Generator | int | None = None,
    blocks: bool = False,
    progress: Progress | None = None,
) -> Simulation:
    """Runs of the survey on a signal: shares, one a round, or a matrix of bits, one row a user.

    Shares need `users`, and are taken to the nearest whole number of them; a matrix brings its
    own. `blocks` has rounds assigned by tickets (`rappor` and `tree` know no such choice).
    """
    checks.count(runs=runs)
    held, bits, users = _checked(survey, signal, users)
    coins = as_generator(rng)
    batches: Iterator[Batch]
    if survey.method == "tree":
        everyone = ranked(held, users) if bits is None else bits
        batches = tree_reports(survey, everyone, runs, coins)
    elif bits is not None and survey.method != "rappor":
        batches = slot_reports(survey, users, bits, runs, coins, blocks=blocks)
    else:
        batches = _count_reports(survey, held, users, runs, coins, blocks)
    reporters = np.empty((runs, survey.cells), np.int64)
    ones = np.empty_like(reporters)
    done = 0
    for heard, said in batches:
        stop = done + len(heard)
        reporters[done:stop], ones[done:stop] = heard, said
        done = stop
        if progress is not None:
            progress(done, runs)
    raw, std = _estimates(survey, reporters, ones, users)
    return Simulation(survey, users, held / users, reporters, ones, raw, std)


def _checked(
    survey: Survey, signal: NDArray[np.generic], users: int | None
) -> tuple[Counts, Bits | None, int]:
    """How many hold a one in each round, who they are if that is known, and of how many."""
    values = np.asarray(signal)
    if values.ndim not in (1, 2) or values.shape[-1] != survey.rounds:
        raise checks.InvalidInput(
            f"Expected a signal of {survey.rounds} rounds, as the survey has, not of shape "
            f"{values.shape}"
        )
    if values.ndim == 2:
        if values.dtype not in (np.bool_, np.uint8) or values.size == 0 or values.max() > 1:
            raise checks.InvalidInput("Expected a matrix of 0 and 1, with one row a user")
        if users not in (None, len(values)):
            raise checks.InvalidInput(f"Expected users={users} to be the matrix's {len(values)}")
        bits = np.ascontiguousarray(values, dtype=np.uint8)
        return bits.sum(axis=0, dtype=np.int64), bits, len(bits)
    if users is None:
        raise checks.InvalidInput("Expected users: a signal of shares does not say how many")
    checks.count(users=users)
    if users > _MOST_USERS:
        raise checks.InvalidInput(f"Expected users={users} < 10**9")
    shares = checks.finite_array(signal=values, dimensions=1)
    if shares.min() < 0 or shares.max() > 1:
        raise checks.InvalidInput("Expected shares in [0, 1]")
    return np.rint(shares * users).astype(np.int64), None, int(users)


def _estimates(survey: Survey, n: Counts, y: Counts, users: int) -> tuple[Array, Array]:
    if survey.method != "tree":
        return raw_shares(n, y, survey, users), deviations(n, y, survey.attenuation)
    rows = [tree.estimates(a, b, survey, users, 0.5) for a, b in zip(n, y, strict=True)]
    return np.stack([row[1] for row in rows]), np.stack([row[4] for row in rows])


def _count_reports(
    survey: Survey, held: Counts, users: int, runs: int, rng: Generator, blocks: bool
) -> Iterator[Batch]:
    for n, flipped in _flipped_reports(survey, users, runs, rng, blocks):
        with_one = rng.hypergeometric(held, users - held, n)
        both = rng.hypergeometric(with_one, n - with_one, flipped)
        yield n, with_one + flipped - 2 * both


def _flipped_reports(
    survey: Survey, users: int, runs: int, rng: Generator, blocks: bool
) -> Iterator[Batch]:
    """Reports and flipped reports in each round, in batches of runs."""
    g = survey.slots
    if blocks and g > 1:
        yield from slot_reports(survey, users, None, runs, rng, blocks=True)
        return
    most = max(1, _BATCH // max(survey.rounds, (g + 1) ** 2))
    for start in range(0, runs, most):
        batch = min(most, runs - start)
        if g > 1:
            yield _masked_reports(survey.law, survey.rounds, users, batch, rng)
        else:
            n = _reports(survey, users, batch, rng, blocks)
            yield n, rng.binomial(n, (1 - survey.attenuation) / 2)


def _reports(survey: Survey, users: int, runs: int, rng: Generator, blocks: bool) -> Counts:
    """How many report in each round when everybody has one round, or for `rappor` all."""
    rounds = survey.rounds
    if survey.method == "rappor":
        return np.full((runs, rounds), users, np.int64)
    if not blocks:
        return rng.multinomial(users, np.full(rounds, 1 / rounds), size=runs)
    # All but the last block cover every round once; the last, cut short, covers some of them.
    whole, rest = divmod(users, rounds)
    extra = np.tile(np.arange(rounds) < rest, (runs, 1)).astype(np.int64)
    return whole + rng.permuted(extra, axis=1)


def _masked_reports(
    law: MaskLaw, rounds: int, users: int, runs: int, rng: Generator
) -> tuple[Counts, Counts]:
    """Reports and flipped reports in each round when every user has several rounds.

    Users differ only by how many of their slots are still to come, flipped (a) and not (b). With R
    rounds left, this one included, it is a flipped slot of theirs with probability a/R and another
    slot with probability b/R. So counts of users by (a, b) say all about the future.
    """
    g = law.slots
    weights = np.array([math.comb(g, ones) * law.probability(ones) for ones in range(g + 1)])
    by_weight = rng.multinomial(users, weights / weights.sum(), size=runs)
    waiting = np.zeros((g + 1, g + 1, runs), np.int64)
    a = np.arange(g + 1)
    waiting[a, g - a] = by_weight.T
    heard = np.empty((runs, rounds), np.int64)
    flipped = np.empty_like(heard)
    for t in range(rounds):
        left = rounds - t
        chance = np.minimum(1.0, a / left)
        # Of those whose flipped slot it is not, b of the left − a rounds are slots.
        others = np.minimum(1.0, a[None, :] / np.maximum(left - a[:, None], 1))
        now = rng.binomial(waiting, chance[:, None, None])
        waiting -= now
        plain = rng.binomial(waiting, others[:, :, None])
        waiting -= plain
        waiting[:-1] += now[1:]
        waiting[:, :-1] += plain[:, 1:]
        flipped[:, t] = now.sum(axis=(0, 1))
        heard[:, t] = flipped[:, t] + plain.sum(axis=(0, 1))
    return heard, flipped
