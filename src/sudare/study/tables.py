"""From a table to bounded rows, block by block, without a look at the data's own range.

Files (CSV, also gzipped, and Parquet) are read by column name in blocks, so that memory stays
bounded; frames of pandas, polars or pyarrow are taken as they are. What does not fit the study is
an error that names the column and what to do, and never a value.
"""

import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray

from sudare import checks
from sudare.releases import Label
from sudare.study.contract import Categories, Feature, Number, Study, label_text

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
Columns = dict[str, Any]
"""Numbers as doubles, NaN where missing; labels as their places in the study, −1 where missing."""

_BLOCK_BYTES = 1 << 20
"""Larger ones are no faster, and pyarrow reads up to 32 of them ahead."""
_BLOCK_ROWS = 1 << 14
_GAP, _UNKNOWN = -1, -2
_GAPS = frozenset(
    ["", "NA", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>"]
)
"""Texts that mean a missing value, unless the study has such a label."""
_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
_PARSING = pa.csv.ParseOptions(newlines_in_values=True)


class Block(NamedTuple):
    """Some rows, encoded: features, and targets as −1/+1 or within [−1, 1] (None if not read)."""

    rows: Array
    targets: Array | None


def read_blocks(source: Any, study: Study, *, with_target: bool = True) -> Iterator[Block]:
    """The encoded rows of a file or frame, some at a time."""
    wanted, features = _wanted(study, with_target), study.features
    for batch in _batches(source, wanted):
        columns = {name: _typed(name, batch, labels) for name, labels in wanted.items()}
        rows = _encode(columns, study, features, batch.num_rows)
        yield Block(rows, _targets(columns, study) if with_target else None)


def read_table(source: Any, study: Study, *, with_target: bool = True) -> Block:
    """All encoded rows at once."""
    blocks = list(read_blocks(source, study, with_target=with_target))
    if not blocks or not sum(len(block.rows) for block in blocks):
        raise checks.InvalidInput("Expected at least one row of data")
    rows = np.concatenate([block.rows for block in blocks])
    targets = [block.targets for block in blocks if block.targets is not None]
    return Block(rows, np.concatenate(targets) if with_target else None)


def header(path: str | Path) -> list[str]:
    """The column names of a CSV or Parquet file, and nothing else of it."""
    file = Path(path)
    try:
        if file.suffix in (".parquet", ".pq"):
            return list(pa.parquet.read_schema(file).names)
        return _csv_header(file)
    except _ARROW_ERRORS:
        raise checks.InvalidInput(f"Cannot read the column names of {path}") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror or problem}") from None


def raw_content(source: Any) -> Iterator[bytes]:
    """The bytes of a file (unpacked), or of a frame written as CSV: what a data set is recognised
    by, whatever its name."""
    if not isinstance(source, (str, Path)):
        yield from _frame_content(_frame(source))
        return
    path = Path(source)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
    except (OSError, EOFError) as problem:
        reason = getattr(problem, "strerror", None) or "it is cut short or damaged"
        raise checks.InvalidInput(f"Cannot read {path}: {reason}") from None


def _encode(columns: Columns, study: Study, features: tuple[Feature, ...], size: int) -> Array:
    """Clipped, centred and scaled features, one row each."""
    rows: Array = np.empty((size, len(features)))
    owners = [feature.column for feature in features]
    centres = np.array([feature.centre for feature in features])
    scales = np.array([feature.scale for feature in features])
    start = 0
    for name, column in study.columns.items():
        values = columns[name]
        gaps = np.isnan(values) if isinstance(column, Number) else values == _GAP
        if column.missing is None and gaps.any():
            raise checks.InvalidInput(
                f"Column {name!r} has missing values, and the study does not say what stands in "
                f"for them: add missing = … under [columns.{name}]"
            )
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
    if (np.isnan(values) if target.classes is None else values == _GAP).any():
        raise checks.InvalidInput(
            f"Target {target.column!r} has missing values: leave those rows out"
        )
    if target.classes is not None:
        return np.where(values == 1, 1.0, -1.0)
    clipped = np.clip(values, target.low, target.high)
    scaled: Array = (clipped - study.target_middle) / study.target_reach
    return scaled


def _wanted(study: Study, with_target: bool) -> dict[str, tuple[Label, ...] | None]:
    """The columns to read, with their labels; None for numbers."""
    wanted: dict[str, tuple[Label, ...] | None] = {
        name: column.categories if isinstance(column, Categories) else None
        for name, column in study.columns.items()
    }
    if with_target:
        wanted[study.target.column] = study.target.classes
    return wanted


def _batches(source: Any, wanted: Columns) -> Iterator[pa.RecordBatch]:
    """Blocks that hold the wanted columns, each once."""
    if isinstance(source, (str, Path)):
        path = Path(source)
        reader = _parquet if path.suffix in (".parquet", ".pq") else _csv
        yield from reader(path, wanted)
    else:
        yield from _frame(source, list(wanted)).to_batches(max_chunksize=_BLOCK_ROWS)


def _csv(path: Path, wanted: Columns) -> Iterator[pa.RecordBatch]:
    types = {
        name: pa.float64() if labels is None else pa.string() for name, labels in wanted.items()
    }
    header: list[str] = []
    try:
        header = _csv_header(path)
        _check_names(header, list(wanted))
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=_PARSING,
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(wanted), column_types=types, null_values=sorted(_GAPS)
            ),
        ) as reader:
            yield from reader
    except pa.ArrowInvalid as problem:
        raise checks.InvalidInput(_csv_problem(path, str(problem), header)) from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror or problem}") from None


