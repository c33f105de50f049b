import gzip
import math
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.study import DataCheck, Person, check_data, parse_study, read_table

CANARY = "Jane-1234567"
STUDY = parse_study(
    """
    name = "a"
    [columns.age]
    low = 18
    high = 90
    [columns.ward]
    categories = ["north", "south", 3]
    missing = "north"
    [target]
    column = "ill"
    classes = ["no", "yes"]
    [privacy]
    epsilon = 1.5
    delta = 1e-6
    """
)
HEAD = "age,ward,ill,note\n"
GOOD = "40,north,no,x\n95,south,yes,\n17,3,no,y\n,,,\n"


def check(folder: Path, text: str | bytes, name: str = "data.csv") -> DataCheck:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = check_data(path, STUDY)
    assert CANARY not in repr(found)
    if found.fits:
        assert len(read_table(path, STUDY).rows) == found.rows
    else:
        with pytest.raises(InvalidInput):
            read_table(path, STUDY)
    return found


def told(found: DataCheck) -> list[tuple[int | None, str, str, str]]:
    return [(each.row, each.column, each.what, each.suggestion) for each in found.problems]


def test_what_fits_is_counted(tmp_path: Path) -> None:
    found = check(tmp_path, HEAD + GOOD.replace(",,,\n", "18,NA,no,\n"))
    assert found.fits
    assert found.rows == 4
    assert [(c.column, c.missing, c.below, c.above, c.misfits) for c in found.columns] == [
        ("age", 0, 1, 1, 0),
        ("ward", 1, 0, 0, 0),
        ("ill", 0, 0, 0, 0),
    ]
    assert not found.warnings
    assert "not to be shared" in found.note


def test_every_problem_is_told_with_its_row_and_column(tmp_path: Path) -> None:
    rows = [
        f"{CANARY},north,no,",
        "40,North,no,",
        "",
        '"4\n0",north ,no,',
        f"4 0,{CANARY},yes ,",
        '"40,5",south,YES,',
        "inf,suoth,maybe,",
        ",north,,",
        "40,no",
        "40,,no,",
    ]
    assert told(check(tmp_path, HEAD + "\n".join(rows) + "\n")) == [
        (1, "age", "not a number", ""),
        (2, "ward", "not a label of the study", "Upper and lower case differ"),
        (3, "age", "not a number", ""),
        (3, "ward", "not a label of the study", "It has blanks around it"),
        (4, "age", "not a number", ""),
        (4, "ward", "not a label of the study", ""),
        (4, "ill", "not a label of the study", "It has blanks around it"),
        (5, "age", "not a number", "A decimal comma?"),
        (5, "ill", "not a label of the study", "Upper and lower case differ"),
        (6, "age", "an infinite number", ""),
        (6, "ward", "not a label of the study", "It is spelled nearly like one"),
        (6, "ill", "not a label of the study", ""),
        (7, "age", "a missing value", "Add missing = … under [columns.age] of the study"),
        (7, "ill", "the target is missing", "Leave the row out"),
        (8, "", "2 fields, and the header has 4", "A separator within a value?"),
    ]


@pytest.mark.parametrize("text", [HEAD, HEAD.strip(), HEAD + "\n\n"])
def test_no_rows_do_not_fit(text: str, tmp_path: Path) -> None:
    found = check(tmp_path, text)
    assert told(found) == [(None, "", "there are no rows", "Is this the right file?")]


def test_truth_values_and_persons_are_told(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [40, 50], "ward": ["north", "x"], "ill": [True, False]})
    found = check_data(frame, STUDY)
    assert {each.suggestion for each in found.problems if each.column == "ill"} == {
        "It is a truth value: the study can name true and false"
    }
    assert found.persons is None
    named = msgspec.structs.replace(STUDY, person=Person(column="id"))
    rows = "id,age,ward,ill\na,40,north,no\nb,50,south,no\na,60,south,yes\n"
    (tmp_path / "visits.csv").write_text(rows)
    assert check_data(tmp_path / "visits.csv", named).persons == 2


