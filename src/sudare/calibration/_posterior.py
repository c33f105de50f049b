"""Inverse temperatures for releasing one draw from a Gibbs posterior.

The released θ has density ∝ π(θ)·exp(−β·Σ_i ℓ(θ, x_i)) on a closed convex set, bounded or not. Two
tables are neighbours when one row is replaced; their size n is public. Three public numbers
describe the model, and β is the largest inverse temperature they allow:

    gradient_diameter  S     sup over the set, x and x' of ‖∇ℓ(θ, x) − ∇ℓ(θ, x')‖; 2L is always
                             valid when every loss is L-Lipschitz
    prior_curvature    m_π   −log π is m_π-strongly convex
    loss_curvature     m_ℓ   every loss is m_ℓ-strongly convex (0: merely convex)

Neighbouring posteriors have potentials that are m-strongly convex, m = m_π + n·β·m_ℓ, and differ by
a βS-Lipschitz function, so the pair is μ-GDP with μ = βS/√m, by Gaussian isoperimetry for strongly
log-concave laws (Bakry and Ledoux 1996). A normal mean attains it, so it cannot be improved.

To let a row be added or removed instead, use the largest single gradient norm as the diameter and
the smaller n, and take neither from the data. Temperatures and slacks are rounded down; what is
spent (μ) and variances are rounded up.
"""

import math
from typing import TypedDict

from sudare.foundations import checks
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.rounding import down, up

__all__ = [
    "gaussian_inverse_temperature",
    "inverse_temperature",
    "normal_mean_inverse_temperature",
    "normal_mean_model",
    "normal_mean_variance",
    "posterior_mu",
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
    return gaussian_inverse_temperature(
        gaussian_mu(epsilon, delta),
        gradient_diameter=gradient_diameter,
        prior_curvature=prior_curvature,
        loss_curvature=loss_curvature,
        n=n,
    )


def gaussian_inverse_temperature(
    mu: float,
    *,
    gradient_diameter: float,
    prior_curvature: float,
    loss_curvature: float = 0.0,
    n: int | None = None,
) -> float:
    """The largest β at which one draw is μ-GDP; `posterior_mu` of the result is at most μ."""
    checks.positive(mu=mu)
    _check_model(gradient_diameter, prior_curvature, loss_curvature, n)
    return _largest(mu, gradient_diameter, prior_curvature, loss_curvature, n)


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
    model = normal_mean_model(n=n, bound=bound, noise_std=noise_std, prior_std=prior_std)
    return inverse_temperature(epsilon, delta, **model)


class Model(TypedDict):
    """The public numbers that describe a model, as the functions here take them."""

    gradient_diameter: float
    prior_curvature: float
    loss_curvature: float
    n: int


def normal_mean_model(*, n: int, bound: float, noise_std: float, prior_std: float) -> Model:
    """The mean of n normal rows of norm at most `bound`, as a model of this page."""
    checks.count(n=n)
    checks.positive(bound=bound, noise_std=noise_std, prior_std=prior_std)
    return Model(
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
