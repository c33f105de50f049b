"""How wrong a private count can be, known before any data is collected.

N users report to T rounds, each in g rounds of their own drawn uniformly, so a round has a
Binomial(N, g/T) number of reports. Every bound here is simultaneous: with probability at least
1 − β, for all T rounds at once, |estimate − share| is below it, where the estimate is
½ + (ȳ − ½)/c, not clipped to [0, 1]. Upper bounds are rounded up and the lower one down.

A round may get so few reports that nothing can be promised. When N is too small for T and β the
bounds are `math.inf`, never a number that looks like a promise; values above 1 say no more.

    K  reporters_exponent: E e^(−K·reports) ≤ β/(tails·T)
    c  attenuation of the mask law; for randomised response (e^ε − 1)/(e^ε + 1)

`error_bound` is the one to use. `dense_condition` and `flip_error_bound` are for one slot: where
hearing only some users costs no more than flips do. They follow Ono, Fukuchi, Akimoto and Sakuma
("Utility analysis of 1-shot reporting mechanisms in locally private continual counting", in
Japanese), put right, and take ε for answers flipped with probability 1/(1+e^ε).
"""

import math
import sys
from fractions import Fraction

from sudare.foundations import checks
from sudare.foundations.masks import MaskLaw
from sudare.foundations.rounding import down, up

__all__ = [
    "dense_condition",
    "error_bound",
    "flip_error_bound",
    "reporters_exponent",
]


def reporters_exponent(
    users: int, rounds: int, beta: float, *, slots: int = 1, tails: int = 2
) -> float:
    """The K for which a failure probability of e^(−K·reports) is affordable, rounded up.

    K = −log(1 − T/(gN)·log(tails·T/β)). With a Binomial(N, g/T) number of reports, E e^(−K·reports)
    ≤ β/(tails·T), so that `tails` failure events in each of T rounds have probability β together; a
    round without reports counts as a failure. Infinite when T·log(tails·T/β) ≥ gN.
    """
    checks.count(users=users, rounds=rounds, slots=slots, tails=tails)
    checks.proportion(beta=beta)
    if slots > rounds:
        raise checks.InvalidInput(f"Expected slots={slots} <= rounds={rounds}")
    shortfall = up(rounds / (slots * users) * (math.log(tails * rounds) - math.log(beta)))
    return up(-math.log1p(-shortfall)) if shortfall < 1 else math.inf


def error_bound(
    law: MaskLaw, users: int, rounds: int, beta: float, share: float | None = None
) -> float:
    """The error that no round exceeds with probability 1 − β; for any shares, or for a given one.

    Given how many report in a round, the ones among them are distributed as a sum of independent
    bits, also when reporters are drawn without replacement (Vatutin and Mikhailov 1982). The bits'
    mean is π = ½ + c(share − ½) on average, so the tails of the sum are at most
    exp(−reports·D(π ± x‖π)) (Hoeffding 1956, 1963). With K = reporters_exponent(…, tails=2) the
    bound is √(K/2)/c whatever the shares are. For a given share it is x/c with min D(π ± x‖π) = K:
    never larger, and much smaller near 0 and 1.
    """
    exponent = reporters_exponent(users, rounds, beta, slots=law.slots)
    c = law.exact_attenuation
    if share is not None:
        checks.share(share=share)
    if exponent == math.inf or c == 0:
        return math.inf
    if share is None:
        return up(math.sqrt(exponent / 2) / float(c))
    lean = c * (Fraction(float(share)) - Fraction(1, 2))
    one, zero = float(Fraction(1, 2) + lean), float(Fraction(1, 2) - lean)
    deviation = max(_deviation(one, zero, exponent), _deviation(zero, one, exponent))
    return up(deviation / float(c))


def flip_error_bound(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """θ₀: what flipping alone adds, with probability 1 − β/2, in all rounds.

    The root of ((e^ε−1)²θ²/(2e^ε))/(1 + (e^ε−1)θ/3) = K with tails=4 (Bernstein's inequality). It
    falls to 2K/3 as ε → ∞, not to 0.
    """
    checks.positive(epsilon=epsilon)
    k = reporters_exponent(users, rounds, beta, tails=4)
    # Numerator and denominator of [e^εK/3 + √((e^εK/3)² + 2e^εK)]/(e^ε − 1) divided by e^ε.
    return up((k / 3 + math.sqrt(k * k / 9 + 2 * k * math.exp(-epsilon))) / -math.expm1(-epsilon))


def dense_condition(share: float, epsilon: float, users: int, rounds: int, beta: float) -> bool:
    """Whether sampling adds no more than flipping: min D(share ± θ₀‖share) ≥ K.

    Then the whole error is at most 2θ₀, for all rounds and with probability 1 − β; true where
    nearly all bits agree. Condition (2) of Ono et al. with the root θ₀ in place of its double. True
    is only answered when rounding cannot matter.
    """
    checks.share(share=share)
    theta = flip_error_bound(epsilon, users, rounds, beta)
    exponent = reporters_exponent(users, rounds, beta, tails=4)
    return exponent < math.inf and _divergence(share, theta) >= exponent


def _divergence(share: float, theta: float) -> float:
    """min D(share ± θ‖share) between Bernoulli laws, rounded down; infinite outside [0, 1]."""
    return min(
        _bernoulli_divergence(share, 1 - share, theta),
        _bernoulli_divergence(1 - share, share, theta),
    )


def _bernoulli_divergence(one: float, zero: float, x: float) -> float:
    """D(one + x‖one) for one + zero = 1 and x > 0, rounded down; infinite if one + x > 1."""
    if x > zero or one == 0:
        return math.inf
    return down(_entropy(one, x) + _entropy(zero, -x))


def _entropy(y: float, x: float) -> float:
    """(y+x)·log((y+x)/y) − x ≥ 0 for x ≥ −y, to full relative precision however small x is."""
    t = min(x / y, sys.float_info.max)
    if abs(t) < 0.1:
        series = 0.0
        for k in range(18, 1, -1):
            series = 1 / (k * (k - 1)) - t * series
        return x * t * series
    return (y + x) * math.log1p(t) - x if t > -1 else y


def _deviation(one: float, zero: float, exponent: float) -> float:
    """The x at which D(one + x‖one) reaches the exponent, from above; at most `zero`."""
    low, high = 0.0, zero
    while low < (x := (low + high) / 2) < high:
        if _bernoulli_divergence(one, zero, x) < exponent:
            low = x
        else:
            high = x
    return high
