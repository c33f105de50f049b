"""What moments releases are worth, to first order, before any method is chosen.

At the pooled model's θ, own rows carry the information I = Σp(1−p)xxᵀ about θ, and an estimate with
information I has an expected excess log-loss of ½tr(I⁻¹H), H the mean of p(1−p)xxᵀ. The others'
Σyx, summed, has the derivative D = 2nH in θ and the variance V = nE[xxᵀ] + Mσ²1: sampling, as rows
themselves are not released, and noise. So it adds D V⁻¹D, even if the law of rows were known. The
share of the gap in excess log-loss between own and pooled that this closes is what a good method
can hope for. Where classes are well apart p(1−p) is small, rows' own spread hides what labels say,
and even noiseless sums are worth little.
"""

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from benchmarks.consortia import DELTA, Array, Consortium
from sudare.learners._moments import moments_seal

RIDGE = 0.3
"""Prior information on each coefficient, in units of unit rows; about what pooled fits choose."""


def worth(consortium: Consortium, epsilon: float, delta: float = DELTA) -> float:
    """Share of the excess log-loss of the own model, beyond the pooled one's, that can go."""
    contract = consortium.contract
    X, y = consortium.pooled()
    rows, own = (contract.rows(table) / contract.full_norm for table in (X, consortium.own_X))
    p, n = rows.shape[1], len(rows) - len(own)
    model = LogisticRegression(C=1 / RIDGE, fit_intercept=False, max_iter=1000)
    theta = model.fit(rows, y).coef_[0]
    prior = RIDGE * np.eye(p)
    curvature = _information(rows, theta) / len(rows)
    alone = _information(own, theta) + prior
    noise = sum(
        moments_seal(len(y), p, epsilon, delta).noise_std ** 2 for _, y in consortium.others
    )
    variance = n * (rows.T @ rows) / len(rows) + noise * np.eye(p)
    slope = 2 * n * curvature
    together = alone + slope @ np.linalg.solve(variance, slope)
    pooled = len(rows) * curvature + prior

    def excess(information: Array) -> float:
        return 0.5 * float(np.trace(np.linalg.solve(information, curvature)))

    return (excess(alone) - excess(together)) / (excess(alone) - excess(pooled))


def _information(rows: Array, theta: Array) -> Array:
    probability = expit(rows @ theta)
    weighted: Array = rows * (probability * (1 - probability))[:, None]
    return weighted.T @ rows
