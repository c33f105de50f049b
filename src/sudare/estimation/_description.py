"""A table 1 from noisy sums: who the rows are about, column by column, at no further ε.

Numbers are in the study's own units, and not clipped: `Quantity.possible` clips them for display.
What the noise hides, or the sums do not hold, says so and has no value.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations

import msgspec
import numpy as np

from sudare.estimation._forms import NoisySums
from sudare.estimation._propagation import Estimate
from sudare.estimation._summaries import Covers, Summaries
from sudare.estimation._variables import NotReleased
from sudare.study import Categories, Study, label_text

MOST_PAIRED = 30
"""Columns up to which correlations and two-way tables are made by default."""
UNBOUNDED = "hidden by the noise: its interval has no end"


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its interval, as it came out."""

    told: bool
    value: float | None = None
    low: float | None = None
    high: float | None = None
    least: float
    """What is possible, by public bounds: the number itself lies between `least` and `most`."""
    most: float
    covers: Covers = "noise"
    """What the interval counts."""
    reason: str = ""
    """Why it is not told."""

    @property
    def possible(self) -> tuple[float, float, float]:
        """Value, low and high, clipped to what is possible: for display."""
        assert self.value is not None
        assert self.low is not None
        assert self.high is not None
        value, low, high = (
            min(max(each, self.least), self.most) for each in (self.value, self.low, self.high)
        )
        return value, low, high

    @property
    def clipped(self) -> bool:
        """Whether display changes anything."""
        return self.told and self.possible != (self.value, self.low, self.high)


class LevelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One category of a column, or (None) the rows without a value."""

    level: str | None
    share: Quantity
    """Among all rows."""
    outcome: Quantity
    """Share of the second class, or mean of the target, among its rows."""


class NumberSummary(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="number"):
    """A column of numbers, over the rows where it is known if an indicator says so."""

    column: str
    mean: Quantity
    deviation: Quantity
    missing: LevelSummary | None = None


class CategorySummary(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="category"):
    """A column of categories: shares of all rows."""

    column: str
    levels: tuple[LevelSummary, ...]


class OutcomeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the study predicts."""

    column: str
    positive: str | None
    """The class whose share it is; None for a number, whose mean it is."""
    mean: Quantity
    deviation: Quantity | None = None


class CorrelationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Of two number columns."""

    first: str
    second: str
    correlation: Quantity


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in two categories at once."""

    first: str
    second: str
    share: Quantity


