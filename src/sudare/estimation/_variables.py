"""What a study's columns are in terms of the encoded features: public, without any data.

A *variable* is something about a row that is linear in its features: the value of a number column,
1 for the rows in a category and 0 for all others, the outcome. The mean of a variable, and of the
product of two, is a form of the noisy sums.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sudare.estimation._forms import Form, NoisySums, added
from sudare.estimation._structure import check_complete
from sudare.foundations import checks
from sudare.study import Categories, Column, Number, Study, label_text

NO_CONSTANT = "not in these sums: the study has intercept = false"
NO_SQUARES = "not in these sums: only pooled releases hold the squares of the target"
_ROUNDING = 1e-9


class NotReleased(Exception):
    """A number that these sums say nothing about, whatever their noise; the message says why."""


@dataclass(frozen=True)
class Variable:
    """offset + Σ weight · z_k, for the features of a row and, in the last place, its target."""

    offset: float = 0.0
    weights: Mapping[int, float] = field(default_factory=dict)

    def __add__(self, other: "Variable") -> "Variable":
        weights = dict(self.weights)
        for place, weight in other.weights.items():
            weights[place] = weights.get(place, 0.0) + weight
        return Variable(self.offset + other.offset, weights)

    def __mul__(self, factor: float) -> "Variable":
        weights = {place: weight * factor for place, weight in self.weights.items()}
        return Variable(self.offset * factor, weights)

    def __sub__(self, other: "Variable") -> "Variable":
        return self + other * -1.0


ONE = Variable(1.0)


class Variables:
    """The variables of a study, and their means as forms of noisy sums."""

    def __init__(self, study: Study, sums: NoisySums) -> None:
        if sums.contract != study.contract:
            raise checks.InvalidInput("Expected sums of this study: their bounds are others")
        check_complete(study)
        if study.person_column is not None:
            raise checks.InvalidInput(
                "Expected a study whose rows stand for themselves: with [person] the sums are "
                "about averages of rows, and a person can be in two categories by halves"
            )
        self.study, self.sums = study, sums

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The features of each column."""
        found: dict[str, list[int]] = {name: [] for name in self.study.columns}
        for place, feature in enumerate(self.study.features):
            found[feature.column].append(place)
        return found

    @cached_property
    def flags(self) -> dict[int, float]:
        """Features that are either 0 or one public number, with that number."""
        found: dict[int, float] = {}
        for name, column in self.study.columns.items():
            own = self.places[name]
            if not (isinstance(column, Categories) and len(column.categories) > 2):
                own = own[1:]  # what is left is the indicator, if there is one
            found |= {place: 1.0 / self.study.features[place].scale for place in own}
        return found

    def number(self, name: str) -> Variable:
        """A number column's value less its centre."""
        place = self.places[name][0]
        return Variable(0.0, {place: self.study.features[place].scale})

    def missing(self, name: str) -> Variable | None:
        """1 where the value is missing; None for a column without an indicator."""
        if not self.study.columns[name].indicator:
            return None
        return self._flag(self.places[name][-1])

    def levels(self, name: str) -> dict[str, Variable]:
        """For each category 1 where a row is in it; a missing value is in none if it is marked."""
        column = self.study.columns[name]
        assert isinstance(column, Categories)
        labels = [label_text(each) for each in column.categories]
        own = self.places[name][: len(labels) - 1]
        found = dict(zip(labels[1:], map(self._flag, own), strict=True))
        first = ONE
        for each in found.values():
            first = first - each
        found = {labels[0]: first} | found
        gap = self.missing(name)
        if gap is not None:
            assert column.missing is not None
            stand_in = label_text(column.missing)
            found[stand_in] = found[stand_in] - gap
        return found

    def outcome(self) -> Variable:
        """1 for the second class and 0 for the first, or the target's value."""
        if self.study.task == "classification":
            return Variable(0.5, {self.sums.target: 0.5})
        return Variable(self.study.target_middle, {self.sums.target: self.study.target_reach})

    def _flag(self, place: int) -> Variable:
        feature = self.study.features[place]
        return Variable(feature.centre, {place: feature.scale})

    def mean(self, variable: Variable) -> Form:
        """The mean of a variable over all rows."""
        parts = [self._mean(place) * weight for place, weight in variable.weights.items()]
        return Form(variable.offset) + added(parts)

    def product(self, first: Variable, second: Variable) -> Form:
        """The mean of the product of two variables."""
        total = Form(first.offset * second.offset)
        for one, other in ((first, second), (second, first)):
            if other.offset != 0.0:  # without a constant feature there may be no such mean
                total = total + self.mean(Variable(0.0, one.weights)) * other.offset
        pairs = (
            self._square(j, k) * (a * b)
            for j, a in first.weights.items()
            for k, b in second.weights.items()
        )
        return total + added(pairs)

    def _square(self, j: int, k: int) -> Form:
        """The mean of z_j z_k."""
        if j == k == self.sums.target:
            if self.study.task == "classification":
                return Form(1.0)
            if self.sums.squares is None:
                raise NotReleased(NO_SQUARES)
        if j != k and j in self.flags and k in self.flags and self._exclusive(j, k):
            return Form()
        return Form(0.0, {(min(j, k), max(j, k)): 1.0})

    def _exclusive(self, j: int, k: int) -> bool:
        """Whether no row can have both: two categories of one column."""
        first, second = self.study.features[j], self.study.features[k]
        same = first.column == second.column
        return same and first.category is not None and second.category is not None

    def _mean(self, place: int) -> Form:
        """The mean of z_k: by the constant feature, and for a flag by its square as well."""
        constant, flag = self.sums.constant, self.flags.get(place)
        # A flag that was shortened with its row is no longer 0 or the one number.
        squared = None
        if flag is not None and not self.may_shorten:
            squared = Form(0.0, {(place, place): 1.0 / flag})
        if constant is None:
            if squared is None:
                raise NotReleased(NO_CONSTANT)
            return squared
        entry = (min(place, constant), max(place, constant))
        plain = Form(0.0, {entry: 1.0 / self.sums.contract.constant})
        return plain if squared is None else self.sums.combined(plain, squared)

    @cached_property
    def longest(self) -> float:
        """The largest norm that a row of this study can have, before it is shortened."""
        squares = sum(_longest(column) for column in self.study.columns.values())
        return math.sqrt(squares / len(self.study.features))

    @property
    def may_shorten(self) -> bool:
        """Whether a row can be longer than the study's `row_norm`."""
        return self.longest > self.study.privacy.row_norm * (1 + _ROUNDING)

    @property
    def least_factor(self) -> float:
        """What is left of the longest possible row when it is shortened."""
        return min(1.0, self.study.privacy.row_norm / self.longest)

    def shortened(self) -> Form:
        """At least the share of rows that were shortened.

        A column of two categories is as long in every row. In a shortened row all others together
        have at least the squared length that is left; by Markov's inequality there are at most so
        many such rows as their mean squared length allows.
        """
        fixed = [
            self.places[name][0]
            for name, column in self.study.columns.items()
            if isinstance(column, Categories) and len(column.categories) == 2
        ]
        features = len(self.study.features)
        room = self.study.privacy.row_norm**2 - len(fixed) / features
        if room <= _ROUNDING:
            return Form(1.0)
        others = [place for place in range(features) if place not in fixed]
        return added(Form(0.0, {(place, place): 1.0 / room}) for place in others)


def _longest(column: Column) -> float:
    """The largest squared length of a column's features, before they are divided."""
    if isinstance(column, Number):
        lengths = [((end - column.middle) / column.reach) ** 2 for end in (column.low, column.high)]
        gap = 0.0 if column.missing is None else (column.missing - column.middle) / column.reach
        stand_in = gap**2
    else:
        lengths = [1.0]
        first = label_text(column.categories[0])
        is_first = column.missing is not None and label_text(column.missing) == first
        stand_in = 0.0 if is_first and len(column.categories) > 2 else 1.0
    return max(*lengths, stand_in + column.indicator)
