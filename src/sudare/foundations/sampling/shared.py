"""What all samplers share: how a draw says where it came from, and the edge of a ball.

A float and the real number it stands for can lie on different sides of a hard edge, and the
probability of that is small but not negligible beside δ. So the samplers can soften the edge: from
the radius on the potential rises by `wall` per unit of distance, the same for all data, and the
hard limit stands 2⁻¹⁰ farther out, where a wall that is steep enough lets nothing come.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WALL_WIDTH = 2.0**-10
"""How far beyond the radius the hard limit stands, in radii, if there is a wall."""


@dataclass(frozen=True)
class Draws:
    """Draws, one a row, with how they were made and how near their law is to the target's."""

    values: Array
    sampler: str
    total_variation: float
    """γ: zero for the exact samplers (up to floating point, which their docstrings speak of)."""


def hard_limit(radius: float, wall: float) -> float:
    """The radius beyond which nothing is drawn."""
    return radius * (1 + WALL_WIDTH) if wall > 0 else radius


def wall_height(thetas: Array, radius: float, wall: float) -> Array:
    """wall·(‖θ‖ − radius)₊ for each row, and infinity beyond the hard limit."""
    norms = np.sqrt(np.einsum("ij,ij->i", thetas, thetas))
    if math.isinf(radius):
        return np.zeros(len(thetas))
    heights: Array = wall * np.maximum(norms - radius, 0.0)
    heights[norms > hard_limit(radius, wall)] = np.inf
    return heights
