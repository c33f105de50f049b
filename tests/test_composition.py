"""Composed budgets against exact answers: closed formulas, enumeration and integration in mpmath.

An answer ε is safe when the exact δ at ε is no more than the δ asked for, and tight when the exact
δ at ε less one per cent is more than that.
"""

import itertools
import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import MPContext

from sudare.composition import Parts, delta, epsilon, parts
from sudare.curves import (
    concentrated_delta,
    concentrated_epsilon,
    gaussian_delta,
    gaussian_epsilon,
)

mp = MPContext()  # a context of its own: nobody else's precision is touched
mp.dps = 50
mpf = mp.mpf

Curve = Callable[[Any], Any]
"""The exact δ at ε."""


def pure(*epsilons: float) -> Parts:
    return parts(epsilons, (), (), ())


def spread(low: float, high: float) -> st.SearchStrategy[float]:
    """Floats spread evenly over the orders of magnitude between two bounds."""
    return st.floats(math.log(low), math.log(high)).map(lambda x: min(high, max(low, math.exp(x))))


def exact_equal(one: float, times: int) -> Curve:
    """`times` releases of ε = `one`: the loss is (2j − k)ε with a binomial j."""

    def curve(at: Any) -> Any:
        eps, at = mpf(one), mpf(at)
        p = 1 / (1 + mp.exp(-eps))
        # Beyond 14 standard deviations of j lies less than 1e-40 in all.
        first = min(times, int(times * p + 14 * mp.sqrt(times * p * (1 - p))) + 1)
        mass = mp.binomial(times, first) * p**first * (1 - p) ** (times - first)
        growth, share = mp.exp(2 * eps), mp.exp(at - (2 * first - times) * eps)  # e^(ε − loss)
        total = mpf(0)
        for j in range(first, -1, -1):
            if share >= 1:
                break
            total += mass * (1 - share)
            mass *= mpf(j) / (times - j + 1) * (1 - p) / p
            share *= growth
        return total

    return curve


@cache
def outcomes(epsilons: tuple[float, ...]) -> list[tuple[Any, Any]]:
    """The loss and the probability of every one of the 2^k outcomes of k randomised responses."""
    found = []
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        steps = [sign * mpf(eps) for sign, eps in zip(signs, epsilons, strict=True)]
        found.append((mp.fsum(steps), mp.fprod(1 / (1 + mp.exp(-step)) for step in steps)))
    return found


def exact_by_enumeration(epsilons: tuple[float, ...]) -> Curve:
    def curve(at: Any) -> Any:
        above = [(loss, mass) for loss, mass in outcomes(epsilons) if loss > at]
        return mp.fsum(mass * (1 - mp.exp(at - loss)) for loss, mass in above)

    return curve


def exact_gaussian(at: Any, mu: Any) -> Any:
    def upper(x: Any) -> Any:
        return mp.erfc(x / mp.sqrt(2)) / 2

    at, mu = mpf(at), mpf(mu)
    return upper(at / mu - mu / 2) - mp.exp(at) * upper(at / mu + mu / 2)


def exact_with_gaussian(epsilons: tuple[float, ...], mu: Any) -> Curve:
    """Given the outcomes of the pure releases, what is left is the Gaussian curve, shifted."""

    def curve(at: Any) -> Any:
        return mp.fsum(mass * exact_gaussian(at - loss, mu) for loss, mass in outcomes(epsilons))

    return curve


def assert_safe(released: Parts, at_delta: float, curve: Curve) -> float:
    answer = epsilon(released, at_delta)
    assert curve(answer) <= at_delta
    return answer


def assert_safe_and_tight(
    released: Parts, at_delta: float, curve: Curve, tightness: float = 0.01
) -> None:
    answer = assert_safe(released, at_delta, curve)
    if answer > 0:
        assert curve(answer * (1 - tightness)) > at_delta


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
    started = time.process_time()
    answer = epsilon(pure(*[1.0] * 20, 1e-7), 1e-6)
    assert time.process_time() - started < 20
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
