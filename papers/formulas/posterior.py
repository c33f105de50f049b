"""Gibbs posteriors after Minami (2015): his tail guarantee, and his formulas as printed.

With the public numbers of `sudare.calibration` (S, m_π, m_ℓ, n) everything follows from
D = (βS)²/(2m), m = m_π + n·β·m_ℓ: KL ≤ D and P(log-ratio > ε) ≤ exp(−(ε−D)²/(4D)) for ε > D (his
Theorem 8; his Theorem 9 holds in the same form, without its unnamed constant and without a bounded
set). `tail_inverse_temperature` uses it: valid, and never larger than `inverse_temperature`, which
uses the Gaussian guarantee. Temperatures and budgets are rounded down, divergences and
probabilities up.

Functions named `paper_…` are what is printed. None of them is fit for a release, and none is
rounded to the safe side. Those that are not true everywhere give a `PrivacyWarning` where they are
not, or where nothing proves them. Equations are numbered as in the paper; l = log(1/δ).

    Theorem 2, Theorem 3     true; `bounded` asks for less
    Theorem 9                true, but its constant C has no value: `posterior_divergence`
    Corollary 10(i)          false for ε > 3.105: dropped
    Corollary 10(ii)         false for large ε: `inverse_temperature`
    equation 27 (logistic)   forgets the intercept in the Lipschitz constant
    equation 32 (normal)     wrong sign: `normal_mean_inverse_temperature`
"""

import math
import warnings

from scipy.special import erfcx

from sudare.calibration import (
    gaussian_inverse_temperature,
    gaussian_mu,
    inverse_temperature,
    posterior_mu,
)
from sudare.foundations import checks
from sudare.foundations.rounding import down, up

__all__ = [
    "PrivacyWarning",
    "deviation_tail",
    "paper_bounded_likelihood_epsilon",
    "paper_corollary10_delta",
    "paper_corollary10_inverse_temperature",
    "paper_corollary10_limit",
    "paper_corollary10_true_delta",
    "paper_exponential_inverse_temperature",
    "paper_lipschitz_likelihood_epsilon",
    "paper_logistic_inverse_temperature",
    "paper_normal_mean_discriminant",
    "paper_normal_mean_inverse_temperature",
    "paper_theorem9_divergence",
    "posterior_divergence",
    "posterior_tail",
    "tail_budget",
    "tail_inverse_temperature",
]


class PrivacyWarning(UserWarning):
    """A printed formula was asked for a number that does not keep the promise printed with it."""


def tail_inverse_temperature(
    epsilon: float,
    delta: float,
    *,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float = 0.0,
    n: int | None = None,
) -> float:
    """The largest β that Minami's tail bound (2015, Theorem 8) proves (ε, δ)-DP.

    It satisfies exp(−(ε−D)²/(4D)) ≤ δ, which bounds the probability that the log-ratio exceeds ε
    and is therefore stronger than (ε, δ)-DP. `inverse_temperature` is larger for the same promise.
    """
    return gaussian_inverse_temperature(
        math.sqrt(2) * _root_budget(epsilon, delta),
        gradient_diameter=gradient_diameter,
        prior_curvature=prior_curvature,
        loss_curvature=loss_curvature,
        n=n,
    )


def tail_budget(epsilon: float, delta: float) -> float:
    """The largest D with exp(−(ε−D)²/(4D)) ≤ δ and D < ε, rounded down.

    Minami (2015, equation 31): u = ε + 2l − √((ε+2l)² − ε²) with l = log(1/δ). Evaluated as
    (ε/(√l + √(l+ε)))², which is the same number and loses no digits when ε is small beside l.
    """
    return max(0.0, down(_root_budget(epsilon, delta) ** 2))


def posterior_divergence(
    inverse_temperature: float,
    *,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float = 0.0,
    n: int | None = None,
) -> float:
    """D = (βS)²/(2m), which bounds KL(P ‖ Q) for neighbouring posteriors P and Q, rounded up.

    Minami (2015, equation 16) with S = 2L, and equation 20 (Theorem 9) without its constant
    C·(1 + log(α²/(α²−1))) and without the bounded set that brought it in: a strongly log-concave
    law keeps its logarithmic Sobolev constant 1/m on every convex set. A normal mean attains it.
    """
    mu = posterior_mu(
        inverse_temperature,
        gradient_diameter=gradient_diameter,
        prior_curvature=prior_curvature,
        loss_curvature=loss_curvature,
        n=n,
    )
    return up(mu * mu / 2)


