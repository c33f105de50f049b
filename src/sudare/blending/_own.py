"""The model an organisation can fit alone: ridge-penalised, the penalty weighed by cross-fitting.

Rows are in units of the contract, so ‖x‖ ≤ 1, and penalties have the same meaning everywhere: θ is
about 1/√λ long in each direction. The weights e^{−loss left out} over a grid of penalties make one
linear model, the mean of theirs; that is what a blend is compared with, and what is left of it when
no release helps.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from sudare.blending._matching import Array, Records, RowLaw, fit, ridges

_GRID = np.geomspace(0.001, 10.0, 17)


_LARGE = np.log(300.0)
"""Penalties beyond so many times the least are held unlikely."""


def penalties(own: Records) -> Array:
    """The grid: for labels as it stands, for targets in proportion to the loss's curvature."""
    return _GRID if own.noise_variance is None else 4 * _GRID / own.noise_variance


@dataclass(frozen=True)
class OwnModel:
    """What own rows say by themselves."""

    theta: Array
    left_out: Array
    """(n,): scores by fits without the row."""
    penalties: Array
    evidence: Array
    """log likelihood of own targets under each penalty, θ integrated out."""

    @property
    def plausible(self) -> Array:
        """The evidence, less where a penalty so large says that there is nothing to learn."""
        beyond = np.maximum(np.log(self.penalties / self.penalties[0]) - _LARGE, 0.0)
        logs: Array = self.evidence - beyond**2 / 4
        return logs

    @property
    def likeliest_penalty(self) -> float:
        """The one under which own targets are most plausible."""
        return float(self.penalties[np.argmax(self.plausible)])

    def evidence_beside(self, penalty: float) -> float:
        """For comparison with beliefs under this penalty: the mean over all of them if larger.

        A belief that knows nothing has the same evidence as this penalty, neither more nor less.
        """
        beside = self.evidence[np.argmin(np.abs(np.log(self.penalties / penalty)))]
        return float(max(beside, logsumexp(self.evidence) - np.log(len(self.evidence))))


def own_model(own: Records) -> OwnModel:
    """Fit for every penalty, and weigh."""
    p = own.rows.shape[1]
    fits = fit(own, ridges(penalties(own), RowLaw(np.zeros(p), np.eye(p))))
    losses = own.losses(fits.left_out).sum(axis=1)
    weights = np.exp(-losses - logsumexp(-losses))
    return OwnModel(
        weights @ fits.theta,
        weights @ fits.left_out,
        penalties(own),
        fits.evidence,
    )


def one_class(own: Records, *, has_constant: bool) -> OwnModel:
    """Of rows with one label: its share by Laplace's rule, (n + 1)/(n + 2), as the intercept.

    Without a constant feature there is none, and the penalised fit says what can be said.
    """
    fitted, n, label = own_model(own), len(own), own.targets[0]
    if not has_constant:
        return fitted
    theta = np.zeros_like(fitted.theta)
    theta[-1] = label * np.log(n + 1) / own.rows[0, -1]
    left_out = np.full(n, label * np.log(n))
    return OwnModel(theta, left_out, fitted.penalties, fitted.evidence)


def noise_variance(rows: Array, targets: Array) -> float:
    """Of a regression: the mean square left out by the best of the penalties, of unit noise."""
    gram, moments = rows.T @ rows, rows.T @ targets
    values, vectors = np.linalg.eigh(gram)
    turned, rotated = rows @ vectors, vectors.T @ moments
    shrunk = 1 / (np.maximum(values, 0.0)[:, None] + 4 * _GRID)
    fitted = turned @ (rotated[:, None] * shrunk)
    leverage = (turned * turned) @ shrunk
    errors = (targets[:, None] - fitted) / np.maximum(1 - leverage, 1e-3)
    return float(max((errors**2).mean(axis=0).min(), 1e-6))
