"""Files and frames as blocks of named columns, whatever they are written in.

CSV (also gzipped) and Parquet are read in blocks, so that memory stays bounded; workbooks, files of
statistics packages and answers of databases at once; frames of pandas, polars or pyarrow are taken
as they are. Errors name a column, and never hold a value.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from narwhals.exceptions import NarwhalsError

from sudare.foundations import checks
from sudare.releases import Label
from sudare.storage.files import unreadable
from sudare.study._formats import answer, read_file
from sudare.study._reading import (
    BLOCK_BYTES,
    PARQUET,
    Reading,
    blocks,
    is_query,
    is_table,
    reading_of,
    side_file,
)

Wanted = dict[str, tuple[Label, ...] | None]
"""Columns to read, with their labels; None for numbers."""

BLOCK_ROWS = 1 << 14
GAPS = frozenset(
    ["", "NA", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "<NA>"]
)
"""Texts that mean a missing value, unless the study has such a label."""
ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)


def batches(source: Any, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Blocks that hold the wanted columns, each once."""
    table = _named_table(source, wanted)
    if table is not None:
        _check_names(table.column_names, list(wanted))
        plain = {name: _without_gaps(table[name], labels) for name, labels in wanted.items()}
        yield from pa.table(plain).to_batches(max_chunksize=BLOCK_ROWS)
    elif isinstance(source, (str, Path)):
        path = Path(source)
        reader = _parquet if path.suffix in PARQUET else _csv
        yield from reader(path, wanted)
    else:
        yield from _frame(source, list(wanted)).to_batches(max_chunksize=BLOCK_ROWS)


def every_batch(source: Any, wanted: Wanted) -> tuple[list[pa.RecordBatch], int]:
    """All blocks, whatever their values; fails only for what is wrong with the table as a whole.

    Columns of a CSV file are texts, with a mark in place of bytes that are not UTF-8. Its records
    with too many or too few fields are left out; the second number says how many.
    """
    table = _named_table(source, wanted)
    if table is not None or not isinstance(source, (str, Path)):
        frame = _every_frame(source if table is None else table, wanted)
        return frame.to_batches(max_chunksize=BLOCK_ROWS), 0
    path = Path(source)
    if path.suffix in PARQUET:
        return list(_parquet(path, wanted)), 0
    reading = reading_of(path, list(wanted), look=False)
    # All of it at once, and as UTF-8: pyarrow cannot report a faulty record that is not.
    whole = (
        b"".join(blocks(path)).decode(reading.encoding, errors="replace").encode(errors="replace")
    )
    said = ""
    for size in (BLOCK_BYTES, BLOCK_BYTES << 5, BLOCK_BYTES << 10):  # a record must fit a block
        try:
            found, lost = _every_record(whole, wanted, size, reading)
            return [_with_points(batch, wanted, reading) for batch in found], lost
        except pa.ArrowInvalid as problem:
            said = str(problem)
    raise checks.InvalidInput(_csv_problem(path, said, []))


def header(path: str | Path) -> list[str]:
    """The column names of a file or query, and nothing else of it."""
    table = _named_table(path, None)
    if table is not None:
        return list(table.column_names)
    file = Path(path)
    try:
        if file.suffix in PARQUET:
            return list(pa.parquet.read_schema(file).names)
        return _csv_header(file, reading_of(file, [], look=True))
    except (*ARROW_ERRORS, UnicodeError):
        raise checks.InvalidInput(f"Cannot read the column names of {path}") from None
    except OSError as problem:
        raise unreadable(path, problem, str(problem)) from None


def texts_of(path: str | Path, column: str) -> list[str]:
    """One column of a file as texts, row by row as `batches` gives them: for names of rows."""
    found: list[str] = []
    for batch in batches(path, {column: ()}):
        values = batch.column(batch.schema.get_field_index(column))
        try:
            texts = values.cast(pa.string())
        except ARROW_ERRORS:
            raise checks.InvalidInput(
                f"Column {column!r} holds something that cannot be written as a text"
            ) from None
        found += ["" if text is None else text for text in texts.to_pylist()]
    return found


def raw_content(source: Any) -> Iterator[bytes]:
    """The bytes of a file (unpacked) with the rules beside it, or of a frame or an answer written
    as CSV: what a data set is recognised by, whatever its name."""
    if is_query(source):
        source = answer(source)
    if not isinstance(source, (str, Path)):
        yield from _frame_content(_frame(source))
        return
    path = Path(source)
    yield from blocks(path)
    if side_file(path).is_file():  # read in another way, it holds other rows
        yield from blocks(side_file(path))


def _named_table(source: Any, wanted: Wanted | None) -> pa.Table | None:
    """A source that is read at once, or None for one that is not."""
    if is_query(source):
        return answer(source)
    if isinstance(source, (str, Path)) and is_table(Path(source)):
        return read_file(Path(source), wanted)
    return None


def _without_gaps(column: Any, labels: tuple[Label, ...] | None) -> Any:
    """Numbers that a workbook holds as texts, with nulls for the texts that mean a gap."""
    if labels is not None or not pa.types.is_string(column.type):
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    gaps = pc.is_in(trimmed, value_set=pa.array(sorted(GAPS)))
    return pc.if_else(gaps, pa.scalar(None, pa.string()), trimmed)