def posterior_tail(
    epsilon: float,
    inverse_temperature: float,
    *,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float = 0.0,
    n: int | None = None,
) -> float:
    """A bound on the probability under P that log(dP/dQ) > ε, hence a δ for this ε, rounded up.

    exp(−(ε−D)²/(4D)) for ε > D and 1 otherwise (Minami 2015, equation 17; equation 21 with D as in
    `posterior_divergence`). The Gaussian curve at `posterior_mu` is a smaller δ for the same ε.
    """
    checks.positive(epsilon=epsilon)
    divergence = posterior_divergence(
        inverse_temperature,
        gradient_diameter=gradient_diameter,
        prior_curvature=prior_curvature,
        loss_curvature=loss_curvature,
        n=n,
    )
    return _sub_gaussian(epsilon - divergence, divergence) if divergence < epsilon else 1.0


def deviation_tail(
    deviation: float,
    inverse_temperature: float,
    *,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float = 0.0,
    n: int | None = None,
) -> float:
    """A bound on the probability under P that log(dP/dQ) > KL(P ‖ Q) + t, rounded up.

    exp(−t²/(4D)) for the deviation t (Minami 2015, equation 15; equation 19 without its constant).
    """
    checks.positive(deviation=deviation)
    divergence = posterior_divergence(
        inverse_temperature,
        gradient_diameter=gradient_diameter,
        prior_curvature=prior_curvature,
        loss_curvature=loss_curvature,
        n=n,
    )
    return _sub_gaussian(deviation, divergence)


def paper_exponential_inverse_temperature(epsilon: float, *, sensitivity: float) -> float:
    """β = ε/(2Δ), Theorem 2: true. `exponential_inverse_temperature` is never smaller."""
    checks.positive(epsilon=epsilon, sensitivity=sensitivity)
    return epsilon / (2 * sensitivity)


def paper_bounded_likelihood_epsilon(inverse_temperature: float, *, bound: float) -> float:
    """ε = 4βB for |log p| ≤ B, Theorem 3(i): true. Only the spread of log p matters, not its size.

    Probabilities in [0.1, 0.9] have B = 2.30 and a spread of 2.20: 2·β·2.20 suffices.
    """
    checks.positive(inverse_temperature=inverse_temperature)
    checks.non_negative(bound=bound)
    return 4 * inverse_temperature * bound


def paper_lipschitz_likelihood_epsilon(
    inverse_temperature: float, *, lipschitz: float, radius: float
) -> float:
    """ε = 4βLR for tables within a diameter of 2R, Theorem 3(ii): true.

    Neighbours are nearer to each other than any two tables: see `lipschitz_difference_range`.
    """
    checks.positive(inverse_temperature=inverse_temperature)
    checks.non_negative(lipschitz=lipschitz, radius=radius)
    return 4 * inverse_temperature * lipschitz * radius


def paper_theorem9_divergence(
    inverse_temperature: float,
    *,
    lipschitz: float,
    prior_curvature: float,
    loss_curvature: float,
    n: int,
    alpha: float,
    constant: float,
) -> float:
    """D₊ of equation 20: 2L²C(1 + log(α²/(α²−1)))β²/(n·m_ℓ·β + m_π).

    The set is a ball whose radius grows with α > 1, and L with it. C is said to be universal and
    has no value in print, so that the theorem yields no number. `posterior_divergence` is the same
    without C and without the logarithm, on any convex set, and at most this for every C ≥ 1.
    """
    checks.positive(inverse_temperature=inverse_temperature, lipschitz=lipschitz)
    checks.positive(prior_curvature=prior_curvature, loss_curvature=loss_curvature)
    checks.positive(constant=constant)
    checks.count(n=n)
    checks.real(alpha=alpha)
    if not alpha > 1:
        raise checks.InvalidInput(f"Expected alpha={alpha} > 1")
    widening = constant * (1 - math.log1p(-1 / alpha**2))
    curvature = n * loss_curvature * inverse_temperature + prior_curvature
    return 2 * widening * (lipschitz * inverse_temperature) ** 2 / curvature


def paper_corollary10_inverse_temperature(
    epsilon: float, delta: float, *, lipschitz: float, prior_curvature: float
) -> float:
    """β = (ε/2L)·√(m_π/(1 + 2l)), Corollary 10(ii), equation 23.

    Theorem 8 implies it only for ε up to `paper_corollary10_limit(delta)`, just above 1. Beyond
    that it remains true for a while, because the Gaussian guarantee covers it, and then becomes
    false: at δ = 1e-5 from ε = 8.99 on, where a Gaussian location pair, the limit of admissible
    losses, exceeds δ. From there on it warns.
    """
    checks.positive(epsilon=epsilon, lipschitz=lipschitz, prior_curvature=prior_curvature)
    checks.proportion(delta=delta)
    root = math.sqrt(1 - 2 * math.log(delta))
    if epsilon / root > gaussian_mu(epsilon, delta):
        _warn(f"Corollary 10(ii) is false at ε = {epsilon:g} and δ = {delta:g}")
    return epsilon / (2 * lipschitz) * math.sqrt(prior_curvature) / root


