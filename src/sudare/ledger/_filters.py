"""What a data set's entries cost when each price may be chosen after seeing earlier releases.

`privacy.account` composes events whose prices were fixed beforehand. Whoever looks at one release
before asking for the next can do worse than that, so a ledger that accepts requests one by one
needs *filters*: conditions on the prices so far which, kept on every path, bound the whole.
`enforced` is the number that the ledger compares with its cap (E, D).

Entries are charged in their order. The *head* is all plain (ε, δ) entries and the first sixteen
pure ones, up to the first that is neither: its ε and δ are added up and taken off the cap. From
there on, in the *tail*, with (E, D) what is left, an entry by itself costs what it costs at D; for
several, some filter must hold:

    added up  Σε, where curves enter with their own ε at a fixed part of            D/2
    gaussian  Σμ², on the Gaussian curve at                                         D/8
    renyi     Σ of Rényi divergences at one of two orders, fixed by the cap, at     D/16 each

and, whichever it is, plain δ's and the failures of nearly Gaussian entries keep to   D/4.

What one cap accepts, every larger one does. Statements and proofs: docs/theory/filters.md. Every
number is rounded up.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, assert_never

from scipy.special import erfinv, ndtr, ndtri

from sudare.foundations.curves import concentrated_epsilon, gaussian_epsilon
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
_PURE_IN_HEAD = 16
_ADDED_SHARE, _GAUSSIAN_SHARE, _RENYI_SHARE, _LOST_SHARE = 1 / 2, 1 / 8, 1 / 16, 1 / 4
"""Of the tail's δ; there are two Rényi orders, so that all is 1."""
_ORDERS_FOR = (1.0, 1 / 3)
"""Rényi orders are the best for these parts of E: the rest is for what is added to a curve."""
_NEXT_CURVE = 1 / 4
"""Added up, each curve leaves this part of δ to those after it."""
_SMALLEST_DELTA = 2.0**-1000
_SMALLEST, _LARGEST = 1e-9, 1e12
"""Orders are those of an ε between these."""
_NEVER = math.inf


class Cost(NamedTuple):
    """What entries cost, and by which rule: "alone", "sum", "gaussian", "renyi" or "added up"."""

    epsilon: float
    rule: str


class Price(NamedTuple):
    """One event as the filters see it; infinite where a filter has no place for it."""

    delta: float
    """Outside an event of this probability …"""
    epsilon: float
    """… it is ε-DP,"""
    mu: float
    """μ-GDP,"""
    rho: float
    """and ρ-zCDP."""


def enforced(events: Sequence[Event], epsilon: float, delta: float) -> Cost:
    """The ε that these entries, in this order, cost under the cap (epsilon, delta).

    They fit while it is at most `epsilon`: whoever spends by that rule, choosing every price after
    seeing what was released before, stays (epsilon, delta)-DP. It never falls when one is added.
    """
    together = Guarantee(tuple(events), delta)  # refuses what does not add up
    head = [price(event) for event in events[: _head(events)]]
    spent, lost = _sum(each.epsilon for each in head), math.fsum(each.delta for each in head)
    if lost > delta * (1 + ROUNDING):
        return Cost(_NEVER, "added up")
    if len(head) == len(events):
        if len(events) <= 1:
            return Cost(together.epsilon() if events else 0.0, "alone")
        return Cost(spent, "added up" if lost else "sum")
    left = max(0.0, down(delta - lost)) if lost else delta
    tail = _tail(events[len(head) :], max(0.0, epsilon - spent), left)
    if not head:
        return tail
    return Cost(_sum([spent, tail.epsilon]), "added up" if tail.rule == "alone" else tail.rule)


def price(event: Event) -> Price:
    """What the filters charge for an event."""
    match event:
        case PureEvent(epsilon=epsilon) | LocalEvent(epsilon=epsilon):
            return Price(0.0, epsilon, pure_mu(epsilon), up(epsilon * epsilon / 2))
        case ApproximateEvent(epsilon=epsilon, delta=delta):
            return Price(delta, epsilon, pure_mu(epsilon), up(epsilon * epsilon / 2))
        case GaussianEvent(mu=mu):
            return Price(0.0, _NEVER, mu, up(mu * mu / 2))
        case ConcentratedEvent(rho=rho):
            return Price(0.0, _NEVER, _NEVER, rho)
        case NearGaussianEvent(mu=mu, log_ratio=log_ratio, failure=failure):
            near = near_mu(mu, log_ratio)
            lost = lost_mass(near, failure, log_ratio)
            return Price(lost, _NEVER, near, up(near * near / 2))
        case _:
            assert_never(event)


def pure_mu(epsilon: float) -> float:
    """The μ for which every ε-DP mechanism is μ-GDP: 2Φ⁻¹(e^ε/(1 + e^ε)), rounded up."""
    if epsilon < 1:  # where Φ⁻¹ near ½ would cancel
        return up(2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2))), 2.0**-40)
    return up(-2 * float(ndtri(math.exp(-epsilon - math.log1p(math.exp(-epsilon))))), 2.0**-40)


