"""Gradient sessions: many secure sums, of the gradients of all rows at coefficients known to all.

A session adds up every row's gradient at the current coefficients, clipped to length C, with the
noise of a pooled sum; replacing a row moves the sum by at most 2C. T sessions of equal size share
the budget, so each has √T times the noise, and together they are exactly (ε, δ)-DP.

The schedule is that of `sudare.pooling.Descent`, a function of public numbers. Its constants were
chosen on Pima, guImmun and synthetic data (5, 20 and 50 features), before the other sets and the
seeds of the table were looked at. Here the noise is drawn once for all, without shares and masks.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.consortia import DELTA, Array, Consortium
from benchmarks.consortia.pooled import noise_std
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier
from sudare.pooling import Descent
from sudare.pooling._sessions import CLIP
from sudare.releases import LearnerRelease

SESSIONS = 30


class Walked(NamedTuple):
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
) -> Walked:
    """Average of the second half of the way, from `start`, at a share of the budget μ²."""
    contract, rng = consortium.contract, seeded(seed)
    X, y = consortium.pooled()
    rows = contract.rows(X) / contract.full_norm
    targets = contract.targets(y) / (contract.target_bound or 1.0)
    n, p = rows.shape
    # The noise of a pooled sum that a row moves by as much as 2.
    sigma = noise_std(consortium, epsilon, colluders, delta) / np.sqrt(share)
    walk = Descent(contract, n, SESSIONS, float(sigma * CLIP * np.sqrt(SESSIONS)))
    longest = CLIP / np.linalg.norm(rows, axis=1)
    theta = np.zeros(p) if start is None else start / walk.unit
    visited = []
    for _ in range(SESSIONS):
        scores = rows @ theta
        classifies = contract.task == "classification"
        pulls = -targets * expit(-targets * scores) if classifies else scores - targets
        total = np.clip(pulls, -longest, longest) @ rows + walk.sum_std * rng.standard_normal(p)
        theta = theta - walk.step * total / n
        visited.append(theta)
    return Walked(walk.result(np.array(visited)), walk.noise_std)


def as_release(consortium: Consortium, found: Walked, epsilon: float) -> LearnerRelease:
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
