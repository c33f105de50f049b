"""From counts to shares, with intervals that hold for all rounds at once.

With n reports in a round of which y are ones, π̂ = y/n and the share is ½ + (π̂ − ½)/c. Given n, y
is a sum of independent bits of mean π = ½ + c(μ − ½) (reporters drawn without replacement from N
users: Vatutin and Mikhailov 1982), so that intervals for π carry over to μ. Three kinds:

    binomial    Clopper and Pearson's (1934), widened so that they reach at least (y ± 1)/n. There
                Hoeffding (1956) says a binomial has the heavier tails, so they hold for sums of
                unlike bits too; without the guard they do not.
    population  exact inversion for N known users, of whom a whole number hold a one: narrower when
                a round hears a good part of them. It needs reporters who are any n of the N alike:
                all of them (`rappor`), or users who draw their own rounds. Tickets come in blocks;
                with one from each, reporters vary more than that if every block is alike, so there
                it holds only if serials were handed out in random order.
    tree        Bernstein's inequality, see `sudare.counting.tree`.

Each of T rounds gets the level β/T, so that with probability 1 − β no round's share is outside. A
round nobody reported in has no estimate, and the interval [0, 1].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sudare.counting import tree
from sudare.counting._survey import Survey
from sudare.counting._tally import Tally
from sudare.foundations import checks

Array = NDArray[np.float64]
Interval = Literal["auto", "binomial", "population"]

_MOST_REPORTERS = 4000
"""Beyond this `auto` does without the population interval, which then gains little."""
_MOST_USERS = 2**53
"""Beyond this, numbers of people are no longer exact as floats."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """One number a round: NaN, [0, 1] and zero reporters where nobody reported."""

    reporters: NDArray[np.int64]
    raw: Array
    """Unbiased, and possibly outside [0, 1]."""
    low: Array
    high: Array
    std: Array
    """About the standard deviation of `raw`; infinite where nobody reported."""
    beta: float
    """Probability with which some interval of all these may miss."""

    @property
    def share(self) -> Array:
        """The estimates within [0, 1]."""
        return np.clip(self.raw, 0.0, 1.0)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One record a round, with null where there is no estimate: for JSON."""
        share = self.share
        return [
            {
                "round": t,
                "reporters": int(self.reporters[t]),
                "share": None if np.isnan(share[t]) else float(share[t]),
                "low": float(self.low[t]),
                "high": float(self.high[t]),
            }
            for t in range(len(share))
        ]


def estimate(
    tally: Tally,
    survey: Survey,
    *,
    users: int | None = None,
    beta: float = 0.05,
    interval: Interval = "auto",
) -> Estimates:
    """Every round's share, with intervals that all hold with probability 1 − β.

    `users` is the number of people taking part: needed by the methods that divide by it (harmony
    and tree) and by the population interval. Harmony's intervals are those of its counts, which are
    Glance's. `interval="auto"` is the population interval for `rappor` when everybody has reported,
    and the binomial one elsewhere.
    """
    checks.proportion(beta=beta)
    checks.one_of(("auto", "binomial", "population"), interval=interval)
    users = None if users is None else head_count(users)
    if tally.digest != survey.digest() or len(tally.ones) != survey.cells:
        raise checks.InvalidInput("Expected a tally of this survey")
    n, y = tally.reporters, tally.ones
    if survey.method == "tree":
        return Estimates(*tree.estimates(n, y, survey, users, beta), beta)
    if users is not None:
        _check_heard(n, users)
    population = np.full(n.shape, _by_population(n, survey, users, interval))
    return _from_counts(survey, n, y, users, beta, population)


