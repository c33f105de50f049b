"""From rows to the whole numbers of a session, and from a sum back to what it means.

Vectors are laid out as cross or gradient (p), which is all of a gradient session, the upper
triangle of a symmetric matrix off its diagonal, its diagonal over √2, then Σy² over √2 (moments of
numbers), then how far organisations differ (moments). Everything is rounded once, to the session's
grid, before noise is added.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sudare.calibration import SESSION_WEIGHT
from sudare.foundations import checks
from sudare.pooling._sessions import (
    APART_RADIUS,
    APART_ROWS,
    APART_WEIGHT,
    BLOCK,
    CLIP,
    POISSON_WEIGHT,
    Session,
)
from sudare.pooling._shares import NoiseShares
from sudare.releases import Contract

Array = NDArray[np.float64]
Steps = NDArray[np.int64]
_FARTHEST = 2.0**61
"""Steps beyond which a sum is cut off; no admissible rows come near it."""


class MomentSums(NamedTuple):
    """Sums of a moments session, in units of ‖x‖ ≤ 1 and |y| ≤ 1."""

    cross: Array
    gram: Array
    squares: float | None
    """Σy²; None for classes, where it is the number of rows."""
    apart: float
    """Σ ‖s‖²/n over organisations, s their Σyx: what exceeds the whole's says how they differ."""


class CountScale(NamedTuple):
    """Public numbers in whose parts a Poisson session sums, so that no row exceeds 1."""

    most: int
    """The largest count; means are cut at it, and residuals are in parts of it."""
    heaviest: float
    """Weights of the Hessian are cut at it and in parts of it; residuals are what they are."""


class NewtonSums(NamedTuple):
    """Score and Hessian of the logistic or Poisson log-likelihood at the session's θ."""

    score: Array
    """Σ y·x·σ(−y·x·θ), or Σ(y − e^(x·θ))x: minus the gradient of the loss."""
    hessian: Array


def session_steps(
    session: Session,
    contract: Contract,
    table: Array,
    targets: Array,
    theta: Array | None = None,
    scale: CountScale | None = None,
) -> Steps:
    """An organisation's own sums for a session, rounded to its grid.

    Args:
        table: Rows as the study encodes them; they are shortened to the contract's norm here.
        targets: −1 and 1, or numbers within the target's bound.
        theta: The public coefficients of any session but the moments'.
        scale: Of a Poisson session, whose largest count is the target's upper bound.
    """
    if len(table) != len(targets) or not len(table):
        raise checks.InvalidInput("Expected a target for each row, and at least one row")
    if session.kind == "moments":
        values = _moments(session, contract, table, targets)
    elif theta is None:
        raise checks.InvalidInput("Expected theta: this session is evaluated at coefficients")
    elif session.kind == "newton":
        values = _newton(contract, table, targets, theta)
    elif session.kind == "poisson":
        if scale is None:
            raise checks.InvalidInput("Expected scale: this session sums counts")
        values = _poisson(contract, table, targets, theta, scale)
    else:
        values = _gradient(contract, table, targets, theta)
    steps = np.rint(np.ldexp(values, -session.shares(theta).grid_exponent))
    return np.clip(steps, -_FARTHEST, _FARTHEST).astype(np.int64)


def read_moments(session: Session, steps: Steps) -> MomentSums:
    """What the sum of a moments session says."""
    p, values = session.dimension, _values(session.shares(), steps)
    squares = math.sqrt(2) * float(values[-2]) if session.squares else None
    return MomentSums(values[:p], _matrix(values, p), squares, float(values[-1]) / APART_WEIGHT)


def read_newton(session: Session, steps: Steps, theta: Array) -> NewtonSums:
    """What the sum of a Newton session at θ says."""
    p, values = session.dimension, _values(session.shares(theta), steps)
    return NewtonSums(values[:p], _matrix(values, p) / session.weight)


def read_gradient(session: Session, steps: Steps) -> Array:
    """What the sum of a gradient session says: rows' clipped gradients of the loss, added up."""
    return _values(session.shares(), steps)


