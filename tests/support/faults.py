"""Run as a program: a command under faults, each time in a process forked from this one.

Everything is imported beforehand, so a run takes a tenth of a second, and all of its calls count.

    kills FOLDER SYSCALL:STEP …
        strace kills at call number SHIFTS[SYSCALL]; the child makes some of them beforehand, so
        that it is the first of its own, then a later one, STEP by STEP until the command is over
    errors FOLDER SYSCALL:N …
        in the same way the N-th of its own calls meets an error
    peace FOLDER COUNT
        killed after a random while, COUNT times; then eight at once for the same release, and
        eight at once for releases of their own

FOLDER/template holds what a run needs. For each run one line of JSON tells what it left behind, and
what a second run, left in peace, made of that. The command is `sudare release`, or the one that the
environment variable FAULTS_JOB names.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from sklearn.dummy import DummyClassifier

import sudare.exchange
import sudare.ledger
import sudare.site
import sudare.study  # noqa: F401  (what the command will need)
from sudare.cli import main

SHIFTS = {
    "fchmod": 200,
    "fdatasync": 200,
    "fsync": 200,
    "mkdir": 200,
    "pwrite64": 200,
    "rename": 200,
    "unlink": 200,
    "write": 500,
    # This process itself makes some thousands of them while it imports.
    "openat": 12000,
}
RACERS = 8
JOB = os.environ.get("FAULTS_JOB", "release")
WORDS = {
    "release": ("release", "people.csv", "--key", "key.json", "--party"),
    "pool": ("pool", "people.csv", "--place", "releases"),
}[JOB]
LEFT = {"release": "*", "pool": "*/Clinic-A*.answer"}[JOB]
"""What of the command's files holds rows' numbers."""
_NULL = os.open(os.devnull, os.O_WRONLY)


def idle(syscall: str, times: int) -> None:
    """Calls that change nothing but strace's counter."""
    calls: dict[str, Callable[[], object]] = {
        "fchmod": lambda: os.fchmod(-1, 0),
        "fdatasync": lambda: os.fdatasync(_NULL),
        "fsync": lambda: os.fsync(_NULL),
        "mkdir": lambda: Path("/").mkdir(),
        "openat": lambda: os.open("no such file", os.O_RDONLY),
        "pwrite64": lambda: os.pwrite(_NULL, b"x", 0),
        "rename": lambda: Path("no such file").rename("nor this"),
        "unlink": lambda: Path("no such file").unlink(),
        "write": lambda: os.write(_NULL, b"x"),
    }
    for _ in range(times):
        with suppress(OSError):
            calls[syscall]()


def words(party: str) -> list[str]:
    """The command line for one party; in a pool its key says who it is."""
    return ["sudare", *WORDS, *([party] if JOB == "release" else [])]


def forked(action: Callable[[], object]) -> int:
    """The process of a child that does this, and nothing after it."""
    if child := os.fork():
        return child
    code = 99
    with suppress(BaseException):
        code = int(bool(action()))
    os._exit(code)


def command(folder: Path, party: str, prepare: Callable[[], object] = lambda: None) -> int:
    """The process of a child that is the command in this folder; its words go to a file there."""
    said = os.open(folder / "said", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def run() -> NoReturn:
        os.chdir(folder)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.argv = words(party)
        prepare()
        code: Any = 1
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException as problem:
            os.write(2, f"Traceback {type(problem).__name__}: {problem}\n".encode())
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)

    child = forked(run)
    os.close(said)
    return child


def ended(child: int) -> str | int:
    status = os.waitpid(child, 0)[1]
    return "killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def state(folder: Path) -> dict[str, Any]:
    """What is in the ledger and what has been released, seen in a copy."""
    copy = folder.with_name(folder.name + ".copy")
    shutil.copytree(folder, copy)
    with closing(sqlite3.connect(copy / "ledger.db")) as ledger:
        spent = ledger.execute("SELECT request FROM ledger_events").fetchall()
        kept = ledger.execute(
            "SELECT payload FROM ledger_releases UNION ALL SELECT payload FROM ledger_parts"
        ).fetchall()
    shutil.rmtree(copy)
    files = (path for path in (folder / "releases").glob(LEFT) if not path.name.startswith("."))
    return {
        "spent": len(spent),
        "kept": sorted(_digest(payload) for (payload,) in kept),
        "released": sorted(_digest(path.read_bytes()) for path in files),
    }