def estimate_rounds(
    survey: Survey,
    rounds: Sequence[int],
    reporters: Sequence[NDArray[np.int64]],
    ones: Sequence[NDArray[np.int64]],
    *,
    users: int,
    beta: float,
) -> Estimates:
    """Some rounds' estimates as soon as they close, each from the counts of the cells it needs
    (`sudare.counting.tree.needed`) alone: a survey of a million rounds publishes one at a time.

    Row for row what `estimate` makes of the whole tally; `users` are those taking part so far. But
    whether `rappor` takes the population interval each round decides for itself: given how many
    reported in it, either interval holds.
    """
    checks.proportion(beta=beta)
    users = head_count(users)
    if survey.method == "tree":
        used = tree.digits(survey, rounds)
        n, y = np.zeros((2, *used.shape), np.int64)
        if used.any():
            n[used], y[used] = np.concatenate(reporters), np.concatenate(ones)
        return Estimates(*tree.estimates_of(survey, used, n, y, users, beta), beta)
    n, y = (np.array(counts, np.int64).reshape(-1) for counts in (reporters, ones))
    population = np.array(
        [_by_population(n[i : i + 1], survey, users, "auto") for i in range(n.size)], np.bool_
    )
    return _from_counts(survey, n, y, users, beta, population)


def _from_counts(
    survey: Survey,
    n: NDArray[np.int64],
    y: NDArray[np.int64],
    users: int | None,
    beta: float,
    population: NDArray[np.bool_],
) -> Estimates:
    """Where a cell is a round; `population` says which rounds get that interval."""
    c, level = survey.attenuation, beta / survey.rounds
    low, high = binomial_interval(n, y, c, level)
    if population.any():
        assert users is not None
        low[population], high[population] = population_interval(
            n[population], y[population], c, users, level
        )
    return Estimates(n, raw_shares(n, y, survey, users), low, high, deviations(n, y, c), beta)


def head_count(users: int) -> int:
    """`users` as a plain number: a narrow one of numpy's would overflow in what is made of it."""
    checks.count(users=users)
    if users > _MOST_USERS:
        raise checks.InvalidInput("Expected users <= 2**53: there are not that many people")
    return int(users)


def binomial_interval(
    reporters: NDArray[np.int64], ones: NDArray[np.int64], attenuation: float, level: float
) -> tuple[Array, Array]:
    """For each pair of counts an interval that misses the share with probability ≤ `level`."""
    from scipy.special import betaincinv  # devices, which estimate nothing, go without scipy

    n, y = np.maximum(reporters, 1), ones
    with np.errstate(invalid="ignore"):  # where y is 0 or n, the other branch is taken
        low = np.where(y == 0, 0.0, betaincinv(y, n - y + 1, level / 2))
        high = np.where(y == n, 1.0, betaincinv(y + 1, n - y, 1 - level / 2))
    low = np.minimum(low, np.maximum((y - 1) / n, 0.0))
    high = np.maximum(high, np.minimum((y + 1) / n, 1.0))
    nobody = reporters == 0
    return (
        np.where(nobody, 0.0, _share(low, attenuation)),
        np.where(nobody, 1.0, _share(high, attenuation)),
    )


def population_interval(
    reporters: NDArray[np.int64],
    ones: NDArray[np.int64],
    attenuation: float,
    users: int,
    level: float,
) -> tuple[Array, Array]:
    """The same for reporters drawn without replacement from `users`, a whole number with a one."""
    users = head_count(users)
    _check_heard(reporters, users)
    ends = [
        _population_ends(int(n), int(y), attenuation, users, level) if n else (0.0, 1.0)
        for n, y in zip(reporters, ones, strict=True)
    ]
    low, high = np.array(ends).T
    return low, high


def _by_population(
    n: NDArray[np.int64], survey: Survey, users: int | None, interval: Interval
) -> bool:
    """Whether rounds of these numbers of reporters get the population interval."""
    if interval == "binomial":
        return False
    if interval == "population":
        if users is None:
            raise checks.InvalidInput("Expected users: the population interval needs their number")
        return True
    # Where some are missing, who they are is not left to chance.
    everyone = users is not None and bool(((n == users) | (n == 0)).all())
    small = n.max(initial=0) <= _MOST_REPORTERS and survey.rounds <= 64
    return survey.method == "rappor" and everyone and small


def _population_ends(n: int, y: int, c: float, users: int, level: float) -> tuple[float, float]:
    """The least and the largest number of ones among users that the counts do not contradict.

    P_A(Y ≥ y) rises with A, the users holding a one, so both ends are found by bisection. Y given
    the K reporters who hold a one is Bin(K, p) + Bin(n − K, q), and K is hypergeometric.
    """
    at_least, more = _exceedance(n, y, c, users), _exceedance(n, y + 1, c, users)
    low = _first(lambda a: at_least(a)[0] > level / 2, users)
    high = _first(lambda a: more(a)[1] <= level / 2, users) - 1
    # Counts that no number of ones makes likely: the nearest end, as clipping would have it.
    return min(low, users) / users, max(high, 0) / users


