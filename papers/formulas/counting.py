"""Errors of continual counting as Ono et al. analyse them: put right, and as printed.

N users report to T rounds, each in one round drawn uniformly. With probability at least 1 − β the
error |estimate − share| is below a bound in all T rounds. `sudare.calibration.error_bound` is the
one to use; here is the two-term analysis of Glance (Ono, Fukuchi, Akimoto and Sakuma, "Utility
analysis of 1-shot reporting mechanisms in locally private continual counting", in Japanese), as it
can be proved, and what is said there of Harmony. The functions named `paper_…` are what is printed.
They take ε for answers flipped with probability 1/(1+e^ε), K from `reporters_exponent` and θ₀ from
`flip_error_bound`. Upper bounds are rounded up and the lower one down; where N is too small for T
and β they are `math.inf`.

Functions named `…_rate` are the paper's Corollaries: how an error grows, up to a constant factor,
as T grows, N faster than T·log(T/β), and ε tends to 0 or ∞. They are for comparing settings; a rate
promises nothing by itself.
"""

import math
from fractions import Fraction

from scipy.special import rel_entr

from sudare.calibration import flip_error_bound, reporters_exponent
from sudare.foundations import checks
from sudare.foundations.rounding import down, up

__all__ = [
    "dense_error_bound",
    "dense_error_rate",
    "error_rate",
    "harmony_error_quantile",
    "harmony_error_quantile_rate",
    "paper_dense_condition",
    "paper_dense_error_bound",
    "paper_dense_error_rate",
    "paper_flip_error_bound",
    "paper_harmony_error_quantile",
    "paper_total_error_bound",
    "sampling_error_bound",
    "split_error_bound",
]


def sampling_error_bound(users: int, rounds: int, beta: float) -> float:
    """√(K/2): what hearing only some users adds, with probability 1 − β/2, in all rounds.

    Hoeffding (1963) for drawing without replacement; Claim 2 of Ono et al., which is right.
    """
    return up(math.sqrt(reporters_exponent(users, rounds, beta, tails=4) / 2))


def split_error_bound(epsilon: float, users: int, rounds: int, beta: float) -> float:
    """θ₀ + √(K/2): the two-term bound for any shares. `error_bound` is smaller."""
    flips = flip_error_bound(epsilon, users, rounds, beta)
    return up(flips + sampling_error_bound(users, rounds, beta))


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
    """min D(share ± θ‖share) between Bernoulli laws; infinite outside [0, 1]."""
    return min(
        float(rel_entr(moved, share) + rel_entr(1 - moved, 1 - share))
        for moved in (share - theta, share + theta)
    )
