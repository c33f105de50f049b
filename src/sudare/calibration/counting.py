"""How wrong a private count can be, known before any data is collected.

N users report to T rounds, each in g rounds of their own drawn uniformly, so a round has a
Binomial(N, g/T) number of reports. Every bound here is simultaneous: with probability at least
1 − β, for all T rounds at once, |estimate − share| is below it, where the estimate is
½ + (ȳ − ½)/c, not clipped to [0, 1]. Upper bounds are rounded up and the lower one down.

A round may get so few reports that nothing can be promised. When N is too small for T and β the
bounds are `math.inf`, never a number that looks like a promise; values above 1 say no more.

    K  reporters_exponent: E e^(−K·reports) ≤ β/(tails·T)
    c  attenuation of the mask law; for randomised response (e^ε − 1)/(e^ε + 1)

`error_bound` is the one to use. The others are the two-term analysis of Glance (Ono, Fukuchi,
Akimoto and Sakuma, "Utility analysis of 1-shot reporting mechanisms in locally private continual
counting", in Japanese), for one slot, as it can be proved; the functions named `paper_…` are what
is printed there, kept to compare with. They take ε for answers flipped with probability 1/(1+e^ε).

Functions named `…_rate` are the paper's Corollaries: how an error grows, up to a constant factor,
as T grows, N faster than T·log(T/β), and ε tends to 0 or ∞. They are for comparing settings; a rate
promises nothing by itself.
"""

import math
import sys
from fractions import Fraction

from sudare import checks
from sudare.calibration.masks import MaskLaw
from sudare.rounding import down, up

