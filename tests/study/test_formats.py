import datetime
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyreadstat
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.study import header, parse_study, raw_content, read_every_row, read_table

CANARY = "Jane-1234567"
STUDY = parse_study(
    """
    name = "a"
    [columns.age]
    low = 18
    high = 90
    missing = 50
    [columns.sex]
    categories = ["female", "male"]
    [columns.smoker]
    categories = [0, 1]
    [target]
    column = "days"
    low = 0
    high = 30
    [privacy]
    epsilon = 1.5
    delta = 1e-6
    """
)
PEOPLE = pd.DataFrame(
    {
        "age": [40.0, 61.5, None, 95.0],
        "sex": ["female", "male", "male", "female"],
        "smoker": [0, 1, 1, 0],
        "days": [3.5, 12.0, 30.0, 1.0],
        "note": ["a", CANARY, "", "d"],
    }
)


def same(source: Any) -> None:
    expected = read_table(pa.Table.from_pandas(PEOPLE), STUDY)
    for read in (read_table, read_every_row):
        found = read(source, STUDY)
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.targets, expected.targets)
    assert header(source) == list(PEOPLE.columns)
    assert b"".join(raw_content(source)) == b"".join(raw_content(source))


@pytest.mark.parametrize("kind", ["xlsx", "ods"])
def test_workbooks(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.{kind}"
    PEOPLE.to_excel(path, index=False, engine="odf" if kind == "ods" else "openpyxl")
    same(path)
    same(str(path))


def test_a_sheet_is_chosen_by_name(tmp_path: Path) -> None:
    path = tmp_path / "people.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"what": ["a cover"]}).to_excel(book, sheet_name="cover", index=False)
        PEOPLE.to_excel(book, sheet_name="rows", index=False)
    with pytest.raises(InvalidInput, match="missing: 'age'"):
        read_table(path, STUDY)
    side = tmp_path / "people.xlsx.reading.toml"
    side.write_text('sheet = "rows"')
    same(path)
    side.write_text('sheet = "none"')
    with pytest.raises(InvalidInput, match="no sheet 'none'; it has 'cover', 'rows'"):
        read_table(path, STUDY)


def test_cells_are_spelled_as_in_a_file(tmp_path: Path) -> None:
    path, book = tmp_path / "cells.xlsx", openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (
        ["x", "y", None, "when"],
        [" 1.5 ", True, "unnamed", datetime.date(2024, 2, 29)],
        ["NA", "TRUE", None, "x"],
        [None, None, None, None],
        [3, "true", None, None],
    ):
        sheet.append(row)
    book.save(path)
    study = parse_study(
        "name = 'a'\n[columns.x]\nlow = -5\nhigh = 5\nmissing = 0\n[columns.when]\n"
        "categories = ['2024-02-29', 'x']\nmissing = 'x'\n[target]\ncolumn = 'y'\n"
        "classes = [false, true]\n[privacy]\nepsilon = 1\ndelta = 1e-6"
    )
    assert header(path) == ["x", "y", "when"]
    for read in (read_table, read_every_row):
        rows, targets = read(path, study)
        np.testing.assert_allclose(rows * np.sqrt(2), [[0.3, -1], [0.0, 1], [0.6, 1]])
        assert np.all(targets == 1)


@pytest.mark.parametrize("kind", ["sav", "zsav", "dta", "xpt"])
def test_statistics_packages(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.{kind}"
    if kind == "dta":
        pyreadstat.write_dta(PEOPLE, str(path))
    elif kind == "xpt":
        pyreadstat.write_xport(PEOPLE, str(path), file_format_version=8)
    else:
        pyreadstat.write_sav(PEOPLE, str(path), compress=kind == "zsav")
    same(path)


def test_codes_are_read_as_the_study_calls_them(tmp_path: Path) -> None:
    path, coded = tmp_path / "people.sav", PEOPLE.assign(sex=[1.0, 2.0, 2.0, 1.0])
    labels = {"sex": {1.0: "female", 2.0: "male"}, "smoker": {0.0: "no", 1.0: "yes"}}
    pyreadstat.write_sav(coded, str(path), variable_value_labels=labels)
    same(path)  # the study says female and male, but 0 and 1


def test_answers_of_a_database(tmp_path: Path) -> None:
    file = tmp_path / "people.duckdb"
    with duckdb.connect(str(file)) as database:
        database.register("people_now", pa.Table.from_pandas(PEOPLE))
        database.execute("CREATE TABLE people AS SELECT * FROM people_now")
    before = file.read_bytes()
    same(f"duckdb:{file}?SELECT * FROM people")
    same(f"duckdb:{file}?SELECT * REPLACE (age + 7 // 2 - 3 AS age) FROM people")
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    same(f"duckdb:?SELECT * FROM read_csv('{tmp_path / 'people.csv'}')")
    assert file.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["people.csv", "people.duckdb"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("duckdb:none.db?SELECT 1", "no database none.db"),
        ("duckdb:x", 'Expected "duckdb:FILE'),
        ("duckdb:?", 'Expected "duckdb:FILE'),
        ("duckdb:?SELEC 1", "cannot answer that query: Parser Error"),
        ("duckdb:?SELECT * FROM nowhere", "cannot answer that query: Catalog Error"),
        (f"duckdb:?SELECT CAST(a AS INT) FROM (VALUES ('{CANARY}')) t(a)", "for all rows"),
        ("duckdb:?SELECT 1 AS x", "missing: 'age'"),
    ],
)
def test_a_query_that_cannot_be_answered_is_explained(query: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as problem:
        read_table(query, STUDY)
    assert CANARY not in str(problem.value)


@pytest.mark.parametrize("kind", ["xlsx", "ods", "xls", "sav", "dta", "xpt", "sas7bdat"])
def test_damaged_files_are_explained(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.{kind}"
    with pytest.raises(InvalidInput, match=r"Cannot read .*people"):
        read_table(path, STUDY)
    path.write_bytes(CANARY.encode() * 50)
    for read in (read_table, read_every_row):
        with pytest.raises(
            InvalidInput, match=r"people\.\w+ (is not a workbook|cannot be read)"
        ) as p:
            read(path, STUDY)
        assert CANARY not in str(p.value)


@pytest.mark.parametrize(
    ("source", "extra"),
    [
        ("people.xlsx", "sudare[excel]"),
        ("people.sav", "sudare[stats]"),
        ("duckdb:?SELECT 1", "sudare[recount]"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    source: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python_calamine", "pyreadstat", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidInput) as problem:
        read_table(source, STUDY)
    assert extra in str(problem.value)


def test_what_does_not_fit_is_an_error_of_its_column(tmp_path: Path) -> None:
    path = tmp_path / "people.xlsx"
    PEOPLE.assign(age=[CANARY, 1, 2, 3]).to_excel(path, index=False)
    with pytest.raises(InvalidInput, match="'age' holds something that is not a number") as problem:
        read_table(path, STUDY)
    assert CANARY not in str(problem.value)
    assert len(read_every_row(path, STUDY).rows) == 4
