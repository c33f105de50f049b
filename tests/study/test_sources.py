"""Files and frames: their column names, and the contents that they are recognised by."""

import gzip
import io
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.study import _sources as sources
from sudare.study import header, raw_content
from tests.study.test_tables import CANARY, ROWS, SOURCES, as_gzip, as_parquet, written


def test_names_of_columns_are_read_alone(tmp_path: Path) -> None:
    assert header(written(tmp_path, ROWS)) == ROWS.splitlines()[0].split(",")
    assert header(as_parquet(tmp_path)) == ROWS.splitlines()[0].split(",")
    for content in (b"", b"\xff\xfe\x00" * 9):
        for name in ("a.csv", "a.parquet"):
            with pytest.raises(InvalidInput):
                header(written(tmp_path, content, name))
    with pytest.raises(InvalidInput, match="No such file"):
        header(tmp_path / "nowhere.csv")


def test_contents_are_the_same_whatever_the_file_is_called(tmp_path: Path) -> None:
    plain = b"".join(raw_content(written(tmp_path, ROWS)))
    assert plain == ROWS.encode()
    assert b"".join(raw_content(as_gzip(tmp_path))) == plain
    assert b"".join(raw_content(str(written(tmp_path, ROWS, "copy.txt")))) == plain


def test_contents_of_a_frame_are_the_same_whatever_it_came_in() -> None:
    frames = [
        pd.read_csv(io.StringIO(ROWS)),
        pd.read_csv(io.StringIO(ROWS), dtype={"ward": "category"}),
        pl.read_csv(io.StringIO(ROWS)),
        pl.read_csv(io.StringIO(ROWS)).cast({"ward": pl.Categorical}),
        SOURCES["polars in pieces"](Path()),
    ]
    (content,) = {b"".join(raw_content(frame)) for frame in frames}
    assert content.startswith(b'"id","ward","age"')
    other = pl.read_csv(io.StringIO(ROWS.replace("100", "101")))
    assert b"".join(raw_content(other)) != content
    # A gap is not an empty text, and neighbours do not run into each other.
    pairs: list[tuple[dict[str, Any], ...]] = [
        ({"a": [None]}, {"a": [""]}),
        ({"a": ["b,c"], "d": ["e"]}, {"a": ["b"], "d": ["c,e"]}),
    ]
    for one, two in pairs:
        schema = dict.fromkeys(one, pl.String)
        contents = [b"".join(raw_content(pl.DataFrame(x, schema=schema))) for x in (one, two)]
        assert contents[0] != contents[1]


def test_contents_of_large_frames_come_in_blocks() -> None:
    frame = pl.DataFrame({"x": range(3 * sources.BLOCK_ROWS)})
    parts = list(raw_content(frame))
    assert len(parts) == 3
    assert b"".join(parts).count(b"\n") == 3 * sources.BLOCK_ROWS + 1


def test_contents_that_cannot_be_read_are_explained(tmp_path: Path) -> None:
    for source, reason in [
        (tmp_path / "nowhere.csv", "No such file"),
        (written(tmp_path, CANARY, "data.csv.gz"), "cut short or damaged"),
        (written(tmp_path, gzip.compress(CANARY.encode())[:-9], "cut.csv.gz"), "cut short"),
        (pa.table({"x": [{"a": CANARY}]}), "numbers, texts and dates"),
        (pd.DataFrame({"x": [1, CANARY]}), "different kinds"),
        ([1], "Expected a CSV"),
    ]:
        with pytest.raises(InvalidInput, match=reason) as problem:
            list(raw_content(source))
        assert CANARY not in str(problem.value)


def test_faulty_records_are_counted_and_left_out(tmp_path: Path) -> None:
    content = b'a,b\n1,2\n3\n\xff\n"4","5"\n6,7,8\n\n'
    batches, lost = sources.every_batch(written(tmp_path, content), {"a": None, "b": None})
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {"a": "1", "b": "2"},
        {"a": "4", "b": "5"},
    ]
    assert lost == 3
