from pathlib import Path

import pytest

from sudare.checks import InvalidInput
from sudare.cli.options import read_text, write_text


def test_files_round_trip_and_problems_are_told(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "ε")
    assert read_text(tmp_path / "a") == "ε"
    (tmp_path / "b").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not text"):
        read_text(tmp_path / "b")
    with pytest.raises(InvalidInput, match="Cannot read"):
        read_text(tmp_path / "none")
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_text(tmp_path / "none" / "c", "x")
