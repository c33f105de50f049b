"""Two-term errors and Harmony's quantile: formulas to 80 digits, enumeration and simulation.

False alarms: a simulated count is compared with the 1 − 1e-6 interval of the binomial law it has if
the claim is exact; seeds are fixed.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from papers.formulas.counting import (
    dense_error_bound,
    harmony_error_quantile,
    paper_dense_condition,
    paper_dense_error_bound,
    paper_flip_error_bound,
    paper_harmony_error_quantile,
    paper_total_error_bound,
    sampling_error_bound,
    split_error_bound,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.calibration.errors import (
    BETAS,
    EPSILONS,
    EXAMPLE,
    ROUNDS,
    SHARES,
    USERS,
    divergence,
    exact_exponent,
    repeatable,
    usable,
    within,
)
from tests.support.digits import mp, mpf


@pytest.mark.parametrize("users", [1, 60, 345])
def test_too_few_users_give_no_bound(users: int) -> None:
    small = (users, 50, 0.1)
    assert sampling_error_bound(*small) == math.inf
    for bound in (split_error_bound, dense_error_bound):
        assert bound(3.0, *small) == math.inf
    for bound in (paper_flip_error_bound, paper_total_error_bound, paper_dense_error_bound):
        assert bound(3.0, *small) == math.inf
    assert not paper_dense_condition(1.0, 3.0, *small)


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
    # Equation (1) as printed is twice the root of Bernstein's equation.
    a = 2 * e / 9 * k
    printed = 2 * e / (3 * (e - 1)) * k + 3 / (e - 1) * mp.sqrt(a**2 + 4 * a)
    assert mp.almosteq(printed, 2 * root, 1e-60)

    assert within(paper_flip_error_bound(epsilon, *case), printed)
    assert within(sampling_error_bound(*case), mp.sqrt(k / 2))
    assert within(split_error_bound(epsilon, *case), root + mp.sqrt(k / 2))
    assert within(paper_total_error_bound(epsilon, *case), printed + mp.sqrt(k / 2))
    assert within(dense_error_bound(epsilon, *case), 2 * root)
    assert within(paper_dense_error_bound(epsilon, *case), 2 * printed)


def test_numbers_of_the_example() -> None:
    assert paper_total_error_bound(3, *EXAMPLE) == pytest.approx(0.300, abs=5e-4)
    assert split_error_bound(3, *EXAMPLE) == pytest.approx(0.220, abs=5e-4)
    assert paper_dense_error_bound(3, *EXAMPLE) == pytest.approx(0.321, abs=5e-4)
    assert dense_error_bound(3, *EXAMPLE) == pytest.approx(0.161, abs=5e-4)


def test_where_the_printed_dense_condition_holds() -> None:
    for epsilon in (1.0, 4.0, 6.41, 6.43, 8.0):
        assert paper_dense_condition(0.9995, epsilon, *EXAMPLE)
        assert paper_dense_condition(0.995, epsilon, *EXAMPLE)
    assert paper_dense_condition(0.5, 2.16, *EXAMPLE)
    assert not paper_dense_condition(0.5, 2.18, *EXAMPLE)


def test_edge_of_the_printed_dense_region() -> None:
    edges = {(5, 10**5): 0.00714, (5, 10**4): 0.00871, (10, 10**5): 1.567e-4, (10, 10**4): 1.035e-3}
    for (epsilon, users), edge in edges.items():
        for inside, outside in ((0.99 * edge, 1.01 * edge), (1 - 0.99 * edge, 1 - 1.01 * edge)):
            assert paper_dense_condition(inside, epsilon, users, 10, 0.1)
            assert not paper_dense_condition(outside, epsilon, users, 10, 0.1)


@repeatable
@given(SHARES, EPSILONS)
@example(0.5, 1.96)
def test_the_printed_dense_condition_is_the_stated_inequality(share: float, epsilon: float) -> None:
    e, theta = mp.exp(epsilon), mpf(paper_flip_error_bound(epsilon, *EXAMPLE))
    right = ((e - 1) * theta) ** 2 / (2 * e) / (1 + (e - 1) * theta / 3)
    stated = bool(divergence(mpf(share), theta) >= right)
    assert paper_dense_condition(share, epsilon, *EXAMPLE) == stated


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
        (lambda: sampling_error_bound(100, 2, 1), "beta"),
        (lambda: paper_dense_condition(2, 1, 100, 2, 0.1), "share"),
        (lambda: harmony_error_quantile(1, 9, 2, 0.01), "beta"),
        (lambda: harmony_error_quantile(-1, 9, 2, 0.001), "epsilon"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Expected {name}="):
        call()


@pytest.mark.parametrize(
    ("users", "rounds", "log_ratio"), [(60, 30, 4.0), (200, 50, 9.0), (500, 5, 6.0)]
)
def test_harmonys_farthest_count_by_going_through_all(
    users: int, rounds: int, log_ratio: float
) -> None:
    """Above the mean, where counts can go farther than below it."""
    epsilon, beta = 1.5, math.exp(-log_ratio) / (users + 1) ** 2
    right = 1 / (1 + math.exp(-epsilon))
    r = right / rounds
    likely = [
        k for k in range(users + 1) if (k / users - r) ** 2 * users <= log_ratio * r * (1 - r)
    ]
    farthest = max(likely, key=lambda k: abs(k - users * r))
    assert farthest > users * r
    expected = rounds / users * abs(farthest - users * r) / (2 * right - 1)
    assert harmony_error_quantile(epsilon, users, rounds, beta) == pytest.approx(expected)