def near_mu(mu: float, log_ratio: float) -> float:
    """Laws within factors e^±log_ratio of a μ-GDP mechanism's are GDP with this μ.

    Twice `log_ratio`, for events whose failure comes before the factors and not after them.
    """
    return up(mu + 2 * pure_mu(2 * log_ratio)) if log_ratio else mu


def lost_mass(mu: float, failure: float, log_ratio: float = 0.0) -> float:
    """What a law must lose so that μ-GDP holds, if both laws are so only up to `failure`.

    The failure of the one, and what the other's can be under the first: Φ(Φ⁻¹(failure) + μ).
    """
    if not failure:
        return 0.0
    failure = max(1e-300, failure * math.exp(min(log_ratio, 700.0)))
    if failure >= 0.5:
        return 1.0
    return up(failure + float(ndtr(ndtri(failure) + mu)), 2.0**-30)


@lru_cache(maxsize=256)
def renyi_excess(epsilon: float, delta: float) -> float:
    """α − 1 for the Rényi order at which a zCDP mechanism calibrated to (ε, δ) is converted best.

    There log(1/δ) = log α + (ε + log(α/(α − 1)))(α − 1)²/(2α − 1), which rises in α. Any order is
    valid as long as the cap alone decides which.
    """
    low, high = -30.0, 45.0  # logarithms, for every ε between _SMALLEST and _LARGEST
    for _ in range(60):
        middle = (low + high) / 2
        excess = math.exp(middle)
        rest = (epsilon + math.log1p(1 / excess)) * excess * (excess / (2 * excess + 1))
        if math.log1p(excess) + rest < -math.log(delta):
            low = middle
        else:
            high = middle
    return math.exp(high)


def renyi_epsilon(divergence: float, excess: float, delta: float) -> float:
    """The ε that a Rényi divergence of order 1 + excess gives at δ (Canonne et al. 2020)."""
    terms = (-math.log(delta) / excess, math.log(excess))
    rest = (1 + 1 / excess) * math.log1p(excess)
    size = sum(map(abs, terms)) + rest
    return max(0.0, up(divergence + sum(terms) - rest, 2.0**-45) + size * 2.0**-45)


def _head(events: Sequence[Event]) -> int:
    """How many entries are simply added up."""
    pure = 0
    for number, event in enumerate(events):
        pure += isinstance(event, PureEvent | LocalEvent)
        if pure > _PURE_IN_HEAD or price(event).epsilon == _NEVER:
            return number
    return len(events)


def _tail(events: Sequence[Event], epsilon: float, delta: float) -> Cost:
    """What entries cost whose first is given: nothing was seen that is not paid for."""
    prices = [price(event) for event in events]
    costs = [Cost(_NEVER, "added up")]
    if len(events) == 1:
        costs.append(Cost(Guarantee(tuple(events), delta).epsilon(), "alone"))
    # Whatever the filter, these are lost once.
    if math.fsum(each.delta for each in prices) <= delta * _LOST_SHARE * (1 + ROUNDING):
        plain = all(each.epsilon < _NEVER for each in prices)
        costs.append(Cost(_added_up(prices, delta), "sum" if plain else "added up"))
        if delta * _RENYI_SHARE > _SMALLEST_DELTA:
            costs.append(Cost(_gaussian(prices, delta * _GAUSSIAN_SHARE), "gaussian"))
            costs.append(Cost(_renyi(prices, epsilon, delta * _RENYI_SHARE), "renyi"))
    return min(costs)


def _added_up(prices: Sequence[Price], delta: float) -> float:
    """Σε; the first curve takes ¾ of its share of δ, the next ¾ of the rest, …"""
    left, epsilons = delta * _ADDED_SHARE, []
    for each in prices:
        if each.epsilon < _NEVER:
            epsilons.append(each.epsilon)
            continue
        if left * _NEXT_CURVE < _SMALLEST_DELTA:
            return _NEVER
        epsilons.append(_curve_epsilon(each.mu, each.rho, left * (1 - _NEXT_CURVE)))
        left *= _NEXT_CURVE
    return _sum(epsilons)


def _gaussian(prices: Sequence[Price], delta: float) -> float:
    squares = _sum(up(each.mu * each.mu) for each in prices)
    return _curve_epsilon(up(math.sqrt(squares)), _NEVER, delta)


def _renyi(prices: Sequence[Price], epsilon: float, delta: float) -> float:
    found = []
    for part in _ORDERS_FOR:
        excess = renyi_excess(min(max(epsilon * part, _SMALLEST), _LARGEST), delta)
        divergence = _sum(min(each.epsilon, up((1 + excess) * each.rho)) for each in prices)
        found.append(renyi_epsilon(divergence, excess, delta))
    return min(found)


@lru_cache(maxsize=4096)
def _curve_epsilon(mu: float, rho: float, delta: float) -> float:
    """On the Gaussian curve where there is one."""
    if mu < _NEVER:
        return gaussian_epsilon(mu, delta)
    return concentrated_epsilon(rho, delta) if rho < _NEVER else _NEVER


def _sum(terms: Iterable[float]) -> float:
    """Rounded up; nothing added up is nothing, and one number is itself."""
    several = tuple(terms)
    try:
        added = math.fsum(several)
    except OverflowError:
        return _NEVER
    return up(added) if len(several) > 1 and added else added
