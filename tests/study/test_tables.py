"""From tables of every kind to the same bounded rows, and never a value in an error."""

import gzip
import io
import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.study import (
    Block,
    Categories,
    Study,
    header,
    parse_study,
    read_blocks,
    read_every_row,
    read_table,
)
from sudare.study import _sources as sources
from sudare.study._reading import BLOCK_BYTES
from tests.study.studies import studies, study, text

HEARTS = study()
ROWS = """\
id,ward,age,ill,sex,pressure
1,north,40,no,female,140
2,south,100,yes,male,
3,,-7,no,male,1e9
4,west,250,yes,female,80
"""
ROOT = math.sqrt(7)
EXPECTED = np.array(
    [
        # age, pressure, missing, male, south, west, missing
        [0, 0, 0, -1, 0, 0, 0],
        [1, (120 - 140) / 60, 1, 1, 1, 0, 0],
        [-40 / 60, 1, 0, 1, 0, 1, 1],
        [1, -1, 0, -1, 0, 1, 0],
    ]
)
ONE = parse_study(
    text(
        columns="[columns.x]\nlow = 0\nhigh = 10\n",
        target='[target]\ncolumn = "y"\nclasses = ["no", "yes"]\n',
    )
)
CANARY = "canary7f3a"


def written(folder: Path, content: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def check_hearts(block: Block) -> None:
    np.testing.assert_allclose(block.rows * ROOT, EXPECTED, atol=1e-12)
    np.testing.assert_array_equal(block.targets, [-1, 1, -1, 1])


def same_rows(one: Block, other: Block) -> None:
    """To the last bit."""
    np.testing.assert_array_equal(one.rows, other.rows, strict=True)
    assert one.targets is not None
    assert other.targets is not None
    np.testing.assert_array_equal(one.targets, other.targets, strict=True)


def as_gzip(folder: Path) -> Path:
    return written(folder, gzip.compress(ROWS.encode()), "data.csv.gz")


def as_parquet(folder: Path) -> Path:
    table = pa.csv.read_csv(
        io.BytesIO(ROWS.encode()), convert_options=pa.csv.ConvertOptions(strings_can_be_null=True)
    )
    kinds = {"age": pa.int8(), "pressure": pa.decimal128(12, 2)}
    kinds |= {"ward": pa.dictionary(pa.int8(), pa.string()), "sex": pa.large_string()}
    for name, kind in kinds.items():
        values = table.column(name)
        if name == "age":
            values = pa.chunked_array([[40, 100, -7, 127]])  # above its bound, as 250 is
        place = table.column_names.index(name)
        table = table.set_column(place, name, values.cast(kind))
    pa.parquet.write_table(table, folder / "data.parquet", row_group_size=3)
    return folder / "data.parquet"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "CSV": lambda folder: written(folder, ROWS),
    "a path as text": lambda folder: str(written(folder, ROWS)),
    "gzip": as_gzip,
    "a byte order mark": lambda folder: written(folder, b"\xef\xbb\xbf" + ROWS.encode()),
    "Windows": lambda folder: written(folder, ROWS.replace("\n", "\r\n")),
    "no last newline": lambda folder: written(folder, ROWS.rstrip()),
    "quotes": lambda folder: written(
        folder, "\n".join(",".join(f'"{x}"' for x in line.split(",")) for line in ROWS.split())
    ),
    "Parquet": as_parquet,
    "pandas": lambda _: pd.read_csv(io.StringIO(ROWS)),
    "pandas with its own types": lambda _: pd.read_csv(io.StringIO(ROWS)).convert_dtypes(),
    "pandas categories": lambda _: pd.read_csv(io.StringIO(ROWS), dtype={"ward": "category"}),
    "pandas with another index": lambda _: pd.read_csv(io.StringIO(ROWS), index_col="id"),
    "pandas objects": lambda _: pd.read_csv(io.StringIO(ROWS)).astype(object),
    "polars": lambda _: pl.read_csv(io.StringIO(ROWS)),
    "polars categories": lambda _: pl.read_csv(io.StringIO(ROWS)).cast({"ward": pl.Categorical}),
    "polars in pieces": lambda _: pl.concat(
        [pl.read_csv(io.StringIO(ROWS))[:1], pl.read_csv(io.StringIO(ROWS))[1:]], rechunk=False
    ),
    "pyarrow": lambda _: pa.csv.read_csv(io.BytesIO(ROWS.encode())),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_kind_of_table_gives_the_same_rows(
    source: Callable[[Path], Any], tmp_path: Path
) -> None:
    given = source(tmp_path)
    check_hearts(read_table(given, HEARTS))
    same_rows(read_every_row(given, HEARTS), read_table(given, HEARTS))
    without = read_table(given, HEARTS, with_target=False)
    assert without.targets is None
    np.testing.assert_allclose(without.rows * ROOT, EXPECTED, atol=1e-12)


def test_a_regression_has_targets_within_one(tmp_path: Path) -> None:
    regression = parse_study(text(target='[target]\ncolumn = "id"\nlow = 1\nhigh = 3\n'))
    block = read_table(written(tmp_path, ROWS), regression)
    np.testing.assert_array_equal(block.targets, [-1, 0, 1, 1])


def test_counts_are_whole_and_clipped(tmp_path: Path) -> None:
    counts = parse_study(text(target='[target]\ncolumn = "id"\nmost = 3\n'))
    block = read_table(written(tmp_path, ROWS), counts)
    assert block.targets == pytest.approx([-1 / 3, 1 / 3, 1, 1])
    falls = parse_study(
        text("[columns.x]\nlow = 0\nhigh = 10\n", '[target]\ncolumn = "y"\nmost = 3\n')
    )
    refuse(written(tmp_path, f"x,y,z\n1,2.5,{CANARY}\n"), "'y' holds numbers that are not w", falls)
    refuse(written(tmp_path, "x,y\n1,\n"), "'y' has missing values: leave", falls)


def random_table(found: Study, rng: random.Random, size: int) -> dict[str, list[Any]]:
    """Values within and without the bounds, and gaps where they are allowed."""
    table: dict[str, list[Any]] = {}
    for name, column in found.columns.items():
        if isinstance(column, Categories):
            values: list[Any] = [str(rng.choice(column.categories)) for _ in range(size)]
        else:
            values = [
                rng.choice((column.low, column.high, rng.uniform(-2e6, 2e6), -1.7e308, 5e-324))
                for _ in range(size)
            ]
        if column.missing is not None:
            values[rng.randrange(size)] = None
        table[name] = values
    table[found.target.column] = [rng.choice(("no", "yes")) for _ in range(size)]
    return table


@settings(max_examples=50)
@given(studies(), st.integers(0, 10**6))
def test_rows_are_bounded_and_the_same_from_file_and_frames(
    tmp_path_factory: pytest.TempPathFactory, found: Study, seed: int
) -> None:
    table = random_table(found, random.Random(seed), 5)
    frame = pl.DataFrame(table, strict=False)
    block = read_table(frame, found)
    assert len(block.rows) == 5
    file = tmp_path_factory.mktemp("rows") / "data.csv"
    frame.write_csv(file)
    np.testing.assert_array_equal(read_table(file, found).rows, block.rows)
    for source in (frame, file, pd.DataFrame(table, dtype=object)):
        same_rows(read_every_row(source, found), block)
    # But for rounding they have a norm of at most 1, and what learners see is within its bound.
    assert np.linalg.norm(block.rows, axis=1).max() <= 1 + 1e-12
    contract = found.contract
    bounded = contract.rows(block.rows)
    for row in bounded[:, : contract.features].tolist():
        assert sum(Fraction(x) ** 2 for x in row) <= Fraction(contract.row_norm) ** 2
    np.testing.assert_array_equal(
        read_table(pd.DataFrame(table, dtype=object), found).rows, block.rows
    )
    np.testing.assert_array_equal(oracle(table, found), block.rows)


def oracle(table: dict[str, list[Any]], found: Study) -> Any:
    """The same, value by value, as the documentation says it."""
    columns: list[list[Any]] = []
    for name, column in found.columns.items():
        gaps = [value is None for value in table[name]]
        values: list[Any] = [column.missing if v is None else v for v in table[name]]
        if isinstance(column, Categories):
            labels = [str(value) for value in values]
            levels = [str(label) for label in column.categories]
            if len(levels) == 2:
                columns.append([1.0 if label == levels[1] else -1.0 for label in labels])
            else:
                columns += [[float(label == level) for label in labels] for level in levels[1:]]
        else:
            low, high = column.low, column.high
            middle = low / 2 + high / 2 if column.centre is None else column.centre
            reach = max(high - middle, middle - low)
            clipped = [min(max(value, low), high) for value in values]
            columns.append([(value - middle, reach) for value in clipped])
        if column.indicator:
            columns.append([float(gap) for gap in gaps])
    root = math.sqrt(len(columns))
    return np.array(
        [
            [
                value[0] / (value[1] * root) if isinstance(value, tuple) else value / root
                for value in column
            ]
            for column in columns
        ]
    ).T


@pytest.mark.parametrize(
    ("classes", "spellings"),
    [
        ("[0, 1]", ["1", "1.0", '"1"', "1.00"]),
        ("[0.0, 1.0]", ["1", "1.0"]),
        ('["0", "1"]', ["1", "1.0"]),
        ("[false, true]", ["true", "True", "TRUE", '"true"']),
        ('["no", "yes"]', ["yes", '"yes"']),
    ],
)
def test_a_label_is_told_however_it_is_written(
    classes: str, spellings: list[str], tmp_path: Path
) -> None:
    target = f'[target]\ncolumn = "y"\nclasses = {classes}\n'
    found = parse_study(text(columns="[columns.x]\nlow = 0\nhigh = 1\n", target=target))
    for spelling in spellings:
        block = read_table(written(tmp_path, f"x,y\n0,{spelling}\n"), found)
        assert block.targets == [1.0], spelling
    for other in ("2", "01", "ja", "1e0", " 1"):
        with pytest.raises(InvalidInput, match="label that is not in the study"):
            read_table(written(tmp_path, f"x,y\n0,{other}\n"), found)


@pytest.mark.parametrize(
    "values",
    [
        [0, 1],
        [0.0, 1.0],
        ["0", "1"],
        [Decimal("0.00"), Decimal("1.00")],
        pd.Categorical([0, 1]),
        pd.array([0, 1], dtype="Int8"),
    ],
    ids=str,
)
def test_labels_are_told_in_frames_of_every_type(values: Any) -> None:
    target = '[target]\ncolumn = "y"\nclasses = [0, 1]\n'
    found = parse_study(text(columns="[columns.x]\nlow = 0\nhigh = 1\n", target=target))
    block = read_table(pd.DataFrame({"x": [0, 0], "y": values}), found)
    np.testing.assert_array_equal(block.targets, [-1, 1])


def test_true_is_not_one() -> None:
    target = '[target]\ncolumn = "y"\nclasses = [0, 1]\n'
    found = parse_study(text(columns="[columns.x]\nlow = 0\nhigh = 1\n", target=target))
    with pytest.raises(InvalidInput, match="not in the study"):
        read_table(pd.DataFrame({"x": [0, 0], "y": [False, True]}), found)


def test_a_category_called_na_is_not_a_gap(tmp_path: Path) -> None:
    """Namibia's code, for one; elsewhere the same text is a missing value."""
    columns = '[columns.land]\ncategories = ["NA", "ZA"]\nmissing = "ZA"\nindicator = true\n'
    found = parse_study(text(columns=columns))
    file = written(tmp_path, "land,ill\nNA,no\nZA,no\n,no\nnull,no\n")
    rows = read_table(file, found).rows * math.sqrt(2)
    np.testing.assert_allclose(rows, [[-1, 0], [1, 0], [1, 1], [1, 1]])
    frame = pl.DataFrame({"land": ["NA", "ZA", None, "null"], "ill": ["no"] * 4})
    np.testing.assert_allclose(read_table(frame, found).rows * math.sqrt(2), rows)


@pytest.mark.parametrize("gap", ["", "NA", "NaN", "nan", "NULL", "null", "N/A", "#N/A"])
def test_a_gap_is_told_however_it_is_written(gap: str, tmp_path: Path) -> None:
    line = "2,south,100,yes,male,\n"
    assert line in ROWS
    rows = ROWS.replace(line, f"2,{gap},100,yes,male,{gap}\n")
    row = read_table(written(tmp_path, rows), HEARTS).rows[1]
    np.testing.assert_allclose(row * ROOT, [1, -1 / 3, 1, 1, 0, 1, 1])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**62 + 1, -(2**62)]),
        pa.array([2**64 - 1, 0], pa.uint64()),
        pa.array([11, -1], pa.int8()),
        pa.array([Decimal("1e20"), Decimal("-1e20")]),
        pa.array([1e300, -1e300]),
        pa.array([np.float16(11), np.float16(-1)]),
        pa.array([11.0, -1.0]).dictionary_encode(),
        pa.array(["11", "-1"]),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_of_every_type_are_clipped(values: Any, tmp_path: Path) -> None:
    table = pa.table({"x": values, "y": ["no", "yes"]})
    np.testing.assert_array_equal(read_table(table, ONE).rows, [[1], [-1]])
    if not pa.types.is_float16(values.type):
        pa.parquet.write_table(table, tmp_path / "x.parquet")
        np.testing.assert_array_equal(read_table(tmp_path / "x.parquet", ONE).rows, [[1], [-1]])


