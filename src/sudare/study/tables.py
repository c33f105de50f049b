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
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray

from sudare import checks
from sudare.study.contract import Categories, Column, Number, Study, label_text

Array = NDArray[np.float64]
_BLOCK_BYTES = 8 << 20
_BLOCK_ROWS = 1 << 16


class Block(NamedTuple):
    """Some rows, encoded: features, and targets as −1/+1 or within [−1, 1] (None if not read)."""

    rows: Array
    targets: Array | None


def read_blocks(source: Any, study: Study, *, with_target: bool = True) -> Iterator[Block]:
    """The encoded rows of a file or frame, some at a time."""
    wanted = [*study.columns, *([study.target.column] if with_target else [])]
    for batch in _batches(source, study, wanted):
        rows = encode(batch, study)
        yield Block(rows, _targets(batch, study) if with_target else None)


def read_table(source: Any, study: Study, *, with_target: bool = True) -> Block:
    """All encoded rows at once."""
    blocks = list(read_blocks(source, study, with_target=with_target))
    if not blocks or not sum(len(block.rows) for block in blocks):
        raise checks.InvalidInput("Expected at least one row of data")
    rows = np.concatenate([block.rows for block in blocks])
    targets = [block.targets for block in blocks if block.targets is not None]
    return Block(rows, np.concatenate(targets) if with_target else None)


def header(path: str | Path) -> list[str]:
    """The column names of a CSV or Parquet file; no row is read."""
    file = Path(path)
    try:
        if file.suffix in (".parquet", ".pq"):
            return list(pa.parquet.read_schema(file).names)
        return _csv_header(file)
    except pa.ArrowInvalid:
        raise checks.InvalidInput(f"Cannot read the column names of {path}") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror or problem}") from None


def raw_content(source: Any) -> Iterator[bytes]:
    """The bytes of a file (unpacked) or frame: what a data set is recognised by, whatever its
    name."""
    if not isinstance(source, (str, Path)):
        sink = io.BytesIO()
        table = source if isinstance(source, pa.Table) else _frame(source)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        yield sink.getvalue()
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


def encode(batch: pa.RecordBatch, study: Study) -> Array:
    """Clipped, centred and scaled features, one row each."""
    features = study.features
    rows: Array = np.empty((batch.num_rows, len(features)))
    place = 0
    for name, column in study.columns.items():
        values = batch.column(name)
        gaps = np.asarray(pc.is_null(values, nan_is_null=True))
        if gaps.any() and column.missing is None:
            raise checks.InvalidInput(
                f"Column {name!r} has missing values, and the study does not say what stands in "
                f"for them: add missing = … under [columns.{name}]"
            )
        for feature in (f for f in features if f.column == name):
            if feature.name == f"{name} missing" and column.indicator:
                given: Any = gaps
            elif isinstance(column, Number):
                given = np.clip(_numbers(values), column.low, column.high)
                if column.missing is not None:
                    given = np.where(gaps, column.missing, given)
            else:
                given = _filled(name, values, gaps, column) == label_text(feature.category)
            rows[:, place] = (given - feature.centre) / feature.scale
            place += 1
    return rows


def _numbers(values: Any) -> Array:
    numbers: Array = values.to_numpy(zero_copy_only=False)
    return numbers


def _filled(name: str, values: Any, gaps: NDArray[np.bool_], column: Categories) -> NDArray[Any]:
    """Category texts without gaps, all of them known to the study."""
    texts = np.asarray(values.to_numpy(zero_copy_only=False), dtype=object)
    if gaps.any():
        texts = np.where(gaps, label_text(column.missing), texts)
    known = np.isin(texts.astype(str), [label_text(each) for each in column.categories])
    if not known.all():
        raise checks.InvalidInput(
            f"Column {name!r} holds a category that is not in the study: correct the data, or "
            "agree on a study that names it"
        )
    return texts


def _targets(batch: pa.RecordBatch, study: Study) -> Array:
    target = study.target
    values = batch.column(target.column)
    if np.asarray(pc.is_null(values, nan_is_null=True)).any():
        raise checks.InvalidInput(
            f"Target {target.column!r} has missing values: leave those rows out"
        )
    if target.classes is None:
        low, high = target.low, target.high
        assert low is not None
        assert high is not None
        clipped = np.clip(_numbers(values), low, high)
        scaled: Array = (clipped - study.target_middle) / study.target_reach
        return scaled
    texts = np.asarray(values.to_numpy(zero_copy_only=False), dtype=object).astype(str)
    second = texts == label_text(target.classes[1])
    if not (second | (texts == label_text(target.classes[0]))).all():
        raise checks.InvalidInput(
            f"Target {target.column!r} holds a label that is not one of the study's two classes"
        )
    return np.where(second, 1.0, -1.0)


