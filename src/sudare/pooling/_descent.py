"""Gradient descent over sessions: steps of one length, from zero, decided by public numbers alone.

The loss of all N rows falls along their gradients, each clipped to length C. T sessions of noise σ
move the coefficients by about S·σ√p/(N√T), S the whole way of all T steps. So S is the least of two
lengths: `FARTHEST`, beyond which more steps no longer help, and where that noise is `LOUDEST` long.
The result is the average of the second half of the way, whose noise partly cancels. All constants
were chosen on other data than those of any table in the documentation.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.pooling._sessions import CLIP, PoolTerms
from sudare.releases import Contract

Array = NDArray[np.float64]
FARTHEST = 1024.0
LOUDEST = 4.0
SQUARED = 0.125
"""Of the way for squared loss, whose curvature is four times that of logistic loss."""
_STRICT = 9.0
"""Standard deviations: honest sums are longer with a probability below 1e-18."""


@dataclass(frozen=True)
class Descent:
    """The schedule of a plan's gradient sessions for so many rows."""

    contract: Contract
    rows: int
    sessions: int
    sum_std: float
    """Of each number of a session's sum."""

    @classmethod
    def of(cls, terms: PoolTerms, rows: int) -> "Descent":
        return cls(terms.plan.contract, rows, len(terms.sessions), terms.noise_std)

    @property
    def step(self) -> float:
        """What an average gradient is multiplied by; rows are at most 1 long."""
        p, many = self.contract.dimension, self.sessions
        quiet = LOUDEST * self.rows * math.sqrt(many) / (self.sum_std * math.sqrt(p))
        way = min(FARTHEST, quiet) * (1.0 if self._classifies else SQUARED)
        return way / many

    @property
    def longest_sum(self) -> float:
        """Of an honest session: everybody's clipped gradients, and noise."""
        return self.rows * CLIP + self.sum_std * (math.sqrt(self.contract.dimension) + _STRICT)

    def result(self, visited: Array) -> Array:
        """The coefficients of the contract's rows, from where each session led."""
        average: Array = visited[self.sessions // 2 :].mean(axis=0)
        return average * self.unit

    @property
    def unit(self) -> float:
        """From coefficients of rows at most 1 long to those of the contract's."""
        return (self.contract.target_bound or 1.0) / self.contract.full_norm

    @property
    def noise_std(self) -> float:
        """About what privacy adds to a coefficient of the contract's rows, if spread evenly."""
        curvature = (0.25 if self._classifies else 1.0) / self.contract.dimension
        kept = (1 - min(self.step * curvature, 1.0)) ** (2 * np.arange(self.sessions))
        return float(self.step * self.sum_std / self.rows * np.sqrt(kept.sum())) * self.unit

    @property
    def _classifies(self) -> bool:
        return self.contract.task == "classification"
