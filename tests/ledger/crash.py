"""Run as a program: releases under faults, each in a process forked from this one.

    faults FOLDER SYSCALL:N …    the N-th such call of the child meets what strace has in store for
                                 call number `SHIFT` (the child makes the missing calls beforehand)
    instants PLACE COUNT         children that are killed after some milliseconds, one by one

What a child has achieved it says on standard output, at once.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sudare.exchange import put
from sudare.foundations.checks import SudareError
from sudare.foundations.privacy import PureEvent
from sudare.ledger import BudgetExceeded, Ledger

SHIFT = 200


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def release(folder: Path, *, aloud: Callable[..., None] = say) -> bytes:
    """What a site does: spend, draw, keep, write; and the same again if it was kept."""
    with Ledger(folder / "ledger.db") as ledger:
        ledger.open("people", "ab" * 32, 1.0)
        receipt = ledger.spend("people", PureEvent(1.0), request="r")
        aloud(folder.name, "spent")
        data = ledger.kept("r") or ledger.keep(receipt, os.urandom(16))
        aloud(folder.name, "kept", data.hex())
    put(str(folder / "shared"), "a.release", data)
    aloud(folder.name, "written", data.hex())
    return data


def shift(syscall: str, times: int) -> None:
    """Calls that change nothing but strace's counter."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for _ in range(times):
        with suppress(OSError):
            match syscall:
                case "pwrite64":
                    os.pwrite(nowhere, b"", 0)
                case "fdatasync":
                    os.fdatasync(nowhere)
                case "fsync":
                    os.fsync(nowhere)
                case "rename":
                    Path("no such file").rename("nor this")
                case "unlink":
                    Path("no such file").unlink()
                case _:
                    raise ValueError(syscall)


def faults(folder: str, *aims: str) -> None:
    for aim in aims:
        syscall, number = aim.split(":")
        place = Path(folder, aim.replace(":", "-"))
        place.mkdir()
        if (child := os.fork()) == 0:
            shift(syscall, SHIFT - int(number))
            try:
                release(place)
            except SudareError as problem:
                say(place.name, "refused", problem)
            except BaseException as problem:
                say(place.name, "broke", type(problem).__name__, problem)
            os._exit(0)
        if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            say(place.name, "killed")


def instants(place: str, count: str) -> None:
    rng = random.Random(1)
    for _ in range(int(count)):
        ready, begun = os.pipe()
        if (child := os.fork()) == 0:
            with suppress(BudgetExceeded), Ledger(place) as ledger:
                while True:
                    receipt = ledger.spend("people", PureEvent(0.001))
                    say("spent", receipt.number)
                    os.write(begun, b"!")
                    ledger.keep(receipt, receipt.request.encode())
                    say("kept", receipt.number, receipt.request)
            os._exit(0)
        os.close(begun)
        # One spend at least, however slow the machine; or nothing, from a child that failed.
        os.read(ready, 1)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)


if __name__ == "__main__":
    kind, place, *rest = sys.argv[1:]
    if kind == "faults":
        faults(place, *rest)
    else:
        instants(place, *rest)
