"""One draw from a Gibbs posterior, sealed: what it is made of, and how it is drawn.

Guarantee. For replace-one neighbours with n public, the sealed draw is (ε, δ)-DP. The draw has
density ∝ exp(−β·Σℓ_i(θ) − (m/2)‖θ‖²) on a ball with a soft edge that is the same for all data.
Neighbouring potentials are m-strongly convex and differ by a βS-Lipschitz function, S the gradient
diameter on the ball, so that the pair is μ-GDP with μ = βS/√m (docs/theory/posterior.md); β is the
largest for which that is what is left of (ε, δ) after

    the seal            1 % of ε and δ, for the float's distance from the ideal draw
    the accept step     2·log_ratio in ε and a factor e^{log_ratio} on δ, for its rounding
    a fallback          (1 + e^ε)·γ in δ, a tenth of it, where a fallback is planned at all

all of them public numbers (docs/theory/gibbs.md). Nothing is known of β at δ = 0.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from sudare import checks
from sudare.calibration import (
    gaussian_mu,
    inverse_temperature,
    logistic_gradient_diameter,
    ridge_gradient_diameter,
    total_variation_slack,
)
from sudare.learners.recipe import SEAL_SHARE, STEEPEST, Target, automatic_radius
from sudare.learners.solvers import Array, Rows, Tolerance, logistic_in_ball
from sudare.randomness import Generator
from sudare.rounding import down, up
from sudare.sampling import (
    Certificate,
    LogisticPosterior,
    ball_envelope,
    certify_ball,
    certify_logistic,
    draw_ball,
    draw_certified,
)
from sudare.sampling.shared import WALL_WIDTH
from sudare.seal import Seal, plan_seal

_FALLBACK_SHARE = 0.1
_MOST_ROUNDING = 0.1
"""Share of ε that rounding in the accept step may cost before the problem is refused."""
_LARGEST_EPSILON = 24.0
"""More is spent as if it were this: beyond, e^ε times the smallest probabilities counts."""


@dataclass(frozen=True)
class GibbsRecipe:
    """Everything that is public about one draw."""

    target: Target
    law: Literal["gibbs"]
    temperature: float
    """β, the inverse temperature."""
    curvature: float
    """m, the prior's."""
    regularization: float
    gradient_diameter: float
    """S, on the ball with its edge."""
    certificate: Certificate
    seal: Seal
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
    target: Target, radius: float | Literal["auto"] | None, regularization: float | None
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
    hottest = _temperature(target, diameter, m, 0.0, 0.0)
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
    target: Target, target_bound: float, radius: float, regularization: float | None
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
        temperature=_temperature(target, diameter, m, 0.0, 0.0),
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


def _epsilon(target: Target) -> float:
    return min(target.epsilon, _LARGEST_EPSILON)


def _temperature(
    target: Target, diameter: float, m: float, log_ratio: float, total_variation: float
) -> float:
    """β for what is left of the budget."""
    epsilon = _epsilon(target)
    left = down(epsilon * (1 - SEAL_SHARE) - 2 * log_ratio)
    lost = (1 + math.exp(epsilon)) * total_variation
    delta = target.delta * (1 - 1.001 * SEAL_SHARE) - lost
    if left <= epsilon * (1 - SEAL_SHARE - _MOST_ROUNDING) or delta <= target.delta / 2:
        raise checks.InvalidInput(
            "Expected a larger regularization, epsilon or delta: with these, rounding in the draw "
            "would cost a good part of the budget"
        )
    return inverse_temperature(
        left,
        down(delta * math.exp(-log_ratio)),
        gradient_diameter=diameter,
        prior_curvature=m,
    )


def _recipe(
    target: Target,
    diameter: float,
    m: float,
    regularization: float,
    certificate: Certificate,
    largest_curvature: float,
) -> GibbsRecipe:
    beta = _temperature(target, diameter, m, certificate.log_ratio, certificate.total_variation)
    seal = plan_seal(
        dimension=target.dimension,
        epsilon=_epsilon(target) * SEAL_SHARE,
        delta=target.delta * SEAL_SHARE,
        displacement=certificate.displacement,
    )
    row_curvature = largest_curvature / (2 * target.dimension)
    return GibbsRecipe(
        target, "gibbs", beta, m, regularization, diameter, certificate, seal, row_curvature
    )


def _automatic(target: Target, diameter: float, weight: float, norm: float) -> float:
    """m for coefficients of about `norm`, where a row adds about `weight` of curvature a direction.

    Whatever the data, the mean loss of a draw exceeds that of any θ by at most about
    (p + m‖θ‖²)/(2βn) with β = μ√m/S: least at m = p/‖θ‖², where the prior is as long as θ. With
    rows in plenty the prior pulls less than that, by about m²‖θ‖²/(2βn·a√m), a = μ·n·weight/S, and
    the sum is least at m^{3/2} = p·a/(2‖θ‖²) (docs/theory/gibbs.md).
    """
    p = target.dimension
    a = gaussian_mu(_epsilon(target), target.delta) * target.n * weight / diameter
    return float(max(p / norm**2, np.cbrt(p * a / (2 * norm**2)) ** 2))
