"""Symmetric matrices that ought to be positive definite, solved with whatever they hold.

Sums over own rows meet numbers that others sent, so it may depend on rows whether a matrix is
singular to working precision. An error or a warning would then say something about the rows to
whoever chose those numbers. Nothing here raises or warns, for any finite input.

Where LAPACK finds an answer and the condition is below `WORST`, the answer is LAPACK's to the last
bit. Elsewhere the matrix is taken by its eigenvalues, those below 1/WORST of the largest entry
raised to that: the nearest question that has an answer.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WORST = 1e14
"""Condition beyond which digits of an inverse are rounding and nothing else."""
_SMALLEST = 1e-250
"""Entries of a matrix that is taken for one of this size: its inverse is still a number."""


def inverse(matrices: Array) -> Array:
    """Of one symmetric matrix or of a stack of them; finite, and positive where it was repaired."""
    with np.errstate(all="ignore"):
        try:
            found = np.linalg.inv(matrices).astype(np.float64, copy=False)
        except np.linalg.LinAlgError:  # of one, and nothing is said of the others
            return _repaired(matrices)
        poor = ~(_size(matrices) * _size(found) < WORST)
        if poor.any():
            found[poor] = _repaired(matrices[poor])
    return found


def solve(matrices: Array, vectors: Array) -> Array:
    """A⁻¹b of one matrix and vector or of stacks of them; finite."""
    with np.errstate(all="ignore"):
        try:
            solved = np.linalg.solve(matrices, vectors[..., None])[..., 0]
            found = solved.astype(np.float64, copy=False)
        except np.linalg.LinAlgError:
            found = np.full_like(vectors, np.nan)
        poor = ~np.isfinite(found).all(axis=-1)
        if poor.any():
            repaired = _repaired(matrices[poor]) @ vectors[poor][..., None]
            found[poor] = np.nan_to_num(repaired[..., 0])
    return found


def _size(matrices: Array) -> Array:
    """The largest row sum of absolute entries: a norm."""
    size: Array = np.abs(matrices).sum(axis=-1).max(axis=-1)
    return size


def _repaired(matrices: Array) -> Array:
    """The inverse by eigenvalues with a floor."""
    matrices = np.nan_to_num((matrices + np.swapaxes(matrices, -1, -2)) / 2)
    scale = np.maximum(np.abs(matrices).max(axis=(-2, -1), keepdims=True), _SMALLEST)
    values, vectors = np.linalg.eigh(matrices / scale)
    raised = np.maximum(values, 1 / WORST)[..., None, :]
    found: Array = np.nan_to_num((vectors / raised) @ np.swapaxes(vectors, -1, -2) / scale)
    return found
