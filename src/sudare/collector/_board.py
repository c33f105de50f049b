"""What anyone may read about a survey, made ready once for each change and not for each reader."""

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from sudare.collector._clock import Schedule, iso
from sudare.collector._engine import Round, Status
from sudare.collector._messages import (
    Activity,
    Description,
    Law,
    NextRound,
    PredictedError,
)
from sudare.collector._pages import Chunk, Pages, joined, packed
from sudare.collector._stream import frame
from sudare.counting import Survey, largest_error_bound, predict_error
from sudare.counting.wire import survey_id

_encode = msgspec.json.encode


class Told(Protocol):
    """What is needed of a `Collector`: snapshots that any thread may take."""

    def history(self) -> tuple[Round, ...]: ...

    def status(self) -> Status: ...


class Board:
    """The public face of one survey."""

    def __init__(
        self,
        survey: Survey,
        schedule: Schedule,
        collector: Told,
        *,
        beta: float,
        expected_users: int | None = None,
        private: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.id = survey_id(survey)
        self._survey = survey
        self._schedule = schedule
        self._collector = collector
        self._beta = beta
        self._expected = expected_users
        self._private = private
        self._clock = clock
        self._pages = Pages()
        self._summed = -1
        self._summary = self._packed = b""
        self._said: bytes = b""
        self._predicted: PredictedError | None = None
        self.version = 0
        """Rises with every change of the estimates."""
        self._description = self._describe()
        self.refresh()

    # Estimates

    @property
    def rounds(self) -> Pages:
        """All published rounds, in order."""
        return self._pages

    def refresh(self, told: Sequence[Round] | None = None) -> list[Round]:
        """Take over rounds that were published or revised, and return them: those in `told`, or by
        default all there are, which takes a while where there are many."""
        pages = self._pages
        if self._collector.status().published < len(pages):  # some were taken back
            told = None
            pages.clear()
            self.version += 1
        known = len(pages)
        if told is None or next((t.round for t in told if t.round >= known), known) > known:
            told = self._collector.history()
        changed = [each for each in told if each.round >= known or each != pages[each.round]]
        if changed:
            pages.put(changed)
            self.version += 1
        return changed

    def estimates(
        self, since: int = 0, until: int | None = None, *, compressed: bool = False
    ) -> Iterator[bytes]:
        """All rounds, or those in [since, until), as JSON, piece by piece."""
        make = packed if compressed else joined
        head, tail = self._ends()
        return make(head, self._pages.chunks(since, until), tail)

    def summary(self, *, compressed: bool = False) -> bytes:
        """At most a thousand of the rounds, for a picture of all, as JSON."""
        if self._summed != self.version:
            head, tail = self._ends()
            chunk = [Chunk(self._pages.summary())] if len(self._pages) else []
            more = b',"reporters":%d}' % self._pages.reporters
            self._summary = b"".join(joined(head, chunk, tail[:-1] + more))
            self._packed = zlib.compress(self._summary)
            self._summed = self.version
        return self._packed if compressed else self._summary

    def csv(self) -> Iterator[bytes]:
        """All rounds as a table, piece by piece; an empty cell where there is no estimate."""
        yield ",".join(Round.__struct_fields__).encode() + b"\r\n"
        for chunk in self._pages.chunks():
            yield chunk.csv()

    def _ends(self) -> tuple[bytes, bytes]:
        """What stands around the rounds."""
        number = len(self._pages)
        upcoming = None
        if number < self._survey.rounds:
            upcoming = NextRound(number, iso(self._schedule.publishes(number)))
        head = b'{"survey":' + _encode(self.id) + b',"rounds":['
        return head, b'],"next":' + _encode(upcoming) + b',"beta":' + _encode(self._beta) + b"}"

    # Activity

    def activity(self) -> bytes:
        """What is happening now."""
        return _encode(self._activity(self._collector.status()))

    def current_activity(self) -> bytes:
        """Activity as an event."""
        return frame("activity", self.activity())

    def news(self) -> bytes | None:
        """Activity as an event, if anything but the time has changed since the last event."""
        now = self._activity(self._collector.status())
        rest = _encode(msgspec.structs.replace(now, now=""))
        if rest == self._said:
            return None
        self._said = rest
        return frame("activity", _encode(now))

    def _activity(self, status: Status) -> Activity:
        now = self._clock()
        last = self._schedule.over(now) >= self._survey.rounds
        return Activity(
            iso(now),
            self._schedule.current(now),
            {str(number): count for number, count in status.reporters.items()},
            status.tickets,
            dict(status.refused),
            not last,
            bool(status.leap or status.apart),
        )

    # Description

    def description(self) -> Description:
        """The survey, as of now."""
        status = self._collector.status()
        return msgspec.structs.replace(
            self._description,
            now=iso(self._clock()),
            enrolment="open" if status.enrolment else "closed",
            predicted_error=self._predicted,
        )

    def _describe(self) -> Description:
        survey, times = self._survey, self._schedule
        return Description(
            self.id,
            survey.digest().hex(),
            survey.name,
            survey.question,
            survey.rounds,
            survey.epsilon,
            survey.method,
            survey.slots,
            survey.threshold,
            survey.changes,
            _start(survey),
            times.round_seconds,
            iso(times.closes(survey.rounds - 1)),
            "",
            times.grace,
            times.skew,
            times.late,
            self._beta,
            "open",
            Law.of(survey),
            promise(survey),
            None,
            survey.flips,
            survey.marks,
            "private" if self._private else msgspec.UNSET,
        )

    def predict(self) -> None:
        """Work out what the plan says, if that has changed: for the expected users, else for the
        tickets handed out, to two digits, so that it is seldom done. It may take a while."""
        users = self._expected or _two_digits(self._collector.status().tickets)
        if not users or (self._predicted is not None and self._predicted.users == users):
            return
        typical = float(predict_error(self._survey, users))
        # Where nothing can be promised the bound is infinite; no share is off by more than one.
        bound = min(1.0, float(largest_error_bound(self._survey, users, None, self._beta)))
        self._predicted = PredictedError(users, typical, bound)


def promise(survey: Survey) -> str:
    """What a user is promised, in plain words."""
    odds = math.exp(survey.epsilon)
    factor = f"{odds:.3g}" if odds < 1e6 else f"{odds:.0e}"
    match survey.method:
        case "rappor":
            what = "one bit in every round"
        case "tree":
            what = "a few bits"
        case _:
            what = "a single bit" if survey.slots == 1 else f"{survey.slots} bits"
    return (
        f"Your device sends {what} that chance may have flipped before it left, and never your "
        f"true answers. Whatever they are, all it sends over all {survey.rounds:,} rounds together "
        f"changes anyone's odds about them by a factor of at most {factor} "
        f"(ε = {survey.epsilon:g}), even if whoever runs this survey looks at everything."
    )


def _start(survey: Survey) -> str:
    assert survey.start is not None
    return survey.start.isoformat().replace("+00:00", "Z")


def _two_digits(number: int) -> int:
    if number < 100:
        return number
    unit = int(10 ** (len(str(number)) - 2))
    return number // unit * unit