def _exceedance(n: int, y: int, c: float, users: int) -> Callable[[int], tuple[float, float]]:
    """P_A(Y ≥ y) and P_A(Y < y) as functions of A, each summed by itself to keep small ones."""
    from scipy.stats import binom, hypergeom  # a third of a collector's memory, for this alone

    p, q = (1 + c) / 2, (1 - c) / 2
    if n == users:  # K is A

        def of_everyone(ones: int) -> tuple[float, float]:
            j = np.arange(ones + 1)
            mine, theirs = binom.pmf(j, ones, p), binom(users - ones, q)
            return float(mine @ theirs.sf(y - 1 - j)), float(mine @ theirs.cdf(y - 1 - j))

        return of_everyone
    tails, held = _tails(n, y, p, q), np.arange(n + 1)

    def of_some(ones: int) -> tuple[float, float]:
        chances = hypergeom.pmf(held, users, ones, n)
        return float(chances @ tails), float(chances @ (1 - tails))

    return of_some


def _tails(n: int, y: int, p: float, q: float) -> Array:
    """P(Bin(K, p) + Bin(n − K, q) ≥ y) for K = 0 … n.

    By tail[K+1] − tail[K] = (p − q)·P(Bin(K, p) + Bin(n − 1 − K, q) = y − 1).
    """
    from scipy.stats import binom

    if y <= 0:
        return np.ones(n + 1)
    if y > n:
        return np.zeros(n + 1)
    held = np.arange(n)
    steps = np.zeros(n)
    # Only as many of the y − 1 ones can come from the K as are likely to: a band around K·p.
    reach = 12 * np.sqrt(n) + 40
    first = np.maximum(0, np.minimum(y - 1, np.floor(held * p - reach))).astype(int)
    for start in range(0, n, 256):
        k = held[start : start + 256]
        j = first[k[0]] + np.arange(int(2 * reach) + 256 + 1)
        mine = binom.pmf(j[None, :], k[:, None], p)
        theirs = binom.pmf(y - 1 - j[None, :], (n - 1 - k)[:, None], q)
        steps[k] = np.einsum("ij,ij->i", mine, theirs)
    start_tail = binom.sf(y - 1, n, q)
    tails: Array = np.concatenate([[start_tail], start_tail + (p - q) * np.cumsum(steps)])
    return np.minimum(tails, 1.0)


def _first(holds: Callable[[int], bool], users: int) -> int:
    """The smallest A in 0 … users for which a rising condition holds, else users + 1."""
    low, high = -1, users + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def raw_shares(
    n: NDArray[np.int64], y: NDArray[np.int64], survey: Survey, users: int | None
) -> Array:
    c = survey.attenuation
    if survey.method.startswith("harmony"):
        if users is None:
            raise checks.InvalidInput("Expected users: harmony divides by their number")
        heard = survey.rounds / head_count(users)
        scaled = y * heard - 0.5 if survey.method == "harmony" else (y - n / 2) * heard
        return np.where(n > 0, 0.5 + scaled / c, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        raw: Array = np.where(n > 0, 0.5 + (y / n - 0.5) / c, np.nan)
    return raw


def deviations(n: NDArray[np.int64], y: NDArray[np.int64], c: float) -> Array:
    """√(π(1 − π)/n)/c with π estimated a little inside (0, 1)."""
    pi = (y + 1) / (n + 2)
    with np.errstate(divide="ignore"):
        std: Array = np.sqrt(pi * (1 - pi) / n) / c
    return std


def _check_heard(reporters: NDArray[np.int64], users: int) -> None:
    if reporters.max(initial=0) > users:
        raise checks.InvalidInput(f"Expected users={users} to be at least a round's reporters")


def _share(pi: Array, c: float) -> Array:
    share: Array = np.clip(0.5 + (pi - 0.5) / c, 0.0, 1.0)
    return share
