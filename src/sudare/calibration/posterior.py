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
the smaller n, and take neither from the data. Temperatures, budgets and slacks are rounded down;
what is spent (μ, divergences, probabilities) and variances are rounded up. Losses whose difference
is bounded need no convexity: see `posterior_bounded`. The printed formulas that these replace are
in `posterior_papers`.
"""

import math

from sudare import checks
from sudare.calibration.gaussian import gaussian_mu
from sudare.rounding import down, up

__all__ = [
    "deviation_tail",
    "inverse_temperature",
    "normal_mean_inverse_temperature",
    "normal_mean_variance",
    "posterior_divergence",
    "posterior_mu",
    "posterior_tail",
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


def _sub_gaussian(deviation: float, divergence: float) -> float:
    """exp(−t²/(4D)), rounded up and at most 1."""
    root = deviation / (2 * math.sqrt(divergence))
    return min(1.0, up(math.exp(-down(root * root))))


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
