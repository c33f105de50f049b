"""Fits to own rows under many beliefs about the coefficients at once, each with its evidence.

A belief says where θ should be, and how sure that is: a target τ, the variance V of its error, what
it speaks about, and a ridge penalty λ. Its energy is

    ½ rᵀV⁻¹r + (λ/2)‖θ‖²,  r = τ − E[x·tanh(θ·x/2)]   about Σyx/n of labels, x normal
                           r = τ − E[xxᵀ]θ            about Σyx/n of numeric targets
                           r = τ − θ                  about θ itself

and e^{−energy}, normalised, a prior law of θ. `fit` minimises own loss plus energy, for all beliefs
in one go, by Gauss and Newton's method with halved steps. For each belief it gives

    left out    θ·x for every own row, by the fit that never saw that row: one Newton step from the
                full fit (Rad and Maleki 2020), exact for squared loss
    evidence    log ∫ e^{−loss} dprior, both integrals by Laplace's method: how well the belief
                foretold own targets
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sudare.learners import inverse, label_means, solve

Array = NDArray[np.float64]

_NODES = 40
_STEPS = 60
_HALVINGS = 14
_CELLS = 2**22
"""Numbers in one block of rows × beliefs × dimensions."""


About = Literal["labels", "targets", "coefficients"]
"""What a belief's target speaks about, and so which r."""


@dataclass(frozen=True)
class RowLaw:
    """Rows as the releases and the own rows describe them: normal, with these moments."""

    mean: Array
    spread: Array

    @property
    def second(self) -> Array:
        """E[xxᵀ]."""
        return self.spread + np.outer(self.mean, self.mean)


@dataclass(frozen=True)
class Beliefs:
    """K laws of θ, as described above."""

    target: Array
    """(K, p)."""
    precision: Array
    """(K, p, p): V⁻¹; zero for a belief that knows nothing but its penalty."""
    about: About
    penalty: Array
    """(K,)."""
    law: RowLaw

    def __len__(self) -> int:
        return len(self.penalty)

    def residuals(self, theta: Array, chosen: NDArray[np.intp]) -> tuple[Array, Array]:
        """r and minus its slope, for some of the beliefs."""
        if self.about == "labels":
            expected, slope = expected_labels(theta, self.law)
            return self.target[chosen] - expected, slope
        matrix = self.law.second if self.about == "targets" else np.eye(theta.shape[1])
        slope = np.broadcast_to(matrix, (len(theta), *matrix.shape))
        return self.target[chosen] - theta @ matrix, slope


def ridges(penalties: Array, law: RowLaw) -> Beliefs:
    """Beliefs that θ is small, and nothing else."""
    k, p = len(penalties), len(law.mean)
    return Beliefs(np.zeros((k, p)), np.zeros((k, p, p)), "coefficients", penalties, law)


@dataclass(frozen=True)
class Records:
    """Own rows and targets, in units of the contract, and their loss."""

    rows: Array
    targets: Array
    noise_variance: float | None = None
    """Of targets about θ·x; None for labels −1 and +1 with logistic loss."""

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
class Fits:
    """What own rows make of the beliefs."""

    theta: Array
    """(K, p)."""
    left_out: Array
    """(K, n): the score of each own row, by the fit without it."""
    evidence: Array
    """(K,)."""


def fit(own: Records, beliefs: Beliefs) -> Fits:
    """Own rows under every belief."""
    start, prior_energy, prior_curvature = _minimise(None, beliefs, np.zeros_like(beliefs.target))
    theta, energy, hessians = _minimise(own, beliefs, start)
    scores = theta @ own.rows.T
    pulls, curvatures = own.pulls(scores)
    leverages = own.leverages(hessians)
    left_out = scores - pulls * leverages / np.maximum(1 - curvatures * leverages, 1e-3)
    evidence = prior_energy - energy + (_log_det(prior_curvature) - _log_det(hessians)) / 2
    return Fits(theta, left_out, evidence)


