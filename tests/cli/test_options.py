from pathlib import Path

import pytest

from sudare.cli.options import write_text
from sudare.foundations.checks import InvalidInput


def test_files_round_trip_and_problems_are_told(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "ε")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "ε"
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_text(tmp_path / "none" / "c", "x")
