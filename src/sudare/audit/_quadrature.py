"""Adaptive integration over boxes in one or two dimensions, with an error estimate.

Composite Gauss-Legendre: each cell is integrated whole and in halves (quarters in two dimensions);
the difference is the cell's error estimate, and the cells with the largest are cut again until
their sum meets the tolerance or the allowance of points is used up. The estimate is for the coarser
of the two values while the finer one is returned, so it errs on the careful side. Several
integrands that share their points are integrated together.

An infinite range is mapped to (0, 1) by a smooth rational change of variable.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integrand = Callable[[Floats], Floats]
"""Points of shape (m, d) to values of shape (m, j)."""

_ORDER = {1: 12, 2: 6}
_EDGE = (
    1e-12  # closest approach to an infinite end: about 1e12 away, where only heavy tails are left
)
_CHUNK = 200_000  # points evaluated at a time: memory stays bounded


class Box:
    """A box with possibly infinite sides, seen through coordinates in the unit cube."""

    def __init__(self, domain: Sequence[tuple[float, float]]) -> None:
        self.sides = tuple((float(low), float(high)) for low, high in domain)

    @property
    def dimension(self) -> int:
        """One or two."""
        return len(self.sides)

    def points(self, unit: Floats) -> tuple[Floats, Floats]:
        """Points of the box for unit coordinates (m, d), and the log of the volume factor (m,)."""
        place = np.empty_like(unit)
        log_volume = np.zeros(len(unit))
        for j, (low, high) in enumerate(self.sides):
            place[:, j], factor = _side(unit[:, j], low, high)
            log_volume += np.log(factor)
        return place, log_volume


class Kink(NamedTuple):
    """Columns of an integrand: `target` is at most `weight` times the positive part of `guard`.

    The target is not smooth where the guard changes sign, and that may happen between the points of
    a cell, unseen. A cell whose guard may change sign is charged for the corner it could hide.
    """

    target: int
    weight: int
    guard: int


def integrate(
    integrand: Integrand,
    cells: Floats,
    *,
    tolerance: float,
    max_points: int,
    kinks: Sequence[Kink] = (),
) -> tuple[Floats, Floats]:
    """Integrals over the union of `cells`, of shape (c, d, 2), and their error estimates."""
    whole, _ = _gauss(integrand, cells, ())
    columns = whole.shape[1]
    points_per_cell = _ORDER[cells.shape[1]] ** cells.shape[1]
    used = len(cells) * points_per_cell
    value, error = np.zeros(columns), np.zeros(columns)
    guards = [kink.guard for kink in kinks]
    while len(cells):
        parts = split(cells)
        part_values, part_doubts = (
            found.reshape(len(cells), -1, columns) for found in _gauss(integrand, parts, kinks)
        )
        used += len(parts) * points_per_cell
        difference = np.abs(whole - part_values.sum(axis=1)) + part_doubts.sum(axis=1)
        difference[:, guards] = 0.0
        worst = difference.max(axis=1)
        order = np.argsort(worst)
        settled = np.empty(len(cells), dtype=bool)
        # Half of what is left of the tolerance per round: a geometric series never overspends it.
        settled[order] = np.cumsum(worst[order]) <= (tolerance - error.max()) / 2
        if used >= max_points:
            settled[:] = True
        value += part_values[settled].sum(axis=(0, 1))
        error += difference[settled].sum(axis=0)
        cells = parts[np.repeat(~settled, len(parts) // len(cells))]
        whole = part_values[~settled].reshape(-1, columns)
    return value, error


def split(cells: Floats) -> Floats:
    """Every cell cut in half along each of its sides; the parts of one cell stay together."""
    for j in range(cells.shape[1]):
        left, right = cells.copy(), cells.copy()
        left[:, j, 1] = right[:, j, 0] = cells[:, j].mean(axis=1)
        cells = np.stack([left, right], axis=1).reshape(-1, *cells.shape[1:])
    return cells


def _gauss(integrand: Integrand, cells: Floats, kinks: Sequence[Kink]) -> tuple[Floats, Floats]:
    """Integrals per cell, shape (c, j), and what unseen kinks may add to them."""
    dimension = cells.shape[1]
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER[dimension])
    grid = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), axis=-1)
    grid = grid.reshape(-1, dimension)
    weight = np.stack(np.meshgrid(*[weights] * dimension, indexing="ij"), axis=-1)
    weight = weight.reshape(-1, dimension).prod(axis=1)
    centre, half = cells.mean(axis=2), (cells[:, :, 1] - cells[:, :, 0]) / 2
    per_chunk = max(1, _CHUNK // len(grid))
    sums, doubts = [], []
    for start in range(0, len(cells), per_chunk):
        some = slice(start, start + per_chunk)
        points = centre[some, None, :] + half[some, None, :] * grid
        values = integrand(points.reshape(-1, dimension)).reshape(len(points), len(grid), -1)
        volume = half[some].prod(axis=1)[:, None]
        sums.append(np.einsum("cgj,g->cj", values, weight) * volume)
        doubts.append(_doubt(values, kinks) * volume * 2.0**dimension)
    return np.concatenate(sums), np.concatenate(doubts)


def _doubt(values: Floats, kinks: Sequence[Kink]) -> Floats:
    """Per cell and column, the mean of the target that a corner between points could hide.

    The outermost points are within 4 % of the cell's side from its edge, so that a guard that is
    about linear changes by less than 15 % of its range on the way there, over a tenth of the cell.
    """
    doubts = np.zeros((len(values), values.shape[2]))
    for kink in kinks:
        guard = values[:, :, kink.guard]
        low, high = guard.min(axis=1), guard.max(axis=1)
        near = np.abs(guard).min(axis=1) < 0.15 * (high - low)
        suspect = near | ((low < 0) & (high > 0))
        hidden = 0.1 * 0.15 * (high - low) * values[:, :, kink.weight].max(axis=1)
        doubts[:, kink.target] = np.where(suspect, hidden, 0.0)
    return doubts


def _side(unit: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * unit, np.full_like(unit, high - low)
    unit = np.clip(unit, _EDGE, 1 - _EDGE)
    if math.isfinite(low):
        return low + unit / (1 - unit), 1 / (1 - unit) ** 2
    if math.isfinite(high):
        return high - (1 - unit) / unit, 1 / unit**2
    both = 4 * unit * (1 - unit)  # 1 - t² for t = 2·unit - 1, without cancellation
    centred = 2 * unit - 1
    return centred / both, 2 * (1 + centred**2) / both**2
