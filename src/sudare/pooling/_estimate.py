"""Coefficients from noisy sums, with the noise of every sum counted.

A Newton session gives the score g and the Hessian H of the log-likelihood at a public θ₀, both with
noise: e on g of standard deviation σ, E on H of σ/k off its diagonal and √2 times that on it. For
the truth θ* and d = θ* − θ₀, what is left over, g + e − (H + E)d, has variance

    V = H + σ²I + (σ/k)²(‖d‖²I + ddᵀ)

up to the curve's third order, since Var(Ed) = (σ/k)²(‖d‖²I + ddᵀ). `newton_step` solves for θ by
weighting with V⁻¹, in a few rounds because V depends on d and on the uncertainty of θ itself.

Of counts the same holds, with means e^(x·θ) as weights of the Hessian (`_poisson`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.learners import inverse

Array = NDArray[np.float64]
_ROUNDS = 8
WIDE = 10.0
"""Standard deviation of a prior wide enough not to matter: log-odds for a row of norm 1."""


class Estimated(NamedTuple):
    """Coefficients and their covariance, sampling and noise together."""

    theta: Array
    covariance: Array


def newton_step(
    start: Array,
    score: Array,
    hessian: Array,
    noise_std: float,
    hessian_noise_std: float,
    prior: Array | None = None,
) -> Estimated:
    """The coefficients that noisy score and Hessian at `start` point to.

    `prior` holds the standard deviation of each coefficient's wide prior, by default 10.
    """
    p = len(start)
    doubt = np.diag((np.full(p, WIDE) if prior is None else prior) ** -2.0)
    values, vectors = np.linalg.eigh(hessian)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    theta, covariance = start, np.zeros((p, p))
    target = score + positive @ start
    for _ in range(_ROUNDS):
        d = theta - start
        spread = (float(d @ d) + float(np.trace(covariance))) * np.eye(p)
        spread += np.outer(d, d) + covariance
        variance = positive + noise_std**2 * np.eye(p) + hessian_noise_std**2 * spread
        weighted = positive @ inverse(variance)
        covariance = inverse(weighted @ positive + doubt)
        theta = covariance @ weighted @ target
    return Estimated(theta, covariance)
