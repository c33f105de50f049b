"""Scores of all methods over seeds, as gains over the own model and shares of the gap closed."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.consortia.gradients import STEPS

OWN, POOLED, HEDGED, WORTH = "own", "pooled", "hedged", "worth"
PLAIN, INFORMED = "plain own", "informed"
UNIFORM, MIRROR, STACK, DESCENT = "uniform", "mirror", "stack", "gradients"
RIVALS = (UNIFORM, MIRROR, STACK, DESCENT)

Scores = dict[tuple[float, str], float]
"""By ε and method: share of correct predictions, or of explained variance."""


class Outcome(NamedTuple):
    """One method's scores at one ε over the seeds of one set, beside own and pooled, in points."""

    score: NDArray[np.float64]
    own: NDArray[np.float64]
    pooled: NDArray[np.float64]

    @property
    def gain(self) -> NDArray[np.float64]:
        return self.score - self.own

    def mean_gain(self) -> tuple[float, float]:
        """In points, with half the width of its 95 % interval."""
        return round(float(self.gain.mean()), 9) + 0.0, _half_width(self.gain)

    def gap_closed(self) -> tuple[float, float]:
        """Ratio of means, with half the width of its 95 % interval (delta method)."""
        gap = self.pooled - self.own
        closed = float(self.gain.mean() / gap.mean())
        return closed, _half_width(self.gain - closed * gap) / abs(float(gap.mean()))


def outcomes(found: Iterable[Scores], epsilon: float) -> dict[str, Outcome]:
    """All methods; gradient descent with the step that turned out best."""
    columns: dict[str, list[float]] = defaultdict(list)
    for scores in found:
        for (at, name), score in scores.items():
            if at == epsilon:
                columns[name].append(100 * score)
    arrays = {name: np.array(column) for name, column in columns.items()}
    if steps := [arrays.pop(name) for name in map(with_step, STEPS) if name in arrays]:
        arrays[DESCENT] = max(steps, key=lambda scores: float(scores.mean()))
    own, pooled = arrays[OWN], arrays[POOLED]
    return {name: Outcome(array, own, pooled) for name, array in arrays.items()}


def with_step(step: float) -> str:
    """Gradient descent's name at this step size."""
    return f"{DESCENT}, step {step:g}"


def _half_width(values: NDArray[np.float64]) -> float:
    if len(values) < 2:
        return float("inf")
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))