def agreed_theta(theta: Array, longest: float) -> Array:
    """Coefficients as all organisations write them: short enough, on a grid of 2⁻²⁰."""
    length = math.hypot(*theta)
    if not math.isfinite(length):
        return np.zeros_like(theta)
    shortened = theta * min(1.0, longest * (1 - 2.0**-16) / max(length, 1e-300))
    return np.asarray(np.rint(shortened * 2.0**20) * 2.0**-20)


def _moments(session: Session, contract: Contract, table: Array, targets: Array) -> Array:
    p, n = contract.dimension, len(table)
    cross, gram, squares = np.zeros(p), np.zeros((p, p)), 0.0
    for rows, y in _blocks(contract, table, targets):
        cross += y @ rows
        gram += rows.T @ rows
        squares += float(y @ y)
    length = float(np.linalg.norm(cross))
    apart = min(length, APART_RADIUS * n) ** 2 / n if n >= APART_ROWS else 0.0
    last = [squares / math.sqrt(2)] if session.squares else []
    return np.concatenate([cross, _vector(gram), last, [APART_WEIGHT * apart]])


def _newton(contract: Contract, table: Array, signs: Array, theta: Array) -> Array:
    p = contract.dimension
    pull, curvature = np.zeros(p), np.zeros((p, p))
    for rows, y in _blocks(contract, table, signs):
        wrong = expit(-y * (rows @ theta))
        pull += (y * wrong) @ rows
        curvature += (rows * (wrong * (1 - wrong))[:, None]).T @ rows
    return np.concatenate([pull, SESSION_WEIGHT * _vector(curvature)])


def _poisson(
    contract: Contract, table: Array, targets: Array, theta: Array, scale: CountScale
) -> Array:
    p, most = contract.dimension, scale.most
    pull, curvature = np.zeros(p), np.zeros((p, p))
    for rows, y in _blocks(contract, table, targets):
        counts = np.rint((y + 1) / 2 * most)
        means = np.minimum(np.exp(np.minimum(rows @ theta, 700.0)), most)
        pull += ((counts - means) / most) @ rows
        weights = np.minimum(means / scale.heaviest, 1.0)
        curvature += (rows * weights[:, None]).T @ rows
    return np.concatenate([pull, POISSON_WEIGHT * _vector(curvature)])


def _gradient(contract: Contract, table: Array, targets: Array, theta: Array) -> Array:
    total = np.zeros(contract.dimension)
    for rows, y in _blocks(contract, table, targets):
        scores = rows @ theta
        classifies = contract.task == "classification"
        pulls = -y * expit(-y * scores) if classifies else scores - y
        # A row of zeros, whose gradient is one, may have any pull.
        most = CLIP / np.maximum(np.linalg.norm(rows, axis=1), 2.0**-1000)
        total += np.clip(pulls, -most, most) @ rows
    return total


def _blocks(contract: Contract, table: Array, targets: Array) -> Iterator[tuple[Array, Array]]:
    """Rows at most 1 long with their constant feature, and targets at most 1, block by block."""
    bound = contract.target_bound or 1.0
    for start in range(0, len(table), BLOCK):
        part = slice(start, start + BLOCK)
        rows = contract.rows(table[part]) / contract.full_norm
        yield rows, np.clip(targets[part] / bound, -1.0, 1.0)


def _vector(matrix: Array) -> Array:
    """Half-Frobenius: a symmetric matrix as a vector of half its squared norm."""
    upper = np.triu_indices(len(matrix), 1)
    return np.concatenate([matrix[upper], np.diag(matrix) / math.sqrt(2)])


def _matrix(values: Array, p: int) -> Array:
    """The symmetric matrix behind the first p(p + 1)/2 numbers after the first p."""
    upper = np.triu_indices(p, 1)
    off, matrix = len(upper[0]), np.zeros((p, p))
    matrix[upper] = values[p : p + off]
    matrix += matrix.T
    matrix[np.diag_indices(p)] = math.sqrt(2) * values[p + off : 2 * p + off]
    return matrix


def _values(shares: NoiseShares, steps: Steps) -> Array:
    if len(steps) != shares.entries:
        raise checks.InvalidInput(f"Expected {shares.entries} numbers in this sum")
    return np.ldexp(steps.astype(np.float64), shares.grid_exponent)
