"""What a data set's entries cost when each price may be chosen after seeing earlier releases.

`privacy.account` composes events whose prices were fixed beforehand. Whoever looks at one release
before asking for the next can do worse than that, so a ledger that accepts requests one by one
needs *filters*: conditions on the prices so far which, kept on every path, bound the whole.
`enforced` is the number that the ledger compares with its cap (E, D). It is the least of

    sum       pure releases alone: Σε
    gaussian  Σμ² of everything that is (nearly) Gaussian or pure, on the Gaussian curve at D/3
    renyi     Σ of Rényi divergences at one order, fixed by the cap, converted at D/3

where plain δ's may take D/4 besides, and failures of nearly Gaussian events D/12: together D. If
the first entry is a plain (ε, δ) one, everything enters as plain (ε, δ) and both are added up
instead, with all of D. Which of the two holds is settled by the first entry, before anything was
seen. An account with one entry costs what that entry costs alone: nothing in it was chosen late.

Statements and proofs: docs/theory/filters.md. Every number is rounded up.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, assert_never

from scipy.optimize import brentq
from scipy.special import erfinv, ndtri

from sudare.foundations.curves import gaussian_epsilon
from sudare.foundations.gaussian import concentrated_rho
from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    Event,
    GaussianEvent,
    Guarantee,
    LocalEvent,
    NearGaussianEvent,
    PureEvent,
)
from sudare.foundations.rounding import down, up

ROUNDING = 1e-9
"""Sums are rounded up in their last digits: ten spends of a tenth are still one."""
_SMALLEST_DELTA = 2.0**-1000
_SMALLEST_CAP, _LARGEST_CAP = 1e-9, 1e6
"""Outside of these the curves are not computed, and only pure releases fit."""
_RATIO_SHARE = 1e-3
"""Σ of log ratios of nearly Gaussian events, at most this part of E."""
_LARGEST = 700.0
"""e to this power is still a double."""
_NEVER = math.inf


class Cost(NamedTuple):
    """What entries cost, and by which rule: "alone", "sum", "gaussian", "renyi" or "added up"."""

    epsilon: float
    rule: str


class Price(NamedTuple):
    """One event as the curves see it; infinite where a filter has no place for it."""

    pure: float
    """ε of a pure release."""
    mu: float
    """It is no easier to tell apart than N(0, 1) from N(μ, 1), up to the two below."""
    divergence: float
    """Rényi divergence at the cap's order, up to the two below."""
    delta: float = 0.0
    """Outside an event of this probability."""
    failure: float = 0.0
    """Up to this total variation."""
    log_ratio: float = 0.0
    """Up to factors of e^±log_ratio, which `divergence` holds already."""


def enforced(events: Sequence[Event], epsilon: float, delta: float) -> Cost:
    """The ε that these entries, in this order, cost under the cap (epsilon, delta).

    They fit while it is at most `epsilon`: whoever spends by that rule, choosing every price after
    seeing what was released before, stays (epsilon, delta)-DP. It never falls when one is added.
    """
    together = Guarantee(tuple(events), delta)  # refuses what does not add up
    if len(events) <= 1:
        return Cost(together.epsilon() if events else 0.0, "alone")
    if isinstance(events[0], ApproximateEvent):
        return Cost(_added_up(events, delta), "added up")
    has_curves = delta / 3 > _SMALLEST_DELTA and _SMALLEST_CAP < epsilon < _LARGEST_CAP
    order = renyi_order(epsilon, delta / 3) if has_curves else 2.0
    prices = [price(event, order) for event in events]
    costs = [Cost(_sum(each.pure for each in prices), "sum")]
    if has_curves and _losses_fit(prices, epsilon, delta):
        costs.append(Cost(_gaussian(prices, epsilon, delta / 3), "gaussian"))
        costs.append(Cost(_renyi(prices, order, delta / 3), "renyi"))
    return min(costs)


def price(event: Event, order: float) -> Price:
    """What the filters charge for an event, at this Rényi order."""
    match event:
        case PureEvent(epsilon=epsilon) | LocalEvent(epsilon=epsilon):
            return Price(epsilon, pure_mu(epsilon), pure_divergence(epsilon, order))
        case GaussianEvent(mu=mu):
            return Price(_NEVER, mu, up(order * mu * mu / 2))
        case ConcentratedEvent(rho=rho):
            return Price(_NEVER, _NEVER, up(order * rho))
        case ApproximateEvent(epsilon=epsilon, delta=delta):
            return Price(_NEVER, _NEVER, pure_divergence(epsilon, order), delta=delta)
        case NearGaussianEvent(mu=mu, log_ratio=log_ratio, failure=failure):
            # A factor e^κ on one law and e^−κ on the other.
            raised = log_ratio * (2 + 1 / (order - 1))
            divergence = up(order * mu * mu / 2 + raised)
            return Price(_NEVER, mu, divergence, failure=failure, log_ratio=log_ratio)
        case _:
            assert_never(event)


