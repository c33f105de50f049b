"""Composed budgets against exact answers: closed formulas, enumeration and integration in mpmath.

An answer ε is safe when the exact δ at ε is no more than the δ asked for, and tight when the exact
δ at ε less one per cent is more than that.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sudare.foundations.composition import delta, epsilon, parts
from sudare.foundations.curves import (
    concentrated_delta,
    concentrated_epsilon,
    gaussian_delta,
    gaussian_epsilon,
)
from tests.exact_losses import (
    assert_safe,
    assert_safe_and_tight,
    exact_equal,
    exact_gaussian,
    exact_with_gaussian,
    mp,
    mpf,
    pure,
)
from tests.support.strategies import spread

# One release, and plain sums


@given(spread(1e-12, 1e6))
def test_a_single_release_keeps_its_number(one: float) -> None:
    assert epsilon(pure(one), 0.0) == one
    assert epsilon(parts((), (), (), [(one, 1e-6)]), 1e-6) == one
    assert delta(pure(one), one) == 0.0
    assert delta(parts((), (), (), [(one, 1e-6)]), one) == 1e-6


@given(spread(1e-3, 50), st.one_of(spread(1e-60, 0.5), st.floats(0.5, 0.99)))
@example(1.0, 5e-17)
@example(36.66, 1 - 3 * 2**-53)
@example(1.0, (math.e - 1) / (math.e + 1))
@example(1e-3, 0.5)
def test_a_single_pure_release_at_a_positive_delta(one: float, at_delta: float) -> None:
    """Randomised response attains (e^ε − e^ε')/(1 + e^ε), which inverts in closed form."""
    inside = mp.exp(one) * (1 - mpf(at_delta)) - mpf(at_delta)
    exact = max(mpf(0), mp.log(inside)) if inside > 0 else mpf(0)
    answer = epsilon(pure(one), at_delta)
    assert exact <= answer <= exact * (1 + mpf(10) ** -12) + mpf(10) ** -12
    assert answer <= one


@given(st.lists(spread(1e-6, 10), max_size=30), st.lists(spread(1e-6, 10), max_size=5))
def test_at_delta_zero_pure_and_plain_releases_add_up(
    epsilons: list[float], plain: list[float]
) -> None:
    exact = sum(map(Fraction, epsilons + plain), Fraction(0))
    answer = epsilon(parts(epsilons, (), (), [(eps, 0.0) for eps in plain]), 0.0)
    assert exact <= answer <= exact * (1 + Fraction(1, 2**51))


def test_sums_that_doubles_hold_exactly_stay_as_they_are() -> None:
    assert epsilon(pure(0.5, 0.25, 0.25), 0.0) == 1.0
    assert epsilon(parts([0.5], (), (), [(0.5, 2.0**-20)]), 2.0**-20) == 1.0


def test_nothing_released() -> None:
    nothing = parts((), (), (), ())
    assert epsilon(nothing, 0.0) == 0.0
    assert epsilon(nothing, 0.1) == 0.0
    assert delta(nothing, 0.0) == 0.0


def test_gaussian_and_concentrated_releases_hold_at_no_delta_of_zero() -> None:
    assert epsilon(parts((), [1.0], (), ()), 0.0) == math.inf
    assert epsilon(parts([1.0], (), [1.0], ()), 0.0) == math.inf
    assert epsilon(parts([1.0], [0.1], (), [(1.0, 1e-6)]), 1e-6) == math.inf


@given(st.lists(st.tuples(spread(1e-3, 5), spread(1e-12, 1e-3)), min_size=1, max_size=8))
def test_plain_releases_add_up_in_both_numbers(plain: list[tuple[float, float]]) -> None:
    released = parts((), (), (), plain)
    exact_epsilon = sum(Fraction(eps) for eps, _ in plain)
    exact_delta = sum(Fraction(dlt) for _, dlt in plain)
    assert exact_epsilon <= epsilon(released, 0.5) <= exact_epsilon * (1 + Fraction(1, 2**51))
    assert exact_delta <= released.plain_delta <= exact_delta * (1 + Fraction(1, 2**51))
    assert epsilon(released, released.plain_delta) == epsilon(released, 0.5)
    assert epsilon(released, math.nextafter(released.plain_delta, 0)) == math.inf
    assert delta(released, float(exact_epsilon) * (1 - 1e-9)) == 1.0


@given(spread(1e-12, 1e-3), spread(1e-9, 1e3))
@example(1e-25, 1e20)
def test_what_plain_releases_leave_of_delta_goes_to_the_others(used: float, ratio: float) -> None:
    whole = used * (1 + ratio)
    released = parts((), [0.5], (), [(0.25, used)])
    rest = mpf(epsilon(released, whole)) - mpf(0.25)
    left = mpf(whole) - mpf(used)
    assert exact_gaussian(rest, 0.5) <= left
    assert rest == 0 or exact_gaussian(rest * (1 - mpf(10) ** -6), 0.5) > left


# Gaussian releases


@given(st.lists(spread(1e-3, 3), min_size=1, max_size=6), spread(1e-100, 0.3))
def test_gaussian_releases_are_exact(mus: list[float], at_delta: float) -> None:
    together = mp.sqrt(mp.fsum(mpf(mu) ** 2 for mu in mus))
    released = parts((), mus, (), ())
    assert together <= released.mu <= together * (1 + mpf(10) ** -12)
    answer = assert_safe(released, at_delta, lambda at: exact_gaussian(at, together))
    if at_delta < 0.5 * float(exact_gaussian(0, together)):
        assert exact_gaussian(answer * (1 - 1e-9), together) > at_delta


def test_one_gaussian_release_keeps_its_number() -> None:
    assert parts((), [0.3], (), ()).mu == 0.3
    assert epsilon(parts((), [0.3], (), ()), 1e-6) == gaussian_epsilon(0.3, 1e-6)
    assert delta(parts((), [0.3], (), ()), 1.0) == gaussian_delta(1.0, 0.3)


@pytest.mark.parametrize("scale", [1e-170, 1e-300, 1e170])
def test_squares_neither_vanish_nor_overflow(scale: float) -> None:
    assert parts((), [3 * scale, 4 * scale], (), ()).mu == pytest.approx(5 * scale, rel=1e-12)
    assert parts((), [3 * scale, 4 * scale], (), ()).mu > 5 * scale * (1 - 1e-15)


BLENDS = [
    ((1.0, 1.0), 0.5),
    ((0.1, 0.1, 0.1, 0.2), 0.1),
    ((0.01,) * 5, 0.01),
    ((1e-3, 2e-3), 1.0),
    ((1.0, 0.5), 1e-3),
    ((3.0,), 5.0),
    ((0.5,), 1e-9),
]


@pytest.mark.parametrize("at_delta", [1e-9, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize(("epsilons", "mu"), BLENDS, ids=str)
def test_pure_with_gaussian_releases(
    epsilons: tuple[float, ...], mu: float, at_delta: float
) -> None:
    released = parts(epsilons, [mu], (), ())
    assert_safe_and_tight(released, at_delta, exact_with_gaussian(epsilons, mu))


def test_the_shifted_curves_agree_with_integration_of_the_hockey_stick() -> None:
    """δ = E max(0, 1 − e^(ε − L)) over the composed loss L, by quadrature over the Gaussian."""
    (eps, mu), at = (mpf(1), mpf(1) / 2), mpf("1.3")
    with mp.workdps(25):
        total = mpf(0)
        for loss in (eps, -eps):
            # The Gaussian loss is μ²/2 + μz, so the integrand starts at this z.
            start = (at - loss - mu * mu / 2) / mu
            total += mp.quad(
                lambda z, loss=loss: (
                    (1 - mp.exp(at - loss - mu * mu / 2 - mu * z))
                    * mp.npdf(z)
                    / (1 + mp.exp(-loss))
                ),
                [start, start + 2, start + 6, start + 15, start + 40],
            )
    exact = exact_with_gaussian((1.0,), 0.5)(at)
    assert abs(total / exact - 1) < mpf(10) ** -15


# Concentrated releases


@given(st.lists(spread(1e-6, 2), min_size=1, max_size=6), spread(1e-100, 0.3))
def test_concentrated_releases_add_up(rhos: list[float], at_delta: float) -> None:
    released = parts((), (), rhos, ())
    exact = sum(map(Fraction, rhos))
    assert exact <= released.rho <= exact * (1 + Fraction(1, 2**51))
    assert epsilon(released, at_delta) == concentrated_epsilon(released.rho, at_delta)
    assert delta(released, 1.0) == concentrated_delta(released.rho, 1.0)


@pytest.mark.parametrize("at_delta", [1e-30, 1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize(
    ("epsilons", "mu", "rho"),
    [
        ((), 0.3, 0.05),
        ((), 2.0, 1e-4),
        ((0.1, 0.1, 0.3), 0.0, 0.02),
        ((0.1, 0.2), 0.4, 0.1),
        ((1.0,), 0.01, 1.0),
        ((1e-3,), 0.5, 1e-6),
    ],
)
def test_mixtures_with_concentrated_releases(
    epsilons: tuple[float, ...], mu: float, rho: float, at_delta: float
) -> None:
    """One ρ-zCDP mechanism is Gaussian with μ² = 2ρ: the bound must cover at least that one."""
    released = parts(epsilons, [mu] if mu else [], [rho], ())
    together = mp.sqrt(mpf(mu) ** 2 + 2 * mpf(rho))
    answer = assert_safe(released, at_delta, exact_with_gaussian(epsilons, together))
    # And it is no worse than the two plainest bounds.
    whole = rho + mu * mu / 2 + sum(eps * eps / 2 for eps in epsilons)
    assert answer <= concentrated_epsilon(whole, at_delta) * (1 + 1e-9)
    halves = concentrated_epsilon(rho, at_delta / 2)
    halves += gaussian_epsilon(mu, at_delta / 2) if mu else 0.0
    assert answer <= (sum(epsilons) + halves) * (1 + 1e-9)


@pytest.mark.parametrize(("mu", "rho"), [(2.0, 1e-4), (0.1, 1.0)])
def test_two_curves_share_one_delta(mu: float, rho: float) -> None:
    """Whatever the split, both parts come out of the same δ; no split is left out that pays."""
    answer = epsilon(parts((), [mu], [rho], ()), 1e-6)
    splits = [k / 40 for k in range(1, 40)] + [10.0**-k for k in (2, 3, 4)]
    splits += [1 - share for share in splits[-3:]]
    best = min(
        gaussian_epsilon(mu, 1e-6 * share) + concentrated_epsilon(rho, 1e-6 * (1 - share))
        for share in splits
    )
    best = min(best, concentrated_epsilon(rho + mu * mu / 2, 1e-6))
    assert best * (1 - 1e-3) <= answer <= best * 1.02


# At any δ, in any order


@pytest.mark.parametrize("at_delta", [1e-30, 1e-12, 0.49e-9])
def test_a_delta_too_small_for_fourier_transforms(at_delta: float) -> None:
    for one, times in ((0.1, 100), (1.0, 20)):
        answer = assert_safe(pure(*[one] * times), at_delta, exact_equal(one, times))
        assert answer <= one * times * (1 + 1e-15)
        assert answer <= concentrated_epsilon(times * one * one / 2, at_delta) * (1 + 1e-9)
    blend = exact_with_gaussian((0.5, 0.3), 0.2)
    answer = assert_safe(parts((0.5, 0.3), [0.2], (), ()), at_delta, blend)
    assert answer <= 0.8 + gaussian_epsilon(0.2, at_delta) * (1 + 1e-9)


SOME = st.lists(spread(1e-3, 2), max_size=4)


@settings(max_examples=25)
@given(SOME, SOME, SOME, st.randoms(use_true_random=False))
def test_the_order_of_releases_does_not_matter(
    epsilons: list[float], mus: list[float], rhos: list[float], shuffler: Any
) -> None:
    plain = [(eps, 1e-9 * eps) for eps in rhos]
    before = parts(epsilons, mus, rhos, plain)
    for terms in (epsilons, mus, rhos, plain):
        shuffler.shuffle(terms)
    after = parts(epsilons, mus, rhos, plain)
    assert after == before
    assert epsilon(after, 1e-30) == epsilon(before, 1e-30)


RELEASED = {
    "equal": pure(*[0.1] * 9),
    "many": pure(*[0.1] * 30),
    "different": pure(1.0, 0.3, 0.2),
    "gaussian": parts((), [0.5, 0.5], (), ()),
    "concentrated": parts((), (), [0.1], ()),
    "curves": parts((), [0.3], [0.01], [(0.1, 1e-12)]),
    "blend": parts([0.5, 0.5, 0.1], [0.3], (), [(0.1, 1e-12)]),
    "pure and concentrated": parts([0.5, 0.1], (), [0.01], [(0.1, 1e-12)]),
    "everything": parts([0.5, 0.1], [0.3], [0.01], [(0.1, 1e-12)]),
}


@pytest.mark.parametrize("name", RELEASED)
def test_a_larger_delta_never_asks_for_a_larger_epsilon(name: str) -> None:
    deltas = (1e-11, 0.49e-9, 0.51e-9, 1e-6, 0.1, 0.95)
    answers = [epsilon(RELEASED[name], at) for at in deltas]
    assert answers == sorted(answers, reverse=True)
    assert answers[0] > answers[-1]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *itertools.product(["equal", "different", "gaussian", "concentrated"], [0.0, 0.3, 0.8]),
        *itertools.product(["curves", "pure and concentrated"], [0.2, 1.0]),
        ("blend", 1.0),
    ],
)
def test_delta_and_epsilon_agree(name: str, target: float) -> None:
    released = RELEASED[name]
    at_delta = delta(released, target)
    assert released.plain_delta < at_delta < 1
    assert epsilon(released, at_delta) <= target * (1 + 1e-9) + 1e-11
    left = at_delta - released.plain_delta
    assert epsilon(released, released.plain_delta + left * (1 - 1e-5)) > target


@pytest.mark.parametrize("one", [0.1, 1.0, 5.0])
def test_delta_of_one_pure_release(one: float) -> None:
    for target in (0.0, one / 3, one * 0.999):
        exact = (mp.exp(one) - mp.exp(target)) / (1 + mp.exp(one))
        assert exact <= delta(pure(one), target) <= exact * (1 + mpf(10) ** -6)
    assert delta(pure(one), one) == 0.0


def test_delta_far_beyond_everything_is_next_to_nothing() -> None:
    assert delta(parts((), [0.01], [1e-4], ()), 1e4) < 1e-300


def test_delta_below_what_plain_releases_take_is_one() -> None:
    assert delta(parts([0.5], (), (), [(1.0, 1e-6)]), 0.9) == 1.0


@pytest.mark.parametrize(
    ("name", "at_delta"),
    [*((name, 1e-12) for name in RELEASED), ("many", 1e-6), ("different", 1e-6), ("blend", 1e-6)],
)
def test_another_release_never_lowers_epsilon(name: str, at_delta: float) -> None:
    """Rounding to a new grid may: that much, and no more, is allowed for."""
    before = RELEASED[name]
    answer = epsilon(before, at_delta)
    epsilons = [eps for eps, times in before.pure for _ in range(times)]
    mus, rhos = [before.mu] if before.mu else [], [before.rho] if before.rho else []
    plain = [(before.plain_epsilon, before.plain_delta)]
    grid = 1 - 1e-4 if epsilons and len(set(epsilons)) + len(mus) + len(rhos) > 1 else 1.0
    more = [
        parts([*epsilons, 1e-3], mus, rhos, plain),
        parts(epsilons, [*mus, 1e-3], rhos, plain),
        parts(epsilons, mus, [*rhos, 1e-6], plain),
        parts(epsilons, mus, rhos, [*plain, (1e-3, 0.0)]),
    ]
    for released in more:
        assert epsilon(released, at_delta) >= answer * grid


def test_a_tiny_release_changes_almost_nothing() -> None:
    large = 1.3456496018151853, 0.020105931781758103
    before, after = epsilon(pure(*large), 0.01), epsilon(pure(*large, 1.83e-7), 0.01)
    assert after == pytest.approx(before, rel=1e-4)
