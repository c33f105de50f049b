"""Error bounds known beforehand: formulas to 80 digits, coverage by enumeration and simulation.

False alarms: a simulated count is compared with the 1 − 1e-6 quantile of the binomial law it would
have if the tested probability were exactly as large as claimed; seeds are fixed.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from sudare.calibration._counting import (
    _divergence,
    dense_condition,
    error_bound,
    flip_error_bound,
    reporters_exponent,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.masks import MaskLaw, mask_law
from sudare.foundations.randomness import Generator, seeded
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
from tests.support.digits import MORE, mp, mpf


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
    assert reporters_exponent(*small) == flip_error_bound(3.0, *small) == math.inf
    assert error_bound(mask_law(3, 1), *small) == math.inf
    assert error_bound(mask_law(3, 1), *small, share=1.0) == math.inf
    assert not dense_condition(1.0, 3.0, *small)


def test_the_first_number_of_users_with_a_bound() -> None:
    """50·log(1000) = 345.4 users are needed; two slots halve that."""
    assert reporters_exponent(346, 50, 0.1) < 10
    assert error_bound(mask_law(3, 2), 172, 50, 0.1) == math.inf
    assert error_bound(mask_law(3, 2), 173, 50, 0.1) < math.inf
    assert error_bound(MaskLaw(1, 0, 1, 1), *EXAMPLE) == math.inf  # says nothing to anyone


# Flips alone, and where they are all that counts


@repeatable
@given(EPSILONS, USERS, ROUNDS, BETAS)
@example(1e-4, 10_000, 50, 0.1)
@example(50.0, 10_000, 50, 0.1)
def test_flips_alone(epsilon: float, users: int, rounds: int, beta: float) -> None:
    usable(users, rounds, beta)
    case = (users, rounds, beta)
    k, e = exact_exponent(*case, tails=4), mp.exp(epsilon)
    root = (e * k / 3 + mp.sqrt((e * k / 3) ** 2 + 2 * e * k)) / (e - 1)
    # The root solves Bernstein's equation.
    assert mp.almosteq(((e - 1) * root) ** 2 / (2 * e) / (1 + (e - 1) * root / 3), k, 1e-60)
    assert within(flip_error_bound(epsilon, *case), root)


def test_numbers_of_the_example() -> None:
    assert flip_error_bound(60, *EXAMPLE) == pytest.approx(2 / 3 * 0.0387455, rel=1e-6)  # 2K/3
    law = mask_law(3, 1)
    assert error_bound(law, *EXAMPLE) == pytest.approx(0.1465, abs=5e-5)
    assert error_bound(law, *EXAMPLE, share=0.9995) == pytest.approx(0.073, abs=5e-4)


def test_where_the_dense_condition_holds() -> None:
    for epsilon in (1.0, 4.0, 6.41, 6.43, 8.0):
        assert dense_condition(0.9995, epsilon, *EXAMPLE)
        assert dense_condition(0.995, epsilon, *EXAMPLE) == (epsilon < 6.42)
    assert dense_condition(0.5, 1.95, *EXAMPLE)
    assert not dense_condition(0.5, 1.97, *EXAMPLE)


def test_reaching_an_end_of_the_interval_is_possible_and_passing_it_is_not() -> None:
    assert _divergence(0.5, 0.5) == pytest.approx(math.log(2), rel=1e-12)
    assert _divergence(0.5, 0.5000001) == math.inf


@repeatable
@given(SHARES, EPSILONS)
@example(0.5, 1.96)
def test_the_dense_condition_is_the_stated_inequality(share: float, epsilon: float) -> None:
    k, theta = exact_exponent(*EXAMPLE, tails=4), mpf(flip_error_bound(epsilon, *EXAMPLE))
    stated = bool(divergence(mpf(share), theta) >= k)
    assert dense_condition(share, epsilon, *EXAMPLE) == stated


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
            # Where the dense condition holds, twice what flips add is a bound on everything.
            assert np.mean(errors >= 2 * flip_error_bound(3, *EXAMPLE)) == 0
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
        (lambda: dense_condition(-0.1, 1, 100, 2, 0.1), "share"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=f"Expected {name}="):
        call()
