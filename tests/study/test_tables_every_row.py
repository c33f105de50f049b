"""Tables of any contents: as many rows as there are, each as if it were alone."""

import gzip
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.study import Block, parse_study, read_every_row, read_table
from sudare.study._reading import BLOCK_BYTES
from tests.study.studies import text
from tests.study.test_tables import CANARY, HEARTS, ONE, ROWS, WRONG, same_rows, written

GAPLESS = parse_study(
    text(
        columns="""
[columns.x]
low = 0
high = 10
centre = 2
[columns.pair]
categories = ["a", "b"]
[columns.few]
categories = ["k", "l", "m"]
[columns.filled]
low = 0
high = 10
missing = 10
indicator = true
[columns.named]
categories = ["p", "q", "r"]
missing = "r"
""",
        target='[target]\ncolumn = "y"\nclasses = ["no", "yes"]\n',
    )
)
GOOD = {"x": "4", "pair": "b", "few": "m", "filled": "5", "named": "q", "y": "yes"}
# x | pair | few=l, few=m | filled, filled missing | named=q, named=r
AS_GOOD: list[float] = [(4 - 2) / 8, 1, 0, 1, 0, 0, 1, 0]
PLACES: dict[str, Any] = {"x": 0, "pair": 1, "few": [2, 3], "filled": [4, 5], "named": [6, 7]}
REPLACED: dict[str, Any] = {"x": 0, "pair": 0, "few": [0, 0], "filled": [1, 1], "named": [0, 1]}
"""What stands for a value that cannot be used."""
GAP = Block(np.array([[0.0]]), np.array([-1.0]))
"""The same in the smallest study."""


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    lines = [list(GOOD), *([row[name] for name in GOOD] for row in rows)]
    quoted = (b",".join(b'"' + as_bytes(cell) + b'"' for cell in line) for line in lines)
    return b"\n".join(quoted) + b"\n"


def as_bytes(cell: str | bytes) -> bytes:
    return (cell if isinstance(cell, bytes) else cell.encode()).replace(b'"', b'""')


@pytest.mark.parametrize("name", [*PLACES, "y"])
@pytest.mark.parametrize(
    "bad", ["", "NA", CANARY, "１", "nan", "4,5", "0x1p3", "\x00", " ", b"\xff\xe4", "\U0001f642"]
)
def test_what_cannot_be_used_becomes_a_public_constant(
    name: str, bad: str | bytes, tmp_path: Path
) -> None:
    file = written(tmp_path, as_csv([GOOD, GOOD | {name: bad}, GOOD]))
    rows, targets = read_every_row(file, GAPLESS)
    expected = np.array([AS_GOOD] * 3, dtype=float)
    if name == "y":
        np.testing.assert_array_equal(targets, [1, -1, 1])
    else:
        expected[1, PLACES[name]] = REPLACED[name]
        np.testing.assert_array_equal(targets, [1, 1, 1])
    np.testing.assert_allclose(rows * math.sqrt(8), expected, atol=1e-12)


@pytest.mark.parametrize(("written_as", "place"), [("inf", 1), ("1e999", 1), ("-inf", -0.25)])
def test_infinite_numbers_are_clipped(written_as: str, place: float, tmp_path: Path) -> None:
    file = written(tmp_path, as_csv([GOOD | {"x": written_as}]))
    assert read_every_row(file, GAPLESS).rows[0, 0] * math.sqrt(8) == pytest.approx(place)


@pytest.mark.parametrize(
    ("value", "target"), [("inf", 1), ("-1e999", -1), ("nan", 0), ("", 0), (CANARY, 0), ("3", 0.5)]
)
def test_a_target_that_cannot_be_used_is_in_the_middle(
    value: str, target: float, tmp_path: Path
) -> None:
    columns, number = "[columns.x]\nlow = 0\nhigh = 1\n", '[target]\ncolumn = "y"\n'
    found = parse_study(text(columns=columns, target=f"{number}low = 0\nhigh = 4\n"))
    assert read_every_row(written(tmp_path, f"x,y\n1,{value}\n"), found).targets == [target]


@pytest.mark.parametrize(
    ("value", "target"),
    [
        *[("5", 1), ("9", 1), ("inf", 1), ("3.0", 0.5), ("1", -0.5), ("-7", -1)],
        *[("nan", -1), ("", -1), (CANARY, -1), ("2.5", -1)],
    ],
)
def test_a_count_that_cannot_be_used_is_none(value: str, target: float, tmp_path: Path) -> None:
    columns = "[columns.x]\nlow = 0\nhigh = 1\n"
    found = parse_study(text(columns=columns, target='[target]\ncolumn = "y"\nmost = 4\n'))
    assert read_every_row(written(tmp_path, f"x,y\n1,{value}\n"), found).targets == [target]


