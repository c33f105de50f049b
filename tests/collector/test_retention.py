"""Retained reports: whole files, only the columns that were promised, of one survey."""

import stat
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sudare.collector._retention import RAW, SURVEY_KEY, Retention, recount
from sudare.counting import Survey, read_survey
from sudare.foundations import checks
from tests.collector.kit import Clock, a_collector, a_survey, due

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


def test_many_small_files_become_one(tmp_path: Path) -> None:
    keep = Retention(tmp_path, SURVEY)
    for number in range(59):
        keep.write(f"{number:012d}-a", [raw((number, 0, 3, 1))])
    keep.compact()
    assert len(list(tmp_path.glob("*.parquet"))) == 59
    keep.write(f"{59:012d}-a", [raw((59, 0, 3, 1))])
    keep.compact()
    (file,) = tmp_path.glob("*.parquet")
    assert pq.read_table(file)["serial"].to_pylist() == list(range(60))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert pq.read_schema(file).metadata[SURVEY_KEY] == SURVEY.digest().hex().encode()


def test_reports_wait_for_others_before_they_get_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey, clock = a_survey(), Clock()
    keep = Retention(tmp_path / "kept", survey)
    collector = a_collector(str(tmp_path / "c.db"), survey, clock, retain=keep)
    data = due(survey, collector.issue(80), 0)

    def files() -> int:
        return len(list(keep.folder.glob("*.parquet")))

    for at in range(10):
        collector.count(data[at * 29 : (at + 1) * 29])
        collector.publish_due()
    assert files() == 0
    monkeypatch.setattr("sudare.collector._engine._MOVE_SECONDS", 0.0)
    collector.publish_due()
    assert files() == 1
    monkeypatch.undo()
    collector.count(data[10 * 29 :])
    collector.publish_due()
    assert files() == 1
    collector.close()
    assert files() == 2
    assert recount(keep.folder, survey).reporters.tolist() == [20, 0, 0, 0]
