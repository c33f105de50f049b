"""What a reproduced figure is: the paper's claim as data, a measurement, and a verdict.

A figure is measured in independent tasks, each with a seed of its own, so that the result does not
depend on how many processes share the work. A task gives samples: numbers under the name of a
panel, a curve and a place x. Samples of the same place are pooled in the order of the tasks, which
keeps curves of one task paired.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from sudare.foundations import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Array = NDArray[np.float64]
_CONFIDENCE = 0.95


class Size(StrEnum):
    """How much is measured: as in the paper, for a first look, or only to see that it runs."""

    FULL = "full"
    QUICK = "quick"
    SMOKE = "smoke"


class Verdict(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    CORRECTED = "holds with the correction"
    FAILS = "does not hold"


class Unavailable(checks.SudareError):
    """A figure needs data that is not here; the message says which, and where to put it."""


@dataclass(frozen=True)
class Setting:
    """How figures are measured this time."""

    size: Size = Size.FULL
    seed: int = 0
    data: Path | None = None
    """Folder with data sets that do not come with scikit-learn."""

    def runs(self, *, full: int, quick: int, smoke: int) -> int:
        """The number for this size."""
        return {Size.FULL: full, Size.QUICK: quick, Size.SMOKE: smoke}[self.size]

    def seeds(self, name: str, count: int) -> list[int]:
        """Seeds for so many tasks: a longer run begins with the tasks of a shorter one."""
        return [_derived(self.seed, name, index) for index in range(count)]


class Sample(NamedTuple):
    """Numbers measured at one place, or one that was computed."""

    panel: str
    curve: str
    x: float
    values: Array
    computed: bool = False


class Estimate(NamedTuple):
    """A mean with a 95 % interval; a computed number is its own interval, with no runs."""

    value: float
    low: float
    high: float
    runs: int

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


class Series(NamedTuple):
    """One curve: places in rising order, means and intervals."""

    x: Array
    value: Array
    low: Array
    high: Array


class Results:
    """All samples of a figure.

    Intervals are Student's, over tasks; with `positive` values they are those of the logarithm of
    the mean, by the delta method, and never reach below zero.
    """

    def __init__(self, samples: Iterable[Sample], positive: bool = False) -> None:
        self._positive = positive
        parts: dict[tuple[str, str, float], list[Array]] = {}
        self._computed: set[tuple[str, str, float]] = set()
        for panel, curve, x, values, computed in samples:
            key = panel, curve, float(x)
            parts.setdefault(key, []).append(np.atleast_1d(np.asarray(values, dtype=np.float64)))
            if computed:
                self._computed.add(key)
        self._values = {key: np.concatenate(part) for key, part in parts.items()}

    @property
    def panels(self) -> list[str]:
        """In the order in which they were measured."""
        return list(dict.fromkeys(panel for panel, _, _ in self._values))

    def curves(self, panel: str) -> list[str]:
        """The panel's curves, in the order in which they were measured."""
        return list(dict.fromkeys(c for p, c, _ in self._values if p == panel))

    def places(self, panel: str, curve: str) -> list[float]:
        """Every x of a curve, rising."""
        return sorted(x for p, c, x in self._values if (p, c) == (panel, curve))

    def values(self, panel: str, curve: str, x: float) -> Array:
        """All that was measured at one place, in the order of the tasks."""
        return self._values[panel, curve, float(x)]

    def at(self, panel: str, curve: str, x: float) -> Estimate:
        """Mean and interval at one place."""
        values = self.values(panel, curve, x)
        if (panel, curve, float(x)) in self._computed:
            return Estimate(float(values[0]), float(values[0]), float(values[0]), 0)
        found = _estimate(values)
        if self._positive and found.value > 0 and math.isfinite(found.half_width):
            factor = math.exp(found.half_width / found.value)
            return found._replace(low=found.value / factor, high=found.value * factor)
        return found

    def difference(self, panel: str, first: str, second: str, x: float) -> Estimate:
        """Mean and interval of first − second, paired by task."""
        return _estimate(self.values(panel, first, x) - self.values(panel, second, x))

    def series(self, panel: str, curve: str) -> Series:
        """A whole curve."""
        places = self.places(panel, curve)
        found = [self.at(panel, curve, x) for x in places]
        columns = np.array([(e.value, e.low, e.high) for e in found]).reshape(-1, 3).T
        return Series(np.array(places), *columns)

    def rows(self) -> list[tuple[str, str, float, Estimate]]:
        """Everything, one line a place."""
        return [(p, c, x, self.at(p, c, x)) for p, c, x in self._values]


@dataclass(frozen=True)
class Finding:
    """One thing that the paper states, or its correction, and what came out."""

    statement: str
    expected: str
    measured: str
    holds: bool
    corrected: bool = False
    """Whether this is what the correction states instead of the paper."""


@dataclass(frozen=True)
class Conclusion:
    """What was measured, where it differs from the paper and why: a sentence each, and findings."""

    measured: str
    differs: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The paper's statements decide; where one fails, those of the correction."""
        if all(f.holds for f in self.findings if not f.corrected):
            return Verdict.HOLDS
        corrected = [f.holds for f in self.findings if f.corrected]
        return Verdict.CORRECTED if corrected and all(corrected) else Verdict.FAILS


class TextTable(NamedTuple):
    """A table of words, for what is no picture."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """One figure of a paper, and how to measure it again."""

    name: str
    title: str
    paper: str
    claim: str
    """What the paper claims, in one sentence."""
    columns: tuple[str, str, str, str]
    """What panel, curve, x and value are called in the CSV file."""
    tasks: Callable[[Setting], Sequence[Any]]
    """The work, in independent parts; raises `Unavailable` if data is missing."""
    measure: Callable[[Any], list[Sample]]
    conclude: Callable[[Results], Conclusion]
    positive: bool = False
    """Whether values are sizes above zero, to be seen on a logarithmic axis."""
    draw: "Callable[[Results, Canvas], None] | None" = None
    table: Callable[[Results], TextTable] | None = None


def computed(panel: str, curve: str, x: float, value: float) -> Sample:
    """A number that no coin had a part in."""
    return Sample(panel, curve, x, np.array([value]), computed=True)


def measured(panel: str, curve: str, x: float, values: ArrayLike) -> Sample:
    """One or several independent measurements."""
    return Sample(panel, curve, x, np.atleast_1d(np.asarray(values, dtype=np.float64)))


def _estimate(values: Array) -> Estimate:
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(mean, -math.inf, math.inf, n)
    error = float(values.std(ddof=1)) / math.sqrt(n)
    half = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2)) * error
    return Estimate(mean, mean - half, mean + half, n)


def _derived(seed: int, name: str, index: int) -> int:
    digest = blake2b(f"{seed}/{name}/{index}".encode(), digest_size=6).digest()
    return int.from_bytes(digest)
