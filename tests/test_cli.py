"""The command line as a user meets it; one command is a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from sudare import __version__
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


def test_output_can_be_cut_short() -> None:
    done = subprocess.run(
        f"{sys.executable} -m sudare audit --list | head -1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
