"""Convex functions minimised over the simplex of weights, to a certified gap."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], tuple[float, Array]]
"""Value and gradient."""


def minimise_on_simplex(
    function: Function, dimension: int, *, gap: float = 1e-9, most_steps: int = 20_000
) -> Array:
    """Weights whose value exceeds the least one by at most `gap` (relative to 1 + |value|).

    Accelerated projected gradients (Beck and Teboulle 2009) with a step that adapts and a restart
    whenever the value rises. By convexity the value exceeds the minimum by at most
    max over corners e of gradient·(w − e), which is what it stops by; after `most_steps` it returns
    the best weights so far.
    """
    point = best = np.full(dimension, 1 / dimension)
    ahead, momentum, rate = point, 1.0, 1.0
    least, _ = function(point)
    last = least
    for _ in range(most_steps):
        value, slope = function(ahead)
        while True:
            trial = onto_simplex(ahead - slope / rate)
            move = trial - ahead
            reached, new_slope = function(trial)
            model = value + float(slope @ move) + rate / 2 * float(move @ move)
            if reached <= model + 1e-15 * abs(value) or rate > 1e30:
                break
            rate *= 2
        if reached < least:
            least, best = reached, trial
        if float(new_slope @ trial - new_slope.min()) <= gap * (1 + abs(reached)):
            return trial
        if reached > last:
            ahead, momentum = best, 1.0
        else:
            grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            # Outside the simplex a logarithm may not be defined.
            ahead = onto_simplex(trial + (momentum - 1) / grown * (trial - point))
            momentum = grown
        point, last = trial, reached
        rate *= 0.9
    return best


def onto_simplex(vector: Array) -> Array:
    """The nearest point with entries that are not negative and add up to one."""
    vector = vector - vector.max()  # changes nothing but the rounding
    falling = -np.sort(-vector)
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(vector) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    nearest = np.maximum(vector - excess[last], 0.0)
    point: Array = nearest / nearest.sum()
    return point
