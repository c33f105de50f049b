"""One draw from a Gibbs posterior, sealed: what it is made of, and how it is drawn.

Guarantee. For replace-one neighbours with n public, the sealed draw is (ε, δ)-DP, and Gaussian but
for a stated distance, so that several compose like Gaussian releases. The draw has density
∝ exp(−β·Σℓ_i(θ) − (m/2)‖θ‖²) on a ball with a soft edge that is the same for all data. Neighbouring
potentials are m-strongly convex and differ by a βS-Lipschitz function, S the gradient diameter on
the ball, so that the pair is μ-GDP with μ = βS/√m (docs/theory/posterior.md). The whole is one
`NearGaussianEvent`, made of

    the draw            μ
    the seal            its own μ and distance, for the float's distance from the ideal draw
    the accept step     a log ratio, for its rounding
    a fallback          a total variation, where a fallback is planned at all

all of them public numbers (docs/theory/gibbs.md), and β is the largest that leaves room for the
others. Nothing is known of β at δ = 0.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from sudare.calibration import (
    gaussian_inverse_temperature,
    gaussian_mu,
    logistic_gradient_diameter,
    near_gaussian_mu,
    ridge_gradient_diameter,
    total_variation_slack,
)
from sudare.foundations import checks
from sudare.foundations.privacy import NearGaussianEvent
from sudare.foundations.randomness import Generator
from sudare.foundations.rounding import down, up
from sudare.foundations.sampling import (
    DrawCertificate,
    LogisticPosterior,
    ball_envelope,
    certify_ball,
    certify_logistic,
    draw_ball,
    draw_certified,
)
from sudare.foundations.sampling.shared import WALL_WIDTH
from sudare.foundations.seal import Seal, plan_seal
from sudare.learners._recipe import SEAL_SHARE, STEEPEST, NoiseTarget, automatic_radius
from sudare.learners._solvers import Array, Rows, Tolerance, logistic_in_ball

_FALLBACK_SHARE = 0.1
_MOST_ROUNDING = 0.1
"""Share of ε that rounding in the accept step may cost before the problem is refused."""
_LARGEST_EPSILON = 24.0
"""More is spent as if it were this: beyond, e^ε times the smallest probabilities counts."""


@dataclass(frozen=True)
class GibbsRecipe:
    """Everything that is public about one draw."""

    target: NoiseTarget
    law: Literal["gibbs"]
    temperature: float
    """β, the inverse temperature."""
    curvature: float
    """m, the prior's."""
    regularization: float
    gradient_diameter: float
    """S, on the ball with its edge."""
    certificate: DrawCertificate
    seal: Seal
    event: NearGaussianEvent
    """What it all costs."""
    row_curvature: float

    @property
    def reach(self) -> float:
        """Radius of the ball that holds the draw, before the seal."""
        return self.certificate.limit

    @property
    def coefficient_std(self) -> float:
        """About a coefficient's standard deviation in the posterior, if rows look everywhere alike:
        a row then adds half of the curvature it can, shared by all directions."""
        rows = self.temperature * self.target.n * self.row_curvature
        return 1 / math.sqrt(self.curvature + rows)

    @property
    def sampler(self) -> str:
        """Exact, or exact but for a stated total variation."""
        return self.certificate.sampler


@lru_cache(maxsize=512)
def logistic_gibbs(
    target: NoiseTarget, radius: float | Literal["auto"] | None, regularization: float | None
) -> GibbsRecipe:
    """Recipe for logistic loss, m = nλ; `regularization` None chooses λ."""
    n, p, row_norm = target.n, target.dimension, target.row_norm
    if radius == "auto":
        radius = automatic_radius(target)
    edge = None if radius is None else up(radius * (1 + WALL_WIDTH), 1e-9)
    diameter = logistic_gradient_diameter(row_norm, p, edge)
    if regularization is None:
        weight, norm = row_norm**2 / (8 * p), STEEPEST / (2 * row_norm)
        regularization = _automatic(target, diameter, weight, norm) / n
    m = down(n * regularization)
    hottest = _hottest(target, diameter, m)
    if radius is None:
        # No posterior comes near it: minimiser and spread, all but e⁻⁶⁴.
        radius = math.sqrt(2 * n * hottest * math.log(2) / m) + (math.sqrt(p) + 12) / math.sqrt(m)
    certificate = certify_logistic(
        n=n,
        dimension=p,
        row_norm=row_norm,
        temperature=hottest,
        curvature=m,
        radius=radius,
        total_variation=total_variation_slack(_epsilon(target), target.delta * _FALLBACK_SHARE),
    )
    return _recipe(target, diameter, m, regularization, certificate, row_norm**2 / 4)


@lru_cache(maxsize=512)
def ridge_gibbs(
    target: NoiseTarget, target_bound: float, radius: float, regularization: float | None
) -> GibbsRecipe:
    """Recipe for squared loss, m = 2nλ; `regularization` None chooses λ."""
    n, p, row_norm = target.n, target.dimension, target.row_norm
    edge = up(radius * (1 + WALL_WIDTH), 1e-9)
    diameter = ridge_gradient_diameter(row_norm, target_bound, edge, p)
    if regularization is None:
        weight = row_norm**2 / p
        regularization = _automatic(target, diameter, weight, radius / 2) / (2 * n)
    m = down(2 * n * regularization)
    certificate = certify_ball(
        n=n,
        dimension=p,
        row_norm=row_norm,
        target_bound=target_bound,
        temperature=_hottest(target, diameter, m),
        curvature=m,
        radius=radius,
    )
    return _recipe(target, diameter, m, regularization, certificate, 2 * row_norm**2)