def release_evidence(beliefs: Beliefs) -> Array:
    """log ∫ e^{−½rᵀV⁻¹r} N(θ; 0, I/λ) dθ: how well each penalty foretold the released target."""
    _, energy, curvature = _minimise(None, beliefs, np.zeros_like(beliefs.target))
    p = beliefs.target.shape[1]
    logs: Array = -energy + (p * np.log(beliefs.penalty) - _log_det(curvature)) / 2
    return logs


def expected_labels(theta: Array, law: RowLaw) -> tuple[Array, Array]:
    """E[x·t(θ·x)] and its slope E[xxᵀ·t'(θ·x)], t = tanh(·/2), by Stein's identity.

    With e_i the mean of t's i-th derivative over z = θ·x and c = spread·θ: the first is
    m·e₀ + c·e₁, the second e₁·E[xxᵀ] + e₂·(mcᵀ + cmᵀ) + e₃·ccᵀ.
    """
    pull = theta @ law.spread
    deviation = np.sqrt(np.maximum((theta * pull).sum(axis=1), 0.0))
    e0, e1, e2, e3 = label_means(theta @ law.mean, deviation, _NODES)
    expected = e0[:, None] * law.mean + e1[:, None] * pull
    cross = law.mean[:, None] * pull[:, None, :]
    slope: Array = (
        e1[:, None, None] * law.second
        + e2[:, None, None] * (cross + cross.transpose(0, 2, 1))
        + e3[:, None, None] * pull[:, :, None] * pull[:, None, :]
    )
    return expected, slope


def _minimise(own: Records | None, beliefs: Beliefs, start: Array) -> tuple[Array, Array, Array]:
    """Minimisers, the least energy (with own loss, if any) and the curvature there."""
    theta, ahead = start.copy(), np.arange(len(beliefs))
    energy, gradient, hessian = _energy(own, beliefs, theta, ahead)
    for _ in range(_STEPS):
        step = -solve(hessian[ahead], gradient[ahead])
        before, fraction, waiting = energy[ahead], 1.0, np.arange(len(ahead))
        for _ in range(_HALVINGS):
            chosen = ahead[waiting]
            trial = theta[chosen] + fraction * step[waiting]
            found = _energy(own, beliefs, trial, chosen)
            lower = found[0] <= before[waiting]
            better = chosen[lower]
            theta[better] = trial[lower]
            energy[better], gradient[better], hessian[better] = (part[lower] for part in found)
            waiting, fraction = waiting[~lower], fraction / 2
            if not len(waiting):
                break
        # Fits whose energy no step lowers have converged, up to rounding.
        ahead = ahead[before - energy[ahead] > 1e-9 * np.maximum(1.0, np.abs(before))]
        if not len(ahead):
            break
    return theta, energy, hessian


def _energy(
    own: Records | None, beliefs: Beliefs, theta: Array, chosen: NDArray[np.intp]
) -> tuple[Array, Array, Array]:
    """Value, gradient and Gauss and Newton's curvature."""
    precision, penalty = beliefs.precision[chosen], beliefs.penalty[chosen]
    residual, slope = beliefs.residuals(theta, chosen)
    weighted = np.einsum("kij,kj->ki", precision, residual)
    value = ((residual * weighted).sum(axis=1) + penalty * (theta * theta).sum(axis=1)) / 2
    gradient = penalty[:, None] * theta - np.einsum("kji,kj->ki", slope, weighted)
    curvature = slope.transpose(0, 2, 1) @ precision @ slope
    curvature += penalty[:, None, None] * np.eye(theta.shape[1])
    if own is not None:
        scores = theta @ own.rows.T
        pulls, curvatures = own.pulls(scores)
        value = value + own.losses(scores).sum(axis=1)
        gradient = gradient - pulls @ own.rows
        curvature = curvature + own.grams(curvatures)
    return value, gradient, curvature


def _log_det(matrices: Array) -> Array:
    logs: Array = np.linalg.slogdet(matrices)[1]
    return logs
