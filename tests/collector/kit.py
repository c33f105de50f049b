"""A collector to test with: its survey, a clock that stands still, and reports on paper."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sudare.collector import Collector, Verdict, open_store, schedule
from sudare.collector._clock import SteadyClock
from sudare.counting import Method, Survey, Ticket
from sudare.counting._reports import RECORD

START = datetime(2026, 1, 1, tzinfo=UTC)
LENGTH = 100.0
BOUND = 2.5
COUNTED, REPEATED, WRONG_MARK, UNKNOWN_SLOT, TOO_EARLY, TOO_LATE, MALFORMED = Verdict

_MORE: dict[Method, dict[str, Any]] = {"masks": {"slots": 3}, "tree": {"changes": 2}}


def a_survey(method: Method = "glance", rounds: int = 4, **more: Any) -> Survey:
    """With rounds of 100 seconds."""
    fields = {"name": "s", "epsilon": 1.0, "start": START, "round_seconds": LENGTH}
    return Survey(**{**fields, **_MORE.get(method, {}), **more}, method=method, rounds=rounds)


class Clock:
    """Stands still until it is set: to a round and a part of it."""

    def __init__(self, round_: float = 0.5) -> None:
        self.set(round_)

    def set(self, round_: float) -> None:
        self.now = START.timestamp() + round_ * LENGTH

    def pass_by(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


class Machine:
    """A wall clock that may leap, and a counter that cannot."""

    def __init__(self, round_: float = 0.5) -> None:
        self.wall = START.timestamp() + round_ * LENGTH
        self.counter = 7000.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.counter += seconds

    def clock(self, bound: float = BOUND, judge: "Machine | None" = None) -> SteadyClock:
        return SteadyClock(
            bound,
            judge=None if judge is None else lambda: judge.wall,
            wall=lambda: self.wall,
            counter=lambda: self.counter,
        )


def a_collector(
    place: str, survey: Survey, clock: Clock | SteadyClock, *, late: float = 0.0, **more: Any
) -> Collector:
    """With a grace of a tenth of a round, and a twentieth for clocks that run ahead."""
    return Collector(survey, open_store(place), schedule(survey, late=late), clock=clock, **more)


def packed(tickets: Sequence[Ticket], slots: Any = 0, bits: Any = 1) -> bytes:
    """One report of each ticket."""
    records = np.zeros(len(tickets), RECORD)
    records["serial"] = [own.serial for own in tickets]
    records["slot"], records["bit"] = slots, bits
    records["mark"] = np.frombuffer(b"".join(own.mark for own in tickets), "V16")
    return records.tobytes()


def due(survey: Survey, tickets: Sequence[Ticket], round_: int, bits: Any = 1) -> bytes:
    """The reports of a round: of everybody whose turn it is."""
    mine = [(own, own.slot_of(survey, round_)) for own in tickets]
    spoken = [(own, slot) for own, slot in mine if slot is not None]
    return packed([own for own, _ in spoken], [slot for _, slot in spoken], bits)