def pure_mu(epsilon: float) -> float:
    """The μ for which every ε-DP mechanism is μ-GDP: 2Φ⁻¹(e^ε/(1 + e^ε)), rounded up."""
    if epsilon < 1:  # where Φ⁻¹ near ½ would cancel
        return up(2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2))), 2.0**-40)
    return up(-2 * float(ndtri(math.exp(-epsilon - math.log1p(math.exp(-epsilon))))), 2.0**-40)


def pure_divergence(epsilon: float, order: float) -> float:
    """The Rényi divergence of an ε-DP mechanism, at most: min(ε, αε²/2), rounded up."""
    return min(epsilon, up(order * epsilon * epsilon / 2))


@lru_cache(maxsize=64)
def renyi_order(epsilon: float, delta: float) -> float:
    """The order at which a zCDP mechanism calibrated to (ε, δ) is converted best.

    Three digits of it: any order is valid as long as the cap alone decides which.
    """
    rho = concentrated_rho(epsilon, delta)

    def slope(log_excess: float) -> float:
        excess = math.exp(log_excess)  # α − 1; the best has (2α − 1)ρ = ε + log(α/(α − 1))
        return (2 * excess + 1) * rho - epsilon - math.log1p(1 / excess)

    far = math.log(max(epsilon / rho, 1 / math.sqrt(rho))) + 1
    near = far - 40
    best = math.exp(brentq(slope, near, far) if slope(near) < 0 else near)
    return 1 + float(f"{best:.3g}")


def renyi_epsilon(divergence: float, order: float, delta: float) -> float:
    """The ε that a Rényi divergence of this order gives at δ (Canonne, Kamath, Steinke 2020)."""
    excess = order - 1
    conversion = (math.log(delta) - excess * math.log1p(-1 / order) + math.log(order)) / excess
    size = (abs(math.log(delta)) + math.log(order) + 2) / excess
    return max(0.0, up(divergence - conversion, 2.0**-45) + size * 2.0**-48)


def _gaussian(prices: Sequence[Price], cap: float, delta: float) -> float:
    ratio = cap * _RATIO_SHARE
    squares = _sum(up(each.mu * each.mu) for each in prices)
    if math.isinf(squares) or _sum(each.log_ratio for each in prices) > ratio:
        return math.inf
    usable = down(delta * math.exp(-ratio))
    return up(gaussian_epsilon(up(math.sqrt(squares)), usable) + 2 * ratio)


def _renyi(prices: Sequence[Price], order: float, delta: float) -> float:
    return renyi_epsilon(_sum(each.divergence for each in prices), order, delta)


def _losses_fit(prices: Sequence[Price], cap: float, delta: float) -> bool:
    """Whether plain δ's and failures keep to their shares of δ.

    Each has a limit of its own: they are probabilities under different laws, and on different paths
    one could be traded for the other.
    """
    failures = _sum(each.failure for each in prices)
    if failures and (cap > _LARGEST or up((1 + math.exp(cap)) * failures) > delta / 12):
        return False
    return math.fsum(each.delta for each in prices) <= delta / 4 * (1 + ROUNDING)


def _added_up(events: Sequence[Event], delta: float) -> float:
    """Σε, where curves take half of the δ that is left when they come."""
    epsilons, deltas = [], []
    for event in events:
        match event:
            case ApproximateEvent(epsilon=epsilon, delta=slack):
                epsilons.append(epsilon)
                deltas.append(slack)
            case PureEvent(epsilon=epsilon) | LocalEvent(epsilon=epsilon):
                epsilons.append(epsilon)
            case _:
                half = down((delta - math.fsum(deltas)) / 2)
                if half < _SMALLEST_DELTA:
                    return math.inf
                epsilons.append(Guarantee((event,), half).epsilon())
                deltas.append(half)
    return _sum(epsilons) if math.fsum(deltas) <= delta * (1 + ROUNDING) else math.inf


def _sum(terms: Iterable[float]) -> float:
    """Rounded up; nothing added up is nothing."""
    try:
        added = math.fsum(terms)
    except OverflowError:
        return math.inf
    return up(added) if added else 0.0
