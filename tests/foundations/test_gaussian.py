"""The inverses of both curves: safe at 80 digits, and one part in 1e9 more is too much."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.foundations.curves import concentrated_delta, gaussian_epsilon
from sudare.foundations.gaussian import concentrated_rho, gaussian_mu
from tests.support.digits import MORE, exact_gaussian_delta, mp, mpf
from tests.support.strategies import spread

EPSILONS = spread(1e-4, 50)
DELTAS = st.one_of(spread(1e-60, 0.3), st.floats(0.3, 0.9))


def exact_concentrated_delta(rho: Any, epsilon: Any) -> Any:
    """The least bound over all orders α, where its derivative in α vanishes (found by halving)."""
    with mp.workdps(40):
        rho, epsilon = mpf(rho), mpf(epsilon)
        low, high = mpf(-100), mpf(100)  # of log(α − 1)
        while high - low > mpf(10) ** -18:
            middle = (low + high) / 2
            x = mp.exp(middle)
            if (2 * x + 1) * rho > epsilon + mp.log1p(1 / x):
                high = middle
            else:
                low = middle
        x = mp.exp(low)
        return mp.exp(x * ((x + 1) * rho - epsilon) - low - (x + 1) * mp.log1p(1 / x))


def targets() -> Iterator[tuple[float, float]]:
    for epsilon in (1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
        for delta in (1e-60, 1e-40, 1e-20, 1e-10, 1e-5, 1e-3, 0.1, 0.3, 0.9):
            yield epsilon, delta


def assert_is_largest_mu(epsilon: float, delta: float) -> None:
    mu = mpf(gaussian_mu(epsilon, delta))
    assert exact_gaussian_delta(epsilon, mu) <= delta
    assert exact_gaussian_delta(epsilon, mu * MORE) > delta


def assert_is_largest_rho(epsilon: float, delta: float) -> None:
    rho = concentrated_rho(epsilon, delta)
    assert concentrated_delta(rho, epsilon) <= delta
    assert exact_concentrated_delta(rho, epsilon) <= delta
    assert exact_concentrated_delta(mpf(rho) * MORE, epsilon) > delta


def test_gaussian_mu_is_the_largest_over_the_whole_range() -> None:
    for epsilon, delta in targets():
        assert_is_largest_mu(epsilon, delta)


@given(EPSILONS, DELTAS)
def test_gaussian_mu_is_the_largest_anywhere(epsilon: float, delta: float) -> None:
    assert_is_largest_mu(epsilon, delta)


def test_concentrated_rho_is_the_largest_over_the_whole_range() -> None:
    for epsilon, delta in targets():
        assert_is_largest_rho(epsilon, delta)


@settings(max_examples=40)
@given(EPSILONS, DELTAS)
def test_concentrated_rho_is_the_largest_anywhere(epsilon: float, delta: float) -> None:
    assert_is_largest_rho(epsilon, delta)


def test_a_well_known_noise_level() -> None:
    """1/μ is the noise of the analytic Gaussian mechanism (Balle and Wang 2018)."""
    assert 1 / gaussian_mu(1.0, 1e-5) == pytest.approx(3.730631634816, rel=1e-11)


@settings(max_examples=40)
@given(EPSILONS, EPSILONS, DELTAS, DELTAS)
def test_more_budget_never_asks_for_more_noise(e1: float, e2: float, d1: float, d2: float) -> None:
    assume(abs(e1 / e2 - 1) > 1e-6 and abs(d1 / d2 - 1) > 1e-6)
    (e1, e2), (d1, d2) = sorted((e1, e2)), sorted((d1, d2))
    for calibrated in (gaussian_mu, concentrated_rho):
        assert calibrated(e1, d1) <= calibrated(e2, d1)
        assert calibrated(e1, d1) <= calibrated(e1, d2)


@settings(max_examples=40)
@given(EPSILONS, DELTAS)
def test_a_concentrated_mechanism_may_spend_no_more_than_a_gaussian_one(
    epsilon: float, delta: float
) -> None:
    assert math.sqrt(2 * concentrated_rho(epsilon, delta)) <= gaussian_mu(epsilon, delta)


@settings(max_examples=40)
@given(EPSILONS, spread(1e-60, 0.1))
def test_accounting_for_what_was_calibrated_gives_the_budget_back(
    epsilon: float, delta: float
) -> None:
    spent = gaussian_epsilon(gaussian_mu(epsilon, delta), delta)
    assert spent <= epsilon * (1 + 1e-12)
    assert spent == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("calibrated", "arguments", "low", "high"),
    [
        (gaussian_mu, (1e-300, 1e-5), 2.50662e-5, 2.50663e-5),
        (gaussian_mu, (1e-4, 1e-300), 2.6e-6, 2.8e-6),
        (gaussian_mu, (1e300, 1e-5), 1.414e150, 1.415e150),
        (gaussian_mu, (1.0, math.nextafter(1, 0)), 14.0, 18.0),
        (concentrated_rho, (1e-4, 1e-300), 3.6e-12, 3.8e-12),
        (concentrated_rho, (1e-100, 1e-5), 1.35e-10, 1.36e-10),
        (concentrated_rho, (1e300, 1e-5), 9.9e299, 1e300),
        (concentrated_rho, (1.0, math.nextafter(1, 0)), 1.0, 100.0),
    ],
)
def test_extreme_targets_give_an_answer_without_a_warning(
    calibrated: Any, arguments: tuple[float, float], low: float, high: float
) -> None:
    assert low <= calibrated(*arguments) <= high


@pytest.mark.parametrize("calibrated", [gaussian_mu, concentrated_rho])
def test_numbers_of_other_types_are_not_computed_in_their_precision(calibrated: Any) -> None:
    for epsilon, delta in ((1.1, 0.3), (0.7, 1e-3)):
        for kind in (np.float16, np.float32):
            rounded = kind(epsilon), kind(delta)
            assert calibrated(*rounded) == calibrated(*map(float, rounded))


@pytest.mark.parametrize("calibrated", [gaussian_mu, concentrated_rho])
@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (0, 0.1, "Expected epsilon=0 > 0"),
        (math.nan, 0.1, "Expected epsilon=nan > 0"),
        (math.inf, 0.1, "Expected epsilon=inf > 0"),
        ("1", 0.1, "Expected epsilon='1' to be a number"),
        (True, 0.1, "Expected epsilon=True to be a number"),
        (1.0, 0.0, "Expected delta=0.0 in (0, 1)"),
        (1.0, 1, "Expected delta=1 in (0, 1)"),
        (1.0, None, "Expected delta=None to be a number"),
        (1.0, 1e-310, "Expected a larger epsilon, or delta=1e-310 to be larger"),
    ],
)
def test_bad_targets_are_refused_by_name(
    calibrated: Any, epsilon: Any, delta: Any, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        calibrated(epsilon, delta)
    assert str(caught.value) == message
