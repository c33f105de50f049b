"""Error bounds known beforehand: formulas to 80 digits, coverage by enumeration and simulation.

False alarms: a simulated count is compared with the 1 − 1e-6 quantile of the binomial law it would
have if the tested probability were exactly as large as claimed; seeds are fixed.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom, hypergeom

from sudare.calibration.counting import (
    _divergence,
    dense_condition,
    dense_error_bound,
    error_bound,
    flip_error_bound,
    harmony_error_quantile,
    paper_dense_condition,
    paper_dense_error_bound,
    paper_flip_error_bound,
    paper_harmony_error_quantile,
    paper_total_error_bound,
    reporters_exponent,
    sampling_error_bound,
    split_error_bound,
)
from sudare.calibration.masks import MaskLaw, mask_law
from sudare.checks import InvalidInput
from sudare.randomness import Generator, seeded

MORE = 1 + mpf(10) ** -9
EXAMPLE = (10_000, 50, 0.1)  # users, rounds and β of the experiments of Ono et al.

repeatable = settings(derandomize=True, deadline=None, max_examples=100)
EPSILONS = st.floats(math.log(1e-4), math.log(50)).map(math.exp)
BETAS = st.floats(math.log(1e-30), math.log(0.5)).map(math.exp)
USERS = st.integers(100, 10**8)
ROUNDS = st.integers(1, 2000)
SHARES = st.one_of(st.sampled_from([0.0, 1.0, 0.9995]), st.floats(0, 1))


@pytest.fixture(autouse=True, scope="module")
def eighty_digits() -> Iterator[None]:
    with mp.workdps(80):
        yield


def exact_exponent(users: int, rounds: int, beta: float, tails: int, slots: int = 1) -> Any:
    load = mpf(rounds) / (slots * users) * mp.log(tails * rounds / mpf(beta))
    return -mp.log(1 - load) if load < 1 else mp.inf


def divergence(b: Any, x: Any) -> Any:
    """The lesser of D(b ± x‖b) between Bernoulli laws; infinite where b ± x is impossible."""
    both = [mp.inf]
    for a in (b - x, b + x):
        if 0 < b < 1 and 0 <= a <= 1:
            both.append(sum(u * mp.log(u / v) for u, v in ((a, b), (1 - a, 1 - b)) if u > 0))
    return min(both)


def within(value: float, exact: Any) -> bool:
    """At or above the exact value, by at most a billionth."""
    return bool(exact <= value <= exact * MORE)


def usable(users: int, rounds: int, beta: float, slots: int = 1) -> None:
    """Leave out the edge where 1 − load has lost its digits."""
    assume(rounds / (slots * users) * math.log(4 * rounds / beta) < 0.999)


@repeatable
@given(USERS, ROUNDS, BETAS, st.integers(1, 6), st.sampled_from([1, 2, 4]))
def test_exponent(users: int, rounds: int, beta: float, slots: int, tails: int) -> None:
    slots = min(slots, rounds)
    usable(users, rounds, beta, slots)
    k = reporters_exponent(users, rounds, beta, slots=slots, tails=tails)
    assert within(k, exact_exponent(users, rounds, beta, tails, slots))
    # What it is for: the mean of e^(−K·reports), with a Binomial(N, g/T) number of reports.
    mean = (1 - mpf(slots) / rounds * (1 - mp.exp(-mpf(k)))) ** users
    assert mean <= mpf(beta) / (tails * rounds)


def test_exponent_is_nearly_exhausted_and_counts_rounds_without_reports() -> None:
    k = reporters_exponent(10_000, 50, 0.1)
    reports = np.arange(10_001)
    mean = float(binom.pmf(reports, 10_000, 1 / 50) @ np.exp(-k * reports))
    assert 0.8 * 0.1 / 100 < mean <= 0.1 / 100
    assert float(binom.pmf(reports, 10_000, 1 / 50) @ np.exp(-0.9 * k * reports)) > 0.1 / 100


@pytest.mark.parametrize("users", [1, 60, 345])
def test_too_few_users_give_no_bound(users: int) -> None:
    small = (users, 50, 0.1)
    assert reporters_exponent(*small) == sampling_error_bound(*small) == math.inf
    assert error_bound(mask_law(3, 1), *small) == math.inf
    assert error_bound(mask_law(3, 1), *small, share=1.0) == math.inf
    for bound in (flip_error_bound, split_error_bound, dense_error_bound):
        assert bound(3.0, *small) == math.inf
    for bound in (paper_flip_error_bound, paper_total_error_bound, paper_dense_error_bound):
        assert bound(3.0, *small) == math.inf
    assert not dense_condition(1.0, 3.0, *small)
    assert not paper_dense_condition(1.0, 3.0, *small)


def test_the_first_number_of_users_with_a_bound() -> None:
    """50·log(1000) = 345.4 users are needed; two slots halve that."""
    assert reporters_exponent(346, 50, 0.1) < 10
    assert error_bound(mask_law(3, 2), 172, 50, 0.1) == math.inf
    assert error_bound(mask_law(3, 2), 173, 50, 0.1) < math.inf
    assert error_bound(MaskLaw(1, 0, 1, 1), *EXAMPLE) == math.inf  # says nothing to anyone


# The two-term analysis


@repeatable
@given(EPSILONS, USERS, ROUNDS, BETAS)
@example(1e-4, 10_000, 50, 0.1)
@example(50.0, 10_000, 50, 0.1)
def test_two_term_bounds(epsilon: float, users: int, rounds: int, beta: float) -> None:
    usable(users, rounds, beta)
    case = (users, rounds, beta)
    k, e = exact_exponent(*case, tails=4), mp.exp(epsilon)
    root = (e * k / 3 + mp.sqrt((e * k / 3) ** 2 + 2 * e * k)) / (e - 1)
    # The root solves Bernstein's equation, and equation (1) as printed is its double.
    assert mp.almosteq(((e - 1) * root) ** 2 / (2 * e) / (1 + (e - 1) * root / 3), k, 1e-60)
    a = 2 * e / 9 * k
    printed = 2 * e / (3 * (e - 1)) * k + 3 / (e - 1) * mp.sqrt(a**2 + 4 * a)
    assert mp.almosteq(printed, 2 * root, 1e-60)

    assert within(flip_error_bound(epsilon, *case), root)
    assert within(paper_flip_error_bound(epsilon, *case), printed)
    assert within(sampling_error_bound(*case), mp.sqrt(k / 2))
    assert within(split_error_bound(epsilon, *case), root + mp.sqrt(k / 2))
    assert within(paper_total_error_bound(epsilon, *case), printed + mp.sqrt(k / 2))
    assert within(dense_error_bound(epsilon, *case), 2 * root)
    assert within(paper_dense_error_bound(epsilon, *case), 2 * printed)


def test_numbers_of_the_example() -> None:
    assert flip_error_bound(60, *EXAMPLE) == pytest.approx(2 / 3 * 0.0387455, rel=1e-6)  # 2K/3
    law = mask_law(3, 1)
    assert paper_total_error_bound(3, *EXAMPLE) == pytest.approx(0.300, abs=5e-4)
    assert split_error_bound(3, *EXAMPLE) == pytest.approx(0.220, abs=5e-4)
    assert error_bound(law, *EXAMPLE) == pytest.approx(0.1465, abs=5e-5)
    assert paper_dense_error_bound(3, *EXAMPLE) == pytest.approx(0.321, abs=5e-4)
    assert dense_error_bound(3, *EXAMPLE) == pytest.approx(0.161, abs=5e-4)
    assert error_bound(law, *EXAMPLE, share=0.9995) == pytest.approx(0.073, abs=5e-4)


def test_where_the_dense_condition_holds() -> None:
    for epsilon in (1.0, 4.0, 6.41, 6.43, 8.0):
        assert dense_condition(0.9995, epsilon, *EXAMPLE)
        assert paper_dense_condition(0.9995, epsilon, *EXAMPLE)
        assert paper_dense_condition(0.995, epsilon, *EXAMPLE)
        assert dense_condition(0.995, epsilon, *EXAMPLE) == (epsilon < 6.42)
    for condition, last in ((dense_condition, 1.95), (paper_dense_condition, 2.16)):
        assert condition(0.5, last, *EXAMPLE)
        assert not condition(0.5, last + 0.02, *EXAMPLE)


def test_edge_of_the_printed_dense_region() -> None:
    edges = {(5, 10**5): 0.00714, (5, 10**4): 0.00871, (10, 10**5): 1.567e-4, (10, 10**4): 1.035e-3}
    for (epsilon, users), edge in edges.items():
        for inside, outside in ((0.99 * edge, 1.01 * edge), (1 - 0.99 * edge, 1 - 1.01 * edge)):
            assert paper_dense_condition(inside, epsilon, users, 10, 0.1)
            assert not paper_dense_condition(outside, epsilon, users, 10, 0.1)


def test_reaching_an_end_of_the_interval_is_possible_and_passing_it_is_not() -> None:
    assert _divergence(0.5, 0.5) == pytest.approx(math.log(2), rel=1e-12)
    assert _divergence(0.5, 0.5000001) == math.inf


@repeatable
@given(SHARES, EPSILONS)
@example(0.5, 1.96)
def test_dense_conditions_are_the_stated_inequalities(share: float, epsilon: float) -> None:
    e, k, mu = mp.exp(epsilon), exact_exponent(*EXAMPLE, tails=4), mpf(share)
    theta = mpf(flip_error_bound(epsilon, *EXAMPLE))
    assert dense_condition(share, epsilon, *EXAMPLE) == bool(divergence(mu, theta) >= k)
    theta = mpf(paper_flip_error_bound(epsilon, *EXAMPLE))
    right = ((e - 1) * theta) ** 2 / (2 * e) / (1 + (e - 1) * theta / 3)
    assert paper_dense_condition(share, epsilon, *EXAMPLE) == bool(divergence(mu, theta) >= right)


# The one-term bound


@repeatable
@given(EPSILONS, st.integers(1, 8), st.integers(0, 7), USERS, ROUNDS, BETAS, SHARES)
def test_one_term_bound(
    epsilon: float, slots: int, threshold: int, users: int, rounds: int, beta: float, share: float
) -> None:
    slots = min(slots, rounds)
    usable(users, rounds, beta, slots)
    law = mask_law(epsilon, slots, min(threshold, slots - 1))
    c = mpf(law.exact_attenuation.numerator) / law.exact_attenuation.denominator
    k = exact_exponent(users, rounds, beta, 2, slots)
    general = error_bound(law, users, rounds, beta)
    assert within(general, mp.sqrt(k / 2) / c)

    given_share = error_bound(law, users, rounds, beta, share)
    assert given_share <= general * (1 + 1e-12)
    pi = mpf(1) / 2 + c * (mpf(share) - mpf(1) / 2)
    assert divergence(pi, c * mpf(given_share)) >= k
    assert divergence(pi, c * mpf(given_share) / MORE) < k


def miss_probability(law: MaskLaw, users: int, rounds: int, ones: int, bound: float) -> float:
    """Exact P(no reports, or error at or above the bound) in one round, by enumeration."""
    keep, c, share = (1 + law.attenuation) / 2, law.attenuation, ones / users
    chances = binom.pmf(np.arange(users + 1), users, law.slots / rounds)
    missed = float(chances[0])
    for reports in range(1, users + 1):
        for holders in range(max(0, reports - users + ones), min(ones, reports) + 1):
            kept = binom.pmf(np.arange(holders + 1), holders, keep)
            flipped = binom.pmf(np.arange(reports - holders + 1), reports - holders, 1 - keep)
            heard = np.convolve(kept, flipped)
            estimate = 0.5 + (np.arange(reports + 1) / reports - 0.5) / c
            chance = chances[reports] * hypergeom.pmf(holders, users, ones, reports)
            missed += float(chance * heard[np.abs(estimate - share) >= bound].sum())
    return missed


@pytest.mark.parametrize(("epsilon", "slots"), [(1.0, 1), (4.0, 1), (4.0, 2)])
def test_coverage_by_enumeration(epsilon: float, slots: int) -> None:
    law, users, rounds, beta = mask_law(epsilon, slots), 24, 3, 0.3
    for ones in (0, 3, 12, 23):
        for share in (None, ones / users):
            bound = error_bound(law, users, rounds, beta, share)
            assert miss_probability(law, users, rounds, ones, bound) <= beta / rounds
    bound = error_bound(law, users, rounds, beta, 0.5)
    assert miss_probability(law, users, rounds, 12, 0.4 * bound) > beta / rounds


def glance_errors(share: float, epsilon: float, runs: int, rng: Generator) -> Any:
    """Largest error over the rounds of each run of Glance, at the sizes of `EXAMPLE`."""
    users, rounds, _ = EXAMPLE
    ones, flip = round(share * users), 1 / (1 + math.exp(epsilon))
    reports = rng.multinomial(users, [1 / rounds] * rounds, size=runs)
    holders = rng.hypergeometric(ones, users - ones, reports)
    heard = rng.binomial(holders, 1 - flip) + rng.binomial(reports - holders, flip)
    estimate = (heard / reports - flip) / (1 - 2 * flip)
    return np.abs(estimate - share).max(axis=1)


def test_simulated_glance_keeps_the_bounds() -> None:
    """2,000 runs at β = 0.1: an honest rate of β would pass 0.135 once in 1e6."""
    rng = seeded(2018)
    for share in (0.9995, 0.5):
        errors = glance_errors(share, 3, 2000, rng)
        bound = error_bound(mask_law(3, 1), *EXAMPLE, share)
        assert np.mean(errors >= bound) <= 0.135
        assert np.mean(errors >= 0.65 * bound) > 0.135
        if share > 0.5:
            assert np.mean(errors >= dense_error_bound(3, *EXAMPLE)) == 0
            assert np.quantile(errors, 0.9) == pytest.approx(0.0537, abs=0.0025)  # 5 deviations


def test_simulated_masks_keep_the_bound() -> None:
    """400 runs, user by user, two slots each: an honest rate of β would pass 0.18 once in 1e6."""
    rng, law = seeded(16), mask_law(3.0, 2)
    users, rounds, beta, runs = 2000, 10, 0.1, 400
    bits = np.arange(users) < users // 2
    bound = error_bound(law, users, rounds, beta)
    worst = np.empty(runs)
    for run in range(runs):
        first = rng.integers(rounds, size=users)
        second = (first + rng.integers(1, rounds, size=users)) % rounds
        drawn = rng.integers(law.total, size=users)
        mask = np.where(drawn < law.near_weight, 0, 1 + (drawn - law.near_weight) // law.far_weight)
        heard = np.bincount(first, bits ^ (mask & 1 == 1), minlength=rounds)
        heard += np.bincount(second, bits ^ (mask & 2 == 2), minlength=rounds)
        reports = np.bincount(first, minlength=rounds) + np.bincount(second, minlength=rounds)
        estimate = 0.5 + (heard / reports - 0.5) / law.attenuation
        worst[run] = np.abs(estimate - 0.5).max()
    assert np.mean(worst >= bound) <= 0.18
    assert np.mean(worst >= 0.65 * bound) > 0.18


# Harmony


def harmony_maximum_chance(epsilon: float, users: int, rounds: int, error: float) -> float:
    """Exact P(the largest error over all rounds ≥ error) when every bit is one."""
    p, gap = 1 / (1 + math.exp(-epsilon)), math.tanh(epsilon / 2)
    counts = np.arange(users + 1)
    allowed = np.abs(rounds * counts / users - p) / gap < error
    # state[s]: probability that the rounds so far stayed small and hold s ones together.
    state = np.zeros(users + 1)
    state[0] = 1
    for done in range(rounds):
        chance = p / rounds / (1 - p * done / rounds)
        after = np.zeros(users + 1)
        for held in np.flatnonzero(state > 1e-18):
            left = users - held
            step = binom.pmf(counts[: left + 1], left, chance) * allowed[: left + 1]
            after[held:] += state[held] * step
        state = after
    return 1 - float(state.sum())


def test_theorem_4_is_false_as_printed() -> None:
    """P is 0.993, not 1 − 5e-7, and far below 1 − β at β = 1e-12; 20,000 runs agree."""
    case, rng, runs = (2.0, 1000, 10), seeded(4), 20_000
    p = 1 / (1 + math.exp(-2))
    heard = rng.multinomial(1000, [p / 10] * 10 + [1 - p], size=runs)[:, :10]
    errors = np.abs(10 * heard / 1000 - p).max(axis=1) / math.tanh(1)
    for beta, expected in ((5e-7, 0.9927), (1e-12, 0.0021)):
        error = paper_harmony_error_quantile(*case, beta)
        chance = harmony_maximum_chance(*case, error)
        assert chance == pytest.approx(expected, abs=1e-4)
        assert beta <= chance < 1 - beta
        step = 10 / 1000 / math.tanh(1)
        assert error - step < harmony_error_quantile(*case, beta) <= error
        low, high = binom.interval(1 - 1e-6, runs, chance)
        assert low <= np.sum(errors >= error) <= high
        assert np.sum(errors >= 1.25 * error) < low


@repeatable
@given(EPSILONS, USERS, ROUNDS, st.floats(1.001, 1e30))
def test_printed_expression(epsilon: float, users: int, rounds: int, factor: float) -> None:
    beta = 1 / (users + 1) ** 2 / factor
    e, log_ratio = mp.exp(epsilon), -mp.log((users + 1) ** 2 * mpf(beta))
    spread = mpf(rounds) / users * e * (e + 1) / (e - 1) ** 2 * (1 - e / (e + 1) / rounds)
    printed = mp.sqrt(spread * log_ratio)
    value = paper_harmony_error_quantile(epsilon, users, rounds, beta)
    assert value == pytest.approx(float(printed), rel=1e-9)
    assert harmony_error_quantile(epsilon, users, rounds, beta) <= printed


def one_round_chance(epsilon: float, users: int, rounds: int, error: float) -> float:
    p, counts = 1 / (1 + math.exp(-epsilon)), np.arange(users + 1)
    errors = np.abs(rounds * counts / users - p) / math.tanh(epsilon / 2)
    return float(binom.pmf(counts, users, p / rounds)[errors >= error].sum())


@pytest.mark.parametrize("users", [1, 2, 5, 11, 40, 1000])
@pytest.mark.parametrize("rounds", [1, 2, 10, 1000])
def test_harmony_reaches_its_quantile_with_probability_beta(users: int, rounds: int) -> None:
    for epsilon in (1e-3, 0.5, 2.0, 10.0):
        for factor in (1.0001, 1.5, 10.0, 1e6, 1e30, 1e200):
            beta = 1 / (users + 1) ** 2 / factor
            error = harmony_error_quantile(epsilon, users, rounds, beta)
            assert one_round_chance(epsilon, users, rounds, error) >= beta


def test_printed_quantile_need_not_be_reached_with_probability_beta() -> None:
    one_round, impossible = (20.0, 30, 1, 6e-4), (2.0, 30, 10, 1e-300)
    error = paper_harmony_error_quantile(*one_round)
    assert one_round_chance(*one_round[:3], error) < 6e-4
    assert harmony_maximum_chance(*impossible[:3], paper_harmony_error_quantile(*impossible)) < 1e-9


@pytest.mark.parametrize(
    ("upper", "crossing"), [(paper_dense_error_bound, 7.82), (dense_error_bound, 6.20)]
)
def test_where_glance_overtakes_harmony(
    upper: Callable[[float, int, int, float], float], crossing: float
) -> None:
    case = (10**6, 10, 1 / (2 * (10**6 + 1) ** 2))
    assert upper(crossing - 0.01, *case) > paper_harmony_error_quantile(crossing - 0.01, *case)
    assert upper(crossing + 0.01, *case) < paper_harmony_error_quantile(crossing + 0.01, *case)


# Refusals


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: reporters_exponent(0, 5, 0.1), "users"),
        (lambda: reporters_exponent(100, 5, 0), "beta"),
        (lambda: reporters_exponent(100, 5, 0.1, slots=6), "slots"),
        (lambda: reporters_exponent(100, 5, 0.1, tails=0), "tails"),
        (lambda: error_bound(mask_law(1, 3), 100, 2, 0.1), "slots"),
        (lambda: error_bound(mask_law(1, 1), 1, 2, 0.1, share=1.1), "share"),
        (lambda: flip_error_bound(0, 100, 2, 0.1), "epsilon"),
        (lambda: sampling_error_bound(100, 2, 1), "beta"),
        (lambda: dense_condition(-0.1, 1, 100, 2, 0.1), "share"),
        (lambda: paper_dense_condition(2, 1, 100, 2, 0.1), "share"),
        (lambda: harmony_error_quantile(1, 9, 2, 0.01), "beta"),
        (lambda: harmony_error_quantile(-1, 9, 2, 0.001), "epsilon"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Expected {name}="):
        call()