def _csv(path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    reading = reading_of(path, list(wanted), look=True)
    number = pa.string() if reading.commas else pa.float64()
    types = {name: number if labels is None else pa.string() for name, labels in wanted.items()}
    header: list[str] = []
    try:
        header = _csv_header(path, reading)
        _check_names(header, list(wanted))
        options: dict[str, Any] = {"include_columns": list(wanted), "column_types": types}
        with _open_csv(path, reading, null_values=sorted(GAPS), **options) as reader:
            for batch in reader:
                yield _with_points(batch, wanted, reading)
    except UnicodeError:
        raise checks.InvalidInput(
            f"{path} holds text that is not {reading.encoding}: name its encoding in "
            f"{side_file(path).name}"
        ) from None
    except pa.ArrowInvalid as problem:
        raise checks.InvalidInput(_csv_problem(path, str(problem), header)) from None
    except OSError as problem:
        raise unreadable(path, problem, str(problem)) from None


def _with_points(batch: pa.RecordBatch, wanted: Wanted, reading: Reading) -> pa.RecordBatch:
    """Where a comma may stand for the point of a number, a point for it; each cell by itself."""
    if not reading.commas:
        return batch
    columns = {}
    for name, labels in wanted.items():
        column = batch.column(batch.schema.get_field_index(name))
        if labels is None:
            pointed = pc.replace_substring(column, ",", ".", max_replacements=1)
            column = _without_gaps(pointed, None)
        columns[name] = column
    return pa.record_batch(columns)


def _every_record(
    content: bytes, wanted: Wanted, size: int, reading: Reading
) -> tuple[list[pa.RecordBatch], int]:
    lost = 0

    def leave_out(_: Any) -> str:
        nonlocal lost
        lost += 1
        return "skip"

    reading = Reading(delimiter=reading.delimiter)  # it is UTF-8 by now
    _check_names(_csv_header(io.BytesIO(content), reading, size, leave_out), list(wanted))
    lost = 0
    with _open_csv(
        io.BytesIO(content),
        reading,
        size,
        leave_out,
        include_columns=list(wanted),
        column_types=dict.fromkeys(wanted, pa.string()),
    ) as reader:
        return list(reader), lost


def _csv_header(
    file: Path | io.BytesIO, reading: Reading, size: int = BLOCK_BYTES, faulty: Any = None
) -> list[str]:
    with _open_csv(file, reading, size, faulty) as reader:
        return list(reader.schema.names)


def _open_csv(
    file: Path | io.BytesIO,
    reading: Reading,
    size: int = BLOCK_BYTES,
    faulty: Any = None,
    **converting: Any,
) -> pa.csv.CSVStreamingReader:
    parsing = pa.csv.ParseOptions(
        newlines_in_values=True, delimiter=reading.delimiter, invalid_row_handler=faulty
    )
    source: Any = file
    if reading.encoding != "utf-8" and isinstance(file, Path):
        source = pa.transcoding_input_stream(pa.input_stream(file), reading.encoding, "utf-8")
    return pa.csv.open_csv(
        source,
        read_options=pa.csv.ReadOptions(block_size=size),
        parse_options=parsing,
        convert_options=pa.csv.ConvertOptions(**converting),
    )


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


def _parquet(path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    try:
        # A row group can be the whole file: it is read through small buffers, not at once.
        with pa.parquet.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False) as file:
            _check_names(file.schema_arrow.names, list(wanted))
            yield from file.iter_batches(batch_size=BLOCK_ROWS, columns=list(wanted))
    except ARROW_ERRORS:
        raise checks.InvalidInput(f"{path} is not a Parquet file, or it is damaged") from None
    except OSError as problem:
        raise unreadable(path, problem, str(problem)) from None


def _frame(source: Any, wanted: list[str] | None = None) -> pa.Table:
    """The wanted columns of a frame, or all; each by itself, so that an error can name it."""
    frame = _named_frame(source, wanted)
    columns = {}
    for name in frame.columns if wanted is None else wanted:
        try:
            columns[str(name)] = frame.get_column(name).to_arrow()
        except ARROW_ERRORS:
            raise checks.InvalidInput(
                f"Column {name!r} of the frame holds values of different kinds"
            ) from None
    return pa.table(columns)


def _every_frame(source: Any, wanted: Wanted) -> pa.Table:
    """The wanted columns; where values are of different kinds, as the texts that a file has."""
    frame = _named_frame(source, list(wanted))
    columns = {}
    for name, labels in wanted.items():
        column = frame.get_column(name)
        try:
            columns[name] = column.to_arrow()
        except Exception:  # a value can be any object, and fail in any way
            texts = [_spelling(value, labels is None) for value in column.to_list()]
            columns[name] = pa.array(texts, pa.string())
    return pa.table(columns)


def _spelling(value: Any, is_number: bool) -> str | None:
    """A value of a frame as a CSV file would spell it; None for what cannot be spelled."""
    try:
        text = str(float(value)) if is_number and isinstance(value, bool) else str(value)
    except Exception:  # as above
        return None
    return text.encode(errors="replace").decode()


def _named_frame(source: Any, wanted: list[str] | None) -> Any:
    """A frame that has the wanted columns, or all of its own, once each."""
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
    return frame


def _frame_content(table: pa.Table) -> Iterator[bytes]:
    """As CSV, which says the same whatever library or blocks the frame came in."""
    names = table.column_names
    for index, (name, field) in enumerate(zip(names, table.schema, strict=True)):
        if pa.types.is_dictionary(field.type):
            decoded = table.column(index).cast(field.type.value_type)
            table = table.set_column(index, name, decoded)
    sink = io.BytesIO()
    for start in range(0, max(1, table.num_rows), BLOCK_ROWS):
        piece = table.slice(start, BLOCK_ROWS).combine_chunks()
        try:
            options = pa.csv.WriteOptions(include_header=start == 0, batch_size=BLOCK_ROWS)
            pa.csv.write_csv(piece, sink, options)
        except ARROW_ERRORS:
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
