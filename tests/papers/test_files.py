"""What is written, and what is said when it cannot be."""

import csv
import io
from pathlib import Path

import pytest

from papers import figures, files
from papers.figure import TextTable
from sudare.foundations.checks import InvalidInput
from tests.papers.smoke import results


def test_all_files_of_a_picture(tmp_path: Path) -> None:
    made = files.write(figures()["glance-3"], results("glance-3"), tmp_path)
    assert set(made) == {"csv", "png", "svg"}
    assert {path.name for path in tmp_path.iterdir()} == set(made.values())


def test_all_files_of_a_table(tmp_path: Path) -> None:
    made = files.write(figures()["glance-table-2"], results("glance-table-2"), tmp_path)
    assert set(made) == {"csv", "txt"}
    text = (tmp_path / made["txt"]).read_text().splitlines()
    assert text[0].split() == ["symbol", "meaning", "in", "sudare"]
    rows = list(csv.reader(io.StringIO((tmp_path / made["csv"]).read_text())))
    assert rows[0] == ["symbol", "meaning", "in sudare"]
    assert rows[2][:2] == ["N", "number of users"]


def test_csv_has_means_intervals_and_runs() -> None:
    rows = list(
        csv.DictReader(io.StringIO(files.as_csv(figures()["glance-3"], results("glance-3"))))
    )
    assert list(rows[0]) == ["panel", "curve", "epsilon", "error", "low", "high", "runs"]
    for row in rows:
        assert float(row["low"]) < float(row["error"]) < float(row["high"])
        assert row["runs"] == "50"


def test_computed_numbers_have_no_interval() -> None:
    rows = list(
        csv.DictReader(io.StringIO(files.as_csv(figures()["glance-1"], results("glance-1"))))
    )
    assert {(row["low"], row["high"], row["runs"]) for row in rows} == {("", "", "")}


def test_text_tables_are_aligned() -> None:
    table = TextTable(("a", "long heading"), (("a long cell", "b"), ("c", "d")))
    assert files.as_text(table) == (
        "a            long heading\n-----------  ------------\na long cell  b\nc            d\n"
    )


def test_a_folder_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InvalidInput, match=r"Cannot make folder .*taken"):
        files.make_folder(tmp_path / "taken")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(InvalidInput, match=r"Cannot write .*index\.html"):
        files.save_page(tmp_path, "text")
