"""Composition of pure releases against the optimal theorem and enumeration."""

import math
import tracemalloc
from fractions import Fraction
from typing import Any

import pytest

from sudare.foundations.composition import epsilon, parts
from sudare.foundations.curves import (
    concentrated_epsilon,
)
from tests.exact_losses import (
    assert_safe_and_tight,
    exact_by_enumeration,
    exact_equal,
    mp,
    mpf,
    pure,
)

# Pure releases


KOV = [(1.0, 3), (0.1, 20), (0.1, 100), (0.5, 30), (0.01, 1000), (2.0, 10)]


def kairouz_oh_viswanath(one: float, times: int, i: int) -> Any:
    """The δ of their theorem at ε' = (k − 2i)ε."""
    eps = mpf(one)
    terms = (
        mp.binomial(times, j) * (mp.exp((times - j) * eps) - mp.exp((times - 2 * i + j) * eps))
        for j in range(i)
    )
    return mp.fsum(terms) / (1 + mp.exp(eps)) ** times


@pytest.mark.parametrize(("one", "times"), KOV)
def test_equal_pure_releases_against_the_published_theorem(one: float, times: int) -> None:
    tried = 0
    for i in range(times // 2, 0, -max(1, math.isqrt(times))):
        exact = (times - 2 * i) * Fraction(one)
        at_delta = float(kairouz_oh_viswanath(one, times, i))
        if 1e-9 < at_delta < 0.9:
            tried += 1
            answer = epsilon(pure(*[one] * times), at_delta)
            assert answer >= exact * (1 - Fraction(1, 10**12))  # δ was rounded to a double
            assert answer <= exact * Fraction(101, 100) + Fraction(one) / 100
    assert tried > 0


@pytest.mark.parametrize("at_delta", [1e-9, 1e-6, 1e-3, 0.1, 0.4])
@pytest.mark.parametrize(("one", "times"), KOV)
def test_equal_pure_releases(one: float, times: int, at_delta: float) -> None:
    assert_safe_and_tight(pure(*[one] * times), at_delta, exact_equal(one, times))


@pytest.mark.parametrize(
    ("one", "times", "at_delta"),
    [
        (1.9410959090270465, 100, 0.3),
        (1.2453938716021575, 1000, 0.3),
        (2.3863497510858624, 30, 0.1),
        (1.9372452625579328, 30, 0.1),
        (2.362221818342314, 300, 0.1),
    ],
)
def test_long_grids_do_not_drift_to_the_unsafe_side(
    one: float, times: int, at_delta: float
) -> None:
    assert_safe_and_tight(pure(*[one] * times), at_delta, exact_equal(one, times))


@pytest.mark.parametrize(
    ("one", "times"),
    [(1e-3, 100_000), (0.003267252933230836, 947_312), (0.002934435817198117, 1_673_878)],
)
def test_very_many_releases(one: float, times: int) -> None:
    assert_safe_and_tight(pure(*[one] * times), 1e-6, exact_equal(one, times))


MIXED = [
    (1.0, 0.5),
    (0.5, 0.3, 0.01),
    (2.0, 1e-3, 1e-3, 0.7),
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
    (3.0, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05),
    (1e-4, 2e-4, 5e-4, 1e-3),
    (math.pi / 4, math.e / 4, math.sqrt(2) / 3, 0.1, 0.1, 0.1),
]


@pytest.mark.parametrize("at_delta", [1e-9, 1e-5, 0.01, 0.2])
@pytest.mark.parametrize("epsilons", MIXED, ids=str)
def test_different_pure_releases(epsilons: tuple[float, ...], at_delta: float) -> None:
    assert_safe_and_tight(pure(*epsilons), at_delta, exact_by_enumeration(epsilons))


def test_enumeration_and_binomials_agree() -> None:
    for at in (0.0, 0.7, 2.9):
        one, two = exact_equal(0.5, 6)(at), exact_by_enumeration((0.5,) * 6)(at)
        assert abs(one - two) < mpf(10) ** -45


def test_a_tiny_release_among_large_ones_needs_no_vast_grid() -> None:
    tracemalloc.start()
    answer = epsilon(pure(*[1.0] * 20, 1e-7), 1e-6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500e6  # a grid in steps of 1e-7 from -20 to 20 takes 3.2 GB
    curve = exact_equal(1.0, 20)  # without the tiny one: a lower bound
    assert curve(answer) <= 1e-6
    assert curve(answer * 0.99) > 1e-6


def test_pure_releases_too_large_for_loss_distributions() -> None:
    assert epsilon(pure(800.0, 1.0), 1e-6) == 801.0
    assert epsilon(pure(1e300, 1e300), 1e-6) == 2 * 1e300
    assert epsilon(pure(1e200, 1e300), 1e-6) == pytest.approx(1e300)
    assert epsilon(parts([1.0], [1e200], (), ()), 1e-6) == math.inf


def test_more_different_releases_than_are_composed_tightly() -> None:
    many = [0.01 + 1e-4 * k for k in range(201)]
    tight, loose = epsilon(pure(*many[:200]), 1e-6), epsilon(pure(*many), 1e-6)
    rho = sum(eps * eps / 2 for eps in many)
    assert loose == pytest.approx(concentrated_epsilon(rho, 1e-6), rel=1e-9)
    assert tight < loose < 1.2 * tight
