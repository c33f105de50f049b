"""Exact draws from a Gaussian restricted to a ball.

The target is ∝ exp(−½θᵀQθ + c·θ) on ‖θ‖ ≤ B. At its mode θ* the gradient is −νθ*, and on the ball
−θ*·(θ − θ*) ≥ ½‖θ − θ*‖², so with h = θ − θ* the target lies below exp(−½hᵀ(Q + νI)h): propose from
that Gaussian, drop what falls outside, and accept the rest with the ratio. Where the ball cuts deep
this accepts a few percent, where proposing from the unrestricted Gaussian would accept none.
"""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import eigh

from sudare import checks
from sudare.mechanisms import exponentials, gaussian_noise

Array = NDArray[np.float64]

_UNIT = 2.0**-53


class BallEnvelope(NamedTuple):
    """The target around its mode."""

    precision: Array
    linear: Array
    radius: float
    mode: Array
    pull: float
    """ν."""
    spread: Array
    """A with AAᵀ = (Q + νI)⁻¹."""


def ball_envelope(precision: Array, linear: Array, radius: float) -> BallEnvelope:
    """The envelope for precision Q (positive definite), linear term c and radius B."""
    checks.positive(radius=radius)
    values, vectors = eigh(precision)
    if not values[0] > 0:
        raise checks.InvalidInput("Expected precision to be positive definite")
    mode, pull = quadratic_in_ball(values, vectors, linear, radius)
    return BallEnvelope(precision, linear, radius, mode, pull, vectors / np.sqrt(values + pull))


def draw_ball(envelope: BallEnvelope, size: int, rng: Generator) -> Array:
    """Independent exact draws, one a row."""
    checks.count(size=size)
    p = len(envelope.mode)
    kept: list[Array] = []
    count = 0
    while count < size:
        batch = min(4096, 32 + 4 * (size - count))
        steps = gaussian_noise(1.0, (batch, p), rng) @ envelope.spread.T
        thetas = envelope.mode + steps
        # U(θ) − U(θ*) − ½hᵀ(Q+ν)h = −νθ*·h − ½ν‖h‖², never negative inside the ball.
        excess = -envelope.pull * (
            steps @ envelope.mode + 0.5 * np.einsum("ij,ij->i", steps, steps)
        )
        inside = np.einsum("ij,ij->i", thetas, thetas) <= envelope.radius**2
        accepted = inside & (exponentials(batch, rng) >= excess)
        kept.append(thetas[accepted])
        count += int(accepted.sum())
    return np.concatenate(kept)[:size]


def quadratic_in_ball(
    values: Array, vectors: Array, target: Array, radius: float
) -> tuple[Array, float]:
    """Minimiser of ½θᵀHθ − target·θ over the ball and its multiplier; H by eigenvalues and vectors.

    Outside the ball the multiplier solves ‖θ(μ)‖ = B; Newton's method on 1/‖θ(μ)‖ − 1/B, concave in
    μ, climbs to it from zero without overshooting.
    """
    g = vectors.T @ target
    mu = 0.0
    for _ in range(100):
        theta = g / (values + mu)
        norm = float(np.linalg.norm(theta))
        if norm <= radius * (1 + 4 * _UNIT):
            break
        slope = float(theta @ (theta / (values + mu)))
        step = (norm / radius - 1) * norm * norm / slope
        if mu + step == mu:
            break
        mu += step
    return into_ball(vectors @ theta, radius), mu


def into_ball(theta: Array, radius: float) -> Array:
    """The nearest point of the ball."""
    norm = float(np.linalg.norm(theta))
    return theta * (radius / norm) if norm > radius else theta