def test_lines_of_another_length_are_rows_of_gaps(tmp_path: Path) -> None:
    file = written(tmp_path, as_csv([GOOD, GOOD]) + b"1,2\n\xff,\xe4\n" + b"," * 40 + b"\n\n")
    rows, targets = read_every_row(file, GAPLESS)
    gap: list[float] = [0, 0, 0, 0, 1, 1, 0, 1]
    np.testing.assert_allclose(rows * math.sqrt(8), [AS_GOOD, AS_GOOD, gap, gap, gap], atol=1e-12)
    np.testing.assert_array_equal(targets, [1, 1, -1, -1, -1])
    only = read_every_row(written(tmp_path, "x,y\n7\n"), ONE)
    same_rows(only, GAP)


def test_a_line_longer_than_a_block_is_read(tmp_path: Path) -> None:
    long = GOOD | {"named": "z" * (3 * BLOCK_BYTES)}
    for rows in ([long, GOOD], [GOOD, long]):
        block = read_every_row(written(tmp_path, as_csv(rows)), GAPLESS)
        assert sorted((block.rows[:, 6] * math.sqrt(8)).round(12).tolist()) == [0, 1]


CELLS = st.one_of(
    st.sampled_from(["", "a", "b", "m", "no", "yes", "NA", " 3", "3 ", "+7", "-0", "1e3", ".5"]),
    st.sampled_from(
        ["inf", "-Infinity", "nan(1)", "1e-400", "true", "1.0", "\t2", "12345678901234567"]
    ),
    st.floats().map(repr),
    st.text(max_size=6).map(lambda cell: cell.encode("utf-8", "surrogatepass")),
    st.binary(max_size=6),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(GOOD, CELLS)), min_size=1, max_size=5))
def test_every_row_is_read_as_if_it_were_alone(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    """So that one row moves nothing but itself, which is what noise is measured for."""
    folder = tmp_path_factory.mktemp("alone")
    file = written(folder, as_csv(rows))
    together = read_every_row(file, GAPLESS)
    alone = [read_every_row(written(folder, as_csv([row]), "one.csv"), GAPLESS) for row in rows]
    same_rows(together, Block(*(np.concatenate(part) for part in zip(*alone, strict=True))))
    assert np.isfinite(together.rows).all()
    columns = {
        name: pa.array([as_bytes(row[name]).replace(b'""', b'"') for row in rows], pa.binary())
        for name in GOOD
    }
    texts = pa.table({name: column.view(pa.string()) for name, column in columns.items()})
    same_rows(read_every_row(texts, GAPLESS), together)
    pa.parquet.write_table(texts, folder / "x.parquet")
    same_rows(read_every_row(folder / "x.parquet", GAPLESS), together)
    with suppress(InvalidInput):  # data that fit are read the same in both ways
        same_rows(read_table(file, GAPLESS), together)


@pytest.mark.parametrize(
    "values",
    [[1, CANARY, 9.5], [True, CANARY, 9], ["1", object(), 9], [10**400, 1, 9], [1, "\ud800", 9]],
    ids=["text", "truth and text", "object", "huge", "half a pair"],
)
def test_frames_of_mixed_values_are_read(values: list[Any]) -> None:
    frame = pd.DataFrame({"x": values, "y": ["yes", 7, None]}, dtype=object)
    rows, targets = read_every_row(frame, ONE)
    assert rows.shape == (3, 1)
    assert rows[2, 0] in (0.8, 0.9)
    np.testing.assert_array_equal(targets, [1, -1, -1])


@pytest.mark.parametrize(
    "values",
    [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([0], pa.timestamp("s")), pa.nulls(1)],
    ids=lambda values: str(values.type),
)
def test_a_column_of_another_type_is_all_gaps(values: Any) -> None:
    table = pa.table({"x": values, "y": values})
    same_rows(read_every_row(table, ONE), GAP)


WHOLE = (
    "empty",
    "blank",
    "a header alone",
    "a missing column",
    "missing columns",
    "a column twice",
)


@pytest.mark.parametrize("what", WHOLE)
def test_what_is_wrong_with_a_table_as_a_whole_stays_an_error(what: str, tmp_path: Path) -> None:
    content, reason = WRONG[what]
    with pytest.raises(InvalidInput, match=reason) as problem:
        read_every_row(written(tmp_path, content), ONE)
    assert CANARY not in str(problem.value)


def test_files_that_cannot_be_read_stay_an_error(tmp_path: Path) -> None:
    cut = written(tmp_path, gzip.compress(ROWS.encode())[:40], "cut.csv.gz")
    for source in (tmp_path / "nowhere.csv", cut, tmp_path / "nowhere.parquet", [1]):
        with pytest.raises(InvalidInput):
            read_every_row(source, HEARTS)
