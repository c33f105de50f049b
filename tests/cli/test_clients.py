"""`sudare simulate clients` against a real collector."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.collector.clients import hurried
from tests.collector.kit import a_survey
from tests.collector.served import TOKEN, serving
from tests.support.commands import command


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The command's three ways to answer, each from a survey of its own."""
    folder = tmp_path_factory.mktemp("told")
    answers: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUDARE_OPERATOR_TOKEN", TOKEN)
        for name, words in (("text", ["--csv", "out.csv"]), ("json", ["--json"])):
            (folder / name).mkdir()
            survey = a_survey(rounds=3, name="At home", epsilon=6.0)
            with serving(folder / name, survey, clock=hurried(patch)) as served:
                line = ["simulate", "clients", "--url", served.root, "--users", "900", "--relay"]
                answers[name] = command(folder, *line, "--seed", "4", *words)
    answers["csv"] = (folder / "out.csv").read_text()
    return answers


def test_the_command_shows_truth_beside_estimate(told):
    assert told["text"].code == 0, told["text"].err
    text = told["text"].out
    assert "At home: glance, 900 people, ε = 6, " in text
    assert " reports acknowledged, none refused" in text
    assert "truth     " in text
    assert "intervals." in text
    rows = list(csv.DictReader(told["csv"].splitlines()))
    assert [row["round"] for row in rows] == ["0", "1", "2"]
    assert {row["reporters"] for row in rows} == {"300"}


def test_the_command_for_scripts(told):
    assert told["json"].code == 0, told["json"].err
    record = json.loads(told["json"].out)
    assert record["refused"] == {}
    assert record["acknowledged"] == sum(row["reporters"] for row in record["rounds"]) > 0
    assert record["rounds"][-1]["round"] == 2
    assert record["largest_error"] == pytest.approx(
        max(abs(row["estimate"] - row["truth"]) for row in record["rounds"])
    )


def test_the_commands_mistakes(tmp_path: Path):
    done = command(tmp_path, "simulate", "clients", "--url", "http://127.0.0.1:9", "--users", "3")
    assert done.code == 2
    assert "cannot be reached" in done.err
    line = ["simulate", "clients", "--url", "http://127.0.0.1:9", "--users", "3"]
    done = command(tmp_path, *line, "--signal", "noise")
    assert done.code == 2
    assert "Expected --signal" in done.err