def draw_logistic(rows: Rows, signs: Array, recipe: GibbsRecipe, rng: Generator) -> Array:
    """The draw itself, for rows and labels −1 and 1."""
    certificate, beta = recipe.certificate, recipe.temperature
    weight = recipe.curvature / beta
    # Any start is right; the minimiser, found on part of the rows at first, saves time.
    norm, radius = recipe.target.row_norm, certificate.radius
    rough = Tolerance(len(signs), rows.dimension, norm, norm * radius, weight, radius)
    start = logistic_in_ball(rows, signs, np.zeros(rows.dimension), rough)
    posterior = LogisticPosterior(
        _signed(rows, signs), beta, recipe.curvature, certificate.radius, certificate.wall
    )
    drawn: Array = draw_certified(posterior, certificate, rng, start).values[0]
    return drawn


def draw_ridge(gram: Array, moments: Array, recipe: GibbsRecipe, rng: Generator) -> Array:
    """The draw itself, from Σxxᵀ and Σyx."""
    certificate, twice = recipe.certificate, 2 * recipe.temperature
    precision = twice * gram + recipe.curvature * np.eye(len(moments))
    envelope = ball_envelope(
        precision, twice * moments, certificate.radius, certificate.wall, recipe.curvature
    )
    drawn: Array = draw_ball(envelope, 1, rng).values[0]
    return drawn


def _signed(rows: Rows, signs: Array) -> Array:
    """±x for every record, with its constant feature."""
    d = rows.features.shape[1]
    signed = np.empty((len(signs), rows.dimension))
    np.multiply(rows.features, (rows.factors * signs)[:, None], out=signed[:, :d])
    signed[:, d:] = (rows.constant * signs)[:, None]
    return signed


def _epsilon(target: NoiseTarget) -> float:
    return min(target.epsilon, _LARGEST_EPSILON)


def _hottest(target: NoiseTarget, diameter: float, m: float) -> float:
    """β if the draw had all of (ε, δ) for itself."""
    mu = gaussian_mu(_epsilon(target), target.delta)
    return gaussian_inverse_temperature(mu, gradient_diameter=diameter, prior_curvature=m)


def sealed_draw(
    epsilon: float, delta: float, seal: Seal, log_ratio: float = 0.0, failure: float = 0.0
) -> tuple[float, NearGaussianEvent]:
    """The μ that (ε, δ) leaves to a draw beside its seal, and the event of both together.

    The draw's own law is within a factor e^{±log_ratio} of a μ-GDP one, up to total variation
    `failure`.
    """
    if not isinstance(seal.event, NearGaussianEvent):
        raise checks.InvalidInput("Expected a larger delta: this one is lost in rounding")
    log_ratio, failure = up(log_ratio + seal.event.log_ratio), up(failure + seal.event.failure)
    lost = (1 + math.exp(epsilon)) * failure
    if 2 * log_ratio > _MOST_ROUNDING * epsilon or lost > delta / 2:
        raise checks.InvalidInput(
            "Expected a larger regularization, epsilon or delta: with these, rounding in the draw "
            "would cost a good part of the budget"
        )
    whole = near_gaussian_mu(epsilon, delta, log_ratio, failure)
    left = math.sqrt((whole - seal.event.mu) * (whole + seal.event.mu))
    return down(left), NearGaussianEvent(whole, log_ratio, failure)


def _recipe(
    target: NoiseTarget,
    diameter: float,
    m: float,
    regularization: float,
    certificate: DrawCertificate,
    largest_curvature: float,
) -> GibbsRecipe:
    seal = plan_seal(
        dimension=target.dimension,
        epsilon=_epsilon(target) * SEAL_SHARE,
        delta=target.delta * SEAL_SHARE,
        displacement=certificate.displacement,
        whole_epsilon=_epsilon(target),
    )
    mu, event = sealed_draw(
        _epsilon(target), target.delta, seal, certificate.log_ratio, certificate.total_variation
    )
    beta = gaussian_inverse_temperature(mu, gradient_diameter=diameter, prior_curvature=m)
    row_curvature = largest_curvature / (2 * target.dimension)
    return GibbsRecipe(
        target, "gibbs", beta, m, regularization, diameter, certificate, seal, event, row_curvature
    )


def _automatic(target: NoiseTarget, diameter: float, weight: float, norm: float) -> float:
    """m for coefficients of about `norm`, where a row adds about `weight` of curvature a direction.

    Whatever the data, the mean loss of a draw exceeds that of any θ by at most about
    (p + m‖θ‖²)/(2βn) with β = μ√m/S: least at m = p/‖θ‖², where the prior is as long as θ. With
    rows in plenty the prior pulls less than that, by about m²‖θ‖²/(2βn·a√m), a = μ·n·weight/S, and
    the sum is least at m^{3/2} = p·a/(2‖θ‖²) (docs/theory/gibbs.md).
    """
    p = target.dimension
    a = gaussian_mu(_epsilon(target), target.delta) * target.n * weight / diameter
    return float(max(p / norm**2, np.cbrt(p * a / (2 * norm**2)) ** 2))
