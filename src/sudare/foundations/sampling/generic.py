"""Draws from any smooth, strongly convex potential with known curvature bounds.

`draw_simple` is exact: around any point θ̂ with gradient g, the target exp(−U) lies below the
Gaussian of precision m centred at θ̂ − g/m, so propose there and accept with the ratio. It keeps a
share of at least (m/M)^{p/2}·exp(−½‖g‖²(1/m − 1/M)) of the proposals: for few dimensions.

`draw_proximal` alternates y = x + √η·noise with an exact draw of x given y, whose potential is so
much more convex (m + 1/η, η = 1/(M·p)) that the simple sampler keeps more than half. Its
Kullback–Leibler divergence from the target falls by 1/(1 + mη) in each half-step, since the target
smoothed by variance t satisfies a logarithmic Sobolev inequality with constant m/(1 + mt) (Chen,
Chewi, Salim and Wibisono 2022), so that after k rounds, by Pinsker's inequality,

    total variation ≤ √(KL₀/2)/(1 + mη)^k,   KL₀ ≤ (p/2)log(M/m) + ½‖g‖²(1/m − 1/M).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.foundations.mechanisms import exponentials, gaussian_noise
from sudare.foundations.sampling.shared import Draws

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]


class Potential(NamedTuple):
    """U, its gradient, and bounds mI ⪯ ∇²U ⪯ MI."""

    value: Callable[[Array], Array]
    """U at each row of a matrix of points."""
    gradient: Callable[[Array], Array]
    """∇U at one point."""
    strong_convexity: float
    smoothness: float

    def check(self) -> None:
        """Refuse bounds that cannot be."""
        checks.positive(strong_convexity=self.strong_convexity, smoothness=self.smoothness)
        if self.smoothness < self.strong_convexity:
            raise checks.InvalidInput(
                f"Expected smoothness={self.smoothness} >= strong_convexity={self.strong_convexity}"
            )


def draw_simple(potential: Potential, centre: Array, size: int, rng: Generator) -> Draws:
    """Independent exact draws; quickest with `centre` at the mode."""
    potential.check()
    checks.count(size=size)
    centre = checks.finite_array(dimensions=1, centre=centre)
    m, p = potential.strong_convexity, len(centre)
    gradient = potential.gradient(centre)
    base = float(potential.value(centre[None])[0])
    kept: list[Array] = []
    count = 0
    while count < size:
        batch = min(4096, 32 + 2 * (size - count))
        steps = gaussian_noise(1 / math.sqrt(m), (batch, p), rng) - gradient / m
        thetas = centre + steps
        quadratic = steps @ gradient + m / 2 * np.einsum("ij,ij->i", steps, steps)
        excess = potential.value(thetas) - base - quadratic
        accepted = exponentials(batch, rng) >= excess
        kept.append(thetas[accepted])
        count += int(accepted.sum())
    return Draws(np.concatenate(kept)[:size], "simple", 0.0)


def proximal_steps(
    potential: Potential, dimension: int, gradient_norm: float, total_variation: float
) -> int:
    """Rounds after which the proximal sampler is within `total_variation` of its target."""
    potential.check()
    checks.count(dimension=dimension)
    checks.non_negative(gradient_norm=gradient_norm)
    checks.proportion(total_variation=total_variation)
    m, big = potential.strong_convexity, potential.smoothness
    divergence = dimension / 2 * math.log(big / m) + gradient_norm**2 / 2 * (1 / m - 1 / big)
    if divergence <= 2 * total_variation**2:
        return 0
    rate = math.log1p(m / (big * dimension))
    return math.ceil(math.log(math.sqrt(divergence / 2) / total_variation) / rate * (1 + 1e-9))


def draw_proximal(
    potential: Potential,
    centre: Array,
    rng: Generator,
    total_variation: float,
    progress: Progress | None = None,
) -> Draws:
    """One draw whose law is within `total_variation` of the target."""
    centre = checks.finite_array(dimensions=1, centre=centre)
    p, big = len(centre), potential.smoothness
    gradient = potential.gradient(centre)
    steps = proximal_steps(potential, p, float(np.linalg.norm(gradient)), total_variation)
    eta = 1 / (big * p)
    x = centre - gradient / big + gaussian_noise(1 / math.sqrt(big), p, rng)
    for step in range(steps):
        y = x + gaussian_noise(math.sqrt(eta), p, rng)
        near = _near_mode(potential, y, eta)
        x = draw_simple(_restricted(potential, y, eta), near, 1, rng).values[0]
        if progress is not None:
            progress(step + 1, steps)
    return Draws(x[None], "proximal", total_variation)


def _restricted(potential: Potential, y: Array, eta: float) -> Potential:
    """U(x) + ‖x − y‖²/(2η)."""
    return Potential(
        lambda x: potential.value(x) + ((x - y) ** 2).sum(axis=-1) / (2 * eta),
        lambda x: potential.gradient(x) + (x - y) / eta,
        potential.strong_convexity + 1 / eta,
        potential.smoothness + 1 / eta,
    )


def _near_mode(potential: Potential, y: Array, eta: float) -> Array:
    """A few gradient steps towards the restricted mode: they save time, exactness needs none."""
    x = y
    for _ in range(3):
        x = x - (potential.gradient(x) + (x - y) / eta) / (potential.smoothness + 1 / eta)
    return x