class TwoWaySummary(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of all rows, by two category columns."""

    first: str
    second: str
    cells: tuple[Cell, ...]


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A table 1, with everything that its readers have to know."""

    study: str
    n: int
    """Rows; public and exact."""
    level: float
    sampling: bool
    noise_std: float
    """Of the sums, in units of ‖x‖ ≤ 1 and |y| ≤ 1."""
    outcome: OutcomeSummary
    columns: tuple[NumberSummary | CategorySummary, ...]
    correlations: tuple[CorrelationSummary, ...] = ()
    two_way: tuple[TwoWaySummary, ...] = ()
    shortened_at_most: float | None = None
    """The share of rows that can have been shortened to `row_norm`; None where none can."""
    notes: tuple[str, ...] = ()


def describe(
    sums: NoisySums,
    study: Study,
    *,
    level: float = 0.95,
    sampling: bool = False,
    pairs: bool | None = None,
) -> Description:
    """Every number of the table, with intervals.

    Args:
        sums: Of releases under this study (`NoisySums.of`).
        level: Probability with which an interval is to hold the number.
        sampling: Count in the intervals that these rows are a sample from a population.
        pairs: Make correlations and two-way tables, too; by default for up to 30 columns.
    """
    read = Summaries(sums, study, level=level, sampling=sampling)
    wanted = len(study.columns) <= MOST_PAIRED if pairs is None else pairs
    at_most = read.shortened_at_most
    found = Description(
        study=study.name,
        n=sums.n,
        level=level,
        sampling=sampling,
        noise_std=sums.noise_std,
        outcome=_outcome(read),
        columns=tuple(
            _categories(read, name) if isinstance(column, Categories) else _number(read, name)
            for name, column in study.columns.items()
        ),
        correlations=_correlations(read) if wanted else (),
        two_way=_two_way(read) if wanted else (),
        shortened_at_most=None if at_most is None else float(at_most),
    )
    return msgspec.structs.replace(found, notes=tuple(_notes(found, read)))


def quantities(description: Description) -> Iterable[Quantity]:
    """Every number of a description, in its order."""
    yield description.outcome.mean
    if description.outcome.deviation is not None:
        yield description.outcome.deviation
    levels: tuple[LevelSummary, ...]
    for column in description.columns:
        if isinstance(column, NumberSummary):
            yield from (column.mean, column.deviation)
            levels = () if column.missing is None else (column.missing,)
        else:
            levels = column.levels
        for level in levels:
            yield from (level.share, level.outcome)
    yield from (each.correlation for each in description.correlations)
    yield from (cell.share for table in description.two_way for cell in table.cells)


def _outcome(read: Summaries) -> OutcomeSummary:
    target = read.study.target
    classes, (least, most) = target.classes, _outcome_range(read)
    if classes is not None:
        share = _quantity(read.outcome, read.covers("share"), least, most)
        return OutcomeSummary(column=target.column, positive=label_text(classes[1]), mean=share)
    return OutcomeSummary(
        column=target.column,
        positive=None,
        mean=_quantity(read.outcome, _covers_outcome(read), least, most),
        deviation=_quantity(
            read.outcome_deviation, read.covers("deviation"), 0.0, (most - least) / 2
        ),
    )


def _covers_outcome(read: Summaries) -> Covers:
    """Without Σy² the variance of a number is not known, only that it is bounded."""
    return read.covers("group" if read.sums.squares is None else "mean")


def _outcome_range(read: Summaries) -> tuple[float, float]:
    low, high = read.study.target.low, read.study.target.high
    return (0.0, 1.0) if low is None or high is None else (low, high)


def _number(read: Summaries, name: str) -> NumberSummary:
    column = read.study.columns[name]
    assert not isinstance(column, Categories)
    low, high = column.low, column.high
    return NumberSummary(
        column=name,
        mean=_quantity(partial(read.mean, name), read.covers("mean"), low, high),
        deviation=_quantity(
            partial(read.deviation, name), read.covers("deviation"), 0.0, (high - low) / 2
        ),
        missing=_missing(read, name) if column.indicator else None,
    )


def _missing(read: Summaries, name: str) -> LevelSummary:
    return LevelSummary(
        level=None,
        share=_quantity(partial(read.missing, name), read.covers("share"), 0.0, 1.0),
        outcome=_group(read, name, None),
    )


def _group(read: Summaries, name: str, level: str | None) -> Quantity:
    return _quantity(partial(read.group, name, level), read.covers("group"), *_outcome_range(read))


def _categories(read: Summaries, name: str) -> CategorySummary:
    levels = [
        LevelSummary(
            level=level,
            share=_quantity(partial(read.share, name, level), read.covers("share"), 0.0, 1.0),
            outcome=_group(read, name, level),
        )
        for level in read.variables.levels(name)
    ]
    if read.study.columns[name].indicator:
        levels.append(_missing(read, name))
    return CategorySummary(column=name, levels=tuple(levels))


def _correlations(read: Summaries) -> tuple[CorrelationSummary, ...]:
    return tuple(
        CorrelationSummary(
            first=first,
            second=second,
            correlation=_quantity(
                partial(read.correlation, first, second),
                read.covers("correlation"),
                -1.0,
                1.0,
            ),
        )
        for first, second in combinations(read.numbers, 2)
    )


def _two_way(read: Summaries) -> tuple[TwoWaySummary, ...]:
    tables = []
    for first, second in combinations(read.categories, 2):
        cells = tuple(
            Cell(
                first=one,
                second=other,
                share=_quantity(
                    partial(read.cell, first, one, second, other),
                    read.covers("share"),
                    0.0,
                    1.0,
                ),
            )
            for one in read.variables.levels(first)
            for other in read.variables.levels(second)
        )
        tables.append(TwoWaySummary(first=first, second=second, cells=cells))
    return tuple(tables)


def _quantity(
    estimate: Callable[[], Estimate], covers: Covers, least: float, most: float
) -> Quantity:
    try:
        found = estimate()
    except NotReleased as problem:
        return Quantity(told=False, least=least, most=most, covers=covers, reason=str(problem))
    if not found.told:
        reasons = [trouble.reason for trouble in found.troubles if np.any(trouble.where)]
        reason = reasons[0] if reasons else UNBOUNDED
        return Quantity(told=False, least=least, most=most, covers=covers, reason=reason)
    numbers = [float(each) for each in (found.value, found.low, found.high)]
    assert all(map(math.isfinite, numbers))
    value, low, high = numbers
    return Quantity(
        told=True, value=value, low=low, high=high, least=least, most=most, covers=covers
    )


def _notes(found: Description, read: Summaries) -> Iterable[str]:
    """What a reader has to know, in sentences; only what applies."""
    study, columns = read.study, read.study.columns
    counted = "the noise that privacy added, and no more: they are about these very rows."
    if found.sampling:
        counted = (
            "the noise that privacy added and that these rows are a sample (of standard "
            "deviations, and of means of numbers in groups, a bound on that); those of "
            "correlations count the noise alone."
        )
    holds = f"Each interval holds its number with probability {found.level:g}."
    yield f"{holds} Intervals count {counted}"
    if any(each.clipped for each in quantities(found)):
        yield (
            "A star marks what the noise carried beyond the possible. It is clipped here: shares "
            "to 0 and 1, means to the study's bounds. The JSON has it as it came out."
        )
    if read.numbers or study.task == "regression":
        yield "Values outside the study's bounds count as the nearest bound."
    plain = [
        name for name, each in columns.items() if each.missing is not None and not each.indicator
    ]
    if plain:
        yield (
            f"Missing values of {', '.join(plain)} count as what stands in for them: the study "
            "asks for no indicator."
        )
    if any(each.indicator for each in columns.values()):
        yield (
            "Where an indicator says what is missing, means and deviations are over known values, "
            "and shares are of all rows. Correlations count what stands in for a missing value."
        )
    if found.shortened_at_most is not None:
        yield (
            f"At most {found.shortened_at_most:.0%} of the rows were longer than row_norm = "
            f"{study.privacy.row_norm:g} and were shortened, all their columns by one factor, "
            f"{read.variables.least_factor:.2g} at the least. That pulls means towards the "
            "columns' centres and makes deviations too small; intervals do not count it."
        )
