"""Run as a program: collectors that are killed, or whose disk fails, over a store at PLACE.

    kills PLACE COUNT SEED    COUNT children, each killed at a random instant
    errors PLACE              one that meets whatever strace has in store for its disk

The survey has one round a user, all of them open to late reports for ever: each ticket has a cell
of its own. What a child has acknowledged it says at once, one line of serials for each group; so
does the last line, with what the store says in the end, after everything was sent again.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from sudare.collector import Collector, StoreUnavailable
from sudare.counting._reports import RECORD
from tests.collector.kit import COUNTED, REPEATED, Clock, a_collector, a_survey, packed

USERS = 120
SURVEY = a_survey(rounds=USERS)


def begin(place: str) -> Collector:
    return a_collector(place, SURVEY, Clock(USERS + 1), late=1e9)


def say(word: str, serials: list[int]) -> None:
    os.write(1, f"{word} {' '.join(map(str, serials))}\n".encode())


def send(collector: Collector, group: np.ndarray) -> None:
    told = collector.count(group.tobytes())
    assert set(told.tolist()) <= {COUNTED, REPEATED}
    say("counted", group["serial"][told == COUNTED].tolist())
    say("acknowledged", group["serial"].tolist())


def child(place: str, reports: np.ndarray, seed: int, ready: int) -> None:
    rng = np.random.default_rng(seed)
    collector = begin(place)
    os.write(ready, b".")
    while True:
        send(collector, rng.choice(reports, int(rng.integers(1, 9))))
        os.write(ready, b".")
        if rng.random() < 0.2:
            collector.publish_due()


def kills(place: str, reports: np.ndarray, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(count):
        told, ready = os.pipe()
        if not (one := os.fork()):
            with suppress(BaseException):
                child(place, reports, seed + number, ready)
            os._exit(1)
        os.close(ready)
        # Every fourth may be killed while it begins, the next before its first report; the others
        # have acknowledged some by then, however slow the machine is.
        for _ in range(min(number % 4, 2)):
            os.read(told, 1)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(one, signal.SIGKILL)
        os.close(told)
        assert os.WIFSIGNALED(os.waitpid(one, 0)[1]), "it ended by itself"


_failures: list[StoreUnavailable] = []


def patiently(action: Callable[..., Any], *values: Any) -> Any:
    """Again and again: a disk may fail at any write."""
    for _ in range(50):
        try:
            return action(*values)
        except StoreUnavailable as problem:
            _failures.append(problem)
    raise AssertionError("it never came back")


def errors(place: str, reports: np.ndarray) -> None:
    """Send every report until it is acknowledged, some again and again."""
    rng = np.random.default_rng(1)
    collector = patiently(begin, place)
    for group in np.array_split(rng.permutation(np.repeat(reports, 3)), 50):
        patiently(send, collector, group)
        patiently(collector.publish_due)
    collector.close()
    say("failed", [len(_failures)])


def main(kind: str, place: str, *rest: str) -> None:
    collector = patiently(begin, place)
    tickets = patiently(collector.issue, USERS)
    collector.close()
    reports = np.frombuffer(packed(tickets), RECORD)
    if kind == "kills":
        kills(place, reports, *map(int, rest))
    else:
        errors(place, reports)
    collector = patiently(begin, place)
    before = patiently(collector.store.counts, np.arange(USERS))[0]
    serials = [own.serial for own in sorted(tickets, key=lambda own: own.rounds)]
    say("once", [s for s, n in zip(serials, before, strict=True) if n == 1])
    say("more", [s for s, n in zip(serials, before, strict=True) if n > 1])
    patiently(send, collector, reports)
    patiently(collector.publish_due)
    say("heard", [each.reporters for each in collector.history()])
    collector.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
