"""Retained reports: whole files, only the columns that were promised, of one survey."""

import stat
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sudare.collector._retention import RAW, SURVEY_KEY, Retention
from sudare.counting import Survey, read_survey
from sudare.foundations import checks

SURVEY = Survey(name="at home", rounds=4, epsilon=1.0)


def raw(*reports: tuple[int, int, int, int]) -> bytes:
    return np.array(list(reports), RAW).tobytes()


def test_a_file_holds_the_reports_of_its_batches(tmp_path: Path) -> None:
    file = Retention(tmp_path, SURVEY).write("1-2", [raw((7, 0, 3, 1)), raw((9, 0, 0, 0))])
    table = pq.read_table(file)
    assert table.column_names == ["serial", "slot", "cell", "bit"]
    assert table.to_pylist() == [
        {"serial": 7, "slot": 0, "cell": 3, "bit": 1},
        {"serial": 9, "slot": 0, "cell": 0, "bit": 0},
    ]
    assert table.schema.metadata[SURVEY_KEY] == SURVEY.digest().hex().encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_same_name_again_replaces_the_file(tmp_path: Path) -> None:
    keep = Retention(tmp_path, SURVEY)
    keep.write("1", [raw((7, 0, 3, 1))])
    keep.write("1", [raw((7, 0, 3, 1))])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1.parquet", "survey.toml"]
    assert pq.read_table(tmp_path / "1.parquet").num_rows == 1


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(checks.InvalidInput, match="Cannot keep reports in"):
        Retention(tmp_path / "file", SURVEY)


def test_the_survey_is_kept_beside_its_reports(tmp_path: Path) -> None:
    Retention(tmp_path, SURVEY)
    assert read_survey(tmp_path / "survey.toml").digest() == SURVEY.digest()
    Retention(tmp_path, SURVEY)
    with pytest.raises(checks.InvalidInput, match="another survey"):
        Retention(tmp_path, Survey(name="other", rounds=4, epsilon=1.0))
