"""What noisy sums, and own rows, say of a straight line: slopes with noise and sampling in them.

The slopes θ* are those of least squares of the target (classes as −1 and +1) on the features and
the constant: θ* = E[xxᵀ]⁻¹E[yx]. They exist whatever the law of the rows, which is why they can be
told from sums of xxᵀ and yx; coefficients on the log-odds scale cannot, unless rows are normal.
Rows and targets are in units of ‖x‖ ≤ 1 and |y| ≤ 1.

A release tells Q̃ = Q + E and s̃ = s + e with independent normal noise of standard deviation σ, √2σ
on the diagonal of E. At any θ, Var(e − Eθ) = σ²((1 + ‖θ‖²)I + θθᵀ), exactly; and s − Qθ* varies
from sample to sample by about v·Q, v the mean square about the line. So s̃ − Q̃θ* has mean 0 and the
sum of both as its variance V, which gives θ̂ = (Q̃V⁻¹Q̃ + I/B²)⁻¹Q̃V⁻¹s̃ and its variance. B = √p/2 is a
public bound on what slopes of bounded targets can sensibly be; it only keeps directions that hardly
any row has from spoiling the others. A slope is told if its standard deviation stays below B/2 with
every eigenvalue of Q̃ lowered by 5√2σ: a smaller margin lets rare categories through that the noise
made up (docs/theory/descriptions.md).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as students_t

Array = NDArray[np.float64]
_ROUNDS = 8
_SAFE = 5 * np.sqrt(2)
_LEVEL = 0.95


class Slopes(NamedTuple):
    """One slope for each coordinate, and half the length of its 95 % interval; NaN if not told."""

    values: Array
    halves: Array


class Sums(NamedTuple):
    """What is known of some rows: Σyx and Σxxᵀ with noise, and how many rows there are."""

    cross: Array
    gram: Array
    n: int
    noise_std: float
    square: float
    """Σx_p², of the constant feature: public. Zero without one."""

    def slopes(self, squares: float | None, scatter: float) -> Slopes:
        """Of these rows. `squares` is Σy²; without it `scatter` is the mean square about the line.

        For classes Σy² is n. Numbers that cannot be computed with tell nothing.
        """
        try:
            return self._slopes(squares, scatter)
        except np.linalg.LinAlgError:
            nothing = np.full(len(self.cross), np.nan)
            return Slopes(nothing, nothing)

    def _slopes(self, squares: float | None, scatter: float) -> Slopes:
        gram, p, variance = self.gram.copy(), len(self.cross), self.noise_std**2
        if self.square > 0:
            gram[-1, -1] = self.square
        values, vectors = np.linalg.eigh(gram)
        if not values[-1] > _SAFE * self.noise_std:  # nothing can be told: spare the rest
            raise np.linalg.LinAlgError
        positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
        surely = (vectors * np.maximum(values - _SAFE * self.noise_std, 0.0)) @ vectors.T
        theta, spread, law = np.zeros(p), np.zeros((p, p)), np.eye(p)
        bound = np.sqrt(p) / 2
        for _ in range(_ROUNDS):
            if squares is not None:
                rest = squares - 2 * theta @ self.cross + theta @ positive @ theta
                scatter = float(np.clip(rest / max(self.n - p, 1), 1e-6, 1.0))
            size = 1 + theta @ theta + np.trace(spread)
            law = scatter * positive + variance * (
                size * np.eye(p) + np.outer(theta, theta) + spread
            )
            weighted = np.linalg.solve(law, positive)
            spread = np.linalg.inv(positive @ weighted + np.eye(p) / bound**2)
            theta = spread @ weighted.T @ self.cross
        doubtful = np.linalg.inv(surely @ np.linalg.solve(law, surely) + np.eye(p) / bound**2)
        told = np.sqrt(np.diag(doubtful)) < bound / 2
        halves = _quantile(self.n - p) * np.sqrt(np.diag(spread))
        return Slopes(np.where(told, theta, np.nan), np.where(told, halves, np.nan))


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