def _batches(source: Any, study: Study, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """Blocks of the wanted columns: numbers as doubles, everything else as text."""
    numeric = {name for name in wanted if _is_number(study, name)}
    if isinstance(source, (str, Path)):
        path = Path(source)
        reader = _parquet if path.suffix in (".parquet", ".pq") else _csv
        yield from (_typed(batch, wanted, numeric) for batch in reader(path, wanted, numeric))
        return
    table = source if isinstance(source, pa.Table) else _frame(source)
    _check_names(table.column_names, wanted)
    for batch in table.select(wanted).to_batches(max_chunksize=_BLOCK_ROWS):
        yield _typed(batch, wanted, numeric)


def _is_number(study: Study, name: str) -> bool:
    if name == study.target.column:
        return study.target.classes is None
    column: Column = study.columns[name]
    return isinstance(column, Number)


def _csv(path: Path, wanted: list[str], numeric: set[str]) -> Iterator[pa.RecordBatch]:
    types = {name: pa.float64() if name in numeric else pa.string() for name in wanted}
    try:
        _check_names(_csv_header(path), wanted)
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                include_columns=wanted, column_types=types, strings_can_be_null=True
            ),
        ) as reader:
            yield from reader
    except pa.ArrowInvalid as problem:
        raise checks.InvalidInput(_csv_problem(path, str(problem), wanted)) from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror or problem}") from None


def _csv_header(path: Path) -> list[str]:
    with pa.csv.open_csv(path, read_options=pa.csv.ReadOptions(block_size=1 << 16)) as reader:
        return list(reader.schema.names)


def _csv_problem(path: Path, said: str, wanted: list[str]) -> str:
    """pyarrow's complaint without the value it quotes."""
    if "Empty CSV" in said:
        return f"{path} is empty: expected a header and rows"
    column = re.search(r"CSV column #(\d+)", said)
    if column and "conversion error" in said:
        number = int(column[1])
        name = wanted[number] if number < len(wanted) else f"number {number + 1}"
        return f"{path}: column {name!r} holds something that is not a number"
    if "Expected" in said and "columns" in said:
        return f"{path}: a line has more or fewer fields than the header"
    return f"{path} is not a CSV file that can be read: check its quotes and its encoding (UTF-8)"


def _parquet(path: Path, wanted: list[str], numeric: set[str]) -> Iterator[pa.RecordBatch]:
    try:
        with pa.parquet.ParquetFile(path) as file:
            _check_names(file.schema_arrow.names, wanted)
            yield from file.iter_batches(batch_size=_BLOCK_ROWS, columns=wanted)
    except pa.ArrowInvalid:
        raise checks.InvalidInput(f"{path} is not a Parquet file, or it is damaged") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror or problem}") from None


def _frame(source: Any) -> pa.Table:
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        raise checks.InvalidInput(
            "Expected a CSV or Parquet file, or a frame of pandas, polars or pyarrow"
        ) from None
    return frame.to_arrow()


def _check_names(found: list[str], wanted: list[str]) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise checks.InvalidInput(
            f"Expected the study's columns; missing: {', '.join(map(repr, missing))}"
        )
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise checks.InvalidInput(f"Column {twice[0]!r} occurs twice: rename one of them")


def _typed(batch: pa.RecordBatch, wanted: list[str], numeric: set[str]) -> pa.RecordBatch:
    """The wanted columns in order, as doubles or as labels' texts; infinities are refused."""
    columns = []
    for name in wanted:
        column = batch.column(batch.schema.get_field_index(name))
        if name in numeric:
            columns.append(_as_numbers(name, column))
        else:
            columns.append(_as_texts(column))
    return pa.record_batch(columns, names=wanted)


def _as_numbers(name: str, column: Any) -> Any:
    try:
        numbers = column if pa.types.is_float64(column.type) else column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise checks.InvalidInput(f"Column {name!r} holds something that is not a number") from None
    if pc.any(pc.is_inf(numbers)).as_py():
        raise checks.InvalidInput(f"Column {name!r} holds an infinite number")
    return numbers


def _as_texts(column: Any) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    return pa.array([None if v is None else label_text(v) for v in column.to_pylist()], pa.string())