__all__ = [
    "dense_condition",
    "dense_error_bound",
    "dense_error_rate",
    "error_bound",
    "error_rate",
    "flip_error_bound",
    "harmony_error_quantile",
    "harmony_error_quantile_rate",
    "paper_dense_condition",
    "paper_dense_error_bound",
    "paper_dense_error_rate",
    "paper_flip_error_bound",
    "paper_harmony_error_quantile",
    "paper_total_error_bound",
    "reporters_exponent",
    "sampling_error_bound",
    "split_error_bound",
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


def sampling_error_bound(users: int, rounds: int, beta: float) -> float:
    """√(K/2): what hearing only some users adds, with probability 1 − β/2, in all rounds.

    Hoeffding (1963) for drawing without replacement; Claim 2 of Ono et al., which is right.
    """
    return up(math.sqrt(reporters_exponent(users, rounds, beta, tails=4) / 2))


def split_error_bound(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """θ₀ + √(K/2): the two-term bound for any shares. `error_bound` is smaller."""
    flips = flip_error_bound(epsilon, users, rounds, beta)
    return up(flips + sampling_error_bound(users, rounds, beta))


def dense_condition(share: float, epsilon: float, users: int, rounds: int, beta: float) -> bool:
    """Whether sampling adds no more than flipping: min D(share ± θ₀‖share) ≥ K.

    Sufficient for `dense_error_bound`; true where nearly all bits agree. Condition (2) of Ono et
    al. with the root θ₀ in place of its double. True is only answered when rounding cannot matter.
    """
    checks.share(share=share)
    theta = flip_error_bound(epsilon, users, rounds, beta)
    exponent = reporters_exponent(users, rounds, beta, tails=4)
    return exponent < math.inf and _divergence(share, theta) >= exponent


def dense_error_bound(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """2θ₀, a bound on the whole error for shares that meet `dense_condition`.

    Theorem 5 of Ono et al. with the root and for |estimate − share|, which it must bound.
    """
    return 2 * flip_error_bound(epsilon, users, rounds, beta)


def harmony_error_quantile(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """An error that Harmony reaches with probability at least β when all shares are 1.

    Harmony (Nguyên et al. 2016, in the 0/1 form of Ono et al.) sends a zero where Glance is silent,
    so the ones Y of a round are Binomial(N, r), r = p/T. For β < 1/(N+1)² every count k with
    N·χ²(k/N, r) ≤ log(1/((N+1)²β)) has P(Y = k) ≥ β (method of types, and KL ≤ χ²): the farthest
    such count gives a lower bound on the (1 − β)-quantile of the error. Rounded down.
    """
    log_ratio = _harmony_log_ratio(epsilon, users, rounds, beta)
    p, variance, gap = _harmony_moments(epsilon, users, rounds)
    mean, spread = users * (p / rounds), down(users / rounds * math.sqrt(variance * log_ratio))
    above = min(users, math.floor(down(mean) + spread)) - up(mean)
    below = down(mean) - max(0, math.ceil(up(mean) - spread))
    return max(0.0, down(rounds / users * max(above, below) / gap))


def paper_flip_error_bound(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """Equation (1) of Ono et al.: exactly 2θ₀, a valid bound of twice the needed size."""
    checks.positive(epsilon=epsilon)
    k = reporters_exponent(users, rounds, beta, tails=4)
    a, tail = 2 * k / 9, math.exp(-epsilon)  # the printed terms, divided by e^ε
    return up((2 * k / 3 + 3 * math.sqrt(a * a + 4 * a * tail)) / -math.expm1(-epsilon))


def paper_total_error_bound(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """The sum of both Claims of Ono et al.: 2θ₀ + √(K/2). Valid and loose."""
    flips = paper_flip_error_bound(epsilon, users, rounds, beta)
    return up(flips + sampling_error_bound(users, rounds, beta))


def paper_dense_error_bound(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """Theorem 5 of Ono et al. as printed, twice equation (1): 4θ₀. Valid and loose."""
    return 2 * paper_flip_error_bound(epsilon, users, rounds, beta)


def paper_harmony_error_quantile(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """The expression in Theorem 4 of Ono et al., for β < 1/(N+1)².

    They state that Harmony exceeds it with probability 1 − β, which is false. It need not even do
    so with probability β: the value can lie above every possible error or, with T = 1 and a large
    ε, beyond the only likely count. `harmony_error_quantile` is what is proved. Not rounded.
    """
    log_ratio = _harmony_log_ratio(epsilon, users, rounds, beta)
    _, variance, gap = _harmony_moments(epsilon, users, rounds)
    return math.sqrt(variance * log_ratio) / gap


def paper_dense_condition(
    share: float, epsilon: float, users: int, rounds: int, beta: float
) -> bool:
    """Condition (2) of Ono et al. as printed, at twice the root θ₀."""
    checks.share(share=share)
    theta = paper_flip_error_bound(epsilon, users, rounds, beta)
    if theta == math.inf:
        return False
    # (e^ε−1)²θ²/(2e^ε) / (1 + (e^ε−1)θ/3), divided by e^ε
    tail, scaled = math.exp(-epsilon), -math.expm1(-epsilon) * theta
    return _divergence(share, theta) >= scaled * scaled / 2 / (tail + scaled / 3)


def error_rate(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """Corollaries 1 and 3 of Ono et al.: √(T·log(T/β)/N), divided by tanh(ε/2).

    With probability 1 − β the largest error of Harmony, and of Glance, grows no faster: like 1/ε as
    ε → 0, not at all with ε as ε → ∞. Right as printed, there as the two limits: tanh(ε/2) is
    about ε/2 and about 1. `error_bound` for any share is between 0.7 and 1.2 times this if β ≤ ½
    and N ≥ 2T·log(2T/β).
    """
    return math.sqrt(_load(epsilon, users, rounds, beta)) / math.tanh(epsilon / 2)


def harmony_error_quantile_rate(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """Corollaries 2 and 4 of Ono et al., for β < 1/(N+1)²: √(T/N·log(1/((N+1)²β)))/tanh(ε/2).

    For some data, Harmony's error exceeds a multiple of this with probability at least β. They
    print 1 − β, which is false, as in Theorem 4. It does not fall to 0 as ε → ∞; a condition on
    the shares (Corollary 4) changes nothing. `harmony_error_quantile` is the number behind it.
    """
    log_ratio = _harmony_log_ratio(epsilon, users, rounds, beta)
    return math.sqrt(rounds / users * log_ratio) / math.tanh(epsilon / 2)


def dense_error_rate(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """Corollary 5 of Ono et al., put right: (√(x·e^ε) + x·e^ε)/(e^ε − 1) with x = T·log(T/β)/N.

    With probability 1 − β Glance's largest error grows no faster while all shares meet
    `dense_condition`. The second term is missing in print: as ε → ∞ with N and T fixed the bound
    falls to a multiple of x, not to 0. It is |estimate − share| that is bounded.
    """
    x = _load(epsilon, users, rounds, beta)
    shrinking = paper_dense_error_rate(epsilon, users, rounds, beta)
    return shrinking + x / -math.expm1(-epsilon)


def paper_dense_error_rate(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """Corollary 5 of Ono et al. as their table 1 sums it up: √(x·e^ε)/(e^ε − 1), x = T·log(T/β)/N.

    Like 1/ε as ε → 0 and like e^(−ε/2) as ε → ∞. The latter holds only while e^ε is small against
    1/x; see `dense_error_rate`.
    """
    x = _load(epsilon, users, rounds, beta)
    return math.sqrt(x * math.exp(-epsilon)) / -math.expm1(-epsilon)


def _load(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """x = T·log(T/β)/N."""
    checks.positive(epsilon=epsilon)
    checks.count(users=users, rounds=rounds)
    checks.proportion(beta=beta)
    return rounds / users * (math.log(rounds) - math.log(beta))


def _harmony_log_ratio(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """log(1/((N+1)²β)), rounded down; it must be positive."""
    checks.positive(epsilon=epsilon)
    checks.count(users=users, rounds=rounds)
    checks.proportion(beta=beta)
    excess = 1 / ((int(users) + 1) ** 2 * Fraction(float(beta))) - 1
    if excess <= 0:
        raise checks.InvalidInput(f"Expected beta={beta} < 1/(users + 1)**2")
    if excess < 1:
        return down(math.log1p(excess))
    return down(-math.log(beta) - 2 * math.log(users + 1), 2.0**-40)


def _harmony_moments(epsilon: float, users: int, rounds: int) -> tuple[float, float, float]:
    """p, the variance (T/N)·p·(1 − p/T) of T·Y/N when all bits are one, and p − q."""
    tail = math.exp(-epsilon)
    p, q = 1 / (1 + tail), tail / (1 + tail)
    return p, p * (rounds - 1 + q) / users, -math.expm1(-epsilon) / (1 + tail)


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
