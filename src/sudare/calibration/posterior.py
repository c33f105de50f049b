"""Inverse temperatures for releasing one draw from a Gibbs posterior.

The released θ has density ∝ π(θ)·exp(−β·Σ_i ℓ(θ, x_i)) on a closed convex set, bounded or not. Two
tables are neighbours when one row is replaced; their size n is public. Three public numbers
describe the model, and β is the largest inverse temperature they allow:

    gradient_diameter  S     sup over the set, x and x' of ‖∇ℓ(θ, x) − ∇ℓ(θ, x')‖; 2L is always
                             valid when every loss is L-Lipschitz
    prior_curvature    m_π   −log π is m_π-strongly convex
    loss_curvature     m_ℓ   every loss is m_ℓ-strongly convex (0: merely convex)

Neighbouring posteriors have potentials that are m-strongly convex, m = m_π + n·β·m_ℓ, and differ by
a βS-Lipschitz function. Everything follows from D = (βS)²/(2m):

* Gaussian guarantee. The pair is μ-GDP with μ = √(2D) = βS/√m, by Gaussian isoperimetry for
  strongly log-concave laws (Bakry and Ledoux 1996). A normal mean attains it, so it cannot be
  improved. `inverse_temperature` uses this one.
* Tail guarantee. KL ≤ D and P(log-ratio > ε) ≤ exp(−(ε−D)²/(4D)) for ε > D (Minami 2015, Theorem 8;
  his Theorem 9 holds in the same form, without its unnamed constant and without a bounded set).
  `tail_inverse_temperature` uses this one: valid, and never larger.

To let a row be added or removed instead, use the largest single gradient norm as the diameter and
the smaller n, and take neither from the data. Results are rounded down (μ and variances up). The
functions named `paper_…` are printed formulas, kept to compare with and unfit for a release.
"""

import math

from scipy.special import erfcx

from sudare import checks
from sudare.calibration.gaussian import gaussian_mu
from sudare.rounding import down, up

__all__ = [
    "inverse_temperature",
    "normal_mean_inverse_temperature",
    "normal_mean_variance",
    "paper_corollary10_delta",
    "paper_corollary10_inverse_temperature",
    "paper_corollary10_limit",
    "paper_corollary10_true_delta",
    "paper_normal_mean_discriminant",
    "posterior_mu",
    "tail_budget",
    "tail_inverse_temperature",
    "total_variation_slack",
]

_ROUND_TRIP = 2.0**-43
"""How far a temperature is rounded down: enough that `posterior_mu`, itself rounded up, confirms
the target. (μ falls at least half as fast as β.)"""


def inverse_temperature(
    epsilon: float,
    delta: float,
    *,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float = 0.0,
    n: int | None = None,
) -> float:
    """The β at which one draw is exactly (ε, δ)-DP by the Gaussian guarantee.

    β is the largest for which the draw is gaussian_mu(ε, δ)-GDP; `posterior_mu` of the result never
    exceeds that μ, so k draws compose as k Gaussian events. There is no upper limit at 1. `n` is
    needed only when the losses are strongly convex.
    """
    _check_model(gradient_diameter, prior_curvature, loss_curvature, n)
    mu = gaussian_mu(epsilon, delta)
    return _largest(mu, gradient_diameter, prior_curvature, loss_curvature, n)


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
    _check_model(gradient_diameter, prior_curvature, loss_curvature, n)
    root = math.sqrt(2) * _root_budget(epsilon, delta)
    return _largest(root, gradient_diameter, prior_curvature, loss_curvature, n)


def posterior_mu(
    inverse_temperature: float,
    *,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float = 0.0,
    n: int | None = None,
) -> float:
    """The μ for which one draw at this inverse temperature is μ-GDP, rounded up."""
    checks.positive(inverse_temperature=inverse_temperature)
    _check_model(gradient_diameter, prior_curvature, loss_curvature, n)
    curvature = prior_curvature + (n or 0) * loss_curvature * inverse_temperature
    return up(inverse_temperature * gradient_diameter / math.sqrt(curvature))


def tail_budget(epsilon: float, delta: float) -> float:
    """The largest D with exp(−(ε−D)²/(4D)) ≤ δ and D < ε, rounded down.

    Minami (2015, equation 31): u = ε + 2l − √((ε+2l)² − ε²) with l = log(1/δ). Evaluated as
    (ε/(√l + √(l+ε)))², which is the same number and loses no digits when ε is small beside l.
    """
    return max(0.0, down(_root_budget(epsilon, delta) ** 2))


def normal_mean_inverse_temperature(
    epsilon: float,
    delta: float,
    *,
    n: int,
    bound: float,
    noise_std: float,
    prior_std: float,
) -> float:
    """β for the mean of n normal rows of known noise_std under the prior N(0, prior_std²).

    Rows are clipped to [−bound, bound], or to a ball of that radius in several dimensions. The
    posterior is normal, N(β·Σx·v/noise_std², v) with v from `normal_mean_variance`, and a replaced
    row moves its mean by at most 2·bound·β·v/noise_std². The pair is a Gaussian location pair, so
    the result is (ε, δ)-DP and no larger β is. The mean need not be confined to an interval, as
    Minami (2015, section 4.2) does: the gradient difference (x' − x)/noise_std² is free of it.
    """
    checks.count(n=n)
    checks.positive(bound=bound, noise_std=noise_std, prior_std=prior_std)
    return inverse_temperature(
        epsilon,
        delta,
        gradient_diameter=2 * bound / noise_std / noise_std,
        prior_curvature=1 / prior_std / prior_std,
        loss_curvature=1 / noise_std / noise_std,
        n=n,
    )


