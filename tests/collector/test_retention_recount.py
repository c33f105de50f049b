"""Counting again from the files: against numpy, with duplicates, and by every engine that is here.

Spark needs Java and is large, so it is asked for: SUDARE_SPARK=1.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.collector._retention import ENGINES, RAW, Retention, recount
from sudare.counting import Survey, empty_tally
from sudare.foundations import checks
from tests.support import debian

SURVEY = Survey(name="at home", rounds=6, epsilon=1.0, method="masks", slots=2)
HERE = ENGINES if os.environ.get("SUDARE_SPARK") else ("duckdb",)


@pytest.fixture(params=HERE)
def engine(request: pytest.FixtureRequest) -> Any:
    if request.param == "spark":
        debian.require("java", "default-jre-headless")
    return request.param


def reports(count: int, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    rows = np.zeros(2 * count, RAW)
    rows["serial"] = np.repeat(rng.choice(2**48, size=count, replace=False), 2)
    rows["slot"] = np.tile([0, 1], count)
    rows["cell"] = rng.integers(0, SURVEY.cells, size=2 * count)
    rows["bit"] = rng.integers(0, 2, size=2 * count)
    return rows


def test_counts_what_the_files_hold(tmp_path: Path, engine: Any) -> None:
    rows, keep = reports(3000, seed=1), Retention(tmp_path, SURVEY)
    for part, chunk in enumerate(np.array_split(rows, 4)):
        keep.write(f"part-{part}", [chunk.tobytes()])
    found = recount(tmp_path, SURVEY, engine)
    assert found == empty_tally(SURVEY).add(rows["cell"], rows["bit"])


def test_a_report_in_two_files_counts_once(tmp_path: Path, engine: Any) -> None:
    rows, keep = reports(50, seed=2), Retention(tmp_path, SURVEY)
    keep.write("original", [rows.tobytes()])
    keep.write("restored", [rows[:30].tobytes()])
    assert recount(tmp_path, SURVEY, engine) == empty_tally(SURVEY).add(rows["cell"], rows["bit"])


def test_an_empty_folder_counts_nothing(tmp_path: Path) -> None:
    assert recount(tmp_path, SURVEY) == empty_tally(SURVEY)


def test_files_of_another_survey_are_refused(tmp_path: Path) -> None:
    Retention(tmp_path, Survey(name="other", rounds=6, epsilon=1.0)).write("1", [])
    with pytest.raises(checks.InvalidInput, match="another survey"):
        recount(tmp_path, SURVEY)


def test_a_cell_beyond_the_survey_is_refused(tmp_path: Path) -> None:
    Retention(tmp_path, SURVEY).write("1", [np.array([(1, 0, 6, 0)], RAW).tobytes()])
    with pytest.raises(checks.InvalidInput, match="no round"):
        recount(tmp_path, SURVEY)


def test_a_file_cut_short_is_refused_by_name(tmp_path: Path) -> None:
    file = Retention(tmp_path, SURVEY).write("1", [reports(100, seed=3).tobytes()])
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(checks.InvalidInput, match=r"1\.parquet.*whole"):
        recount(tmp_path, SURVEY)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(checks.InvalidInput, match="folder of retained reports"):
        recount(tmp_path / "gone", SURVEY)


def test_a_missing_engine_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Retention(tmp_path, SURVEY).write("1", [reports(1, seed=4).tobytes()])

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(checks.InvalidInput, match=r"pip install 'sudare\[recount\]'"):
        recount(tmp_path, SURVEY)
