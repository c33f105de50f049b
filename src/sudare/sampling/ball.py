"""Exact draws from a Gaussian restricted to a ball.

The target is ∝ exp(−½θᵀQθ + c·θ) on ‖θ‖ ≤ B. There ½κ(B² − ‖θ‖²) ≥ 0 for every κ ≥ 0, so the target
lies below exp(½κB²)·exp(−½θᵀ(Q + κI)θ + c·θ): propose from that Gaussian, drop what falls outside,
and accept the rest with probability exp(−½κ(B² − ‖θ‖²)). The mass of the envelope is log-convex in
κ; it is least where the proposal has E‖θ‖² = B², or at zero if E‖θ‖² ≤ B² there. Where the ball
cuts deep this keeps a few percent, where proposing from the unrestricted Gaussian would keep none.

How many proposals a draw took depends on the data and must not be shown.
"""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq

from sudare import checks
from sudare.mechanisms import exponentials, gaussian_noise

Array = NDArray[np.float64]


class BallEnvelope(NamedTuple):
    """The Gaussian that is proposed from."""

    radius: float
    pull: float
    """κ."""
    centre: Array
    """(Q + κI)⁻¹c."""
    spread: Array
    """A with AAᵀ = (Q + κI)⁻¹."""


def ball_envelope(precision: Array, linear: Array, radius: float) -> BallEnvelope:
    """The envelope for precision Q (positive definite), linear term c and radius B."""
    checks.positive(radius=radius)
    precision = checks.finite_array(dimensions=2, precision=precision)
    linear = checks.finite_array(dimensions=1, linear=linear)
    p = len(linear)
    slack = 1e-9 * float(np.abs(precision).max())
    if precision.shape != (p, p) or np.abs(precision - precision.T).max() > slack:
        raise checks.InvalidInput("Expected precision to be symmetric, with a row for each entry")
    values, vectors = eigh(precision)
    if not values[0] > 0:
        raise checks.InvalidInput("Expected precision to be positive definite")
    along = vectors.T @ linear
    pull = _pull(values, along, radius)
    spread = vectors / np.sqrt(values + pull)
    return BallEnvelope(radius, pull, vectors @ (along / (values + pull)), spread)


def draw_ball(envelope: BallEnvelope, size: int, rng: Generator) -> Array:
    """Independent exact draws, one a row."""
    checks.count(size=size)
    kept: list[Array] = []
    count = 0
    while count < size:
        batch = min(4096, 32 + 4 * (size - count))
        noise = gaussian_noise(1.0, (batch, len(envelope.centre)), rng)
        thetas = envelope.centre + noise @ envelope.spread.T
        room = envelope.radius**2 - np.einsum("ij,ij->i", thetas, thetas)
        accepted = (room >= 0) & (exponentials(batch, rng) >= envelope.pull / 2 * room)
        kept.append(thetas[accepted])
        count += int(accepted.sum())
    return np.concatenate(kept)[:size]


def _pull(values: Array, along: Array, radius: float) -> float:
    """κ ≥ 0 with E‖θ‖² = B²; any κ is exact, so its rounding costs time only."""

    def beyond(kappa: float) -> float:
        shrunk = 1 / (values + kappa)
        return float(shrunk.sum() + ((along * shrunk) ** 2).sum()) / radius**2 - 1

    if beyond(0.0) <= 0:
        return 0.0
    # There the two sums are at most B²/2 and B²/4.
    most = 2 * max(len(values) / radius**2, float(np.linalg.norm(along)) / radius)
    return float(brentq(beyond, 0.0, most, xtol=1e-12 * most, rtol=1e-9))
