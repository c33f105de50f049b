"""Learning one distinguishing event from a mechanism's runs.

Two steps, on different runs. From a *fit* sample come the statistics and, for each, a ladder of
thresholds. A *tally* then counts, block by block, how often each statistic passes each threshold
under either input; its memory does not grow with the number of runs. The event with the largest
lower bound on epsilon wins: a confidence bound rather than the plain ratio of counts, so that a
rare event cannot win by luck.
"""

from dataclasses import dataclass

import numpy as np

from sudare.audit import _bounds as bounds
from sudare.audit import _statistics as statistics
from sudare.audit._statistics import Floats, Statistic


@dataclass(frozen=True)
class Event:
    """A tail of a statistic, and the input under which training found it more likely."""

    statistic: Statistic
    threshold: float
    upper: bool
    likely: int

    @property
    def words(self) -> str:
        """What happened, for a reader."""
        return self.statistic.describe(self.threshold, self.upper)

    def count(self, outputs: Floats) -> int:
        """How many rows of `outputs` lie in the event."""
        values = self.statistic.evaluate(outputs)
        inside = values >= self.threshold if self.upper else values < self.threshold
        return int(np.count_nonzero(inside))


class Tally:
    """Counts of every candidate event under both inputs, in constant memory."""

    def __init__(self, fit_first: Floats, fit_second: Floats) -> None:
        self._statistics = statistics.learn(fit_first, fit_second)
        self._ladders = [
            _ladder(s.evaluate(fit_first), s.evaluate(fit_second)) for s in self._statistics
        ]
        self._steps = [np.zeros((2, len(ladder) + 1), dtype=np.int64) for ladder in self._ladders]
        self._runs = np.zeros(2, dtype=np.int64)

    def add(self, outputs: Floats, which: int) -> None:
        """Count a block of outputs of input `which` (0 or 1)."""
        self._runs[which] += len(outputs)
        for statistic, ladder, steps in zip(
            self._statistics, self._ladders, self._steps, strict=True
        ):
            values = statistic.evaluate(outputs)
            missing = np.isnan(values)
            if missing.any():
                values = values[~missing]
            step = np.searchsorted(ladder, values, side="right")
            steps[which] += np.bincount(step, minlength=len(ladder) + 1)

    def best(self, *, delta: float, error: float) -> Event:
        """The event with the largest lower bound on epsilon among all candidates."""
        runs = int(self._runs.min())
        winner: Event | None = None
        winning = -np.inf
        for statistic, ladder, steps in zip(
            self._statistics, self._ladders, self._steps, strict=True
        ):
            if not len(ladder):
                continue
            below = np.cumsum(steps, axis=1)[:, :-1]
            above = steps.sum(axis=1, keepdims=True) - below
            for upper, counts in ((True, above), (False, below)):
                for likely in (0, 1):
                    bound = bounds.epsilon_lower(
                        counts[likely], counts[1 - likely], runs, delta=delta, error=error
                    )
                    place = int(np.argmax(bound))
                    # A later statistic is harder to explain: it has to be better by one percent.
                    if winner is None or bound[place] > winning + 0.01 * abs(winning):
                        winner = Event(statistic, float(ladder[place]), upper, likely)
                        winning = float(bound[place])
        assert winner is not None  # every output is finite somewhere or has a statistic saying so
        return winner


def _ladder(first: Floats, second: Floats) -> Floats:
    """Thresholds: values of either sample, dense towards both ends, where distributions part."""
    chosen = []
    for sample in (first, second):
        values = np.sort(sample[np.isfinite(sample)])
        if not len(values):
            continue
        ranks = np.unique(np.geomspace(1, len(values), 80).astype(np.int64))
        chosen += [values[ranks - 1], values[len(values) - ranks]]
    pooled = np.unique(np.concatenate([first, second]))
    pooled = pooled[np.isfinite(pooled)]
    few = len(pooled) <= 256
    return np.asarray(pooled if few else np.unique(np.concatenate(chosen)), dtype=np.float64)