def test_truth_is_a_number_too() -> None:
    table = pa.table({"x": [True, False], "y": ["no", "yes"]})
    assert read_table(table, ONE).rows.tolist() == [[-0.8], [-1.0]]


def test_quoted_newlines_and_long_lines_are_read(tmp_path: Path) -> None:
    notes = "".join(f'"{CANARY}\n{i}, ""quoted""\n{"x" * 400}",{i % 11},no\n' for i in range(5000))
    block = read_table(written(tmp_path, "note,x,y\n" + notes), ONE)
    np.testing.assert_allclose(block.rows[:, 0], [(i % 11 - 5) / 5 for i in range(5000)])
    wide = ",".join(f"column {i:020}" for i in range(5000))
    file = written(tmp_path, f"{wide},x,y\n{'0,' * 5000}10,yes\n")
    assert read_table(file, ONE).rows.tolist() == [[1.0]]
    assert len(header(file)) == 5002


def test_memory_is_bounded_by_blocks(tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = "".join(f"{rng.random() * 10},no\n" for _ in range(200_000))
    file = written(tmp_path, "x,y\n" + lines * 5)
    sizes = [len(block.rows) for block in read_blocks(file, ONE)]
    assert sum(sizes) == 1_000_000
    assert len(sizes) > 1
    # A line has some 20 letters.
    assert max(sizes) < BLOCK_BYTES / 10
    frame = pa.table({"x": np.zeros(200_000), "y": ["no"] * 200_000})
    assert max(len(block.rows) for block in read_blocks(frame, ONE)) == sources.BLOCK_ROWS
    pa.parquet.write_table(frame, tmp_path / "x.parquet")
    found = [len(block.rows) for block in read_blocks(tmp_path / "x.parquet", ONE)]
    assert (sum(found), max(found)) == (200_000, sources.BLOCK_ROWS)


WRONG: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "blank": ("\n\n\n", "is empty"),
    "a header alone": ("x,y\n", "at least one row"),
    "a header without an end": ("x,y", "at least one row|is empty"),
    "a missing column": (f"x,z\n1,{CANARY}\n", "missing: 'y'"),
    "missing columns": (f"a\n{CANARY}\n", "missing: 'x', 'y'"),
    "other separators": (f"x#y\n1#{CANARY}\n", "missing: 'x', 'y'"),
    "a column twice": (f"x,x,y\n1,{CANARY},no\n", "'x' occurs twice"),
    "a short line": (f"x,y\n1,no\n{CANARY}\n", "more or fewer fields"),
    "a long line": (f"x,y\n1,no\n1,no,{CANARY}\n", "more or fewer fields"),
    "a text for a number": (f"z,y,x\n1,no,{CANARY}\n", "column 'x' holds something not a number"),
    "a German number": (f'x,y\n"1,5",no\n{CANARY},no\n', "column 'x' holds something not a n"),
    "an infinite number": ("x,y\ninf,no\n", "'x' holds an infinite number"),
    "an endless number": ("x,y\n-1e999,no\n", "'x' holds an infinite number"),
    "an unknown label": (f"x,y\n1,{CANARY}\n", "'y' holds a label that is not in the study"),
    "a label and a zero byte": ("x,y\n1,no\x00\n", "'y' holds a label that is not in the study"),
    "a gap": (f"x,z,y\n,{CANARY},no\n", "'x' has missing values.*add missing = … under"),
    "a gap in the target": (f"x,z,y\n1,{CANARY},\n", "'y' has missing values: leave"),
    "Latin-1": (f"x,y\n1,{CANARY}ä\n".encode("latin-1"), "'y' holds a label that is not"),
    "damaged UTF-8": (f"x,y\n1,ää\n1,{CANARY}".encode() + b"\xe4\n", "'y' holds text that is not"),
    "UTF-16": (f"x,y\n1,{CANARY}\n".encode("utf-16"), "'y' holds a label that is not"),
    "an open quote": (f'x,y\n1,"{CANARY}\n2,no\n', "not in the study|can be read"),
    "bytes": (bytes(range(256)) * 40, "data.csv|missing"),
}


