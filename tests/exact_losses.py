"""Exact privacy losses of composed releases, by enumeration and in many digits."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

from mpmath import MPContext

from sudare.foundations.composition import Parts, epsilon, parts

mp = MPContext()  # a context of its own: nobody else's precision is touched
mp.dps = 50
mpf = mp.mpf

Curve = Callable[[Any], Any]


def pure(*epsilons: float) -> Parts:
    return parts(epsilons, (), (), ())


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
