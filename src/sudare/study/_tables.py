"""From a table to bounded rows, block by block, without a look at the data's own range.

There are two ways to read a file or a frame:

    read_table       what does not fit the study is an error that names the column and what to do,
                     and never a value: for people at a desk, who can correct their data
    read_every_row   what does not fit is replaced by public constants, so that no row can make it
                     fail: for work whose success or failure others can see

Of data that fit, both make the same rows to the last bit.
"""

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.releases import Label
from sudare.study._contract import Categories, Feature, Study, label_text
from sudare.study._persons import Array, by_person, persons_among
from sudare.study._sources import ARROW_ERRORS, GAPS, Wanted, batches, every_batch

Codes = NDArray[np.int64]
Columns = dict[str, Any]
"""Numbers as doubles, NaN where missing; labels as their places in the study, −1 where missing."""

_GAP, _UNKNOWN = -1, -2
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


class Block(NamedTuple):
    """Some rows, encoded: features, and targets as −1/+1 or within [−1, 1] (None if not read)."""

    rows: Array
    targets: Array | None


def read_blocks(source: Any, study: Study, *, with_target: bool = True) -> Iterator[Block]:
    """The encoded rows of a file or frame, some at a time."""
    for batch in batches(source, _wanted(study, with_target)):
        yield _strict(batch, study, with_target)


class Labelled(NamedTuple):
    """Some rows whose target is known, encoded, and how many beside them have none."""

    rows: Array
    targets: Array
    left_out: int


def read_labelled(source: Any, study: Study) -> Iterator[Labelled]:
    """The rows whose target is known, some at a time; all other gaps are as in `read_blocks`, or
    their rows are left out where the study learns without them."""
    wanted, features = _wanted(study, True), study.features
    for batch in batches(source, wanted):
        columns = {
            name: _typed(name, batch, labels, _other(study, name))
            for name, labels in wanted.items()
        }
        if not study.leaves_out:
            _refuse_gaps(columns, study, with_target=False)
        known = ~_gaps(columns[study.target.column])
        rows = _encode(columns, study, features, batch.num_rows)
        block = _left_out(columns, study, Block(rows, _targets(columns, study)))
        assert block.targets is not None
        known &= complete(study, block.rows)
        yield Labelled(block.rows[known], block.targets[known], int((~known).sum()))


def read_table(source: Any, study: Study, *, with_target: bool = True) -> Block:
    """All encoded rows at once; where a study says whose they are, one for each person."""
    person = study.person_column
    if person is None or not with_target:
        return _joined(list(read_blocks(source, study, with_target=with_target)))
    blocks, whose = [], []
    for batch in batches(source, _wanted(study, True) | {person: ()}):
        blocks.append(_strict(batch, study, True))
        whose += persons_among(batch.column(batch.schema.get_field_index(person)))
    if None in whose:
        raise checks.InvalidInput(
            f"Column {person!r} does not say of every row whose it is: fill it in, or leave those "
            "rows out"
        )
    return _one_each(_joined(blocks), whose, study)


def _strict(batch: pa.RecordBatch, study: Study, with_target: bool) -> Block:
    wanted = _wanted(study, with_target)
    columns = {
        name: _typed(name, batch, labels, _other(study, name)) for name, labels in wanted.items()
    }
    _refuse_gaps(columns, study, with_target)
    rows = _encode(columns, study, study.features, batch.num_rows)
    targets = _targets(columns, study) if with_target else None
    return _left_out(columns, study, Block(rows, targets))


def read_every_row(source: Any, study: Study) -> Block:
    """All encoded rows and targets, whatever the rows hold; fails only for the table as a whole.

    Each row is encoded by itself: what becomes of it does not depend on the others, and there are
    as many as the table has. An unknown label, a text that is no number or not UTF-8, and NaN count
    as missing values. A missing value becomes the column's `missing`, or, in a study that names
    none, zeros: the centre of a number, halfway between two categories, the first of more. A
    missing target counts as the first class, as the middle between its bounds, or as no event, and
    a count that is not whole as missing. Infinite numbers are clipped like all others. A line of a
    CSV file with too many or too few fields is a row of missing values, after all others.
    Where a study says whose rows they are, "row" means all rows of a person; a row that says
    nothing is a person of its own.
    """
    wanted, person = _wanted(study, True), study.person_column
    read = wanted if person is None else wanted | {person: ()}
    found, lost = every_batch(source, read)
    blank = pa.record_batch({name: pa.nulls(lost) for name in read})
    blocks, whose = [], []
    for batch in [*found, blank]:
        columns = {
            name: _whatever(batch.column(name), labels, _other(study, name))
            for name, labels in wanted.items()
        }
        rows = _encode(columns, study, study.features, batch.num_rows)
        blocks.append(_left_out(columns, study, Block(rows, _targets(columns, study))))
        if person is not None:
            whose += persons_among(batch.column(person))
    return _joined(blocks) if person is None else _one_each(_joined(blocks), whose, study)