def paper_corollary10_limit(delta: float) -> float:
    """The largest ε for which Theorem 8 implies Corollary 10(ii).

    2[(1+2l) − √(2l(1+2l))] in a form without cancellation: between 1 and 2, and close to 1 for
    every δ in use. Rounded down.
    """
    checks.proportion(delta=delta)
    twice = -2 * math.log(delta)
    return down(2 / (1 + math.sqrt(twice / (1 + twice))))


def paper_corollary10_delta(epsilon: float) -> float:
    """The δ that Corollary 10(i) claims for every β with D < ε: e^(−(1+ε)/4).

    False for ε > 3.105, where `paper_corollary10_true_delta` is larger, and it warns. Below that it
    is true only as a consequence of the Gaussian guarantee; as D → ε Theorem 8 says nothing.
    """
    checks.positive(epsilon=epsilon)
    claimed = math.exp(-(1 + epsilon) / 4)
    if claimed < paper_corollary10_true_delta(epsilon):
        _warn(f"Corollary 10(i) is false at ε = {epsilon:g}")
    return claimed


def paper_corollary10_true_delta(epsilon: float) -> float:
    """The least δ that is right for all models admitted by Corollary 10(i), rounded up.

    The supremum over D < ε of the Gaussian curve: ½ − e^ε·Φ(−√(2ε)) = (1 − erfcx(√ε))/2.
    """
    checks.positive(epsilon=epsilon)
    root = math.sqrt(epsilon)
    if epsilon < 0.25:
        # 1 − e^ε(1 − erf √ε), rearranged so that nothing close to 1 is subtracted.
        return up((math.exp(epsilon) * math.erf(root) - math.expm1(epsilon)) / 2)
    return up((1 - float(erfcx(root))) / 2)


def paper_logistic_inverse_temperature(
    epsilon: float, delta: float, *, n: int, row_norm: float, regularization: float
) -> float:
    """β = (ε/2R)·√(nλ/(1 + 2l)), equation 27, for logistic regression with an intercept.

    The loss is not R-Lipschitz: with the intercept's constant feature 1 a row has norm √(R² + 1).
    Warns where β exceeds what is proved with that norm, which it does for every ε at small R.
    """
    checks.count(n=n)
    checks.positive(epsilon=epsilon, row_norm=row_norm, regularization=regularization)
    checks.proportion(delta=delta)
    strength = n * regularization
    beta = epsilon / (2 * row_norm) * math.sqrt(strength / (1 - 2 * math.log(delta)))
    proved = inverse_temperature(
        epsilon,
        delta,
        gradient_diameter=2 * math.hypot(row_norm, 1.0),
        prior_curvature=strength,
    )
    if beta > proved:
        _warn(f"equation 27 leaves out the intercept, and nothing proves it at R = {row_norm:g}")
    return beta


def paper_normal_mean_discriminant(
    epsilon: float, delta: float, *, n: int, bound: float, radius: float
) -> float:
    """What stands under the root of equation 32, for unit standard deviations.

    n²u² − 4uC' with C' = 2(bound + radius)². The sign before 4uC' should be +: as printed the value
    can be negative, and no β results.
    """
    checks.count(n=n)
    checks.positive(bound=bound, radius=radius)
    u = tail_budget(epsilon, delta)
    return (n * u) ** 2 - 8 * u * (bound + radius) ** 2


def paper_normal_mean_inverse_temperature(
    epsilon: float, delta: float, *, n: int, bound: float, radius: float
) -> float:
    """B of equation 32, for unit standard deviations and a mean confined to ±radius.

    Where it is a number it is safe, and far below `normal_mean_inverse_temperature`: the sign is
    wrong, and C' counts a Lipschitz constant that the difference of two losses does not have. Where
    the discriminant is negative there is no such β, and that is an error.
    """
    below = paper_normal_mean_discriminant(epsilon, delta, n=n, bound=bound, radius=radius)
    if below < 0:
        raise checks.InvalidInput(
            "Expected a discriminant >= 0; equation 32 gives no β here. "
            "Use normal_mean_inverse_temperature"
        )
    u = tail_budget(epsilon, delta)
    return (n * u + math.sqrt(below)) / (4 * (bound + radius) ** 2)


def _warn(problem: str) -> None:
    warnings.warn(f"{problem}; do not release with it", PrivacyWarning, stacklevel=3)


def _sub_gaussian(deviation: float, divergence: float) -> float:
    """exp(−t²/(4D)), rounded up and at most 1."""
    root = deviation / (2 * math.sqrt(divergence))
    return min(1.0, up(math.exp(-down(root * root))))


def _root_budget(epsilon: float, delta: float) -> float:
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    surprise = -math.log(delta)
    return epsilon / (math.sqrt(surprise) + math.sqrt(surprise + epsilon))
