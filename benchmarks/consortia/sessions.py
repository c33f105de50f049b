"""Gradient sessions: many secure sums, of the gradients of all rows at coefficients known to all.

A session adds up every row's gradient at the current coefficients, clipped to length C, with the
noise of a pooled sum; replacing a row moves the sum by at most 2C. T sessions of equal size share
the budget, so each has √T times the noise, and together they are exactly (ε, δ)-DP.

The schedule is a function of public numbers. With step S/T the noise of all sessions moves the
coefficients by about S·C·σ√p/N, so S, the length of the whole way, is the least of two: `FARTHEST`,
beyond which more steps no longer help, and where that noise is `LOUDEST` long. All constants were
chosen on Pima, guImmun and synthetic data (5, 20 and 50 features), before the other sets and the
seeds of the table were looked at.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.consortia import DELTA, Array, Consortium
from benchmarks.consortia.pooled import noise_std
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier
from sudare.releases import LearnerRelease

SESSIONS = 30
CLIP = 0.25
"""Length at which a row's gradient is clipped; in a logistic regression it is at most 1."""
FARTHEST = 1024.0
LOUDEST = 4.0
SQUARED = 0.125
"""Squared loss has four times the curvature of logistic loss, so the way is a quarter as long."""


class Descent(NamedTuple):
    """Where the sessions ended."""

    theta: Array
    """Coefficients for the contract's rows, the constant feature's last."""
    noise_std: float
    """About what privacy adds to a coefficient, for rows spread evenly."""


def gradient_sessions(
    consortium: Consortium,
    epsilon: float,
    seed: int,
    *,
    colluders: int = 0,
    share: float = 1.0,
    start: Array | None = None,
    delta: float = DELTA,
) -> Descent:
    """Average of the second half of the way, from `start`, at a share of the budget μ²."""
    contract, rng = consortium.contract, seeded(seed)
    X, y = consortium.pooled()
    rows = contract.rows(X) / contract.full_norm
    targets = contract.targets(y) / (contract.target_bound or 1.0)
    unit = (contract.target_bound or 1.0) / contract.full_norm
    n, p = rows.shape
    classifies = contract.task == "classification"
    sigma = noise_std(consortium, epsilon, colluders, delta) / np.sqrt(share)
    way = min(FARTHEST, LOUDEST * n / (sigma * CLIP * np.sqrt(p))) * (1 if classifies else SQUARED)
    step, noise = way / SESSIONS, sigma * CLIP * np.sqrt(SESSIONS) / n
    longest = CLIP / np.linalg.norm(rows, axis=1)
    theta = np.zeros(p) if start is None else start / unit
    visited = []
    for _ in range(SESSIONS):
        scores = rows @ theta
        pulls = -targets * expit(-targets * scores) if classifies else scores - targets
        gradient = np.clip(pulls, -longest, longest) @ rows / n
        theta = theta - step * (gradient + noise * rng.standard_normal(p))
        visited.append(theta)
    curvature = (0.25 if classifies else 1.0) / p
    kept = (1 - min(step * curvature, 1.0)) ** (2 * np.arange(SESSIONS))
    return Descent(
        np.mean(visited[SESSIONS // 2 :], axis=0) * unit,
        float(step * noise * np.sqrt(kept.sum())) * unit,
    )


def as_release(consortium: Consortium, found: Descent, epsilon: float) -> LearnerRelease:
    """As coefficients that everybody else released together."""
    return LearnerRelease(
        party="gradients of all",
        contract=consortium.contract,
        n=sum(len(y) for _, y in consortium.others),
        event=MomentsClassifier(epsilon, delta=DELTA, row_norm=1.0).plan(),
        noise_std=found.noise_std,
        simulated=True,
        coefficients=tuple(found.theta),
        radius=1.0 + float(np.linalg.norm(found.theta)),
        slack=0.0,
    )
