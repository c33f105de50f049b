"""Finding where a function on the unit interval or square peaks and where it changes sign.

Numerical helpers of the exact audit: they tell the integration where to look closely. What they
miss is only found if the grid of the integration meets it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
"""Unit coordinates of shape (m, d) to values (m,); minus infinity is allowed."""

_SCAN = {1: 4096, 2: 128}  # points per side of the first grid
_STARTS = 24  # local searches
_STEPS = 200


def grid(dimension: int) -> Floats:
    """Midpoints of a regular grid, shape (points, d), in lexicographic order."""
    ticks = (np.arange(_SCAN[dimension]) + 0.5) / _SCAN[dimension]
    return np.stack(np.meshgrid(*[ticks] * dimension, indexing="ij"), axis=-1).reshape(
        -1, dimension
    )


def peaks(function: Function, dimension: int) -> Floats:
    """Local maxima, shape (peaks, d): compass searches from the highest ones of the grid."""
    points, side = grid(dimension), _SCAN[dimension]
    values = function(points).reshape((side,) * dimension)
    top = values > -np.inf
    for axis in range(dimension):
        line = np.moveaxis(values, axis, 0)
        edge = np.full_like(line[:1], -np.inf)
        before, after = np.concatenate([edge, line[:-1]]), np.concatenate([line[1:], edge])
        top &= np.moveaxis((line >= before) & (line >= after), 0, axis)
    candidates = np.flatnonzero(top)
    heights = values.reshape(-1)[candidates]
    # A plateau makes each of its points a maximum: spread the searches over those that tie.
    order = candidates[np.argsort(-heights, kind="stable")]
    tied = int(np.count_nonzero(heights == heights.max())) if len(heights) else 0
    order = order[: max(_STARTS, tied)]
    chosen = order[np.linspace(0, len(order) - 1, min(_STARTS, len(order))).astype(np.intp)]
    return _climb(function, points[chosen], 1.0 / side)


def crossings(function: Function, points: Floats, slack: float) -> Floats:
    """Sign changes of a function of one variable between neighbours among sorted points (m, 1).

    Values within `slack` of zero count as neither sign: on a stretch where the function is zero
    up to rounding there is nothing to find.
    """
    values = function(points)
    clear = np.abs(values) > slack
    points, positive = points[clear], values[clear] > 0
    change = np.flatnonzero(positive[1:] != positive[:-1])
    low, high, rising = points[change], points[change + 1], positive[change + 1]
    for _ in range(60):
        middle = (low + high) / 2
        right = ((function(middle) > 0) == rising)[:, None]
        low, high = np.where(right, low, middle), np.where(right, middle, high)
    return (low + high) / 2


def _climb(function: Function, place: Floats, step: float) -> Floats:
    """Compass search from many places at once: try all neighbours, halve the step if none helps."""
    dimension = place.shape[1]
    if not len(place):
        return place
    compass = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * dimension, indexing="ij"), axis=-1)
    compass = compass.reshape(-1, dimension)
    steps = np.full(len(place), step)
    rows = np.arange(len(place))
    for _ in range(_STEPS):
        tries = place[:, None, :] + steps[:, None, None] * compass
        # Strictly inside: an infinite side of the domain sits at a face of the cube.
        inside = ((tries > 0) & (tries < 1)).all(axis=2)
        tries = np.where(inside[:, :, None], tries, place[:, None, :])
        values = function(tries.reshape(-1, dimension)).reshape(len(place), -1)
        values = np.where(np.isnan(values), -np.inf, values)
        stay = values.shape[1] // 2
        best = values.argmax(axis=1)
        moved = values[rows, best] > values[:, stay]
        place = np.where(moved[:, None], tries[rows, best], place)
        steps = np.where(moved, steps, steps / 2)
        if steps.max() < 1e-15:
            break
    return place
