from pathlib import Path

import pytest

from sudare.cli.options import csv_text, write_text
from sudare.foundations.checks import InvalidInput


def test_files_round_trip_and_problems_are_told(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "ε")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "ε"
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_text(tmp_path / "none" / "c", "x")


def test_a_table_is_written_as_csv() -> None:
    text = csv_text(("a", "b"), [(1, 'x "y", z'), (None, 2.5)])
    assert text == 'a,b\n1,"x ""y"", z"\n,2.5\n'