@pytest.mark.parametrize(("content", "reason"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_explained_without_a_value(
    content: str | bytes, reason: str, tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    refuse(path, reason)
    refuse(written(tmp_path, gzip.compress(path.read_bytes()), "data.csv.gz"), reason)


def refuse(source: Any, reason: str, found: Study = ONE) -> None:
    with pytest.raises(InvalidInput, match=reason) as problem:
        read_table(source, found)
    assert CANARY not in str(problem.value)
    assert problem.value.__suppress_context__ or problem.value.__context__ is None
    assert CANARY not in str(problem.value.__cause__)


def test_an_unread_column_may_hold_anything(tmp_path: Path) -> None:
    content = b"z,x,y\n" + CANARY.encode() + b"\xe4,10,yes\n\xff,0,no\n"
    assert read_table(written(tmp_path, content), ONE).rows.tolist() == [[1.0], [-1.0]]
    frame = pd.DataFrame({"x": [10, 0], "y": ["yes", "no"], "z": [object(), CANARY]})
    assert read_table(frame, ONE).rows.tolist() == [[1.0], [-1.0]]


FRAMES: dict[str, tuple[Any, str]] = {
    "numbers and texts": (pd.DataFrame({"x": [1, CANARY], "y": ["no", "no"]}), "'x'.*diff"),
    "texts and numbers": (pd.DataFrame({"x": [1, 2], "y": [CANARY, 3.5]}), "'y'.*different kinds"),
    "texts": (pl.DataFrame({"x": [CANARY], "y": ["no"]}), "'x' holds something that is not a num"),
    "dates": (pl.DataFrame({"x": [pd.Timestamp(0)], "y": ["no"]}), "'x' holds something that is"),
    "records": (pa.table({"x": [{"a": CANARY}], "y": ["no"]}), "'x' holds something that is not"),
    "records for labels": (pa.table({"x": [1], "y": [{"a": CANARY}]}), "'y' holds a label that"),
    "lists for labels": (pa.table({"x": [1], "y": [[CANARY]]}), "'y' holds a label that is not"),
    "bytes for labels": (pa.table({"x": [1], "y": [CANARY.encode()]}), "'y' holds a label that"),
    "another label": (pl.DataFrame({"x": [1], "y": [CANARY]}), "'y' holds a label that is not"),
    "nothing at all": (pa.table({"x": pa.nulls(1), "y": ["no"]}), "'x' has missing values"),
    "not a number": (pl.DataFrame({"x": [math.nan], "y": ["no"]}), "'x' has missing values"),
    "not a number for a label": (pl.DataFrame({"x": [1], "y": [math.nan]}), "'y' has missing val"),
    "infinity": (pl.DataFrame({"x": [-math.inf], "y": ["no"]}), "'x' holds an infinite number"),
    "a missing column": (pl.DataFrame({"x": [1], "z": [CANARY]}), "missing: 'y'"),
    "a column twice": (pd.DataFrame([[1, CANARY, "no"]], columns=["x", "x", "y"]), "twice"),
    "a column twice in a table": (pa.table([[1], [2], ["no"]], names=["x", "x", "y"]), "twice"),
    "no rows": (pl.DataFrame({"x": [], "y": []}), "at least one row"),
    "a lazy frame": (pl.LazyFrame({"x": [1], "y": ["no"]}), "Expected a CSV or Parquet file"),
    "a series": (pd.Series([1, 2]), "Expected a CSV or Parquet file"),
    "an array": (np.ones((2, 2)), "Expected a CSV or Parquet file"),
    "a list": ([[1, CANARY]], "Expected a CSV or Parquet file"),
    "None": (None, "Expected a CSV or Parquet file"),
}


@pytest.mark.parametrize(("frame", "reason"), FRAMES.values(), ids=FRAMES.keys())
def test_a_frame_that_does_not_fit_is_explained_without_a_value(frame: Any, reason: str) -> None:
    refuse(frame, reason)


def test_files_that_cannot_be_read_are_explained(tmp_path: Path) -> None:
    refuse(tmp_path / "nowhere.csv", "Cannot read .*nowhere")
    refuse(tmp_path / "nowhere.parquet", "Cannot read .*nowhere")
    refuse(tmp_path, "Cannot read")
    whole = gzip.compress(random.Random(1).randbytes(5000).hex().encode())
    for content in (whole[:3000], CANARY.encode(), b""):
        path = written(tmp_path, content, "data.csv.gz")
        refuse(path, "Cannot read|is empty|can be read")
    good = as_parquet(tmp_path).read_bytes()
    for content in (CANARY.encode(), b"", good[:-20], good[:100], b"PAR1" * 10):
        refuse(written(tmp_path, content, "x.parquet"), "not a Parquet file|damaged")


def test_damaged_parquet_is_explained_or_read(tmp_path: Path) -> None:
    good = as_parquet(tmp_path).read_bytes()
    rng = random.Random(1)
    refused = 0
    for _ in range(200):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        try:
            read_table(written(tmp_path, bytes(bad), "bad.parquet"), HEARTS)
        except InvalidInput:
            refused += 1
    assert refused > 20
