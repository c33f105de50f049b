"""Own rows, and fits to them under many normal laws of the coefficients at once.

`fit` minimises own loss plus the energy ½(θ − μ)ᵀQ(θ − μ) of every law, by Newton's method with
halved steps. For each it gives

    left out    θ·x for every own row, by the fit that never saw that row: one Newton step from the
                full fit (Rad and Maleki 2020), exact for squared loss
    evidence    log ∫ e^{−loss} dN(θ; μ, Q⁻¹) by Laplace's method: how well the law foretold own
                targets

With `MANY` rows or more, own loss is so nearly quadratic about its minimum that all fits are one
Newton step away from it: the curvature is summed up once, and one leverage serves all fits. Losses
are those of all rows, in evidence too; only where they are minimised is approximate.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sudare.learners import inverse, solve

Array = NDArray[np.float64]

MANY = 2000
"""Own rows, and no fewer than `MANY_EACH` for each coefficient, from which all fits share one
curvature. For squared loss there is only one."""
MANY_EACH = 40
_STEPS = 60
_HALVINGS = 14
_CELLS = 2**22
"""Numbers in one block of rows × laws × dimensions."""


@dataclass(frozen=True)
class Records:
    """Own rows and targets, in units of the contract, and their loss."""

    rows: Array
    targets: Array
    noise_variance: float | None = None
    """Of targets about θ·x; None for labels −1 and +1 with logistic loss."""
    constant: float = 0.0
    """The last column, if that is the constant feature."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def curvature(self) -> float:
        """Of the loss in the score: usual for logistic loss, exact for squared."""
        return 0.2 if self.noise_variance is None else 1 / self.noise_variance

    def losses(self, scores: Array) -> Array:
        """−log likelihood of each target at these scores, up to a constant."""
        if self.noise_variance is None:
            return np.logaddexp(0.0, -self.targets * scores)
        return (self.targets - scores) ** 2 / (2 * self.noise_variance)

    def pulls(self, scores: Array) -> tuple[Array, Array]:
        """Minus the loss's slope in the score, and its curvature."""
        if self.noise_variance is None:
            wrong = expit(-self.targets * scores)
            return self.targets * wrong, wrong * (1 - wrong)
        return (
            (self.targets - scores) / self.noise_variance,
            np.full_like(scores, 1 / self.noise_variance),
        )

    def grams(self, weights: Array) -> Array:
        """Σ w·xxᵀ for each line of weights."""
        k, p = len(weights), self.rows.shape[1]
        if self.noise_variance is not None:  # all weights are alike
            return np.broadcast_to(self.rows.T @ self.rows / self.noise_variance, (k, p, p)).copy()
        size = max(1, _CELLS // (k * p))
        total = np.zeros((k, p, p))
        for start in range(0, len(self.rows), size):
            rows = self.rows[start : start + size]
            total += (weights[:, None, start : start + size] * rows.T) @ rows
        return total

    def leverages(self, hessians: Array) -> Array:
        """xᵀH⁻¹x of each row under each Hessian."""
        inverted = inverse(hessians)
        size = max(1, _CELLS // (len(inverted) * self.rows.shape[1]))
        blocks = [
            np.einsum("kni,ni->kn", self.rows[at : at + size] @ inverted, self.rows[at : at + size])
            for at in range(0, len(self.rows), size)
        ]
        return np.concatenate(blocks, axis=1)


@dataclass(frozen=True)
class Laws:
    """K normal laws of θ."""

    mean: Array
    """μ: (K, p)."""
    precision: Array
    """Q: (K, p, p), positive definite."""

    def __len__(self) -> int:
        return len(self.mean)


@dataclass(frozen=True)
class Fits:
    """What own rows make of the laws."""

    theta: Array
    """(K, p)."""
    left_out: Array
    """(K, n): the score of each own row, by the fit without it."""
    evidence: Array
    """(K,)."""


def fit(own: Records, laws: Laws) -> Fits:
    """Own rows under every law."""
    many = len(own) >= max(MANY, MANY_EACH * own.rows.shape[1])
    theta, hessians = _together(own, laws) if many else _one_by_one(own, laws)
    scores = theta @ own.rows.T
    pulls, curvatures = own.pulls(scores)
    leverages = own.leverages(hessians[:1] if many else hessians)
    left_out = scores - pulls * leverages / np.maximum(1 - curvatures * leverages, 1e-3)
    energy = own.losses(scores).sum(axis=1) + _prior_energy(laws, theta)
    evidence = (log_det(laws.precision) - log_det(hessians)) / 2 - energy
    return Fits(theta, left_out, evidence)


def log_det(matrices: Array) -> Array:
    logs: Array = np.linalg.slogdet(matrices)[1]
    return logs


def _prior_energy(laws: Laws, theta: Array) -> Array:
    off = theta - laws.mean
    energy: Array = np.einsum("ki,kij,kj->k", off, laws.precision, off) / 2
    return energy


def _together(own: Records, laws: Laws) -> tuple[Array, Array]:
    """All fits from the loss's quadratic form at one of them: that under the vaguest law."""
    vaguest = int(np.argmin(log_det(laws.precision)))
    only = Laws(laws.mean[[vaguest]], laws.precision[[vaguest]])
    (start,), _ = _one_by_one(own, only)
    pulls, curvatures = own.pulls(start[None] @ own.rows.T)
    (curvature,) = own.grams(curvatures)
    hessians = curvature + laws.precision
    towards = curvature @ start + (pulls @ own.rows)[0]
    pulled = towards + np.einsum("kij,kj->ki", laws.precision, laws.mean)
    return solve(hessians, pulled), hessians


def _one_by_one(own: Records, laws: Laws) -> tuple[Array, Array]:
    """Minimisers, and the curvature there."""
    theta, ahead = laws.mean.copy(), np.arange(len(laws))
    energy, gradient, hessian = _energy(own, laws, theta, ahead)
    for _ in range(_STEPS):
        step = -solve(hessian[ahead], gradient[ahead])
        before, fraction, waiting = energy[ahead], 1.0, np.arange(len(ahead))
        for _ in range(_HALVINGS):
            chosen = ahead[waiting]
            trial = theta[chosen] + fraction * step[waiting]
            found = _energy(own, laws, trial, chosen)
            lower = found[0] <= before[waiting]
            better = chosen[lower]
            theta[better] = trial[lower]
            energy[better], gradient[better], hessian[better] = (part[lower] for part in found)
            waiting, fraction = waiting[~lower], fraction / 2
            if not len(waiting):
                break
        # Fits whose energy no step lowers have converged, up to rounding.
        ahead = ahead[before - energy[ahead] > 1e-13 * np.maximum(1.0, np.abs(before))]
        if not len(ahead):
            break
    return theta, hessian


def _energy(
    own: Records, laws: Laws, theta: Array, chosen: NDArray[np.intp]
) -> tuple[Array, Array, Array]:
    """Value, gradient and curvature."""
    precision, off = laws.precision[chosen], theta - laws.mean[chosen]
    pull = np.einsum("kij,kj->ki", precision, off)
    scores = theta @ own.rows.T
    pulls, curvatures = own.pulls(scores)
    value = (off * pull).sum(axis=1) / 2 + own.losses(scores).sum(axis=1)
    return value, pull - pulls @ own.rows, precision + own.grams(curvatures)
