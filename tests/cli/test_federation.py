"""The commands of a federation."""

import os
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sudare.cli import app
from sudare.federation import ReleaseQuestion, read_node
from sudare.federation._messages import read_answer, to_bytes
from sudare.federation._node import NODE_VARIABLE
from sudare.federation.flower import QUIET
from tests.federation.parties import STUDY, agreed, hospitals
from tests.support import ROOT
from tests.support.commands import command

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "200"}


def test_init_writes_an_app_and_a_node(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    done = command(tmp_path, "federation", "init", "--party", "Clinic B", "--data", "b.csv")
    assert (done.code, done.err) == (0, "")
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    assert project["tool"]["flwr"]["app"]["config"]["epsilon"] == 4.0
    node = read_node(tmp_path / "node.toml")
    assert (node.party, Path(node.data).name) == ("Clinic B", "b.csv")
    assert node.study == str(tmp_path / "study.toml")
    again = command(tmp_path, "federation", "init")
    assert again.code == 2
    assert "exists" in again.err


def test_init_writes_what_a_pool_needs(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    done = command(tmp_path, "federation", "init", "--pool")
    assert (done.code, done.err) == (0, "")
    assert "pool.toml" in done.out
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    assert project["tool"]["flwr"]["app"]["config"]["pool"] is True
    assert read_node(tmp_path / "node.toml").pool == str(tmp_path / "pool.toml")


def test_init_writes_nothing_for_a_study_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text("name = 3")
    assert command(tmp_path, "federation", "init").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "node.toml").write_text("")
    assert command(tmp_path, "federation", "init").code == 2
    assert not (tmp_path / "app").exists()


def test_answer_takes_and_gives_bytes(tmp_path: Path) -> None:
    (one,) = hospitals(tmp_path, 1)
    done = subprocess.run(
        [sys.executable, "-m", "sudare", "federation", "answer", str(one.configuration)],
        input=to_bytes(ReleaseQuestion(terms=agreed(one))),
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )
    assert read_answer(done.stdout).status == "released"
    assert done.stderr == b""


def stand_in(folder: Path) -> None:
    """A command that tells its words and its environment."""
    script = folder / "flwr"
    script.write_text(
        f'#!/bin/sh\necho "$@"; env | grep -E "FLWR|RAY|{NODE_VARIABLE}" | sort\nexit 7\n'
    )
    script.chmod(0o755)


def flower(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sudare", "federation", "flower", *words],
        cwd=folder,
        env=ENVIRONMENT | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


def test_flower_runs_quietly(tmp_path: Path) -> None:
    stand_in(tmp_path)
    (tmp_path / "node.toml").write_text('party = "A"\ndata = "a.csv"\n')
    done = flower(tmp_path, "--node", "node.toml", "flwr", "run", "app", "--stream")
    assert done.returncode == 7  # the command's own
    expected = {f"{name}={value}" for name, value in QUIET.items()}
    expected.add(f"{NODE_VARIABLE}={tmp_path / 'node.toml'}")
    said, *variables = done.stdout.splitlines()
    assert said == "run app --stream"
    assert set(variables) == expected


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "Expected a command of Flower"),
        (("no-such-command",), "pip install 'sudare[flower]'"),
        (("--node", "none.toml", "flwr"), "Cannot read none.toml"),
    ],
)
def test_flower_explains_what_is_missing(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    done = command(tmp_path, "federation", "flower", *words)
    assert done.code == 2
    assert reason in done.err


def test_warnings_of_libraries_do_not_reach_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned(question: bytes, node: Path) -> bytes:
        warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)
        return b"answer"

    monkeypatch.setattr("sudare.federation.answer", warned)
    with warnings.catch_warnings(record=True) as heard:
        done = CliRunner().invoke(app, ["federation", "answer", str(tmp_path / "node.toml")])
    assert (done.exit_code, done.stdout_bytes) == (0, b"answer")
    assert heard == []
