"""Blends that look at own rows little or not at all: averages, and the one best learner."""

from collections.abc import Sequence

import numpy as np

from papers.blends.simplex import Array
from sudare.blending import Blend, Learners, Mixing, OwnRows, bounded
from sudare.releases import Contract, Release


class _Average(Blend):
    """One linear model: weights over the learners' coefficients."""

    def __init__(
        self, releases: Sequence[Release] = (), *, contract: Contract | None = None
    ) -> None:
        self.releases = releases
        self.contract = contract

    def _mixing(self) -> Mixing:
        return "scores"


class UniformAverage(_Average):
    """The plain average of the learners' coefficients; own rows have no say.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
    """

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        return np.full(len(learners), 1 / len(learners))


class PrecisionAverage(_Average):
    """Coefficients averaged by the inverse of their public variance; own rows have no say.

    The variance of a coefficient is its privacy noise's plus what sampling adds, of the order of
    dimension over rows in units of a row's norm and the target's bound.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
    """

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        contract = self.received_.contract
        unit = (contract.target_bound or 2.0) / contract.full_norm
        sampling = contract.dimension / learners.n * unit**2
        precision: Array = 1 / (learners.noise_std**2 + sampling)
        share: Array = precision / precision.sum()
        return share


class BestLearner(_Average):
    """The one learner with the least loss on own rows (the first of equals).

    Empirical risk minimisation over the list of learners, without penalty: simple, and not optimal
    (Lecué 2007), as the choice itself is noisy.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
    """

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        contract = self.received_.contract
        scores = rows[:] @ learners.coefficients.T
        if contract.target_bound is None:
            losses = np.logaddexp(0.0, -targets[:, None] * scores)
        else:
            losses = (bounded(scores, contract) - targets[:, None]) ** 2
        weights = np.zeros(len(learners))
        weights[np.argmin(losses.sum(axis=0))] = 1.0
        return weights
