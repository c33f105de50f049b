"""`sudare account` and `sudare audit`."""

import json
from pathlib import Path

from sudare.foundations.privacy import GaussianEvent, PureEvent, account
from tests.support import ROOT
from tests.support.commands import Done, command


def sudare(*words: str, cwd: Path = ROOT) -> Done:
    return command(cwd, *words)


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
