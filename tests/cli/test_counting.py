"""Planning and simulating a count from the command line, as a user does."""

import csv
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from sudare import cli
from sudare.counting import Survey, read_survey
from sudare.counting._planning import plan
from sudare.counting._simulation import simulate
from sudare.counting.signals import sine
from tests.support.commands import command

PLAN = ["plan", "count", "--users", "2000", "--rounds", "10", "--epsilon", "3"]
RUN = ["simulate", "count", "--rounds", "10", "--epsilon", "3", "--users", "2000"]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def sudare(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """The command in this process, in a folder of its own: a process each would take minutes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["sudare", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        code = left.value.code
        return Done(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


def test_plan_tells_what_python_tells(sudare: Run) -> None:
    done = sudare(*PLAN, "--share", "0.1", "--changes", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    expected = plan(2_000, 10, 3.0, share=0.1, changes=2)
    assert told["best"] == expected.best.survey.method
    assert [(o["method"], o["error"]) for o in told["options"]] == [
        (o.survey.method, o.error) for o in expected.options
    ]
    assert "needed" not in told


def test_plan_for_people_with_a_picture(sudare: Run, tmp_path: Path) -> None:
    done = sudare(*PLAN, "--error", "0.03", "--plot", "errors.svg")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for words in ("is best", "masks, ", "rappor", "█", "An expected error of 0.03 takes"):
        assert words in text
    assert (tmp_path / "errors.svg").read_text().startswith("<svg")
    asked = json.loads(sudare(*PLAN, "--error", "0.001", "--json").stdout)
    assert asked["needed"]["users"] > 10**5
    assert asked["needed"]["epsilon"] > 8


def test_simulate_tells_what_python_tells(sudare: Run, tmp_path: Path) -> None:
    words = ["--signal", "sine", "--runs", "30", "--seed", "5", "--csv", "runs.csv"]
    done = sudare(*RUN, *words, "--json")
    assert done.returncode == 0, done.stderr
    survey = Survey(name="t", rounds=10, epsilon=3.0)
    told = simulate(survey, sine(10), 2_000, runs=30, rng=5)
    record = json.loads(done.stdout)
    assert record["mean_error"] == told.mean_error
    assert record["smoothed_mean_error"] == told.smoothed_errors.mean()
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert len(rows) == 300
    assert float(rows[-1]["estimate"]) == told.raw[-1, -1]
    assert float(rows[13]["truth"]) == told.truth[3]


@pytest.mark.parametrize("signal", ["constant", "step", "walk", "independent"])
def test_simulate_for_people(sudare: Run, signal: str) -> None:
    done = sudare(*RUN, "--signal", signal, "--method", "masks", "--slots", "3", "--tickets")
    assert done.returncode == 0, done.stderr
    assert "mean, smoothed" in done.stdout
    assert "truth" in done.stdout


def test_simulate_a_survey_file_on_a_file_of_people(sudare: Run, tmp_path: Path) -> None:
    (tmp_path / "survey.toml").write_text('name = "Home"\nrounds = 3\nepsilon = 2.0\n')
    (tmp_path / "people.csv").write_text("user,a,b,c\n" + "7,1,0,1\n8,0,0,1\n" * 30)
    words = ["simulate", "count", "survey.toml", "--signal", "people.csv", "--runs", "1", "--json"]
    record = json.loads(sudare(*words).stdout)
    assert record["users"] == 60
    assert record["standard_error"] is None
    made = ["simulate", "count", "survey.toml", "--users", "60", "--json"]
    assert json.loads(sudare(*made).stdout)["rounds"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*PLAN[:-1], "99"], "epsilon=99"),
        ([*PLAN, "--share", "2"], "share=2.0 in [0, 1]"),
        ([*PLAN, "--error", "0.7"], "error=0.7 < 0.5"),
        ([*PLAN, "--plot", "no/such/folder.svg"], "Cannot write no/such/folder.svg"),
        ([*RUN, "--signal", "bogus"], "--signal to be one of"),
        ([*RUN, "--signal", "none.csv"], "Cannot read none.csv"),
        ([*RUN, "--method", "magic"], "method='magic'"),
        ([*RUN, "--slots", "3"], "slots only with method"),
        ([*RUN, "--csv", "no/such/folder.csv", "--runs", "1"], "Cannot write no/such"),
        (["simulate", "count", "--rounds", "3", "--users", "5"], "Expected --epsilon"),
        (["simulate", "count", "--epsilon", "3", "--users", "5"], "Expected --rounds"),
        (["simulate", "count", "--epsilon", "3", "--rounds", "5"], "Expected users"),
        (["simulate", "count", "none.toml", "--users", "5"], "Cannot read none.toml"),
    ],
)
def test_a_mistake_is_one_line_and_exit_two(sudare: Run, words: list[str], message: str) -> None:
    done = sudare(*words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stdout == ""


def test_so_many_runs_by_a_known_method(sudare: Run) -> None:
    done = sudare(*RUN, "--runs", "2", "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == 2
    wrong = sudare(*RUN, "--method", "magic")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_help_teaches(sudare: Run) -> None:
    assert "Example" in sudare("plan", "count", "--help").stdout
    assert "a row for each person" in " ".join(
        sudare("simulate", "count", "--help").stdout.replace("│", " ").split()
    )


WRITTEN = ["plan", "count", "--users", "10000", "--rounds", "48", "--epsilon", "4"]


def test_the_best_plan_becomes_a_survey(tmp_path: Path) -> None:
    more = ["--name", "At home", "--question", "Is somebody at home?"]
    more += ["--start", "2026-06-01T06:00:00Z", "--round-seconds", "3600"]
    done = command(tmp_path, *WRITTEN, "--write", "survey.toml", *more)
    assert done.code == 0, done.err
    survey = read_survey(tmp_path / "survey.toml")
    best = plan(10_000, 48, 4.0).best.survey
    assert (survey.name, survey.question) == ("At home", "Is somebody at home?")
    assert survey.start == datetime(2026, 6, 1, 6, tzinfo=UTC)
    assert (survey.method, survey.slots, survey.round_seconds) == (best.method, best.slots, 3600.0)
    again = command(tmp_path, *WRITTEN, "--write", "survey.toml", *more)
    assert (again.code, "there already" in again.err) == (2, True)
    open_ended = command(tmp_path, *WRITTEN, "--write", "other.toml", "--name", "x")
    assert "begins when the collector does" in " ".join(open_ended.out.split())
    assert read_survey(tmp_path / "other.toml").start is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--write", "s.toml"], "Expected --name"),
        (["--write", "s.toml", "--name", "x", "--round-seconds", "9"], "together"),
        (["--name", "x"], "go into --write FILE"),
        (["--write", "no/s.toml", "--name", "x"], "Cannot write"),
    ],
)
def test_a_survey_that_cannot_be_written(tmp_path: Path, words: list[str], message: str) -> None:
    done = command(tmp_path, *WRITTEN, *words)
    assert (done.code, message in " ".join(done.err.split())) == (2, True), done.err
    assert list(tmp_path.iterdir()) == []