def tell(folder: Path, end: str | int) -> None:
    """What a fault left, what was said, and the same after a second run in peace."""
    gate_out, gate_in = os.pipe()
    # In children, so that this process makes no calls that strace would count.
    os.waitpid(forked(lambda: os.write(gate_in, json.dumps(state(folder)).encode())), 0)
    left = json.loads(os.read(gate_out, 1 << 16))
    said = (folder / "said").read_text()
    again = ended(command(folder, "Clinic A"))
    os.waitpid(forked(lambda: os.write(gate_in, json.dumps(state(folder)).encode())), 0)
    then = json.loads(os.read(gate_out, 1 << 16))
    os.close(gate_in)
    os.close(gate_out)
    told = {"name": folder.name, "end": end, "said": said, "left": left}
    print(json.dumps(told | {"again": again, "then": then}), flush=True)


def fresh(folder: str, name: str) -> Path:
    place = Path(folder, name)
    os.waitpid(forked(lambda: shutil.copytree(Path(folder, "template"), place)), 0)
    return place


def fault(folder: str, syscall: str, number: int) -> str | int:
    place, missing = fresh(folder, f"{syscall}-{number}"), SHIFTS[syscall] - number
    end = ended(command(place, "Clinic A", partial(idle, syscall, missing)))
    tell(place, end)
    return end


def kills(folder: str, *aims: str) -> None:
    for aim in aims:
        syscall, step = aim.split(":")
        number = 1
        while fault(folder, syscall, number) == "killed":
            number += int(step)


def errors(folder: str, *aims: str) -> None:
    for aim in aims:
        syscall, number = aim.split(":")
        fault(folder, syscall, int(number))


def peace(folder: str, count: str) -> None:
    rng = random.Random(1)
    begun = time.monotonic()
    ended(command(fresh(folder, "whole"), "Clinic A"))
    whole = time.monotonic() - begun
    for n in range(int(count)):
        place = fresh(folder, f"instant-{n}")
        child = command(place, "Clinic A")
        time.sleep(rng.uniform(0, whole))
        os.kill(child, signal.SIGKILL)
        tell(place, ended(child))
    race(fresh(folder, "same"), ["Clinic A"] * RACERS)
    race(fresh(folder, "each"), [f"Clinic {n}" for n in range(RACERS)])


def race(place: Path, parties: list[str]) -> None:
    gate_out, gate_in = os.pipe()

    def wait() -> None:
        os.close(gate_in)
        os.read(gate_out, 1)  # until every other end is closed

    children = [command(place, party, wait) for party in parties]
    os.close(gate_in)
    ends = [ended(child) for child in children]
    said = (place / "said").read_text()
    print(json.dumps({"name": place.name, "ends": ends, "said": said, "left": state(place)}))


def warm(folder: str) -> None:
    """Import what a run imports on its way, and let scikit-learn look at all that is installed."""
    DummyClassifier().fit(np.zeros((2, 1)), [0, 1])
    place = fresh(folder, "warm")
    names_out, names_in = os.pipe()

    def report() -> None:
        names = " ".join(name for name in sys.modules if not name.startswith("__"))
        os.write(names_in, names.encode())

    def run() -> None:
        os.chdir(place)
        os.dup2(_NULL, 1)
        sys.argv = words("Clinic A")
        with suppress(SystemExit):
            main()
        os.close(names_out)
        report()

    child = forked(run)
    os.close(names_in)
    with os.fdopen(names_out) as file:
        names = file.read().split()
    os.waitpid(child, 0)
    for name in names:
        with suppress(ImportError):
            import_module(name)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    kind, folder, *rest = sys.argv[1:]
    warm(folder)
    actions: dict[str, Callable[..., None]] = {"kills": kills, "errors": errors, "peace": peace}
    actions[kind](folder, *rest)
