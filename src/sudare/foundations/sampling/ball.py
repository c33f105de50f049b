"""Exact draws from a Gaussian restricted to a ball.

The target is ∝ exp(−½θᵀQθ + c·θ) on ‖θ‖ ≤ B. There ½κ(B² − ‖θ‖²) ≥ 0 for every κ ≥ 0, so the target
lies below exp(½κB²)·exp(−½θᵀ(Q + κI)θ + c·θ): propose from that Gaussian, drop what falls outside,
and accept the rest with probability exp(−½κ(B² − ‖θ‖²)). The mass of the envelope is log-convex in
κ; it is least where the proposal has E‖θ‖² = B², or at zero if E‖θ‖² ≤ B² there. Where the ball
cuts this keeps a few percent, and about 1/(2√κ·B) of them where it cuts deep; proposing from the
unrestricted Gaussian would keep none.
A wall (see `shared`) whose slope is at least κ·limit keeps the inequality beyond B: there the
acceptance is exp(−wall·(‖θ‖ − B) + ½κ(‖θ‖² − B²)).

How many proposals a draw took depends on the data and must not be shown.
"""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq

from sudare.foundations import checks
from sudare.foundations.mechanisms import exponentials, gaussian_noise
from sudare.foundations.sampling.shared import Draws, hard_limit, wall_height

Array = NDArray[np.float64]


class BallEnvelope(NamedTuple):
    """The Gaussian that is proposed from."""

    radius: float
    wall: float
    pull: float
    """κ."""
    centre: Array
    """(Q + κI)⁻¹c."""
    spread: Array
    """A with AAᵀ = (Q + κI)⁻¹."""


def ball_envelope(
    precision: Array, linear: Array, radius: float, wall: float = 0.0, least: float = 0.0
) -> BallEnvelope:
    """The envelope for precision Q (positive definite), linear term c and radius B.

    `least` is a bound below which no eigenvalue of Q lies, if one is known: rounding may say less.
    """
    checks.positive(radius=radius)
    checks.non_negative(wall=wall, least=least)
    precision = checks.finite_array(dimensions=2, precision=precision)
    linear = checks.finite_array(dimensions=1, linear=linear)
    p = len(linear)
    slack = 1e-9 * float(np.abs(precision).max())
    if precision.shape != (p, p) or np.abs(precision - precision.T).max() > slack:
        raise checks.InvalidInput("Expected precision to be symmetric, with a row for each entry")
    values, vectors = eigh(precision)
    values = np.maximum(values, least)
    if not values[0] > 0:
        raise checks.InvalidInput("Expected precision to be positive definite")
    along = vectors.T @ linear
    pull = best_pull(values, along, radius)
    if wall > 0:
        pull = min(pull, wall / hard_limit(radius, wall))
    # The symmetric root: eigenvectors alone may turn round at the last bit of an entry.
    spread = (vectors / np.sqrt(values + pull)) @ vectors.T
    return BallEnvelope(radius, wall, pull, vectors @ (along / (values + pull)), spread)


def draw_ball(envelope: BallEnvelope, size: int, rng: Generator) -> Draws:
    """Independent exact draws."""
    checks.count(size=size)
    kept: list[Array] = []
    count = 0
    while count < size:
        batch = min(4096, 32 + 4 * (size - count))
        noise = gaussian_noise(1.0, (batch, len(envelope.centre)), rng)
        thetas = envelope.centre + noise @ envelope.spread.T
        room = envelope.radius**2 - np.einsum("ij,ij->i", thetas, thetas)
        above = envelope.pull / 2 * room + wall_height(thetas, envelope.radius, envelope.wall)
        accepted = exponentials(batch, rng) >= above
        kept.append(thetas[accepted])
        count += int(accepted.sum())
    return Draws(np.concatenate(kept)[:size], "ball", 0.0)


def best_pull(values: Array, along: Array, radius: float) -> float:
    """κ ≥ 0 with E‖θ‖² = B²; any κ is exact, so its rounding costs time only."""

    def beyond(kappa: float) -> float:
        shrunk = 1 / (values + kappa)
        return float(shrunk.sum() + ((along * shrunk) ** 2).sum()) / radius**2 - 1

    if beyond(0.0) <= 0:
        return 0.0
    # There the two sums are at most B²/2 and B²/4.
    most = 2 * max(len(values) / radius**2, float(np.linalg.norm(along)) / radius)
    return float(brentq(beyond, 0.0, most, xtol=1e-12 * most, rtol=1e-9))