def _one_each(block: Block, whose: list[str | None], study: Study) -> Block:
    assert block.targets is not None
    return Block(*by_person(block.rows, block.targets, whose, study.task))


def _joined(blocks: list[Block]) -> Block:
    if not sum(len(block.rows) for block in blocks):
        raise checks.InvalidInput("Expected at least one row of data")
    rows = np.concatenate([block.rows for block in blocks])
    targets = [block.targets for block in blocks if block.targets is not None]
    return Block(rows, np.concatenate(targets) if targets else None)


def _other(study: Study, name: str) -> int | None:
    """The place of the category that unknown labels count as, if there is one."""
    column = study.columns.get(name)
    if not isinstance(column, Categories) or column.other is msgspec.UNSET:
        return None
    return _codes(column.categories)[label_text(column.other)]


def _left_out(columns: Columns, study: Study, block: Block) -> Block:
    """Rows with a gap as one public row, where the study leaves them out of what is learnt.

    Their class is a coin of their own: half of each class is fitted by a mark near 0, all of one
    class only by a mark that a penalty would not allow.
    """
    if not study.leaves_out:
        return block
    needed = [name for name, column in study.columns.items() if column.missing is None]
    if block.targets is not None:
        needed.append(study.target.column)
    gaps = np.zeros(len(block.rows), dtype=bool)
    for name in needed:
        gaps |= _gaps(columns[name])
    rows, targets = block
    if targets is not None and study.target.classes is None:
        targets = np.where(gaps, 0.0, targets)
    elif targets is not None:
        targets[gaps] = [2.0 * (zlib.crc32(row.tobytes()) % 2) - 1.0 for row in rows[gaps] + 0.0]
    rows[gaps] = 0.0
    rows[gaps, -1] = 1.0 / study.features[-1].scale
    return Block(rows, targets)


def persons_of(source: Any, column: str) -> list[str]:
    """Everybody who is named in a column, once each."""
    found, _ = every_batch(source, {column: ()})
    names = {name for batch in found for name in persons_among(batch.column(column))}
    return sorted(name for name in names if name is not None)


def complete(study: Study, rows: Array) -> NDArray[np.bool_]:
    """Which encoded rows are somebody's, and not in place of one that is left out."""
    if not study.leaves_out:
        return np.ones(len(rows), dtype=bool)
    found: NDArray[np.bool_] = rows[:, -1] == 0
    return found


def _refuse_gaps(columns: Columns, study: Study, with_target: bool) -> None:
    if study.leaves_out and with_target:
        return
    for name, column in study.columns.items():
        if column.missing is None and _gaps(columns[name]).any():
            then = (
                "it learns from complete rows, and can say something of such rows only"
                if study.leaves_out
                else f"add missing = … under [columns.{name}]"
            )
            raise checks.InvalidInput(
                f"Column {name!r} has missing values, and the study does not say what stands in "
                f"for them: {then}"
            )
    target = study.target.column
    if with_target and _gaps(columns[target]).any():
        raise checks.InvalidInput(f"Target {target!r} has missing values: leave those rows out")
    if with_target and study.target.counts and not _whole(columns[target]).all():
        raise checks.InvalidInput(
            f"Target {target!r} holds numbers that are not whole: counts are. Correct the data, or "
            "agree on a study that has low and high instead of most"
        )


def _gaps(values: Array | Codes) -> NDArray[np.bool_]:
    missing: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else values == _GAP
    return missing


def _whole(values: Array) -> NDArray[np.bool_]:
    whole: NDArray[np.bool_] = values == np.rint(values)
    return whole


def _encode(columns: Columns, study: Study, features: tuple[Feature, ...], size: int) -> Array:
    """Clipped, centred and scaled features, one row each."""
    rows: Array = np.zeros((size, len(features)))
    owners = [feature.column for feature in features]
    centres = np.array([feature.centre for feature in features])
    scales = np.array([feature.scale for feature in features])
    start = 0
    for name, column in study.columns.items():
        values = columns[name]
        gaps = _gaps(values)
        stop = start + owners[start:].count(name)
        own = slice(start, stop)
        if isinstance(column, Categories):
            rows[:, own] = ((_indicators(column) - centres[own]) / scales[own])[values]
        else:
            if column.missing is not None:
                values = np.where(gaps, column.missing, values)
            for place, given in zip(
                range(start, stop), (np.clip(values, column.low, column.high), gaps), strict=False
            ):
                rows[:, place] = (given - centres[place]) / scales[place]
        if column.missing is None:
            rows[gaps, own] = 0.0
        start = stop
    return rows