def normal_mean_variance(
    inverse_temperature: float, *, n: int, noise_std: float, prior_std: float
) -> float:
    """Variance of each coordinate of the normal-mean posterior, rounded up."""
    checks.positive(inverse_temperature=inverse_temperature)
    checks.count(n=n)
    checks.positive(noise_std=noise_std, prior_std=prior_std)
    precision = n * inverse_temperature / noise_std / noise_std + 1 / prior_std / prior_std
    return up(1 / precision)


def total_variation_slack(epsilon: float, delta: float) -> float:
    """How far in total variation a sampler may be from its target at an extra cost of δ.

    If the exact law is (ε, δ')-DP and every sampled law is within γ = δ/(1 + e^ε) of it, the
    samples are (ε, δ' + δ)-DP (Minami 2015, Theorem 12). Rounded down.
    """
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    tail = math.exp(-epsilon)
    return max(0.0, down(delta * tail / (1 + tail)))


def paper_corollary10_inverse_temperature(
    epsilon: float, delta: float, *, lipschitz: float, prior_curvature: float
) -> float:
    """β as printed in Corollary 10(ii) of Minami (2015), equation 23. Do not release with it.

    β = (ε/2L)·√(m_π/(1 + 2·log(1/δ))). Theorem 8 implies it only for ε up to
    `paper_corollary10_limit(delta)`, just above 1. Beyond that it remains true for a while, because
    the Gaussian guarantee covers it, and then becomes false: at δ = 1e-5 from ε = 8.99 on, where a
    Gaussian location pair, the limit of admissible losses, exceeds δ. Not rounded.
    """
    checks.positive(epsilon=epsilon, lipschitz=lipschitz, prior_curvature=prior_curvature)
    checks.proportion(delta=delta)
    return epsilon / (2 * lipschitz) * math.sqrt(prior_curvature / (1 - 2 * math.log(delta)))


def paper_corollary10_limit(delta: float) -> float:
    """The largest ε for which Theorem 8 of Minami (2015) implies his Corollary 10(ii).

    2[(1+2l) − √(2l(1+2l))] with l = log(1/δ), in a form without cancellation: between 1 and 2, and
    close to 1 for every δ in use. Rounded down.
    """
    checks.proportion(delta=delta)
    twice = -2 * math.log(delta)
    return down(2 / (1 + math.sqrt(twice / (1 + twice))))


def paper_corollary10_delta(epsilon: float) -> float:
    """The δ that Corollary 10(i) of Minami (2015) claims for every D < ε: e^(−(1+ε)/4).

    False for ε > 3.105, where `paper_corollary10_true_delta` is larger. Below that it is true only
    as a consequence of the Gaussian guarantee; as D → ε his Theorem 8 says nothing. Not rounded.
    """
    checks.positive(epsilon=epsilon)
    return math.exp(-(1 + epsilon) / 4)


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


def paper_normal_mean_discriminant(
    epsilon: float, delta: float, *, n: int, bound: float, radius: float
) -> float:
    """What stands under the root of equation 32 of Minami (2015), for unit standard deviations.

    n²u² − 4uC' with C' = 2(bound + radius)². The sign before 4uC' should be +: as printed the value
    can be negative, and no β results. Not rounded.
    """
    checks.count(n=n)
    checks.positive(bound=bound, radius=radius)
    u = _root_budget(epsilon, delta) ** 2
    return (n * u) ** 2 - 8 * u * (bound + radius) ** 2


def _root_budget(epsilon: float, delta: float) -> float:
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    surprise = -math.log(delta)
    return epsilon / (math.sqrt(surprise) + math.sqrt(surprise + epsilon))


def _largest(
    mu: float,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float,
    n: int | None,
) -> float:
    """The positive root of β²S² = μ²(m_π + n·β·m_ℓ), rounded down; every term is positive."""
    half = mu * (n or 0) * loss_curvature / (2 * gradient_diameter)
    beta = mu / gradient_diameter * (half + math.hypot(half, math.sqrt(prior_curvature)))
    beta = down(beta, _ROUND_TRIP)
    if not 0 < beta < math.inf:
        raise checks.InvalidInput("Expected parameters whose inverse temperature is a finite float")
    return beta


def _check_model(
    gradient_diameter: float, prior_curvature: float, loss_curvature: float, n: int | None
) -> None:
    checks.positive(gradient_diameter=gradient_diameter)
    checks.non_negative(prior_curvature=prior_curvature, loss_curvature=loss_curvature)
    if loss_curvature == 0:
        checks.positive(prior_curvature=prior_curvature)
    if loss_curvature > 0 or n is not None:
        checks.count(n=n)
