"""Adding up privacy losses.

Bare numbers in, one ε or δ out; `privacy` gives them their meaning. Several valid bounds are
computed and the least is returned:

* plain (ε, δ) releases add up;
* μ-GDP releases are together √Σμ²-GDP, ρ-zCDP ones Σρ-zCDP: exact and closed (Dong, Roth and Su
  2022; Bun and Steinke 2016);
* pure releases add up, or compose optimally as privacy loss distributions, with the Gaussian ones,
  through dp-accounting (Kairouz, Oh and Viswanath 2015; Koskela, Jälkö and Honkela 2020);
* everything can be read as zCDP: ε-DP is ε²/2-zCDP, μ-GDP is μ²/2-zCDP;
* a law within a factor e^{±κ} of an ideal one, up to total variation β, costs 2κ in ε, a factor
  e^κ on δ and (1 + e^ε)·β; the κ's and β's of several releases add up.

The loss distributions are rounded pessimistically by dp-accounting; what its Fourier transforms may
lose to rounding is taken off δ first, and at a δ too small for that they are not used at all.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sudare.foundations.curves import (
    concentrated_delta,
    concentrated_epsilon,
    gaussian_delta,
    gaussian_epsilon,
)
from sudare.foundations.rounding import down, up

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FOURIER_ERROR = 1e-11
"""Above what double-precision transforms of a million points can lose in a sum of probabilities."""
_POWER_ERROR = 2.0**-51
"""What raising a transform to the power k may lose besides, for each of the k."""
_GRID_POINTS = 400_000
_MOST_POINTS = 4_000_000
_LARGEST = 700.0
"""Beyond such an ε or μ dp-accounting's exponentials overflow; it is not asked."""


class Parts(NamedTuple):
    """Everything released, sorted by what is known of it."""

    pure: tuple[tuple[float, int], ...]
    """Distinct ε of pure releases, with how often each occurs."""
    mu: float
    rho: float
    plain_epsilon: float
    plain_delta: float
    log_ratio: float = 0.0
    """κ: the real laws together are within a factor e^{±κ} of the ideal ones above, …"""
    failure: float = 0.0
    """… up to this total variation."""


def parts(
    pure: Iterable[float],
    mus: Iterable[float],
    rhos: Iterable[float],
    plain: Iterable[tuple[float, float]],
    near: Iterable[tuple[float, float]] = (),
) -> Parts:
    """Sort and add up, rounding upwards."""
    plain, mus, near = tuple(plain), tuple(mus), tuple(near)
    return Parts(
        pure=tuple(sorted(Counter(pure).items())),
        mu=up(math.hypot(*mus)) if len(mus) > 1 else sum(mus),
        rho=_total(rhos),
        plain_epsilon=_total(epsilon for epsilon, _ in plain),
        plain_delta=_total(delta for _, delta in plain),
        log_ratio=_total(log_ratio for log_ratio, _ in near),
        failure=_total(failure for _, failure in near),
    )


def epsilon(released: Parts, delta: float) -> float:
    """The least ε known at this δ; infinite when there is none."""
    left = delta - released.plain_delta
    if left < 0:
        return math.inf
    if left > 0 and released.plain_delta > 0:
        left = down(left)
    return _total([released.plain_epsilon, _curves(released, left)])


def delta(released: Parts, target: float) -> float:
    """The least δ known at this ε (to six digits, rounded up)."""
    floor = released.plain_delta
    if epsilon(released, floor) <= target:
        return floor
    simple = 1.0
    left = target - released.plain_epsilon - 2 * released.log_ratio
    if left >= 0 and not released.pure and not (released.mu > 0 and released.rho > 0):
        left = down(left) if left > 0 and left < target else left
        if released.mu > 0:
            ideal = gaussian_delta(left, released.mu)
        else:
            ideal = concentrated_delta(released.rho, left)
        real, failed = _real_delta(released, ideal, left)
        simple = min(1.0, _total([floor, real, failed]))
        if failed <= real:  # otherwise a smaller ε may have a smaller δ
            return simple
    low, high = math.log(2.0**-1022), 0.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        if epsilon(released, _added(floor, middle)) <= target:
            high = middle
        else:
            low = middle
    return simple if high == 0.0 else min(simple, _added(floor, high))


def _added(floor: float, log_delta: float) -> float:
    return min(math.nextafter(1.0, 0.0), floor + math.exp(log_delta))


def _curves(released: Parts, delta: float) -> float:
    """The least ε known for everything but the plain releases."""
    if released.log_ratio == 0 and released.failure == 0:
        return min(_bounds(released, delta))
    if delta <= 0:
        return math.inf
    kept = 2.0**-20
    while kept < 1:
        # A share of δ is kept for the failures; once it is known to do, no more than they need.
        ideal = min(_bounds(released, down(delta * (1 - kept) * math.exp(-released.log_ratio))))
        needed = (1 + math.exp(min(ideal + 2 * released.log_ratio, _LARGEST))) * released.failure
        if (exact := up(needed / delta)) <= kept:
            left = down(delta * (1 - exact) * math.exp(-released.log_ratio))
            return _total([min(_bounds(released, left)), up(2 * released.log_ratio)])
        kept = 2 * kept
    return math.inf