def _csv_header(path: Path) -> list[str]:
    options = pa.csv.ReadOptions(block_size=_BLOCK_BYTES)
    with pa.csv.open_csv(path, read_options=options, parse_options=_PARSING) as reader:
        return list(reader.schema.names)


def _csv_problem(path: Path, said: str, header: list[str]) -> str:
    """pyarrow's complaint without the value it quotes."""
    if "Empty CSV" in said:
        return f"{path} is empty: expected a header and rows"
    column = re.search(r"CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+)", said)
    if column and int(column[1]) < len(header):
        wrong = "text that is not UTF-8" if column[2] == "string" else "something not a number"
        return f"{path}: column {header[int(column[1])]!r} holds {wrong}"
    if "Expected" in said and "columns" in said:
        return f"{path}: a line has more or fewer fields than the header"
    return f"{path} is not a CSV file that can be read: check its quotes and its encoding (UTF-8)"


def _parquet(path: Path, wanted: Columns) -> Iterator[pa.RecordBatch]:
    try:
        # A row group can be the whole file: it is read through small buffers, not at once.
        with pa.parquet.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False) as file:
            _check_names(file.schema_arrow.names, list(wanted))
            yield from file.iter_batches(batch_size=_BLOCK_ROWS, columns=list(wanted))
    except _ARROW_ERRORS:
        raise checks.InvalidInput(f"{path} is not a Parquet file, or it is damaged") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror or problem}") from None


def _frame(source: Any, wanted: list[str] | None = None) -> pa.Table:
    """The wanted columns of a frame, or all; each by itself, so that an error can name it."""
    try:
        frame = nw.from_native(source, eager_only=True)
        names = list(frame.columns)
    except TypeError:
        raise checks.InvalidInput(
            "Expected a CSV or Parquet file, or a frame of pandas, polars or pyarrow"
        ) from None
    except NarwhalsError:
        raise checks.InvalidInput("A column of the frame occurs twice: rename one") from None
    _check_names(names, names if wanted is None else wanted)
    columns = {}
    for name in names if wanted is None else wanted:
        try:
            columns[str(name)] = frame.get_column(name).to_arrow()
        except _ARROW_ERRORS:
            raise checks.InvalidInput(
                f"Column {name!r} of the frame holds values of different kinds"
            ) from None
    return pa.table(columns)


def _frame_content(table: pa.Table) -> Iterator[bytes]:
    """As CSV, which says the same whatever library or blocks the frame came in."""
    names = table.column_names
    for index, (name, field) in enumerate(zip(names, table.schema, strict=True)):
        if pa.types.is_dictionary(field.type):
            decoded = table.column(index).cast(field.type.value_type)
            table = table.set_column(index, name, decoded)
    sink = io.BytesIO()
    for start in range(0, max(1, table.num_rows), _BLOCK_ROWS):
        piece = table.slice(start, _BLOCK_ROWS).combine_chunks()
        try:
            options = pa.csv.WriteOptions(include_header=start == 0, batch_size=_BLOCK_ROWS)
            pa.csv.write_csv(piece, sink, options)
        except _ARROW_ERRORS:
            raise checks.InvalidInput(
                "Expected a frame of numbers, texts and dates: leave out columns of anything else"
            ) from None
        yield sink.getvalue()
        sink.seek(0)
        sink.truncate()


def _check_names(found: list[str], wanted: list[str]) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise checks.InvalidInput(
            f"Expected the study's columns; missing: {', '.join(map(repr, missing))}"
        )
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise checks.InvalidInput(f"Column {twice[0]!r} occurs twice: rename one of them")


def _typed(name: str, batch: pa.RecordBatch, labels: tuple[Label, ...] | None) -> Array | Codes:
    column = batch.column(batch.schema.get_field_index(name))
    return _as_numbers(name, column) if labels is None else _as_codes(name, column, labels)


def _as_numbers(name: str, column: Any) -> Array:
    try:
        # Not "safe": integers too long for a double are rounded, and then clipped like all others.
        doubles = column.cast(pa.float64(), safe=False)
    except _ARROW_ERRORS:
        raise checks.InvalidInput(f"Column {name!r} holds something that is not a number") from None
    numbers: Array = doubles.to_numpy(zero_copy_only=False)
    if np.isinf(numbers).any():
        raise checks.InvalidInput(f"Column {name!r} holds an infinite number")
    return numbers


def _as_codes(name: str, column: Any, labels: tuple[Label, ...]) -> Codes:
    """Each value's place among the labels, by its spelling."""
    unknown = checks.InvalidInput(
        f"Column {name!r} holds a label that is not in the study: correct the data, or agree on a "
        "study that names it"
    )
    try:
        coded = pc.dictionary_encode(column)
    except _ARROW_ERRORS:
        raise unknown from None
    places = _codes(labels)
    known = [_code(value, places) for value in coded.dictionary.to_pylist()]
    indices = pc.fill_null(coded.indices.cast(pa.int64()), len(known)).to_numpy()
    codes: Codes = np.array([*known, _GAP], dtype=np.int64)[indices]
    if (codes == _UNKNOWN).any():
        raise unknown
    return codes


def _codes(labels: tuple[Label, ...]) -> dict[str, int]:
    return {label_text(label): code for code, label in enumerate(labels)}


def _code(value: object, places: dict[str, int]) -> int:
    text = "" if value is None else label_text(value)
    return places.get(text, _GAP if text in _GAPS else _UNKNOWN)
