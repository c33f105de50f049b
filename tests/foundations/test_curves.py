"""Both curves and their inverses against 80-digit arithmetic.

Safety and precision are tested together: an answer is never below the exact value, and at most one
part in 1e9 above it (1e-6 for the concentrated curve, which is found by a search).
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from sudare.foundations.checks import InvalidInput
from sudare.foundations.curves import (
    concentrated_delta,
    concentrated_epsilon,
    gaussian_delta,
    gaussian_epsilon,
)
from tests.support.digits import MORE, exact_gaussian_delta, mp, mpf
from tests.support.strategies import spread

SMALLEST = 2.0**-1022
"""The least δ a curve ever answers with."""


def exact_concentrated_delta(rho: Any, epsilon: Any) -> Any:
    """The least bound over all orders, by golden sections of the whole range of log(α − 1)."""
    with mp.workdps(30):
        rho, epsilon = mpf(rho), mpf(epsilon)

        def log_bound(log_excess: Any) -> Any:
            x = mp.exp(log_excess)
            return x * ((x + 1) * rho - epsilon) - log_excess - (x + 1) * mp.log1p(1 / x)

        golden = (mp.sqrt(5) - 1) / 2
        low, high = mpf(-60), mpf(60)
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = log_bound(left), log_bound(right)
        while high - low > mpf(10) ** -11:
            if at_left < at_right:
                high, right, at_right = right, left, at_left
                left = high - golden * (high - low)
                at_left = log_bound(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + golden * (high - low)
                at_right = log_bound(right)
        return min(mpf(1), mp.exp(min(at_left, at_right)))


def assert_just_above(value: float, exact: Any, more: Any = MORE) -> None:
    if exact < SMALLEST:
        assert value <= SMALLEST * more
    else:
        assert exact <= value <= exact * more


# The Gaussian curve


def gaussian_points() -> Iterator[tuple[float, float]]:
    for epsilon in (1e-4, 3e-3, 0.1, 0.7, 1.0, 3.0, 12.0, 50.0):
        for a in (-12.0, -3.0, -0.3, -1e-3, 0.0, 1e-3, 0.5, 1.0, 4.9, 5.1, 9.0, 16.0, 26.0, 37.0):
            yield epsilon, -a + math.sqrt(a * a + 2 * epsilon)  # the μ with ε/μ − μ/2 = a
        for mu in (1e-12, 1e-6, 1e-3, 0.1, math.nextafter(0.5, 0), 0.5, 0.6, 2.0, 10.0, 1e3):
            yield epsilon, mu


def test_gaussian_delta_is_just_above_the_exact_curve() -> None:
    smallest = 1.0
    for epsilon, mu in gaussian_points():
        exact = exact_gaussian_delta(epsilon, mu)
        assert_just_above(gaussian_delta(epsilon, mu), exact)
        smallest = min(smallest, float(exact)) if exact > SMALLEST else smallest
    assert smallest < 1e-298, "the points no longer reach far into the tail"


@given(spread(1e-4, 50), st.floats(-8, 37.5))
def test_gaussian_delta_anywhere(epsilon: float, a: float) -> None:
    mu = -a + math.sqrt(a * a + 2 * epsilon)
    assert_just_above(gaussian_delta(epsilon, mu), exact_gaussian_delta(epsilon, mu))


@given(spread(1e-12, 30))
def test_gaussian_delta_at_zero_is_the_total_variation(mu: float) -> None:
    exact = mp.erf(mpf(mu) / mp.sqrt(8))
    assert_just_above(gaussian_delta(0.0, mu), exact)


@settings(max_examples=50)
@given(spread(1e2, 1e8), st.floats(-3, 37))
@example(1345129.0, 20.0)
def test_gaussian_delta_stays_above_for_very_large_parameters(epsilon: float, a: float) -> None:
    """Here ε/μ and μ/2 nearly cancel, and what is lost there is magnified in the tail."""
    mu = -a + math.sqrt(a * a + 2 * epsilon)
    assert_just_above(gaussian_delta(epsilon, mu), exact_gaussian_delta(epsilon, mu))


def test_the_textbook_formula_in_doubles_would_not_pass() -> None:
    failed = 0
    for epsilon, mu in gaussian_points():
        a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        value = float(ndtr(-a) - math.exp(epsilon) * ndtr(-b))
        exact = exact_gaussian_delta(epsilon, mu)
        failed += not exact <= value <= exact * MORE
    assert failed > 50


@given(spread(1e-4, 50), spread(1e-4, 50), spread(1e-3, 10), spread(1e-3, 10))
def test_gaussian_delta_is_monotone(e1: float, e2: float, m1: float, m2: float) -> None:
    assume(abs(e1 / e2 - 1) > 1e-6 and abs(m1 / m2 - 1) > 1e-6)
    low, high = sorted((e1, e2))
    narrow, wide = sorted((m1, m2))
    assert gaussian_delta(high, m1) <= gaussian_delta(low, m1)
    assert gaussian_delta(e1, narrow) <= gaussian_delta(e1, wide)


@given(spread(1e-6, 20), st.one_of(spread(1e-300, 1e-10), spread(1e-12, 0.99)))
@example(1e-6, 1e-60)
@example(20.0, 1e-300)
@example(0.5, 1e-5)
def test_gaussian_epsilon_is_the_least(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon == 0:
        assert exact_gaussian_delta(0, mu) <= delta
        return
    assert exact_gaussian_delta(epsilon, mu) <= delta
    # Where the curve starts, a relative error in ε means nothing: there δ itself is compared.
    assume(delta < 0.9 * float(exact_gaussian_delta(0, mu)))
    assert exact_gaussian_delta(mpf(epsilon) / MORE, mu) > delta


@given(spread(1e-6, 30), spread(1e-15, 0.5))
@example(6.42634596882727e-05, 1e-12)
@example(13.0, 1e-15)
@example(0.0005530843701478336, 1.039538011670222e-15)
def test_gaussian_epsilon_where_the_curve_starts(mu: float, below: float) -> None:
    delta = gaussian_delta(0.0, mu) * (1 - below)
    assume(delta < 1)
    epsilon = gaussian_epsilon(mu, delta)
    assert delta * (1 - 1e-11) <= exact_gaussian_delta(epsilon, mu) <= delta


@given(spread(1e-6, 20), spread(1e-100, 0.9))
def test_gaussian_round_trip(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gaussian_epsilon(mu, gaussian_delta(epsilon, mu)) == pytest.approx(epsilon, rel=1e-9)


def test_gaussian_epsilon_is_zero_once_delta_covers_the_total_variation() -> None:
    whole = gaussian_delta(0.0, 1.0)
    assert gaussian_epsilon(1.0, whole) == 0.0
    assert gaussian_epsilon(1.0, whole * (1 - 1e-9)) > 0.0


# The concentrated curve


def concentrated_points() -> Iterator[tuple[float, float]]:
    for rho in (1e-12, 1e-6, 1e-3, 0.05, 0.5, 5.0):
        root = math.sqrt(rho)
        for epsilon in (0.0, 1e-4, rho, root / 10, root, 4 * root, 10 * root, 40 * root, 50.0):
            yield rho, epsilon


def test_concentrated_delta_is_just_above_the_best_order() -> None:
    smallest = 1.0
    for rho, epsilon in concentrated_points():
        value, exact = concentrated_delta(rho, epsilon), exact_concentrated_delta(rho, epsilon)
        assert_just_above(value, exact, 1 + mpf(10) ** -6)
        smallest = min(smallest, float(exact)) if exact > SMALLEST else smallest
    assert smallest < 1e-150, "the points no longer reach far into the tail"


@settings(max_examples=40)
@given(spread(1e-10, 10), st.floats(0, 37))
def test_concentrated_delta_anywhere(rho: float, deviations: float) -> None:
    epsilon = rho + deviations * math.sqrt(2 * rho)
    exact = exact_concentrated_delta(rho, epsilon)
    assert_just_above(concentrated_delta(rho, epsilon), exact, 1 + mpf(10) ** -6)


@settings(max_examples=20)
@given(spread(1e2, 1e8), st.floats(0, 30))
def test_concentrated_delta_stays_above_for_very_large_parameters(
    rho: float, deviations: float
) -> None:
    epsilon = rho + deviations * math.sqrt(2 * rho)
    exact = exact_concentrated_delta(rho, epsilon)
    assert_just_above(concentrated_delta(rho, epsilon), exact, 1 + mpf(10) ** -6)


@given(spread(1e-6, 10), spread(1e-3, 50), spread(1e-3, 1e4))
def test_no_order_gives_a_better_bound(rho: float, epsilon: float, excess: float) -> None:
    order = mpf(excess) + 1
    bound = mp.exp((order - 1) * (order * rho - epsilon)) / (order - 1) * (1 - 1 / order) ** order
    assert concentrated_delta(rho, epsilon) <= max(bound, SMALLEST) * (1 + mpf(10) ** -6)


@given(spread(1e-8, 10), spread(1e-4, 50))
def test_the_gaussian_mechanism_lies_below_its_concentrated_curve(
    rho: float, epsilon: float
) -> None:
    """μ-GDP is μ²/2-zCDP, so no valid bound may be below the exact Gaussian curve."""
    assert exact_gaussian_delta(epsilon, mp.sqrt(2 * mpf(rho))) <= concentrated_delta(rho, epsilon)


@settings(max_examples=40)
@given(spread(1e-8, 10), st.one_of(spread(1e-300, 1e-10), spread(1e-12, 0.9)))
@example(1e-3, 0.01)
@example(1e-6, 0.01)
@example(1e-8, 1e-60)
def test_concentrated_epsilon_is_the_least(rho: float, delta: float) -> None:
    epsilon = concentrated_epsilon(rho, delta)
    assert exact_concentrated_delta(rho, epsilon) <= delta
    assert concentrated_delta(rho, epsilon) <= delta
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke (2016)
    if delta < 0.9 * concentrated_delta(rho, 0.0):
        assert exact_concentrated_delta(rho, epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5])
def test_concentrated_epsilon_of_a_huge_rho_is_the_plain_conversion(delta: float) -> None:
    for rho in (2e100, 1e300):
        bound = mpf(rho) + 2 * mp.sqrt(-mpf(rho) * mp.log(mpf(delta)))
        assert bound <= concentrated_epsilon(rho, delta) <= bound * MORE


def test_concentrated_epsilon_is_zero_once_delta_covers_everything() -> None:
    whole = concentrated_delta(1e-3, 0.0)
    assert concentrated_epsilon(1e-3, whole) == 0.0
    assert concentrated_epsilon(1e-3, whole * 0.999) > 0.0


# Every function


@pytest.mark.parametrize(
    ("curve", "arguments", "low", "high"),
    [
        (gaussian_delta, (1.0, 1e-310), SMALLEST, SMALLEST),
        (gaussian_delta, (1e300, 1e-300), SMALLEST, SMALLEST),
        (gaussian_delta, (1e-4, 1e-300), SMALLEST, SMALLEST),
        (gaussian_delta, (0.0, 1e-300), 3.9e-301, 4e-301),
        (gaussian_delta, (50.0, 1e-4), SMALLEST, SMALLEST),
        (gaussian_delta, (0.0, 1e308), 1.0, 1.0),
        (gaussian_delta, (1.0, 1e200), 1.0, 1.0),
        (gaussian_epsilon, (1e-300, 1e-60), 0.0, 0.0),
        (gaussian_epsilon, (1e-9, 1e-60), 1.4e-8, 1.5e-8),
        (gaussian_epsilon, (1.0, 3e-308), 37.9, 38.0),
        (gaussian_epsilon, (1e100, 0.1), 4.9e199, 5.1e199),
        (gaussian_epsilon, (1.0, 1e-310), math.inf, math.inf),
        (gaussian_epsilon, (1.0, 5e-324), math.inf, math.inf),
        (gaussian_epsilon, (1e200, 0.1), math.inf, math.inf),
        (concentrated_delta, (1e-300, 1.0), SMALLEST, SMALLEST),
        (concentrated_delta, (1e-300, 1e300), SMALLEST, SMALLEST),
        (concentrated_delta, (1.0, 1e300), SMALLEST, SMALLEST),
        (concentrated_delta, (1e300, 1.0), 1.0, 1.0),
        (concentrated_delta, (1e-300, 0.0), 8e-151, 9e-151),
        (concentrated_epsilon, (1e-300, 1e-60), 0.0, 0.0),
        (concentrated_epsilon, (1e-18, 1e-60), 1.5e-8, 2.4e-8),
        (concentrated_epsilon, (1.0, 1e-310), math.inf, math.inf),
    ],
)
def test_extreme_parameters_give_an_answer_without_a_warning(
    curve: Callable[[float, float], float],
    arguments: tuple[float, float],
    low: float,
    high: float,
) -> None:
    assert low <= curve(*arguments) <= high


@pytest.mark.parametrize(
    "curve", [gaussian_delta, gaussian_epsilon, concentrated_delta, concentrated_epsilon]
)
def test_numbers_of_other_types_are_not_computed_in_their_precision(curve: Any) -> None:
    for first, second in ((1.1, 0.3), (0.7, 0.123)):
        for kind in (np.float16, np.float32):
            rounded = kind(first), kind(second)
            assert curve(*rounded) == curve(*map(float, rounded))
            assert type(curve(*rounded)) is float


@pytest.mark.parametrize(
    ("curve", "good", "bad", "message"),
    [
        (gaussian_delta, {"epsilon": 1.0, "mu": 1.0}, {"epsilon": -1.0}, "epsilon=-1.0 >= 0"),
        (gaussian_delta, {"epsilon": 1.0, "mu": 1.0}, {"epsilon": math.inf}, "epsilon=inf >= 0"),
        (gaussian_delta, {"epsilon": 1.0, "mu": 1.0}, {"mu": 0}, "mu=0 > 0"),
        (gaussian_epsilon, {"mu": 1.0, "delta": 0.1}, {"mu": math.nan}, "mu=nan > 0"),
        (gaussian_epsilon, {"mu": 1.0, "delta": 0.1}, {"mu": "1"}, "mu='1' to be a number"),
        (gaussian_epsilon, {"mu": 1.0, "delta": 0.1}, {"delta": 0}, "delta=0 in (0, 1)"),
        (gaussian_epsilon, {"mu": 1.0, "delta": 0.1}, {"delta": 1.0}, "delta=1.0 in (0, 1)"),
        (concentrated_delta, {"rho": 1.0, "epsilon": 1.0}, {"rho": -2}, "rho=-2 > 0"),
        (concentrated_delta, {"rho": 1.0, "epsilon": 1.0}, {"epsilon": None}, "epsilon=None"),
        (concentrated_delta, {"rho": 1.0, "epsilon": 1.0}, {"epsilon": -0.1}, "epsilon=-0.1 >= 0"),
        (concentrated_epsilon, {"rho": 1.0, "delta": 0.1}, {"rho": True}, "rho=True to be"),
        (concentrated_epsilon, {"rho": 1.0, "delta": 0.1}, {"delta": 2}, "delta=2 in (0, 1)"),
    ],
)
def test_bad_parameters_are_refused_by_name(
    curve: Any, good: dict[str, Any], bad: dict[str, Any], message: str
) -> None:
    curve(**good)
    with pytest.raises(InvalidInput) as caught:
        curve(**{**good, **bad})
    assert f"Expected {message}" in str(caught.value)


@pytest.mark.parametrize("rho", [1.0, 50.0, 1e4])
def test_concentrated_epsilon_of_a_large_rho_at_a_large_delta(rho: float) -> None:
    """Where ε is below ρ: nothing may start from there."""
    for at in (0.3, 0.9):
        found = concentrated_epsilon(rho, at)
        assert concentrated_delta(rho, found) <= at
        assert found == 0 or concentrated_delta(rho, found * (1 - 1e-6)) > at


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.1, 0.5])
@pytest.mark.parametrize("spread", [1e-156, 1e-30, 1e-3, 1.0])
def test_roots_next_to_zero_are_reached(spread: float, delta: float) -> None:
    """Where ε is many orders of magnitude below the first guess at it."""
    assert gaussian_delta(gaussian_epsilon(spread, delta), spread) <= delta
    assert concentrated_delta(spread, concentrated_epsilon(spread, delta)) <= delta