def _indicators(column: Categories) -> Array:
    """For each code its zeros and ones; the last row is that of a gap, whose code is −1."""
    count = len(column.categories)
    rows = np.eye(count + 1)[:, 1:]  # the first category is nothing but zeros, the gap a one
    if column.missing is not None:
        rows[_GAP, : count - 1] = rows[_codes(column.categories)[label_text(column.missing)], :-1]
    return rows if column.indicator else rows[:, :-1]


def _targets(columns: Columns, study: Study) -> Array:
    target = study.target
    values = columns[target.column]
    if target.classes is not None:
        return np.where(values == 1, 1.0, -1.0)
    if target.counts:  # no number of events is zero events
        values = np.where(_whole(values), values, 0.0)
    clipped = np.clip(values, target.low, target.high)
    scaled: Array = (clipped - study.target_middle) / study.target_reach
    return np.where(np.isnan(scaled), 0.0, scaled)


def _wanted(study: Study, with_target: bool) -> Wanted:
    wanted: Wanted = {
        name: column.categories if isinstance(column, Categories) else None
        for name, column in study.columns.items()
    }
    if with_target:
        wanted[study.target.column] = study.target.classes
    return wanted


def _typed(
    name: str, batch: pa.RecordBatch, labels: tuple[Label, ...] | None, other: int | None
) -> Array | Codes:
    column = batch.column(batch.schema.get_field_index(name))
    return _as_numbers(name, column) if labels is None else _as_codes(name, column, labels, other)


def _as_numbers(name: str, column: Any) -> Array:
    try:
        # Not "safe": integers too long for a double are rounded, and then clipped like all others.
        doubles = column.cast(pa.float64(), safe=False)
    except ARROW_ERRORS:
        raise checks.InvalidInput(f"Column {name!r} holds something that is not a number") from None
    numbers: Array = doubles.to_numpy(zero_copy_only=False)
    if np.isinf(numbers).any():
        raise checks.InvalidInput(f"Column {name!r} holds an infinite number")
    return numbers


def _as_codes(name: str, column: Any, labels: tuple[Label, ...], other: int | None) -> Codes:
    unknown = checks.InvalidInput(
        f"Column {name!r} holds a label that is not in the study: correct the data, or agree on a "
        "study that names it"
    )
    try:
        codes = _places(column, labels)
    except ARROW_ERRORS:
        raise unknown from None
    if other is None and (codes == _UNKNOWN).any():
        raise unknown
    return codes if other is None else np.where(codes == _UNKNOWN, other, codes)


def _whatever(column: Any, labels: tuple[Label, ...] | None, other: int | None) -> Array | Codes:
    """The column as `_typed` makes it, with a gap for each value that does not fit."""
    if labels is None:
        return _numbers_among(column)
    try:
        codes = _places(column, labels)
        return np.where(codes == _UNKNOWN, _GAP if other is None else other, codes)
    except ARROW_ERRORS:  # lists, records: its type is no label's
        return np.full(len(column), _GAP)


def _numbers_among(column: Any) -> Array:
    """Doubles, NaN for what is none; each value by itself, as if it were alone."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if any(is_text(column.type) for is_text in _TEXTS):
        # Without the spaces that the reader of CSV numbers does not mind.
        column = pc.ascii_trim(column.cast(pa.large_string()), " \t")
    try:
        doubles = column.cast(pa.float64(), safe=False)
    except (pa.ArrowTypeError, pa.ArrowNotImplementedError):  # its type is no number's
        return np.full(len(column), np.nan)
    except pa.ArrowInvalid:
        coded = pc.dictionary_encode(column)
        places: Codes = pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy()
        distinct = np.append(_one_by_one(coded.dictionary), np.nan)
        return distinct[places]
    numbers: Array = doubles.to_numpy(zero_copy_only=False)
    return numbers


def _one_by_one(values: Any) -> Array:
    """Doubles, NaN where the cast fails; by halves, since most values are numbers."""
    try:
        numbers: Array = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        half = len(values) // 2
        if half == 0:
            return np.array([np.nan])
        return np.concatenate([_one_by_one(values[:half]), _one_by_one(values[half:])])
    return numbers


def _places(column: Any, labels: tuple[Label, ...]) -> Codes:
    """Each value's place among the labels, by its spelling."""
    coded = pc.dictionary_encode(column)
    places = _codes(labels)
    known = [_code(value, places) for value in coded.dictionary]
    indices = pc.fill_null(coded.indices.cast(pa.int64()), len(known)).to_numpy()
    codes: Codes = np.array([*known, _GAP], dtype=np.int64)[indices]
    return codes


def _codes(labels: tuple[Label, ...]) -> dict[str, int]:
    return {label_text(label): code for code, label in enumerate(labels)}


def _code(scalar: Any, places: dict[str, int]) -> int:
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):  # not UTF-8, or a date that no calendar has
        return _UNKNOWN
    text = "" if value is None else label_text(value)
    return places.get(text, _GAP if text in GAPS else _UNKNOWN)
