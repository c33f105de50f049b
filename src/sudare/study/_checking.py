"""Everything in a data file that does not fit a study, by row and column; no value is told.

All of it is made from rows without noise: it is for those who may see the rows anyway.
"""

import csv
import difflib
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.releases import Label
from sudare.study._contract import Number, Study, label_text
from sudare.study._persons import persons_among
from sudare.study._reading import (
    PARQUET,
    is_query,
    is_table,
    names_of,
    reading_of,
    reading_told,
)
from sudare.study._sources import ARROW_ERRORS, GAPS, Wanted, _with_points, every_batch, header
from sudare.study._tables import (
    _GAP,
    _UNKNOWN,
    _numbers_among,
    _other,
    _places,
    _wanted,
    _whole,
    read_blocks,
)

NOT_TO_BE_SHARED = "made from rows without noise: not to be shared"
_MOSTLY = 0.5
_RECORDS = 1 << 14
_LONGEST = 1 << 30


class Misfit(msgspec.Struct, frozen=True):
    """One cell, row or column that does not fit, and what to do."""

    row: int | None
    """Counted from 1, without the header; None for what concerns the whole column or file."""
    column: str
    what: str
    suggestion: str = ""


class ColumnCheck(msgspec.Struct, frozen=True):
    """What became of the cells of one column."""

    column: str
    missing: int
    below: int
    """Numbers below the lower bound, which count as it."""
    above: int
    misfits: int
    others: int = 0
    """Labels outside the list, which count as the study's `other`."""


class DataCheck(msgspec.Struct, frozen=True):
    """A data file under a study."""

    rows: int
    columns: tuple[ColumnCheck, ...]
    problems: tuple[Misfit, ...]
    """Each of them stops a release."""
    warnings: tuple[Misfit, ...]
    persons: int | None
    """How many people the rows are about, where the study says whose they are."""
    reading: str | None
    """How a text file was read, where that is not the usual way."""
    note: str = NOT_TO_BE_SHARED

    @property
    def fits(self) -> bool:
        return not self.problems


class _Part(NamedTuple):
    """Some rows: where they are, and the cells of every column."""

    numbers: NDArray[np.int64]
    columns: dict[str, Any]


def check_data(source: Any, study: Study) -> DataCheck:
    """Every problem of a file or frame under a study, not only the first."""
    wanted, problems = _wanted(study, True), []
    person = study.person_column
    names, told = _names(source, list(wanted)), None
    for name in [*wanted, *([] if person is None else [person])]:
        if names.count(name) != 1:
            problems.append(_misnamed(name, names))
    present: Wanted = {name: labels for name, labels in wanted.items() if names.count(name) == 1}
    if isinstance(source, (str, Path)):
        told = reading_told(source, list(present))
    found = _Findings(study, problems)
    for part in _parts(source, present, problems):
        found.add(part, present)
    if not found.rows:
        problems.append(Misfit(None, "", "there are no rows", "Is this the right file?"))
    persons = None
    if person is not None and names.count(person) == 1:
        persons = _count_persons(source, person, problems)
    if not problems:
        _confirm(source, study, problems)
    problems.sort(key=lambda each: (each.row is not None, each.row or 0))
    return DataCheck(
        found.rows, found.counts(), tuple(problems), tuple(found.warnings()), persons, told
    )


