"""Studies as TOML, read with every problem explained."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sudare.foundations import checks
from sudare.releases import PLAUSIBLE_ROWS, Label
from sudare.storage.files import read_text
from sudare.study._contract import (
    INCOMPLETE,
    Categories,
    Column,
    Number,
    Person,
    Study,
    Target,
    Terms,
    encoded_features,
    label_text,
)

_FARTHEST = 1e100
"""Bounds beyond this would leave the floats in what is computed from them."""
_MOST_COUNT = 1_000_000
_MOST_MOMENTS = 500
"""Features: their moments are 126,000 numbers, some 4 MB when written."""
_WORD = re.compile(r"[^\W\d][\w -]{0,39}")


@dataclass(frozen=True)
class Problem:
    """One thing to put right, where it stands, and how."""

    line: int
    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.where}: {self.what}. {self.fix}"


class StudyInvalid(checks.InvalidInput):
    """A study that cannot be used, with everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("In the study, " + "\nand ".join(str(each) for each in self.problems))


def read_study(path: str | Path) -> Study:
    """The study in a TOML file."""
    return parse_study(read_text(path))


def parse_study(text: str) -> Study:
    """The study in a TOML text; raises `StudyInvalid` with every problem at once."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise StudyInvalid([_not_toml(str(problem), text)]) from None
    problems: list[Problem] = []
    reader = _Reader(text, problems)
    known = {"name", "description", "columns", "target", "privacy", "incomplete", "person"}
    for key in sorted(table.keys() - known):
        reader.problem((key,), "this key is unknown", f"Known are {', '.join(sorted(known))}")
    name = table.get("name")
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        reader.problem(("name",), "a study needs a name", 'Write name = "my-study" at the top')
    if not isinstance(table.get("description", ""), str):
        reader.problem(("description",), "it must be a text", 'Write description = "…"')
    columns = {
        column: made for column, made in reader.columns(table.get("columns")) if made is not None
    }
    target = reader.made(Target, ("target",), table.get("target"))
    terms = reader.made(Terms, ("privacy",), table.get("privacy"))
    if target is not None:
        reader.check_target(target, columns)
    if terms is not None:
        reader.check_terms(terms, target)
    reader.check_features(columns, terms)
    if (incomplete := table.get("incomplete", msgspec.UNSET)) not in (msgspec.UNSET, "leave out"):
        reader.problem(
            ("incomplete",), "it is not known", 'Write incomplete = "leave out", or none'
        )
    elif incomplete is not msgspec.UNSET:
        reader.check_incomplete(columns, target)
    person = msgspec.UNSET
    if "person" in table:
        person = reader.made(Person, ("person",), table["person"])
        reader.check_person(person, columns, target, terms)
    if problems or target is None or terms is None:
        raise StudyInvalid(sorted(problems, key=lambda p: p.line))
    return Study(
        name=str(name),
        description=table.get("description", ""),
        columns=columns,
        target=target,
        privacy=terms,
        incomplete=incomplete,
        person=person,
    )


class _Reader:
    """Collects what is wrong, with the line it stands on."""

    def __init__(self, text: str, problems: list[Problem]) -> None:
        self._keys = list(_keys(text))
        self._problems = problems

    def problem(self, path: tuple[str, ...], what: str, fix: str) -> None:
        self._problems.append(Problem(self._line(path), ".".join(path), what, fix))

    def made(self, kind: Any, path: tuple[str, ...], table: Any) -> Any:
        """A section as a value, or None when it cannot be one."""
        if table is None:
            self.problem(path, "this section is missing", f"Add [{'.'.join(path)}]")
            return None
        try:
            return msgspec.convert(table, kind)
        except msgspec.ValidationError as problem:
            said = str(problem)
            key = re.search(r"`\$\.?(\w+)|field `(\w+)`", said)
            inner = (*path, next(filter(None, key.groups()))) if key else path
            self.problem(inner, said.split(" - at")[0], "See the example that 'study new' writes")
            return None

    def columns(self, table: Any) -> Iterator[tuple[str, Column | None]]:
        if not isinstance(table, dict) or not table:
            self.problem(("columns",), "there are no columns", "Add a section [columns.age]")
            return
        for name, section in table.items():
            path = ("columns", name)
            kind = Categories if isinstance(section, dict) and "categories" in section else Number
            made = self.made(kind, path, section)
            if made is not None and not self._sound(path, made):
                made = None
            yield name, made

    def _sound(self, path: tuple[str, ...], column: Column) -> bool:
        before = len(self._problems)
        if isinstance(column, Number):
            self._check_number(path, column)
        else:
            self._check_categories(path, column)
        if column.indicator and column.missing is None:
            self.problem(
                (*path, "indicator"),
                "an indicator needs a value to put in the gap",
                "Add missing = … to this column",
            )
        return len(self._problems) == before

    def _check_number(self, path: tuple[str, ...], column: Number) -> None:
        numbers = (column.low, column.high, column.centre, column.scale, column.missing)
        if not all(number is None or abs(number) <= _FARTHEST for number in numbers):
            self.problem(path, "bounds must be finite", "Choose the widest plausible range")
        elif not column.low < column.high:
            self.problem((*path, "low"), "low must be below high", "Swap or widen them")
        elif column.scale is not None and column.scale < 1 / _FARTHEST:
            self.problem((*path, "scale"), "scale must be above 0", "Leave it out for the default")
        else:
            for key in ("centre", "missing"):
                value = getattr(column, key)
                if value is not None and not column.low <= value <= column.high:
                    self.problem(
                        (*path, key), f"{key} must lie within the bounds", "Move it inside"
                    )

    def _check_categories(self, path: tuple[str, ...], column: Categories) -> None:
        texts = [label_text(each) for each in column.categories]
        if len(texts) < 2:
            self.problem((*path, "categories"), "there must be two or more", "Name them all")
        if len(set(texts)) < len(texts):
            self.problem((*path, "categories"), "one is named twice", "Name each once")
        self._check_labels((*path, "categories"), column.categories)
        if column.missing is not None and label_text(column.missing) not in texts:
            self.problem((*path, "missing"), "missing must be a category", "Add it to categories")
        if column.other is not msgspec.UNSET and label_text(column.other) not in texts:
            self.problem((*path, "other"), "other must be a category", "Add it to categories")

    def _check_labels(self, path: tuple[str, ...], labels: tuple[Label, ...]) -> None:
        for label in labels:
            text = label_text(label)
            odd = isinstance(label, float) and not math.isfinite(label)
            if odd or not (text.strip() and text.isprintable()):
                self.problem(path, "a label must be a printable text or a number", "Rename it")
                return

    def check_features(self, columns: dict[str, Column], terms: Terms | None) -> None:
        """No two features may have one name: nobody could tell their coefficients apart."""
        count = sum(len(encoded_features(name, column)) for name, column in columns.items())
        if terms is not None and terms.model == "moments" and count > _MOST_MOMENTS:
            # Said here because a release is made, and too large, only after it was paid for.
            self.problem(
                ("privacy", "model"),
                f"{count} features are too many for moments: at most {_MOST_MOMENTS}",
                'Use fewer columns, or model = "objective"',
            )
        owners: dict[str, str] = {}
        for name, column in columns.items():
            for feature in encoded_features(name, column):
                if feature.name in owners:
                    other = owners[feature.name]
                    self.problem(
                        ("columns", name),
                        f"a feature of it has the same name as one of {other!r}: {feature.name!r}",
                        "Rename a column",
                    )
                owners.setdefault(feature.name, name)

    def check_incomplete(self, columns: dict[str, Column], target: Target | None) -> None:
        if target is not None and target.counts:
            self.problem(
                ("incomplete",), "no count is as good as none", "Use missing = … in the columns"
            )
        for name, column in columns.items():
            if INCOMPLETE in [feature.name for feature in encoded_features(name, column)]:
                self.problem(
                    ("columns", name), f"a feature is called {INCOMPLETE!r}", "Rename the column"
                )

    def check_person(
        self,
        person: Person | None,
        columns: dict[str, Column],
        target: Target | None,
        terms: Terms | None,
    ) -> None:
        path = ("person", "column")
        if person is None:
            return
        if person.column in columns or (target is not None and target.column == person.column):
            self.problem(path, "who a row is about cannot be learnt from", "Remove one of them")
        if target is not None and target.counts:
            self.problem(
                ("target", "most"),
                "the rows of a person are averaged, and an average is no count",
                "Add up each person's events in the data, or leave [person] out",
            )
        if terms is not None and terms.unit == "row":
            self.problem(
                ("privacy", "unit"),
                "the promise is to a person now, not to a row",
                'Write unit = "patient", or what they are',
            )

    def check_target(self, target: Target, columns: dict[str, Column]) -> None:
        path = ("target",)
        if target.column in columns:
            self.problem((*path, "column"), "the target is among the columns", "Remove one of them")
        if target.counts and (target.classes, target.low, target.high) != (None, 0, target.most):
            self.problem(
                (*path, "most"),
                "a count is between 0 and most, and has no other bounds and no classes",
                "Remove low, high and classes",
            )
        elif isinstance(target.most, int) and not 1 <= target.most <= _MOST_COUNT:
            self.problem(
                (*path, "most"), f"most must lie between 1 and {_MOST_COUNT}", "As in most = 12"
            )
        elif (target.classes is None) == (target.low is None and target.high is None):
            self.problem(path, "give two classes, or low and high", 'As in classes = ["no", "yes"]')
        elif target.classes is not None:
            first, second = target.classes
            if label_text(first) == label_text(second) or first == second:
                self.problem((*path, "classes"), "both classes are the same", "Name two")
            self._check_labels((*path, "classes"), target.classes)
        elif target.low is None or target.high is None or not target.low < target.high:
            self.problem(path, "low must be below high", "Give both bounds of the target")
        elif max(-target.low, target.high) > _FARTHEST:
            self.problem(path, "bounds must be finite", "Choose the widest plausible range")

    def check_terms(self, terms: Terms, target: Target | None) -> None:
        path = ("privacy",)
        tests = (
            ("epsilon", terms.epsilon > 0 and math.isfinite(terms.epsilon), "must be above 0"),
            ("delta", 0 <= terms.delta < 1, "must lie in [0, 1)"),
            ("row_norm", 0 < terms.row_norm <= 1, "must lie in (0, 1]"),
            (
                "most_rows",
                1 <= terms.plausible_rows <= PLAUSIBLE_ROWS,
                f"must lie between 1 and {PLAUSIBLE_ROWS}",
            ),
            ("unit", _WORD.fullmatch(terms.unit) is not None, "must be a word such as patient"),
        )
        for key, holds, what in tests:
            if not holds:
                self.problem((*path, key), f"{key} {what}", "Choose another value")
        if terms.model in ("moments", "gibbs") and terms.delta == 0:
            self.problem(
                (*path, "delta"),
                f'model = "{terms.model}" needs a delta above 0',
                'Write delta = 1e-6, or model = "objective"',
            )
        regression = target is not None and target.classes is None
        if terms.radius is not None and not 0 < terms.radius < math.inf:
            self.problem((*path, "radius"), "radius must be above 0", "Leave it out for a default")
        elif regression and terms.model != "moments" and terms.radius is None:
            self.problem(
                path, "ridge regression needs a radius", "Write radius = 2.0, a bound on ‖θ‖"
            )

    def _line(self, path: tuple[str, ...]) -> int:
        """Where a key stands, or else the first line of the section it should be in."""
        for length in range(len(path), 0, -1):
            within = [(key, line) for key, line in self._keys if key[:length] == path[:length]]
            exactly = [line for key, line in within if key == path[:length]]
            if within:
                return exactly[0] if exactly else within[0][1]
        return 1


def _keys(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every header and key of a TOML text that stands at the beginning of a line."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            if path := _path(line):
                section = path
                yield section, number
        elif path := _path(line.split("=")[0] + "= 0"):
            yield (*section, *path), number


def _path(line: str) -> tuple[str, ...]:
    """The dotted key on a line, unquoted; nothing for a line that is none."""
    try:
        found: Any = tomllib.loads(line)
    except ValueError:
        return ()
    path = []
    while isinstance(found, dict) and found:
        ((name, found),) = found.items()
        path.append(name)
    return tuple(path)


def _not_toml(said: str, text: str) -> Problem:
    what, _, place = said.partition(" (at ")
    at_end = len(text.splitlines()) if place.startswith("end of") else 1
    line = re.match(r"line (\d+)", place)
    return Problem(int(line[1]) if line else at_end, "TOML", what.rstrip("."), "Correct the line")
