"""Data splitting and mixing: calibrate on one half of the own rows, weigh on the other.

After Yang (2000, 2001): half of the rows adjust every learner, the other half gives it a weight by
how likely they are under it, and the result is averaged over several random splits. Received
learners come trained, so what is adjusted is their scale: noise for privacy makes coefficients too
long, and regularisation too short. Here a scale of 1 counts as much as one row.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from scipy.special import expit, logsumexp

from papers.blends.simplex import Array
from sudare.blending import Blend
from sudare.foundations import checks
from sudare.foundations.randomness import Generator, as_generator
from sudare.releases import Contract, Release


class SplitMixing(Blend):
    """Scaled learners, mixed by likelihood on rows that did not scale them.

    `components_` holds the learners of every split, each scaled by that split, and `weights_` their
    weights; predictions or probabilities are mixed.

    Args:
        releases: What other parties released: learners, or moments, from which each makes one.
        contract: What the releases are expected to agree on; by default that of the first.
        splits: How many random halvings to average over.
        rng: A number (or a generator) for the halvings; they protect nothing.
    """

    def __init__(
        self,
        releases: Sequence[Release] = (),
        *,
        contract: Contract | None = None,
        splits: int = 10,
        rng: Generator | int = 0,
    ) -> None:
        self.releases = releases
        self.contract = contract
        self.splits = splits
        self.rng = rng

    def fit(self, X: object, y: object) -> Self:
        """Learn scales and weights from own rows and targets."""
        checks.count(splits=self.splits)
        rng = as_generator(self.rng)
        learners, rows, targets = self._begin(X, y)
        if len(rows) < 2:
            raise checks.InvalidInput("Expected at least two rows to split")
        bound = self.received_.contract.target_bound
        scores = rows[:] @ learners.coefficients.T
        components, weights = [], []
        for _ in range(self.splits):
            order = rng.permutation(len(rows))
            first, second = np.array_split(order, 2)
            half = scores[first], targets[first], scores[second], targets[second]
            scale, evidence = _classes(*half) if bound is None else _numbers(*half, bound)
            components.append(scale[:, None] * learners.coefficients)
            weights.append(np.exp(evidence - logsumexp(evidence)) / self.splits)
        self._keep(learners.parties * self.splits, np.vstack(components), np.concatenate(weights))
        return self


def _classes(scores: Array, signs: Array, new: Array, new_signs: Array) -> tuple[Array, Array]:
    """Scales by penalised maximum likelihood, and the log-likelihood of the other half."""
    margins = signs[:, None] * scores
    # One row's worth of belief in the scale 1, in units of the learner's own scores.
    weight = (margins * margins).mean(axis=0) / 4 + 1e-12
    scale = np.ones(scores.shape[1])
    for _ in range(50):
        wrong = expit(-scale * margins)
        slope = weight * (scale - 1) - (wrong * margins).sum(axis=0)
        curvature = weight + (wrong * (1 - wrong) * margins * margins).sum(axis=0)
        change = np.clip(-slope / curvature, -1.0, 1.0)
        scale += change
        if np.abs(change).max() < 1e-9:
            break
    losses = np.logaddexp(0.0, -new_signs[:, None] * new * scale)
    return scale, -losses.sum(axis=0)


def _numbers(
    scores: Array, y: Array, new: Array, new_y: Array, bound: float
) -> tuple[Array, Array]:
    """Scales by penalised least squares, and the normal log-likelihood of the other half."""
    squares = (scores * scores).sum(axis=0)
    weight = squares / len(y) + 1e-12 * bound**2
    scale = (y @ scores + weight) / (squares + weight)
    error = y[:, None] - np.clip(scale * scores, -bound, bound)
    # The target's bound stands for one more row: no variance is zero.
    variance = ((error * error).sum(axis=0) + bound**2 / len(y)) / (len(y) + 1)
    error = new_y[:, None] - np.clip(scale * new, -bound, bound)
    evidence = -(error * error).sum(axis=0) / (2 * variance) - len(new_y) / 2 * np.log(variance)
    return scale, evidence
