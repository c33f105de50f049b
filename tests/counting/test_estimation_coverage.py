"""Intervals hold, by exact enumeration.

The oracle is `ones_law`: the exact law of the ones among n reporters drawn without replacement from
users of whom A hold a one, by convolution in plain Python and numpy. Coverage is computed, not
simulated; each acceptance has a narrower interval that the same computation refuses.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.signal import convolve2d
from scipy.special import betaincinv
from scipy.stats import binom

from sudare.calibration import mask_law
from sudare.counting import Survey, Tally, estimate
from sudare.counting._estimation import _tails, binomial_interval, population_interval

Array = NDArray[np.float64]
Intervals = Callable[[NDArray[np.int64], NDArray[np.int64], float, float], tuple[Array, Array]]


def bits_law(chances: Iterable[float]) -> Array:
    """The law of a sum of independent bits."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return law


@cache
def ones_law(users: int, held: int, n: int, c: float) -> Array:
    """P(Y = y), y = 0 … n, for n of the users, `held` of whom hold a one."""
    p, q = (1 + c) / 2, (1 - c) / 2
    law = np.zeros(n + 1)
    for k in range(max(0, n - users + held), min(n, held) + 1):
        ways = math.comb(held, k) * math.comb(users - held, n - k) / math.comb(users, n)
        law += ways * bits_law([p] * k + [q] * (n - k))
    return law


def misses(
    laws: Array, shares: ArrayLike, c: float, level: float, interval: Intervals
) -> tuple[float, float]:
    """The largest exact probabilities that the interval lies above the share, and below it.

    One law of the ones among n reporters, or a row for each share.
    """
    n = laws.shape[-1] - 1
    low, high = interval(np.full(n + 1, n), np.arange(n + 1), c, level)
    truth = np.asarray(shares)[..., None]
    above, below = (laws * (low > truth)).sum(axis=-1), (laws * (high < truth)).sum(axis=-1)
    return float(above.max()), float(below.max())


def doubled(interval: Intervals) -> Intervals:
    return lambda n, y, c, level: interval(n, y, c, 2 * level)


def population(users: int) -> Intervals:
    return lambda n, y, c, level: population_interval(n, y, c, users, level)


def plain(
    n: NDArray[np.int64], y: NDArray[np.int64], c: float, level: float
) -> tuple[Array, Array]:
    """Clopper and Pearson's interval without the guard."""
    low = np.where(y == 0, 0.0, betaincinv(np.maximum(y, 1), n - y + 1, level / 2))
    high = np.where(y == n, 1.0, betaincinv(y + 1, np.maximum(n - y, 1), 1 - level / 2))
    return 0.5 + (low - 0.5) / c, 0.5 + (high - 0.5) / c


CASES = [(1, 1), (2, 1), (5, 3), (12, 12), (20, 7), (30, 15), (40, 3), (40, 20)]
ATTENUATIONS = [mask_law(epsilon, 1).attenuation for epsilon in (0.3, 1.0, 3.0, 8.0, 40.0)]


def worst_miss(of: Callable[[int], Intervals], level: float) -> float:
    """The largest one-sided probability of a miss over all cases and all shares, per level/2."""
    worst = 0.0
    for users, n in CASES:
        shares = np.arange(users + 1) / users
        for c in ATTENUATIONS:
            laws = np.array([ones_law(users, held, n, c) for held in range(users + 1)])
            worst = max(worst, *misses(laws, shares, c, level, of(users)))
    return worst / (level / 2)


@pytest.mark.parametrize("level", [0.2, 0.05, 0.002])
def test_the_binomial_interval_covers_every_share(level):
    assert worst_miss(lambda users: binomial_interval, level) <= 1
    assert worst_miss(lambda users: doubled(binomial_interval), level) > 1


@pytest.mark.parametrize("level", [0.2, 0.05])
def test_the_population_interval_covers_every_share(level):
    assert worst_miss(population, level) <= 1
    assert worst_miss(lambda users: doubled(population(users)), level) > 1


