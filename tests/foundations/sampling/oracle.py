"""Distribution functions of projections of a density, by quadrature, in one or two dimensions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def projected(
    potential: Callable[[Any], Any],
    direction: Any,
    centre: Any,
    reach: float,
    radius: float = math.inf,
) -> Callable[[Any], Any]:
    """The distribution function of direction·θ for the density ∝ exp(−potential) on the ball.

    Integrates over centre ± reach, which must hold all but a negligible part, and inside the ball.
    """
    u = np.asarray(direction) / np.linalg.norm(direction)
    middle = float(u @ centre)
    low, high = max(-radius, middle - reach), min(radius, middle + reach)
    points = np.linspace(low, high, 601)
    if len(u) == 1:
        log_values = -potential(points[:, None] * u)
        values = np.exp(log_values - log_values.max())
    else:
        across = np.array([-u[1], u[0]])
        side = float(across @ centre)
        # Beyond the ball's end the strip is empty, and rounding may make it imaginary.
        room = np.sqrt(np.maximum(radius**2 - points**2, 0.0)) if radius < math.inf else math.inf
        bottom = np.maximum(-room, side - reach) + np.zeros_like(points)
        width = np.maximum(np.minimum(room, side + reach) - bottom, 0.0)
        nodes, weights = np.polynomial.legendre.leggauss(40)
        t = bottom[:, None] + width[:, None] * (nodes + 1) / 2
        thetas = points[:, None, None] * u + t[..., None] * across
        log_values = -potential(thetas.reshape(-1, 2)).reshape(t.shape)
        values = np.exp(log_values - log_values.max()) @ weights * width
    if radius == math.inf:
        assert max(values[0], values[-1]) < 1e-9 * values.max()
    reached = np.concatenate([[0.0], np.cumsum(values[1:] + values[:-1])])
    return lambda x: np.interp(x / np.linalg.norm(direction), points, reached / reached[-1])
