"""The command line as a user meets it; one command is a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sudare import __version__
from sudare.foundations.privacy import GaussianEvent, PureEvent, account
from tests.support import ROOT
from tests.support.commands import Done, command


def sudare(*words: str, cwd: Path = ROOT) -> Done:
    return command(cwd, *words)


def test_version_and_help_teach() -> None:
    assert sudare("--version").out == f"sudare {__version__}\n"
    told = sudare("--help").out
    for word in ("account", "audit", "demo", "Exit codes"):
        assert word in told
    assert "pure:EPSILON" in sudare("account", "--help").out


def test_account_tells_what_python_tells() -> None:
    done = sudare("account", "pure:0.1x20", "gaussian:0.3", "--json")
    told = json.loads(done.out)
    guarantee = account([PureEvent(0.1)] * 20 + [GaussianEvent(0.3)], 1e-6)
    assert done.code == 0
    assert told["epsilon"] == guarantee.epsilon()
    assert told["sentence"] == str(guarantee)
    assert len(told["events"]) == 21
    assert told["curve"][0] == {"delta": 0.0, "epsilon": "inf"}


def test_account_for_people() -> None:
    done = sudare("account", "local:2", "--delta", "0")
    assert done.code == 0
    assert "ε = 2, δ = 0, local, per user" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["account", "pure:-1"], "Expected epsilon=-1.0 > 0"),
        (["account", "pure:abc"], "Expected numbers in 'pure:abc'"),
        (["account", "magic:1"], "kinds are pure"),
        (["account", "approximate:1"], "Wrong number of values"),
        (["account", "pure:1", "local:1"], "same neighbours"),
        (["account", "pure:1", "--delta", "1"], "Expected delta=1.0 in [0, 1)"),
        (["account", "approximate:1,0.1"], "Expected delta=1e-06 >= 0.1"),
        (["audit", "no-such-case"], "sudare audit --list"),
        (["audit", "no-such-file.py"], "No file"),
        (["audit", "ridge-in-ball", "--confidence", "1"], "confidence"),
    ],
)
def test_a_mistake_is_one_line_and_exit_two(words: list[str], message: str) -> None:
    done = sudare(*words)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err + done.out
    assert done.out == ""


def test_unknown_options_and_words_are_refused() -> None:
    for words in (["account"], ["acount", "pure:1"], ["account", "pure:1", "--delta", "x"]):
        done = sudare(*words)
        assert done.code == 2
        assert "Traceback" not in done.err


def test_audit_lists_its_cases() -> None:
    cases = json.loads(sudare("audit", "--list", "--json").out)
    assert [case["expected"] for case in cases] == ["caught", "passes"] * 6
    listed = sudare("audit", "--list").out
    assert all(case["case"] in listed for case in cases)


def test_audit_catches_a_mistake_and_passes_its_correction() -> None:
    words = ["audit", "ridge-without-ball", "ridge-in-ball", "--runs", "40000", "--seed", "1"]
    done = sudare(*words, "--json")
    wrong, right = json.loads(done.out)
    assert done.code == 0
    assert wrong["violated"]
    assert wrong["epsilon_lower"] > 1
    assert not right["violated"]
    told = " ".join(sudare(*words).out.split())
    for words_told in (": refuted", ": not refuted", "99.9 % confidence"):
        assert words_told in told


OWN = '''"""A Laplace mechanism that claims {claim}."""

import numpy as np

first, second, epsilon = 0.0, 1.0, {claim}


def mechanism(data, runs, rng):
    return data + rng.laplace(0.0, 1.0, runs)
'''


def test_audit_of_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "honest.py").write_text(OWN.format(claim=1.0))
    (tmp_path / "boastful.py").write_text(OWN.format(claim=0.6))
    fine = sudare("audit", "honest.py", "--seed", "2", cwd=tmp_path)
    caught = sudare("audit", "boastful.py", "--seed", "2", cwd=tmp_path)
    assert (fine.code, caught.code) == (0, 3)
    assert "the claim is false" in " ".join(caught.out.split())


def test_output_can_be_cut_short() -> None:
    done = subprocess.run(
        f"{sys.executable} -m sudare audit --list | head -1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
