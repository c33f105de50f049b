"""The numbers of a table 1, one by one, each with its interval.

    mean, deviation    of a number column, over the rows where it is known
    share, missing     of a category among all rows; of rows without a value
    outcome            the share of the second class, or mean and deviation of the target
    group              the outcome among the rows of one category
    correlation, cell  of two number columns; the share of rows in two categories at once

Intervals count the noise; with `sampling`, also that these rows are a sample from a population with
one law. What sums cannot tell raises `NotReleased`.
"""

from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from sudare.estimation._forms import Form, NoisySums
from sudare.estimation._propagation import (
    Estimate,
    Paired,
    Spread,
    correlation,
    deviation,
    ratio,
)
from sudare.estimation._variables import ONE, Variable, Variables
from sudare.foundations import checks
from sudare.study import Categories, Number, Study

Covers = Literal["noise", "noise and sampling", "noise and a bound on sampling"]
SHORTENED = (
    "rows were shortened to the study's row_norm: too many of them, perhaps, to say anything of "
    "the columns"
)
_MOST_SHORTENED = 0.5
_HARDLY = 0.95
"""Shortening by less than this factor is no reason to hide anything."""


class Summaries:
    """Noisy sums, read through the study that they were made under.

    Args:
        sums: Of one or of many draws of the noise.
        level: Probability with which an interval is to hold the number.
        sampling: Count sampling, too, wherever its variance can be told or bounded.
    """

    def __init__(
        self, sums: NoisySums, study: Study, *, level: float = 0.95, sampling: bool = False
    ) -> None:
        checks.between(0.5, 0.9999, level=level)
        self.sums, self.study = sums, study
        self.variables = Variables(study, sums)
        self.sampling = sampling
        self._quantile = NormalDist().inv_cdf((1 + level) / 2)

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers."""
        return [name for name, each in self.study.columns.items() if isinstance(each, Number)]

    @property
    def categories(self) -> list[str]:
        """Columns of categories."""
        return [name for name, each in self.study.columns.items() if isinstance(each, Categories)]

    @cached_property
    def shortened_at_most(self) -> Any:
        """The largest share of rows that can have been shortened; None where no row can."""
        if not self.variables.may_shorten:
            return None
        form = self.variables.shortened()
        noise = np.sqrt(self.sums.variance(form))
        return np.clip(self.sums.value(form) + self._quantile * noise, 0.0, 1.0)

    def covers(self, kind: Literal["mean", "share", "group", "deviation", "correlation"]) -> Covers:
        """What the interval of such a number counts."""
        if not self.sampling or kind == "correlation":
            return "noise"
        if kind == "deviation" or (kind == "group" and self.study.task == "regression"):
            return "noise and a bound on sampling"
        return "noise and sampling"

    def mean(self, name: str) -> Estimate:
        """Of a number column, where it is known."""
        column, value, counted = self._known(name)
        start = self._start(name)
        top, below = self.variables.mean(value), self.variables.mean(counted)
        least, most = column.low - start, column.high - start
        found = ratio(self.sums, top, below, self._quantile, least, most, self._of_mean(name))
        return self._checked(found.shifted(start))

    def deviation(self, name: str) -> Estimate:
        """The standard deviation of a number column, where it is known."""
        column, _, counted = self._known(name)
        spread, below = self._spread(name), self.variables.mean(counted)
        half = (column.high - column.low) / 2
        bound = self._of_variance(spread.value, half, self.sums.value(below))
        found = deviation(self.sums, spread, below, self._quantile, half, bound)
        return self._checked(found)

    def missing(self, name: str) -> Estimate:
        """The share of rows without a value, of a column with an indicator."""
        gap = self.variables.missing(name)
        if gap is None:
            raise checks.InvalidInput(f"Expected a column with an indicator, not {name!r}")
        return self._share(self.variables.mean(gap))

    def share(self, name: str, level: str) -> Estimate:
        """Of a category, among all rows."""
        return self._share(self.variables.mean(self.variables.levels(name)[level]))

    def cell(self, name: str, level: str, other: str, other_level: str) -> Estimate:
        """The share of rows that are in two categories at once."""
        first = self.variables.levels(name)[level]
        return self._share(self.variables.product(first, self.variables.levels(other)[other_level]))

    def outcome(self) -> Estimate:
        """The share of the second class, or the target's mean."""
        return self._among(ONE)

    def outcome_deviation(self) -> Estimate:
        """The target's standard deviation; classes have none."""
        value = Variable(0.0, self.variables.outcome().weights)
        square, mean = self.variables.product(value, value), self.variables.mean(value)
        spread = Spread.of(self.sums, square, mean, Form(1.0))
        half = (self.study.target.high - self.study.target.low) / 2  # type: ignore[operator]
        bound = self._of_variance(spread.value, half, 1.0)
        found = deviation(self.sums, spread, Form(1.0), self._quantile, half, bound)
        return self._checked(found)

    def group(self, name: str, level: str | None) -> Estimate:
        """The outcome among the rows of a category, or (None) those without a value."""
        chosen = self.variables.missing(name) if level is None else None
        return self._among(chosen or self.variables.levels(name)[str(level)])

    def correlation(self, name: str, other: str) -> Estimate:
        """Of two number columns; a missing value counts as what stands in for it."""
        first, second = self.variables.number(name), self.variables.number(other)
        product = self.variables.product(first, second)
        pairs = self._paired(name), self._paired(other)
        return self._checked(correlation(self.sums, product, *pairs, self._quantile))

    def _known(self, name: str) -> tuple[Number, Variable, Variable]:
        """A column, its value counted so that it is 0 where missing, and 1 where it is known."""
        column = self.study.columns[name]
        assert isinstance(column, Number)
        value, gap = self.variables.number(name), self.variables.missing(name)
        if gap is None:
            return column, value, ONE
        return column, value + ONE * (column.middle - self._start(name)), ONE - gap

    def _start(self, name: str) -> float:
        """What `_known` counts a value from."""
        column = self.study.columns[name]
        assert isinstance(column, Number)
        if column.indicator and column.missing is not None:
            return column.missing
        return column.middle

    def _spread(self, name: str) -> Spread:
        _, value, counted = self._known(name)
        square = self.variables.product(value, value)
        return Spread.of(
            self.sums, square, self.variables.mean(value), self.variables.mean(counted)
        )

    def _paired(self, name: str) -> Paired:
        value = self.variables.number(name)
        square, mean = self.variables.product(value, value), self.variables.mean(value)
        return Paired(mean, Spread.of(self.sums, square, mean, Form(1.0)))

    def _share(self, form: Form) -> Estimate:
        variance = self._of_class(self.sums.value(form)) if self.sampling else 0.0
        return self._checked(
            ratio(self.sums, form, Form(1.0), self._quantile, 0.0, 1.0, variance / self.sums.n)
        )

    def _among(self, group: Variable) -> Estimate:
        """The outcome's mean in a group."""
        outcome = self.variables.outcome()
        least, most, start = 0.0, 1.0, 0.0
        if self.study.task == "regression":
            low, high = self.study.target.low, self.study.target.high
            assert low is not None
            assert high is not None
            # Counted from the middle, so that large numbers do not meet in a difference.
            start = self.study.target_middle
            outcome, least, most = outcome - ONE * start, low - start, high - start
        top, below = self.variables.product(outcome, group), self.variables.mean(group)
        sampling: Any = 0.0
        if self.sampling:
            size = np.clip(self.sums.value(below), 0.0, 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                mean = self.sums.value(top) / self.sums.value(below)
            variance = _largest_variance(mean, least, most)
            if group is ONE and self.sums.squares is not None:
                variance = np.clip(self._outcome_variance(), 0.0, variance)
            sampling = size * variance / self.sums.n
        found = ratio(self.sums, top, below, self._quantile, least, most, sampling)
        return self._checked(found.shifted(start))

    def _outcome_variance(self) -> Any:
        value = Variable(0.0, self.variables.outcome().weights)
        square, mean = self.variables.product(value, value), self.variables.mean(value)
        return Spread.of(self.sums, square, mean, Form(1.0)).value

    def _of_mean(self, name: str) -> Any:
        """What sampling adds to the variance of a mean, times the share of rows it is over."""
        if not self.sampling:
            return 0.0
        column, value, counted = self._known(name)
        start = self._start(name)
        top = self.sums.value(self.variables.mean(value))
        below = self.sums.value(self.variables.mean(counted))
        largest = _largest_variance(top / below, column.low - start, column.high - start)
        spread = self._spread(name)
        # A variance that the noise hides is replaced by the largest that is possible.
        clear = spread.value > 2 * np.sqrt(spread.variance(self.sums))
        variance = np.where(clear, np.clip(spread.value, 0.0, largest), largest)
        return variance * np.clip(below, 0.0, 1.0) / self.sums.n

    def _of_variance(self, value: Any, half: float, counted: Any) -> Any:
        """At most what sampling adds to the variance of a variance: the fourth moment is no larger
        than the variance times the squared range."""
        if not self.sampling:
            return 0.0
        kept = np.clip(value, 0.0, half**2)
        return kept * ((2 * half) ** 2 - kept) / (self.sums.n * np.clip(counted, 1e-3, 1.0))

    def _of_class(self, share: Any) -> Any:
        return _largest_variance(share, 0.0, 1.0)

    def _checked(self, found: Estimate) -> Estimate:
        """Not told where too many rows may have been shortened."""
        if self.shortened_at_most is None or self.variables.least_factor >= _HARDLY:
            return found
        return found.and_not(self.shortened_at_most > _MOST_SHORTENED, SHORTENED)


def _largest_variance(mean: Any, least: float, most: float) -> Any:
    """Of anything between two bounds with this mean; for 0 and 1 it is the only one."""
    inside = np.clip(mean, least, most)
    return (most - inside) * (inside - least)
