"""Studies as TOML: reading with every problem explained, and writing a first draft."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sudare import checks
from sudare.study.contract import Categories, Column, Number, Study, Target, Terms, label_text

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
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise checks.InvalidInput(f"Cannot read {path}: it is not UTF-8 text") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror}") from None
    return parse_study(text)


def parse_study(text: str) -> Study:
    """The study in a TOML text; raises `StudyInvalid` with every problem at once."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise checks.InvalidInput(f"The study is not TOML: {problem}") from None
    problems: list[Problem] = []
    reader = _Reader(text, problems)
    known = {"name", "description", "columns", "target", "privacy"}
    for key in sorted(table.keys() - known):
        reader.problem((key,), "this key is unknown", f"Known are {', '.join(sorted(known))}")
    name = table.get("name")
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        reader.problem(("name",), "a study needs a name", 'Write name = "my-study" at the top')
    columns = {
        column: made for column, made in reader.columns(table.get("columns")) if made is not None
    }
    target = reader.made(Target, ("target",), table.get("target"))
    terms = reader.made(Terms, ("privacy",), table.get("privacy"))
    if target is not None:
        reader.check_target(target, columns)
    if terms is not None:
        reader.check_terms(terms, target)
    if problems or target is None or terms is None:
        raise StudyInvalid(sorted(problems, key=lambda p: p.line))
    return Study(
        name=str(name),
        description=str(table.get("description", "")),
        columns=columns,
        target=target,
        privacy=terms,
    )


def draft_study(columns: Iterable[str], target: str | None = None) -> str:
    """A commented study to fill in, from column names alone."""
    names = list(columns)
    if not names:
        raise checks.InvalidInput("Expected at least one column name")
    predicted = names[-1] if target is None else target
    if predicted not in names:
        raise checks.InvalidInput(f"Expected the target among the columns: {', '.join(names)}")
    sections = [
        _HEAD,
        *(f"[columns.{_key(name)}]\n{_NUMBER}" for name in names if name != predicted),
        _TAIL.format(target=_quoted(predicted)),
    ]
    return "\n".join(sections)


class _Reader:
    """Collects what is wrong, with the line it stands on."""

    def __init__(self, text: str, problems: list[Problem]) -> None:
        self._lines = text.splitlines()
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
        if not all(number is None or math.isfinite(number) for number in numbers):
            self.problem(path, "bounds must be finite", "Choose the widest plausible range")
        elif not column.low < column.high:
            self.problem((*path, "low"), "low must be below high", "Swap or widen them")
        elif column.scale is not None and column.scale <= 0:
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
        if column.missing is not None and label_text(column.missing) not in texts:
            self.problem((*path, "missing"), "missing must be a category", "Add it to categories")

    def check_target(self, target: Target, columns: dict[str, Column]) -> None:
        path = ("target",)
        if target.column in columns:
            self.problem((*path, "column"), "the target is among the columns", "Remove one of them")
        if (target.classes is None) == (target.low is None and target.high is None):
            self.problem(path, "give two classes, or low and high", 'As in classes = ["no", "yes"]')
        elif target.classes is not None:
            if label_text(target.classes[0]) == label_text(target.classes[1]):
                self.problem((*path, "classes"), "both classes are the same", "Name two")
        elif target.low is None or target.high is None or not target.low < target.high:
            self.problem(path, "low must be below high", "Give both bounds of the target")

    def check_terms(self, terms: Terms, target: Target | None) -> None:
        path = ("privacy",)
        tests = (
            ("epsilon", terms.epsilon > 0 and math.isfinite(terms.epsilon), "must be above 0"),
            ("delta", 0 <= terms.delta < 1, "must lie in [0, 1)"),
            ("row_norm", 0 < terms.row_norm <= 1, "must lie in (0, 1]"),
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
        if terms.radius is not None and not terms.radius > 0:
            self.problem((*path, "radius"), "radius must be above 0", "Leave it out for a default")
        elif regression and terms.model != "moments" and terms.radius is None:
            self.problem(
                path, "ridge regression needs a radius", "Write radius = 2.0, a bound on ‖θ‖"
            )

    def _line(self, path: tuple[str, ...]) -> int:
        """Where a key stands: its section's header, then the key below it, as far as found."""
        header = re.compile(r"\s*\[\s*" + r"\s*\.\s*".join(map(_key_pattern, path)) + r"\s*\]")
        for number, line in enumerate(self._lines, 1):
            if header.match(line):
                return number
        start = self._line(path[:-1]) if len(path) > 1 else 1
        key = re.compile(rf"\s*{_key_pattern(path[-1])}\s*=")
        for number, line in enumerate(self._lines[start - 1 :], start):
            if key.match(line):
                return number
        return start


def _key_pattern(name: str) -> str:
    return rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"


def _key(name: str) -> str:
    """A TOML key, bare where it may be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


_HEAD = """\
# The public contract of a study. Everyone who takes part uses the same file.
# Fill in every bound from general knowledge, never from the data: what is in
# this file is published.
name = "my-study"
description = ""
"""
_NUMBER = """\
low = 0.0        # values below count as this
high = 1.0       # values above count as this
# missing = 0.5      # stands in for a missing value
# indicator = true   # and a feature says that it was missing
# A column of categories has this line instead of low and high:
# categories = ["no", "yes"]
"""
_TAIL = """\
[target]
column = {target}
classes = ["no", "yes"]   # the second is the one whose probability is predicted
# For a number instead of classes:
# low = 0.0
# high = 1.0

[privacy]
epsilon = 1.0        # what one release costs each unit
delta = 1e-6
unit = "row"         # whose privacy is meant: one row is one unit
# model = "objective"  # coefficients instead of moments; works with delta = 0
"""
