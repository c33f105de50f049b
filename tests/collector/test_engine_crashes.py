"""Exactly once, whatever happens: each ticket has a cell of its own, and must be found there once
when it was acknowledged, and never twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collector.crashes import USERS
from tests.support import ROOT, debian
from tests.support.soak import times

KILLS = times(20, 250)


def run(*words: str, under: tuple[str, ...] = ()) -> list[tuple[str, list[int]]]:
    """What the program said, line by line."""
    done = subprocess.run(
        [*under, sys.executable, "-m", "tests.collector.crashes", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(word, [int(number) for number in numbers]) for word, *numbers in lines]


def check(told: list[tuple[str, list[int]]]) -> int:
    """How many were acknowledged before the end."""
    (end,) = (i for i, (word, _) in enumerate(told) if word == "once")
    before, after = told[:end], dict(told[end:])
    acknowledged = {s for word, some in before if word == "acknowledged" for s in some}
    counted = [s for word, some in before if word == "counted" for s in some]
    assert len(counted) == len(set(counted)), "counted twice"
    assert acknowledged <= set(after["once"]), "acknowledged and not counted"
    assert after["more"] == []
    assert after["heard"] == [1] * USERS
    return len(acknowledged)


@pytest.mark.soak(tries=f"{KILLS} kills")
def test_killed_at_any_instant(place: str) -> None:
    kept = check(run("kills", place, str(KILLS), "1"))
    assert kept > min(KILLS, USERS) / 2, "hardly anything was tried"


@pytest.mark.parametrize(
    "fault",
    [
        "fdatasync:error=EIO:when=12+5",
        "pwrite64:error=EIO:when=60+61",
        "pwrite64:error=ENOSPC:when=60+67",
    ],
)
def test_a_disk_that_fails(file: str, fault: str) -> None:
    strace = debian.require("strace", "strace")
    call = fault.partition(":")[0]
    quiet = ("-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", f"trace={call}")
    told = run("errors", file, under=(strace, *quiet, f"-einject={fault}"))
    assert check(told) == USERS
    (failed,) = (some[0] for word, some in told if word == "failed")
    assert failed > 2, "the fault was never met"
    assert Path(file).stat().st_size > 0
