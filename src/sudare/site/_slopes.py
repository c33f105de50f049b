"""Slopes of straight lines, each with the interval that noise and sampling leave it.

Of releases by `sudare.estimation.least_squares`; of rows at hand by least squares. Rows and targets
are in units of ‖x‖ ≤ 1 and |y| ≤ 1, classes as −1 and +1 (docs/theory/descriptions.md).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as students_t

from sudare.estimation import NoisySums, least_squares
from sudare.study import Study

Array = NDArray[np.float64]
_LEVEL = 0.95


class Slopes(NamedTuple):
    """One slope for each coordinate, and half the length of its 95 % interval; NaN if not told."""

    values: Array
    halves: Array


def slopes_of_sums(sums: NoisySums, study: Study, scatter: float) -> Slopes:
    """Of the rows behind releases; `scatter` as in `least_squares`.

    Numbers that cannot be computed with tell nothing.
    """
    try:
        line = least_squares(sums, study, scatter)
    except np.linalg.LinAlgError:
        nothing = np.full(study.contract.dimension, np.nan)
        return Slopes(nothing, nothing)
    halves = _quantile(sums.n - study.contract.dimension) * np.sqrt(line.variances)
    return Slopes(np.where(line.told, line.slopes, np.nan), np.where(line.told, halves, np.nan))


def own_slopes(rows: Array, targets: Array) -> tuple[Slopes, float]:
    """Least squares on rows at hand, with robust errors (HC3); and the mean square about the line.

    A slope is not told where these rows do not settle it: a column that does not vary, or that
    others add up to.
    """
    n, p = rows.shape
    inverse = np.linalg.pinv(rows.T @ rows, rcond=1e-10, hermitian=True)
    rank = round(float(np.trace(inverse @ (rows.T @ rows))))
    theta = inverse @ (rows.T @ targets)
    errors = targets - rows @ theta
    scatter = float(np.clip(errors @ errors / max(n - rank, 1), 1e-6, 1.0))
    if n <= rank:
        nothing = np.full(p, np.nan)
        return Slopes(nothing, nothing), scatter
    leverage = np.einsum("ij,jk,ik->i", rows, inverse, rows)
    weighted = rows * (errors / np.maximum(1 - leverage, 1e-6))[:, None]
    spread = np.diag(inverse @ (weighted.T @ weighted) @ inverse)
    halves = _quantile(n - rank) * np.sqrt(spread)
    told = settled(rows)
    return Slopes(np.where(told, theta, np.nan), np.where(told, halves, np.nan)), scatter


def settled(rows: Array) -> NDArray[np.bool_]:
    """Which slopes these rows settle."""
    inverse = np.linalg.pinv(rows.T @ rows, rcond=1e-10, hermitian=True)
    settles: NDArray[np.bool_] = np.diag(inverse @ (rows.T @ rows)) > 1 - 1e-6
    return settles


def line_through(rows: Array, outputs: Array) -> Array:
    """The slopes of a model's outputs over these rows; NaN where they do not settle them."""
    inverse = np.linalg.pinv(rows.T @ rows, rcond=1e-10, hermitian=True)
    slopes: Array = np.where(settled(rows), inverse @ (rows.T @ outputs), np.nan)
    return slopes


def _quantile(degrees: int) -> float:
    return float(students_t.ppf((1 + _LEVEL) / 2, max(degrees, 1)))