def test_columns_are_looked_for(tmp_path: Path) -> None:
    found = check(tmp_path, "Age ,wrd,ill,ill\n40,north,no,no\n")
    assert told(found)[:3] == [
        (None, "age", "there is no such column", "Rename 'Age '?"),
        (None, "ward", "there is no such column", "Rename 'wrd'?"),
        (None, "ill", "the column occurs twice", "Rename one of them"),
    ]


def test_ages_in_months_are_noticed(tmp_path: Path) -> None:
    found = check(tmp_path, HEAD + "".join(f"{40 * 12 + i},north,no,\n" for i in range(20)))
    assert found.fits
    (warning,) = found.warnings
    assert (warning.row, warning.column) == (None, "age")
    assert warning.what.startswith("20 of 20 numbers lie beyond its bounds")
    few = check(tmp_path, HEAD + "".join(f"{80 + i},north,no,\n" for i in range(20)))
    assert few.columns[0].above == 9
    assert not few.warnings
    gaps = check(tmp_path, HEAD + "40,,no,\n" * 3 + "40,north,no,\n")
    assert [(w.column, w.what) for w in gaps.warnings] == [("ward", "3 of 4 values are missing")]


def test_other_encodings_separators_and_packed_files(tmp_path: Path) -> None:
    text = (HEAD + "40,5,north,no,é\n").replace("40,5", "40#5").replace(",", ";").replace("#", ",")
    found = check(tmp_path, text.encode("cp1252"))
    assert found.fits
    assert found.reading is not None
    assert "cp1252" in found.reading
    assert "decimal commas" in found.reading
    packed = gzip.compress((HEAD + "x,north,no,\n").encode())
    assert told(check(tmp_path, packed, "data.csv.gz")) == [(1, "age", "not a number", "")]
    damaged = HEAD.encode() + "40,é,no,é\n".encode() + b"40,\xe9,no,\n"
    assert "It is in another encoding" in {each[3] for each in told(check(tmp_path, damaged))}


@pytest.mark.parametrize("source", ["pandas", "polars", "parquet", "xlsx"])
def test_frames_and_other_files(source: str, tmp_path: Path) -> None:
    table = {"age": [40.0, math.nan, 100.0], "ward": ["north", "x", None], "ill": ["no", "yes", ""]}
    frame: Any = pd.DataFrame(table)
    if source == "polars":
        frame = pl.DataFrame(table)
    elif source == "parquet":
        frame.to_parquet(tmp_path / "data.parquet")
    elif source == "xlsx":
        frame.to_excel(tmp_path / "data.xlsx", index=False)
    given = frame if source in ("pandas", "polars") else tmp_path / f"data.{source}"
    assert [each[:3] for each in told(check_data(given, STUDY))] == [
        (2, "age", "a missing value"),
        (2, "ward", "not a label of the study"),
        (3, "ill", "the target is missing"),
    ]


def test_a_long_field_is_no_problem(tmp_path: Path) -> None:
    assert check(tmp_path, HEAD + f"40,north,no,{'z' * 300_000}\n").fits


def test_many_rows_are_counted_through(tmp_path: Path) -> None:
    found = check(tmp_path, HEAD + "40,north,no,\n" * 40_000 + "x,north,no,\n")
    assert told(found) == [(40_001, "age", "not a number", "")]
    assert found.rows == 40_001


def test_counts_are_whole(tmp_path: Path) -> None:
    counts = parse_study(
        """
        name = "a"
        [columns.age]
        low = 18
        high = 90
        [target]
        column = "falls"
        most = 5
        [privacy]
        epsilon = 1.5
        delta = 1e-6
        """
    )
    path = tmp_path / "data.csv"
    path.write_text("age,falls\n40,2\n41,2.5\n42,9\n43,\n")
    found = check_data(path, counts)
    assert told(found) == [
        (2, "falls", "not a whole number, as counts are", ""),
        (4, "falls", "the target is missing", "Leave the row out"),
    ]
    assert [(c.column, c.above, c.misfits) for c in found.columns][1] == ("falls", 1, 2)
