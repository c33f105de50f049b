"""`sudare plan learn`, with a study and without."""

import json
from pathlib import Path

import pytest

from tests.site.clinics import CLASSES
from tests.support.commands import command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(CLASSES.format(model="moments", epsilon=2.0))
    return tmp_path


def test_a_study_is_planned_as_a_range(folder: Path) -> None:
    words = ("plan", "learn", "--study", "study.toml", "--sizes", "60,40,150,30", "--runs", "4")
    done = command(folder, *words)
    assert done.code == 0
    assert "Simulating 4 consortia: about 1 s." in done.err
    shown = " ".join(done.out.split())
    assert "4 made-up consortia of 4 parties with 30 to 150 rows, at ε = 2" in shown
    told = json.loads(command(folder, *words, "--json").out)
    assert told["sizes"] == [60, 40, 150, 30]
    assert told["verdict"] in shown
    pooled = told["gains"]["pooled"]
    assert pooled["low"] <= pooled["half"] <= pooled["high"]
    assert len(pooled["each"]) == 4
    other = json.loads(command(folder, *words, "--json", "--seed", "1").out)
    assert other["own"] != told["own"]


def test_terms_may_be_tried_out(folder: Path) -> None:
    words = ("plan", "learn", "--study", "study.toml", "--parties", "2", "--rows", "30")
    done = command(folder, *words, "--runs", "2", "--epsilon", "5", "--delta", "1e-7")
    assert "2 parties with 30 rows, at ε = 5" in " ".join(done.out.split())
    assert "A pool needs three parties" in done.out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--rows", "30"], "Expected --study and --sizes, or else"),
        (["--sizes", "30,40"], "belong to --study"),
        (["--study", "study.toml"], "Expected --sizes 120,80,300, or"),
        (["--study", "study.toml", "--sizes", "30;40"], "whole numbers"),
        (["--study", "study.toml", "--sizes", "30,4"], "10 or more"),
        (["--study", "study.toml", "--sizes", "30,40", "--rows", "3"], "not both"),
        (["--study", "study.toml", "--sizes", "30,40", "--features", "3"], "without --study"),
        (["--study", "study.toml", "--sizes", "30,40", "--epsilon", "-1"], "epsilon"),
        (["--study", "nowhere.toml", "--sizes", "30,40"], "nowhere.toml"),
    ],
)
def test_what_is_missing_or_does_not_go_together(
    folder: Path, words: list[str], reason: str
) -> None:
    done = command(folder, "plan", "learn", *words)
    assert done.code == 2
    assert reason in " ".join(done.err.split())