def _real_delta(released: Parts, delta: float, epsilon: float) -> tuple[float, float]:
    """What the ideal laws' δ at this ε becomes for the real ones, and what failures add to it."""
    if released.log_ratio == 0 and released.failure == 0:
        return delta, 0.0
    whole = up(epsilon + 2 * released.log_ratio, 2.0**-42)  # ε was rounded down to come here
    if whole > _LARGEST:
        return 1.0, 0.0
    failed = (1 + math.exp(whole)) * released.failure
    return up(delta * math.exp(released.log_ratio)), up(failed)


def _bounds(released: Parts, delta: float) -> Iterator[float]:
    """Valid ε for the ideal laws of everything but the plain releases."""
    pure, mu, rho = released.pure, released.mu, released.rho
    added_up = _total(Fraction(eps) * times for eps, times in pure)
    if mu == 0 and rho == 0:
        yield added_up
    if delta <= 0:
        yield math.inf
        return
    # One δ shared between the two curves; with a single curve it gets everything.
    for share in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99) if mu > 0 and rho > 0 else (1.0,):
        gaussian = gaussian_epsilon(mu, delta * share) if mu > 0 else 0.0
        rest = delta * (1 - share) if mu > 0 else delta
        concentrated = concentrated_epsilon(rho, rest) if rho > 0 else 0.0
        yield _total([added_up, gaussian, concentrated])
    if mu == 0 and rho == 0 and sum(times for _, times in pure) == 1:
        yield _one_pure(pure[0][0], delta)
        return
    if pure or rho > 0:
        squares = (Fraction(eps) ** 2 * times / 2 for eps, times in pure)
        whole = _total([rho, Fraction(mu) ** 2 / 2, *squares])
        yield concentrated_epsilon(whole, delta) if whole < math.inf else math.inf
    if pure:
        for share in (0.1, 0.5, 0.9) if rho > 0 else (1.0,):
            tight = _loss_epsilon(pure, mu, delta * share)
            rest = concentrated_epsilon(rho, delta * (1 - share)) if rho > 0 else 0.0
            yield _total([tight, rest])


def _one_pure(epsilon: float, delta: float) -> float:
    """What one ε-DP release gives at a δ > 0: log(e^ε(1−δ) − δ), and never below zero."""
    odds = math.exp(-epsilon)
    # Each form is exact to a few roundings on its side of ½.
    if delta < 0.5:
        gain = math.log1p(-delta * (1 + odds))
    elif (left := 1 - delta - delta * odds) > 0:
        gain = math.log(left)
    else:
        return 0.0
    return max(0.0, _total([epsilon, up(gain)]))


def _loss_epsilon(pure: tuple[tuple[float, int], ...], mu: float, delta: float) -> float:
    lost = _FOURIER_ERROR + _POWER_ERROR * sum(times for _, times in pure)
    if delta < 50 * lost or len(pure) > 200 or max(pure[-1][0], mu) > _LARGEST:
        return math.inf
    losses, usable = _loss_distribution(pure, mu), delta - lost
    with np.errstate(over="ignore"):
        found = float(losses.get_epsilon_for_delta(usable))
    if found == 0 and losses.get_delta_for_epsilon(0.0) <= usable:
        return 0.0
    # It walked down the grid by repeated subtraction, which drifts; the curve itself does not.
    epsilon, step = max(up(found, 2.0**-36), 1e-12), 2.0**-36
    while epsilon < math.inf and losses.get_delta_for_epsilon(epsilon) > usable:
        epsilon, step = up(epsilon, step), step * 2
    return epsilon


@lru_cache(maxsize=32)
def _loss_distribution(pure: tuple[tuple[float, int], ...], mu: float) -> "PrivacyLossDistribution":
    # Imported here: only a ledger with several entries ever needs it.
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    reach = math.fsum(eps * times for eps, times in pure) + mu * mu / 2 + 8 * mu
    finest = min([eps for eps, _ in pure] + ([mu / 8] if mu > 0 else []))
    # A whole number of steps in the smallest ε keeps equal releases exact on the grid, but a very
    # small one next to large ones is rounded up to one step rather than asking for a vast grid.
    step = finest / max(1, round(finest * _GRID_POINTS / (2 * reach)))
    step = max(step, 2 * reach / _MOST_POINTS)
    whole = None
    for eps, times in pure:
        one = pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(eps, 0.0), value_discretization_interval=step
        )
        many = one.self_compose(times) if times > 1 else one
        whole = many if whole is None else whole.compose(many)
    if mu > 0:
        one = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)
        whole = one if whole is None else whole.compose(one)
    assert whole is not None
    return whole


def _total(terms: Iterable[float | Fraction]) -> float:
    """The exact sum, rounded up to a double: exact sums stay as they are."""
    terms = tuple(terms)
    if math.inf in terms:
        return math.inf
    exact = sum((Fraction(term) for term in terms), Fraction(0))
    try:
        total = float(exact)
    except OverflowError:
        return math.inf
    return total if total >= exact else math.nextafter(total, math.inf)
