"""The public contract of a study: what is measured, within which bounds, under which terms.

Everything here was agreed on before anyone looked at data. A number column is clipped to its bounds
and mapped to [−1, 1], its centre to 0; a category column becomes one feature for each category but
the first; all features are divided by √features, so that a row's norm is at most 1 (but for
rounding, and for a `scale` that asks for more: what learners see is shortened to `row_norm`).
Missing values become a public constant, and a feature that says so where the study asks for one.
Nothing is ever computed from the data's own range.
"""

import hashlib
import math
import re
from dataclasses import dataclass
from typing import Literal

import msgspec

from sudare.releases import INTERCEPT_SHARE, PLAUSIBLE_ROWS, Contract, Label

Model = Literal["moments", "objective", "output", "gibbs"]
INCOMPLETE = "anything missing"
"""The feature that is 1 for a row with a gap, where such rows are left out, and 0 for others."""
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]{0,300}))\.0+")


class Number(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="number",
):
    """A column of numbers between two public bounds."""

    low: float
    high: float
    centre: float | None = None
    """A public guess of the typical value, which maps to 0; halfway by default."""
    scale: float | None = None
    """Public distance from the centre that maps to ±1; by default to the farther bound."""
    missing: float | None = None
    """Stands in for a missing value."""
    indicator: bool = False
    """Add a feature that is 1 where the value was missing."""

    @property
    def middle(self) -> float:
        return self.low / 2 + self.high / 2 if self.centre is None else self.centre

    @property
    def reach(self) -> float:
        if self.scale is not None:
            return self.scale
        return max(self.high - self.middle, self.middle - self.low)


class Categories(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="categories",
):
    """A column that takes one of a few public values; the first is what others are compared to."""

    categories: tuple[Label, ...]
    missing: Label | None = None
    """The category that stands in for a missing value."""
    indicator: bool = False
    other: Label | msgspec.UnsetType = msgspec.UNSET
    """The category that every value outside the list counts as. Unset it is not written."""


Column = Number | Categories


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is predicted: one of two classes, a number between bounds, or a count of events.

    A count is a number between 0 and `most` wherever no rates are asked for.
    """

    column: str
    classes: tuple[Label, Label] | None = None
    low: float | None = None
    high: float | None = None
    most: int | msgspec.UnsetType = msgspec.UNSET
    """Counts beyond this count as this. Unset it is not written, so that digests stay what they
    are."""

    def __post_init__(self) -> None:
        if self.counts and self.low is None and self.high is None:
            msgspec.structs.force_setattr(self, "low", 0.0)
            msgspec.structs.force_setattr(self, "high", float(self.most))  # type: ignore[arg-type]

    @property
    def counts(self) -> bool:
        """Whether it is a number of events."""
        return self.most is not msgspec.UNSET


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each party releases, and at which price."""

    epsilon: float
    delta: float = 0.0
    unit: str = "row"
    """Whose privacy is meant: one unit is one row."""
    model: Model = "moments"
    row_norm: float = 1.0
    intercept: bool = True
    radius: float | None = None
    """Bound on the norm of the coefficients; chosen for logistic regression, needed for ridge."""
    most_rows: int | msgspec.UnsetType = msgspec.UNSET
    """More rows than any party has. Unset it is not written, so that digests stay what they are."""

    @property
    def plausible_rows(self) -> int:
        """A release that claims to be made from more rows is refused."""
        return PLAUSIBLE_ROWS if self.most_rows is msgspec.UNSET else self.most_rows


