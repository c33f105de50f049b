"""From moments to coefficients: what Σyx/n of somebody's rows says of the θ behind them.

A target τ with error variance V speaks about Σyx/n under a law of rows, and a normal law of θ says
what is usual. The energy

    ½ rᵀV⁻¹r + ½ θᵀPθ,  r = τ − E[x·tanh(θ·x/2)]   of labels, x normal
                        r = τ − E[xxᵀ]θ            of numeric targets

is least at `matched`'s mean, and its curvature there the precision of a normal law of that θ.
"""

from dataclasses import dataclass

import numpy as np

from sudare.blending._records import Array, Laws, log_det
from sudare.learners import label_means, solve

_NODES = 40
_STEPS = 60
_HALVINGS = 14


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
class Matched:
    """Laws of the θ behind targets, and how well each prior foretold its target."""

    laws: Laws
    slopes: Array
    """(K, p, p): how E[x·tanh(θ·x/2)], or E[xxᵀ]θ, moves with θ there."""
    evidence: Array


def matched(targets: Array, precisions: Array, priors: Array, law: RowLaw, labels: bool) -> Matched:
    """All at once: targets (K, p), their V⁻¹ and prior precisions P (K, p, p)."""
    theta = np.zeros_like(targets)
    ahead = np.arange(len(targets))

    def energy(theta: Array, at: np.ndarray) -> tuple[Array, Array, Array, Array]:
        expected, slope = expected_labels(theta, law) if labels else expected_targets(theta, law)
        residual = targets[at] - expected
        weighted = np.einsum("kij,kj->ki", precisions[at], residual)
        pull = np.einsum("kij,kj->ki", priors[at], theta)
        value = ((residual * weighted).sum(axis=1) + (theta * pull).sum(axis=1)) / 2
        gradient = pull - np.einsum("kji,kj->ki", slope, weighted)
        curvature = slope.transpose(0, 2, 1) @ precisions[at] @ slope + priors[at]
        return value, gradient, curvature, slope

    value, gradient, curvature, slopes = energy(theta, ahead)
    for _ in range(_STEPS):
        step = -solve(curvature[ahead], gradient[ahead])
        promised = -(step * gradient[ahead]).sum(axis=1)
        # What is found enters own fits as a mean: it must be exact, so the last steps, whose gain
        # is below rounding, are taken too.
        roughly = value[ahead] + 1e-12 * np.maximum(1.0, np.abs(value[ahead]))
        fraction, waiting = 1.0, np.arange(len(ahead))
        for _ in range(_HALVINGS):
            chosen = ahead[waiting]
            trial = theta[chosen] + fraction * step[waiting]
            found = energy(trial, chosen)
            lower = found[0] <= roughly[waiting]
            better = chosen[lower]
            theta[better] = trial[lower]
            value[better], gradient[better], curvature[better], slopes[better] = (
                part[lower] for part in found
            )
            waiting, fraction = waiting[~lower], fraction / 2
            if not len(waiting):
                break
        moved = np.ones(len(ahead), dtype=bool)
        moved[waiting] = False
        ahead = ahead[moved & (promised > 1e-22 * np.maximum(1.0, np.abs(value[ahead])))]
        if not len(ahead):
            break
    evidence = (log_det(priors) - log_det(curvature)) / 2 - value
    return Matched(Laws(theta, curvature), slopes, evidence)


def expected_targets(theta: Array, law: RowLaw) -> tuple[Array, Array]:
    """E[xxᵀ]θ and its slope."""
    second = law.second
    return theta @ second, np.broadcast_to(second, (len(theta), *second.shape)).copy()


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