class _Findings:
    """Counts and problems, part by part."""

    def __init__(self, study: Study, problems: list[Misfit]) -> None:
        self.rows = 0
        self._study, self._problems = study, problems
        self._counts: dict[str, dict[str, int]] = {}

    def add(self, part: _Part, wanted: Wanted) -> None:
        self.rows += len(part.numbers)
        for name, labels in wanted.items():
            counts = self._counts.setdefault(
                name, {"missing": 0, "below": 0, "above": 0, "misfits": 0, "others": 0}
            )
            before = len(self._problems)
            if labels is None:
                gaps = self._add_numbers(name, part, counts)
            else:
                gaps = self._add_labels(name, labels, part, counts)
            counts["missing"] += int(gaps.sum())
            if (words := self._gap_words(name)) is not None:
                self._problems += [Misfit(int(row), name, *words) for row in part.numbers[gaps]]
            counts["misfits"] += len(self._problems) - before

    def counts(self) -> tuple[ColumnCheck, ...]:
        return tuple(ColumnCheck(name, **counts) for name, counts in self._counts.items())

    def warnings(self) -> Iterator[Misfit]:
        for each in self.counts():
            told = self.rows - each.missing - each.misfits
            beyond = each.below + each.above
            if told and beyond > _MOSTLY * told:
                yield Misfit(
                    None,
                    each.column,
                    f"{beyond} of {told} numbers lie beyond its bounds and would count as them",
                    "Is it in the study's unit (years, not months)?",
                )
            elif self.rows and each.missing > _MOSTLY * self.rows:
                yield Misfit(
                    None,
                    each.column,
                    f"{each.missing} of {self.rows} values are missing",
                    "Is it the right column?",
                )

    def _add_numbers(self, name: str, part: _Part, counts: dict[str, int]) -> NDArray[np.bool_]:
        column = part.columns[name]
        numbers = _numbers_among(column)
        low, high = self._bounds(name)
        counts["below"] += int((numbers < low).sum())
        counts["above"] += int((numbers > high).sum())
        none = np.isnan(numbers)
        gaps = np.zeros_like(none)
        for place in np.flatnonzero(none).tolist():
            gaps[place] = _is_gap(column[place].as_py())
        for place in np.flatnonzero(none & ~gaps).tolist():
            text = str(column[place].as_py())
            suggestion = "A decimal comma?" if _is_number(text.replace(",", ".", 1)) else ""
            self._problem(part, place, name, "not a number", suggestion)
        for place in np.flatnonzero(np.isinf(numbers)).tolist():
            self._problem(part, place, name, "an infinite number", "")
        target = self._study.target
        if target.counts and name == target.column:
            for place in np.flatnonzero(np.isfinite(numbers) & ~_whole(numbers)).tolist():
                self._problem(part, place, name, "not a whole number, as counts are", "")
        return gaps

    def _add_labels(
        self, name: str, labels: tuple[Label, ...], part: _Part, counts: dict[str, int]
    ) -> NDArray[np.bool_]:
        column = part.columns[name]
        try:
            codes = _places(column, labels)
        except ARROW_ERRORS:
            codes = np.full(len(column), _UNKNOWN)
        gaps: NDArray[np.bool_] = codes == _GAP
        if _other(self._study, name) is not None:
            counts["others"] += int((codes == _UNKNOWN).sum())
            return gaps
        known = {label_text(label) for label in labels}
        for place in np.flatnonzero(codes == _UNKNOWN).tolist():
            text = _text(column[place])
            self._problem(part, place, name, "not a label of the study", _nearly(text, known))
        return gaps

    def _problem(self, part: _Part, place: int, name: str, what: str, suggestion: str) -> None:
        self._problems.append(Misfit(int(part.numbers[place]), name, what, suggestion))

    def _bounds(self, name: str) -> tuple[float, float]:
        column = self._study.columns.get(name)
        if isinstance(column, Number):
            return column.low, column.high
        low, high = self._study.target.low, self._study.target.high
        assert low is not None
        assert high is not None
        return low, high

    def _gap_words(self, name: str) -> tuple[str, str] | None:
        if self._study.leaves_out:
            return None
        if name == self._study.target.column:
            return "the target is missing", "Leave the row out"
        if self._study.columns[name].missing is None:
            return "a missing value", f"Add missing = … under [columns.{name}] of the study"
        return None


def _count_persons(source: Any, person: str, problems: list[Misfit]) -> int:
    whose = [
        name
        for part in _parts(source, {person: ()}, [])
        for name in persons_among(part.columns[person])
    ]
    for row, name in enumerate(whose, 1):
        if name is None:
            problems.append(Misfit(row, person, "it does not say whose row it is", "Fill it in"))
    return len(set(whose) - {None})


def _names(source: Any, wanted: list[str]) -> list[str]:
    if (path := _text_file(source)) is not None:
        return names_of(path, wanted)
    if isinstance(source, (str, Path)):
        return header(source)
    return [str(name) for name in getattr(source, "columns", getattr(source, "column_names", []))]


