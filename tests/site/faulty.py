"""Commands under faults, and what must hold after each of them."""

import json
import os
import subprocess
import sys
from typing import Any

from tests.support import ROOT, debian
from tests.support.faults import SHIFTS


def under_faults(
    *words: str, under: tuple[str, ...] = (), job: str = "release"
) -> list[dict[str, Any]]:
    """What `tests.support.faults` tells of each run."""
    done = subprocess.run(
        [*under, sys.executable, "-m", "tests.support.faults", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1", "FAULTS_JOB": job},
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def strace(fault: str) -> tuple[str, ...]:
    """strace with a fault for call number SHIFTS[…] of each kind, counted in each process."""
    quiet = ["-f", "-qq", "-o", os.devnull, "-e", f"trace={','.join(SHIFTS)}"]
    faults = [f"-einject={name}:{fault}:when={number}" for name, number in SHIFTS.items()]
    return (debian.require("strace", "strace"), *quiet, *faults)


def check(told: dict[str, Any], again: int = 0) -> None:
    """Spent ≥ released at any time; and run again, one release, the same as any before."""
    left, then = told["left"], told["then"]
    assert "Traceback" not in told["said"]
    assert left["spent"] <= 1
    assert len(left["kept"]) <= left["spent"]
    assert set(left["released"]) <= set(left["kept"])  # whole, or not there
    assert told["again"] == again
    assert then["spent"] == 1
    assert len(then["kept"]) == 1
    assert then["released"] == then["kept"]
    assert not left["kept"] or left["kept"] == then["kept"]
