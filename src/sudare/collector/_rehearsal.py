"""A rehearsal of a survey: for visitors who want to see how it is done, without being counted.

It takes tickets and reports like the survey itself, in the same rounds and by the same law, but it
is another survey: its name, and with it its digest, its id and its marks, are its own. A ticket of
one is worth nothing in the other. Its counts are kept in this process's memory, and are gone when
it ends; no store, serial, figure or log line of the survey is touched.

Its key comes from the survey's first ticket key, so that collectors that share a store, and a
collector that is started again, take each other's rehearsal tickets.
"""

import secrets
from collections.abc import Callable

import msgspec
import numpy as np

from sudare.collector._board import Board
from sudare.collector._clock import Schedule, iso
from sudare.collector._engine import Round, Status
from sudare.collector._messages import NextRound, Rehearsed
from sudare.collector.stores import Verdict
from sudare.counting import RECORD, Survey, Ticket, estimate_rounds, open_office
from sudare.counting.tree import needed, rounds_of
from sudare.counting.wire import survey_id

PURPOSE = b"sudare collector: rehearsal"
SHOWN = 20
"""Rounds whose estimates are told: the latest."""
MOST = 100_000
"""Reporters of one round that are remembered."""
_LONGEST_NAME = 64
_BLOCKS = 1 << 20


class Full(Exception):
    """So many take part in a round that no more are remembered."""


class Rehearsal:
    """Tickets, counts and estimates of one rehearsal; all methods are for one thread."""

    def __init__(
        self,
        survey: Survey,
        schedule: Schedule,
        key: bytes,
        *,
        beta: float,
        clock: Callable[[], float],
    ) -> None:
        name = f"Rehearsal: {survey.name}"[:_LONGEST_NAME].rstrip()
        self.survey = msgspec.structs.replace(survey, name=name)
        self.id = survey_id(self.survey)
        self._schedule, self._beta, self._clock = schedule, beta, clock
        self._office = open_office(self.survey, key)
        # From a block of its own: another process's tickets are others.
        self._next = secrets.randbelow(_BLOCKS) * survey.rounds
        self._issued = 0
        self._sums: dict[int, tuple[int, int]] = {}
        self._used: dict[int, set[int]] = {}
        self._made: tuple[int, bytes] = -1, b""
        self.board = Board(self.survey, schedule, self, beta=beta, clock=clock)
        """Describes it."""

    def issue(self) -> Ticket:
        """A ticket that nobody else has."""
        ticket = self._office.issue(self._next)
        self._next += 1
        self._issued += 1
        return ticket

    def count(self, record: bytes) -> Verdict:
        """Judge one packed report, as `Collector.count` does."""
        report = np.frombuffer(record, RECORD)
        serials = report["serial"].astype(np.uint64)
        if not self._office.authentic(serials, report["mark"].tobytes(), report["slot"])[0]:
            return Verdict.WRONG_MARK
        cells = self._office.cells(serials, report["slot"])
        cell, bit = int(cells[0]), int(report["bit"][0])
        if cell < 0:
            return Verdict.UNKNOWN_SLOT
        if bit > 1:
            return Verdict.MALFORMED
        now, round_ = self._clock(), int(rounds_of(self.survey, cells)[0])
        if round_ >= self._schedule.begun(now):
            return Verdict.TOO_EARLY
        used = self._used.setdefault(round_, set())
        if int(serials[0]) in used:
            return Verdict.REPEATED
        over = self._schedule.over(now)
        self._used = {t: told for t, told in self._used.items() if t >= over}
        if round_ < over:
            return Verdict.TOO_LATE
        if len(used) >= MOST:
            raise Full
        used.add(int(serials[0]))
        reporters, ones = self._sums.get(cell, (0, 0))
        self._sums[cell] = reporters + 1, ones + bit
        self._made = -1, b""
        return Verdict.COUNTED

    def estimates(self) -> bytes:
        """What its latest rounds would show, as JSON."""
        beyond = self._schedule.due(self._clock())
        if self._made[0] != beyond:
            self._made = beyond, msgspec.json.encode(self._estimates(beyond))
        return self._made[1]

    def history(self) -> tuple[Round, ...]:
        """None: `estimates` makes the few that are told."""
        return ()

    def status(self) -> Status:
        """Enrolment is always open."""
        now = self._clock()
        current = self._schedule.current(now)
        return Status(now, current, {}, self._issued, {}, True, 0, True)

    def _estimates(self, beyond: int) -> Rehearsed:
        upcoming = None
        if beyond < self.survey.rounds:
            upcoming = NextRound(beyond, iso(self._schedule.publishes(beyond)))
        numbers = range(max(0, beyond - SHOWN), beyond)
        told = self._rounds(numbers) if numbers else []
        return Rehearsed(True, self.id, told, upcoming, self._beta)

    def _rounds(self, numbers: range) -> list[Round]:
        reporters, ones = [], []
        for t in numbers:
            sums = [self._sums.get(cell, (0, 0)) for cell in needed(self.survey, t).tolist()]
            heard = np.array(sums, np.int64).reshape(-1, 2)
            reporters.append(heard[:, 0])
            ones.append(heard[:, 1])
        # Tickets of an earlier start of this process report, too.
        users = max(1, self._issued, *(int(each.sum()) for each in reporters))
        found = estimate_rounds(self.survey, numbers, reporters, ones, users=users, beta=self._beta)
        times = self._schedule
        return [
            Round(
                round=t,
                opens=iso(times.opens(t)),
                closes=iso(times.closes(t)),
                published=iso(times.publishes(t)),
                reporters=int(found.reporters[i]),
                share=None if np.isnan(raw) else min(max(raw, 0.0), 1.0),
                raw=None if np.isnan(raw) else raw,
                low=float(found.low[i]),
                high=float(found.high[i]),
                smoothed=None,
                revision=0,
            )
            for i, (t, raw) in enumerate(zip(numbers, found.raw.tolist(), strict=True))
        ]