def test_without_the_guard_the_binomial_interval_does_not_hold():
    """N = 100, n = 10, ε = 8."""
    c = mask_law(8.0, 1).attenuation

    def worst(interval: Intervals) -> float:
        laws = np.array([ones_law(100, held, 10, c) for held in range(101)])
        return max(
            max(misses(laws, np.arange(101) / 100, c, level, interval)) / (level / 2)
            for level in np.linspace(0.01, 0.4, 79)
        )

    assert worst(binomial_interval) <= 1
    assert worst(plain) > 1.02


def test_blocks_of_unlike_people_are_covered():
    """Tickets take one of each block; blocks may differ in any way, the last may be incomplete."""
    rng = np.random.default_rng(0)
    worst = worst_doubled = 0.0
    for _ in range(400):
        size, blocks = int(rng.integers(2, 9)), int(rng.integers(1, 12))
        held = (
            rng.choice([0, size], blocks)
            if rng.random() < 0.5
            else rng.integers(0, size + 1, blocks)
        )
        rest = int(rng.integers(0, size))
        with_one = int(rng.choice([0, rest]))
        share = (held.sum() + with_one) / (size * blocks + rest)
        c, level = float(rng.choice(ATTENUATIONS)), float(rng.choice([0.2, 0.05, 0.01]))
        chances = [0.5 + c * (h / size - 0.5) for h in held]
        last = [0.5 + c * (with_one / rest - 0.5)] if rest else []
        for interval in (binomial_interval, doubled(binomial_interval)):
            short = np.array(misses(bits_law(chances), share, c, level, interval))
            full = np.array(misses(bits_law(chances + last), share, c, level, interval))
            missed = (short * (size - rest) + full * rest).max() / size / (level / 2)
            if interval is binomial_interval:
                worst = max(worst, missed)
            else:
                worst_doubled = max(worst_doubled, missed)
    assert worst <= 1 < worst_doubled


def heard_law(size: int, slots: int, zeros: int, ones: int, c: float) -> Array:
    """P(n = i, Y = j) for those on `slots` seats drawn from `size`, some of which are empty."""
    p, q = (1 + c) / 2, (1 - c) / 2
    law = np.zeros((slots + 1, slots + 1))
    for a in range(min(ones, slots) + 1):
        for b in range(min(zeros, slots - a) + 1):
            ways = math.comb(ones, a) * math.comb(zeros, b)
            ways *= math.comb(size - ones - zeros, slots - a - b)
            law[a + b, : a + b + 1] += ways / math.comb(size, slots) * bits_law([p] * a + [q] * b)
    return law


def test_blocks_with_people_missing_are_covered():
    """Several slots, and any people of any block absent: the number of reporters then varies with
    the ones among them."""
    rng = np.random.default_rng(3)
    worst = {False: 0.0, True: 0.0}
    for _ in range(250):
        size, blocks = int(rng.integers(2, 13)), int(rng.integers(1, 7))
        slots = int(rng.integers(1, min(size, 6) + 1))
        here = np.where(rng.random(blocks) < 0.5, size, rng.integers(1, size + 1, blocks))
        with_one = here * (rng.random(blocks) < 0.5)
        share = with_one.sum() / here.sum()
        c, level = float(rng.choice(ATTENUATIONS)), float(rng.choice([0.2, 0.05, 0.01]))
        law = np.ones((1, 1))
        for people, ones in zip(here.tolist(), with_one.tolist(), strict=True):
            law = convolve2d(law, heard_law(size, slots, people - ones, ones, c))
        n, y = np.nonzero(law)
        for twice in (False, True):
            low, high = binomial_interval(n, y, c, level * (1 + twice))
            above, below = law[n, y][low > share + 1e-9], law[n, y][high < share - 1e-9]
            missed = max(above.sum(), below.sum()) / (level / 2)
            worst[twice] = max(worst[twice], missed)
    assert worst[False] <= 1 < worst[True]


def test_blocks_of_like_people_need_the_binomial_interval():
    """T = 2, and in each pair one holds a one: reporters vary as coins do, twice as much as any
    100 of 200 would. So `auto` takes the population interval only where everybody reports."""
    c, level = mask_law(8.0, 1).attenuation, 0.05
    law = bits_law([0.5] * 100)
    assert sum(misses(law, 0.5, c, level, population(200))) > 2 * level
    assert sum(misses(law, 0.5, c, level, binomial_interval)) <= level
    glance = Survey(name="s", rounds=2, epsilon=8.0)
    tally = Tally(glance.digest(), np.array([100, 100]), np.array([40, 61]))
    found = [estimate(tally, glance, users=200, interval=each) for each in ("auto", "binomial")]
    assert found[0].low.tolist() == found[1].low.tolist()
    narrow = estimate(tally, glance, users=200, interval="population")
    assert (narrow.low > found[0].low).all()