class Person(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who rows are about, where a person can have several."""

    column: str
    """Rows with the same value here are one person's; together they count as one row."""


@dataclass(frozen=True)
class Feature:
    """One encoded feature: where it comes from and how to read its coefficient."""

    name: str
    column: str
    category: Label | None
    centre: float
    scale: float
    """The feature is (value − centre)/scale; for a category or an indicator, (0 or 1 − centre)."""


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contract as a value; `parse_study` makes one from TOML and explains every problem."""

    name: str
    columns: dict[str, Column]
    target: Target
    privacy: Terms
    description: str = ""
    incomplete: Literal["leave out"] | msgspec.UnsetType = msgspec.UNSET
    """Learn from complete rows only; the others are marked by a feature of their own."""
    person: Person | msgspec.UnsetType = msgspec.UNSET
    """These two are not written when they are unset, so that digests stay what they are."""

    @property
    def task(self) -> Literal["classification", "regression"]:
        return "regression" if self.target.classes is None else "classification"

    @property
    def features(self) -> tuple[Feature, ...]:
        """The encoded features, in order."""
        plain = [
            each for name, column in self.columns.items() for each in encoded_features(name, column)
        ]
        if self.leaves_out:
            plain.append(Feature(INCOMPLETE, "", None, 0.0, 1.0))
        root = math.sqrt(len(plain))
        return tuple(Feature(f.name, f.column, f.category, f.centre, f.scale * root) for f in plain)

    @property
    def leaves_out(self) -> bool:
        """Whether incomplete rows are left out of what is learnt."""
        return self.incomplete is not msgspec.UNSET

    @property
    def person_column(self) -> str | None:
        """The column that says whose row it is, where a person can have several."""
        return None if self.person is msgspec.UNSET else self.person.column

    @property
    def contract(self) -> Contract:
        """The bounds that learners and blends work under."""
        norm = self.privacy.row_norm
        return Contract(
            features=len(self.features),
            row_norm=norm,
            constant=INTERCEPT_SHARE * norm if self.privacy.intercept else 0.0,
            classes=self.target.classes,
            target_bound=None if self.target.classes is not None else 1.0,
        )

    @property
    def may_shorten(self) -> bool:
        """Whether a row within all bounds can be longer than `row_norm`, and is then shortened."""
        most = 0.0
        for column in self.columns.values():
            farthest = 1.0
            if isinstance(column, Number):
                away = max(column.high - column.middle, column.middle - column.low)
                farthest = away / column.reach
            most += farthest**2 + column.indicator
        return most > self.privacy.row_norm**2 * len(self.features) * (1 + 1e-9)

    @property
    def target_middle(self) -> float:
        """Regression: the target that counts as 0."""
        assert self.target.low is not None
        assert self.target.high is not None
        return self.target.low / 2 + self.target.high / 2

    @property
    def target_reach(self) -> float:
        """Regression: the distance from the middle that counts as 1."""
        assert self.target.low is not None
        assert self.target.high is not None
        # Both sides: of two neighbouring floats the middle is one or the other.
        return max(self.target.high - self.target_middle, self.target_middle - self.target.low)

    def digest(self) -> str:
        """Identifies the contract; releases under another one are refused.

        The order of the columns counts: it is the order of the coefficients.
        """
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


def encoded_features(name: str, column: Column) -> list[Feature]:
    """The features of one column, before they are divided by √features."""
    if isinstance(column, Number):
        found = [Feature(name, name, None, column.middle, column.reach)]
    elif len(column.categories) == 2:
        # Two categories are −1 and 1: twice the signal of 0 and 1 for the same norm.
        second = column.categories[1]
        found = [Feature(f"{name}={second}", name, second, 0.5, 0.5)]
    else:
        found = [Feature(f"{name}={c}", name, c, 0.0, 1.0) for c in column.categories[1:]]
    if column.indicator:
        found.append(Feature(f"{name} missing", name, None, 0.0, 1.0))
    return found


def label_text(label: object) -> str:
    """One spelling for a label, however a file wrote it.

    1, 1.0 and "1.0" are the same label, and so are true, True and "TRUE"; 1 and true are not, nor
    are 1 and "01".
    """
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    text = str(label)
    if text.lower() in ("true", "false"):
        return text.lower()
    whole = _WHOLE.fullmatch(text)
    return str(int(whole[1])) if whole else text
