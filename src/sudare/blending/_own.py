"""The model an organisation can fit alone: ridge-penalised, the penalty weighed by cross-fitting.

Columns are centred and scaled inside, by what own rows say of them, where nothing leaves; the
intercept is all but free. Two kinds of penalty compete: of standardised columns, all alike, and of
columns in the contract's units, as their public scales were meant to say something. The weights
e^{−loss left out} over both kinds and a grid of sizes make one linear model, the mean of theirs;
that is what a blend is compared with, and what is left of it when no release helps.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from sudare.blending._records import Array, Laws, Records, fit

KINDS = 2
PENALTIES = np.geomspace(0.1, 3000.0, 12)
"""λ: θ·x varies by about d/λ if coefficients are as large as the penalty expects."""
USUAL, WIDTH = 15.0, 1.2
"""Middle and standard deviation of log λ before own rows are seen: few rows, by luck, often ask for
next to no penalty."""
LEVEL = {"labels": 0.3, "targets": 4.0}
"""Precision of the score of an average row; for targets in units of their bound."""


@dataclass(frozen=True)
class Shape:
    """What a penalty of size one is: a law of slopes, and of the average row's score."""

    slopes: Array
    """(p, p)."""
    level: Array
    """(p, p)."""

    def precision(self, penalties: Array) -> Array:
        """(K, p, p)."""
        return penalties[:, None, None] * self.slopes + self.level


@dataclass(frozen=True)
class OwnModel:
    """What own rows say by themselves."""

    theta: Array
    left_out: Array
    """(n,): scores by fits without the row."""
    evidence: float
    """log likelihood of own targets, averaged over the penalties, θ integrated out."""


def penalties(own: Records) -> Array:
    """The grid: for labels as it stands, for targets in proportion to the loss's curvature."""
    return PENALTIES if own.noise_variance is None else PENALTIES / own.noise_variance


def own_model(own: Records) -> OwnModel:
    """Fit for every penalty, and weigh."""
    grid = penalties(own)
    precision = np.concatenate([shape.precision(grid) for shape in shapes(own)])
    fits = fit(own, Laws(np.zeros(precision.shape[:2]), precision))
    chances = np.tile(usual(PENALTIES), len(precision) // len(grid))
    logs = chances - own.losses(fits.left_out).sum(axis=1)
    weights = softmax(logs)
    evidence = float(logsumexp(fits.evidence + chances))
    return OwnModel(weights @ fits.theta, weights @ fits.left_out, evidence)


def usual(grid: Array) -> Array:
    """log chances of the penalties of both kinds, before own rows are seen; all add up to one."""
    logs: Array = -((np.log(grid / USUAL) / WIDTH) ** 2) / 2
    normalised: Array = log_softmax(logs) - np.log(KINDS)
    return normalised


def shapes(own: Records) -> tuple[Shape, Shape]:
    """Standardised columns, and columns as they are."""
    spread = spreads(own)
    flat = np.full_like(spread, spread.mean())
    middle = own.rows.mean(axis=0)
    return shape_of(own, spread, middle), shape_of(own, flat, middle)


def shape_of(own: Records, spread: Array, middle: Array) -> Shape:
    """From the variances of columns and the average row."""
    p = own.rows.shape[1]
    slopes, level = np.zeros((p, p)), np.zeros((p, p))
    np.fill_diagonal(slopes[: len(spread), : len(spread)], spread)
    if own.constant > 0:
        size = LEVEL["labels" if own.noise_variance is None else "targets"]
        level = size * np.outer(middle, middle)
    return Shape(slopes, level)


def spreads(own: Records) -> Array:
    """Variances of the columns; one more row, as varied as they are on average, is made up: a
    column in which own rows are all alike has one too."""
    n = len(own)
    features = own.rows[:, :-1] if own.constant > 0 else own.rows
    variances = features.var(axis=0) if own.constant > 0 else (features**2).mean(axis=0)
    typical = max(float(variances.mean()), 1e-9) if len(variances) else 1e-9
    spread: Array = (n * variances + typical) / (n + 1)
    return spread


def one_class(own: Records) -> OwnModel:
    """Of rows with one label: its share by Laplace's rule, (n + 1)/(n + 2), as the intercept.

    Without a constant feature there is none, and the penalised fit says what can be said.
    """
    fitted, n, label = own_model(own), len(own), own.targets[0]
    if not own.constant:
        return fitted
    theta = np.zeros_like(fitted.theta)
    theta[-1] = label * np.log(n + 1) / own.constant
    left_out = np.full(n, label * np.log(n))
    return OwnModel(theta, left_out, fitted.evidence)


def noise_variance(rows: Array, targets: Array, *, has_constant: bool) -> float:
    """Of a regression: the mean square left out by the best of the penalties."""
    own = Records(rows, targets)
    n, standard = len(own), rows
    base = 0.0
    if has_constant:  # an intercept of its own: rows and targets less their means
        standard = rows[:, :-1] - rows[:, :-1].mean(axis=0)
        targets, base = targets - targets.mean(), 1 / n
        own = Records(rows, targets, constant=float(rows[0, -1]))
    standard = standard / np.sqrt(spreads(own))
    values, vectors = np.linalg.eigh(standard.T @ standard)
    turned = standard @ vectors
    shrunk = 1 / (np.maximum(values, 0.0)[:, None] + PENALTIES)
    fitted = turned @ ((turned.T @ targets)[:, None] * shrunk)
    leverage = (turned * turned) @ shrunk + base
    errors = (targets[:, None] - fitted) / np.maximum(1 - leverage, 1e-3)
    return float(max((errors**2).mean(axis=0).min(), 1e-6))
