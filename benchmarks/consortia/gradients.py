"""Ten rounds of private gradient descent: what organisations can do if they stay in touch.

In each round every organisation sends the sum of its records' gradients at the current
coefficients, with Gaussian noise; the sum over all moves the coefficients. A record's gradient is
at most 1 long (rows have norm 1; in regression the residual is clipped to 1), so replacing a record
moves an organisation's sum by at most 2, and ten rounds together are exactly (ε, δ)-DP with noise
2√10/μ(ε, δ). This is federated averaging with one local step and all organisations in every round.
It needs ten exchanges with everyone online, where a release needs one message.
"""

import numpy as np
from scipy.special import expit

from benchmarks.consortia import DELTA, Array, Consortium
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.randomness import seeded

ROUNDS = 10
STEPS = (0.1, 1.0, 4.0, 16.0, 64.0)
"""Step sizes to try, in units of unit rows."""


def gradient_descent(
    consortium: Consortium, epsilon: float, seed: int, step: float, delta: float = DELTA
) -> Array:
    """Coefficients for the contract's rows, the constant feature's last."""
    contract, rng = consortium.contract, seeded(seed)
    sizes = [len(consortium.own_y), *(len(y) for _, y in consortium.others)]
    starts = np.cumsum([0, *sizes[:-1]])
    X, y = consortium.pooled()
    rows = contract.rows(X) / contract.full_norm
    targets = contract.targets(y) / (contract.target_bound or 1.0)
    honesty = np.append(1.0, consortium.factors())
    noise_std = 2 * np.sqrt(ROUNDS) / gaussian_mu(epsilon, delta)
    theta = np.zeros(contract.dimension)
    for _ in range(ROUNDS):
        scores = rows @ theta
        if contract.task == "classification":
            pulls = -targets * expit(-targets * scores)
        else:
            pulls = np.clip(scores - targets, -1, 1)
        sums = np.add.reduceat(pulls[:, None] * rows, starts)
        sums += noise_std * rng.standard_normal(sums.shape)
        theta -= step * (honesty @ sums) / len(y)
    return theta * (contract.target_bound or 1.0) / contract.full_norm
