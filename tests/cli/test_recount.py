"""`sudare recount`: what the collector counted comes out of the files again."""

import json
from pathlib import Path

import numpy as np
import pytest

from sudare.collector._retention import RAW, Retention
from sudare.counting import Survey
from tests.support.commands import command

SURVEY = Survey(name="at home", rounds=3, epsilon=6.0)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    rows = [(serial, 0, serial % 3, int(serial % 3 == 1)) for serial in range(900)]
    Retention(folder, SURVEY).write("1", [np.array(rows, RAW).tobytes()])
    return folder


def test_counts_and_shares(reports: Path) -> None:
    done = command(reports.parent, "recount", "reports", "--json")
    told = json.loads(done.out)
    assert (told["survey"], told["reports"]) == ("at home", 900)
    assert [row["reporters"] for row in told["rounds"]] == [300, 300, 300]
    assert [round(row["share"]) for row in told["rounds"]] == [0, 1, 0]
    assert set(told["rounds"][0]) == {"round", "reporters", "share", "low", "high", "smoothed"}


def test_a_first_round_that_nobody_reported_in(tmp_path: Path) -> None:
    rows = [(serial, 0, 1 + serial % 2, 1) for serial in range(100)]
    Retention(tmp_path / "reports", SURVEY).write("1", [np.array(rows, RAW).tobytes()])
    first = json.loads(command(tmp_path, "recount", "reports", "--json").out)["rounds"][0]
    assert (first["reporters"], first["share"], first["smoothed"]) == (0, None, None)
    assert "nan" not in command(tmp_path, "recount", "reports").out


def test_for_people(reports: Path) -> None:
    done = command(reports.parent, "recount", "reports")
    assert "900 reports" in done.out
    assert "smoothed" in done.out


def test_mistakes(reports: Path) -> None:
    for words, said in (
        (("nowhere",), "Cannot read nowhere/survey.toml"),
        (("reports", "--engine", "abacus"), "duckdb, spark"),
        (("reports", "--beta", "2"), "beta"),
    ):
        done = command(reports.parent, "recount", *words)
        assert done.code == 2
        assert said in done.err
        assert "Traceback" not in done.err