def test_rappor_takes_the_population_interval():
    survey = Survey(name="s", rounds=2, epsilon=8.0, method="rappor")
    tally = Tally(survey.digest(), np.array([200, 200]), np.array([40, 61]))
    auto = estimate(tally, survey, users=200)
    exact = estimate(tally, survey, users=200, interval="population")
    binomial = estimate(tally, survey, users=200, interval="binomial")
    assert auto.low.tolist() == exact.low.tolist()
    missing = Tally(survey.digest(), np.array([200, 199]), np.array([40, 61]))
    auto, plain = (estimate(missing, survey, users=200, interval=i) for i in ("auto", "binomial"))
    assert auto.low.tolist() == plain.low.tolist()
    assert (exact.high - exact.low < 0.9 * (binomial.high - binomial.low)).all()


@pytest.mark.parametrize(("users", "n"), [(1, 1), (2, 2), (7, 3), (12, 12), (25, 10), (600, 600)])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 40.0])
def test_the_population_interval_is_the_inversion(users, n, epsilon):
    """The first A whose upper tail, and the last whose lower tail, is above half the level.

    Counts so low that no A makes them likely give [0, 0], as clipping the binomial one does.
    """
    c, level = mask_law(epsilon, 1).attenuation, 0.07
    ys = list(range(n + 1)) if users < 100 else [0, 1, n // 3, n]
    law_of = ones_law if users < 100 else _large_law
    laws = np.array([law_of(users, held, n, c) for held in range(users + 1)])
    low, high = population_interval(np.full(len(ys), n), np.array(ys), c, users, level)
    for i, y in enumerate(ys):
        above = np.flatnonzero(laws[:, y:].sum(axis=1) > level / 2)
        below = np.flatnonzero(laws[:, : y + 1].sum(axis=1) > level / 2)
        ends = above.min(initial=users), below.max(initial=0)
        assert (low[i] * users, high[i] * users) == pytest.approx(ends, abs=1e-9)


def _large_law(users: int, held: int, n: int, c: float) -> Array:
    """As `ones_law` when everybody reports, by scipy: for hundreds of users."""
    assert n == users
    p, q, rest = (1 + c) / 2, (1 - c) / 2, users - held
    mine, theirs = binom.pmf(np.arange(held + 1), held, p), binom.pmf(np.arange(rest + 1), rest, q)
    law: Array = np.convolve(mine, theirs)
    return law


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, 40.0])
def test_tails_for_hundreds_of_reporters(epsilon):
    """Those of all K at once, against one sum for each."""
    n, c = 700, mask_law(epsilon, 1).attenuation
    p, q = (1 + c) / 2, (1 - c) / 2
    j = np.arange(n + 1)
    for y in (0, 1, 3, 200, 350, 420, 699, 700, 701):
        tails = _tails(n, y, p, q)
        assert tails.shape == (n + 1,)
        for k in (0, 1, 50, 255, 256, 257, 350, 699, 700):
            expected = binom.pmf(j, k, p) @ binom.sf(y - 1 - j, n - k, q)
            assert tails[k] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("interval", ["binomial", "population"])
def test_all_rounds_together(interval):
    """Each of T rounds has β/T: the ends are those of the single intervals at that level."""
    survey = Survey(name="s", rounds=5, epsilon=2.0)
    n, y = np.array([4, 9, 0, 7, 2]), np.array([4, 3, 0, 0, 1])
    found = estimate(Tally(survey.digest(), n, y), survey, users=60, beta=0.2, interval=interval)
    c = survey.attenuation
    one = binomial_interval if interval == "binomial" else population(60)
    low, high = one(n, y, c, 0.04)
    assert found.low.tolist() == low.tolist()
    assert found.high.tolist() == high.tolist()
    assert (found.low[2], found.high[2]) == (0, 1)
    assert ((found.low >= 0) & (found.low <= found.high) & (found.high <= 1)).all()