def _misnamed(name: str, names: list[str]) -> Misfit:
    if name in names:
        return Misfit(None, name, "the column occurs twice", "Rename one of them")
    plain = {each.strip().casefold(): each for each in names}
    near = plain.get(name.strip().casefold())
    if near is None:
        near = next(iter(difflib.get_close_matches(name, names, 1)), None)
    suggestion = "" if near is None else f"Rename {near!r}?"
    return Misfit(None, name, "there is no such column", suggestion)


def _parts(source: Any, wanted: Wanted, problems: list[Misfit]) -> Iterator[_Part]:
    """The rows with their numbers."""
    if (path := _text_file(source)) is not None:
        yield from _records(path, wanted, problems)
        return
    start = 1
    for batch in every_batch(source, wanted)[0]:
        columns = {name: batch.column(name) for name in wanted}
        yield _Part(np.arange(start, start + batch.num_rows), columns)
        start += batch.num_rows


def _text_file(source: Any) -> Path | None:
    if not isinstance(source, (str, Path)) or is_query(source):
        return None
    path = Path(source)
    return None if is_table(path) or path.suffix in PARQUET else path


def _records(path: Path, wanted: Wanted, problems: list[Misfit]) -> Iterator[_Part]:
    """The records of a text file; those with too many or too few fields are problems."""
    reading = reading_of(path, list(wanted), look=True)
    csv.field_size_limit(_LONGEST)  # the usual one is shorter than a record may be
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding=reading.encoding, errors="replace", newline="") as file:
        records = csv.reader(file, delimiter=reading.delimiter)
        names = next((record for record in records if record), [])
        places = [names.index(name) for name in wanted]
        numbers: list[int] = []
        cells: list[list[str]] = []
        number = 0
        try:
            for record in records:
                if not record:
                    continue
                number += 1
                if len(record) != len(names):
                    what = f"{len(record)} fields, and the header has {len(names)}"
                    problems.append(Misfit(number, "", what, "A separator within a value?"))
                    continue
                numbers.append(number)
                cells.append([record[place] for place in places])
                if len(cells) == _RECORDS:
                    yield _as_part(numbers, cells, wanted, reading)
                    numbers, cells = [], []
        except csv.Error:
            problems.append(Misfit(number + 1, "", "it cannot be read", "Check its quotes"))
        yield _as_part(numbers, cells, wanted, reading)


def _as_part(
    numbers: Sequence[int], cells: Sequence[Sequence[str]], wanted: Wanted, reading: Any
) -> _Part:
    columns = list(zip(*cells, strict=True)) if cells else [()] * len(wanted)
    batch = pa.record_batch(
        {name: pa.array(column, pa.string()) for name, column in zip(wanted, columns, strict=True)}
    )
    pointed = _with_points(batch, wanted, reading)
    return _Part(np.array(numbers, dtype=np.int64), {name: pointed[name] for name in wanted})


def _confirm(source: Any, study: Study, problems: list[Misfit]) -> None:
    """What reads the rows for a release has the last word."""
    try:
        for _ in read_blocks(source, study):
            pass
    except checks.InvalidInput as problem:
        problems.append(Misfit(None, "", str(problem)))


def _is_gap(cell: object) -> bool:
    if isinstance(cell, str):
        return cell.strip(" \t") in GAPS
    return cell is None or cell != cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(scalar: Any) -> str:
    try:
        return label_text(scalar.as_py())
    except (ValueError, OverflowError):
        return ""


def _nearly(text: str, known: set[str]) -> str:
    """What would make it a label; which one is not told."""
    if text.strip() in known:
        return "It has blanks around it"
    folded = {each.casefold() for each in known}
    if text.casefold() in folded:
        return "Upper and lower case differ"
    if text.strip().casefold() in folded:
        return "It has blanks around it, and upper and lower case differ"
    if text in ("true", "false"):
        return "It is a truth value: the study can name true and false"
    if "\ufffd" in text:
        return "It is in another encoding"
    if difflib.get_close_matches(text, known, 1, 0.75):
        return "It is spelled nearly like one"
    return ""
