"""A device's whole side of a survey over HTTP: join, report, send again, survive restarts.

    client = Client("https://count.example", "household.state")
    client.report(bit)          # in every round, whatever the bit

Guarantee. Everything the client ever sends is together ε-LDP for its user, ε that of the survey,
whatever the collector answers: the law of the coins is worked out here from the survey's public
fields, the coins are drawn once and saved before anything is sent (`Reporter`), and no answer makes
the client draw again. A collector whose law, digest or ticket is not what its survey says is
refused, and so is one that asks for more than `max_epsilon`.

Whether and when something is sent depends on the ticket, the clock and the network, never on the
bit. A report that cannot be sent is kept and sent later, the very same, until it is acknowledged or
its round can no longer be counted: a device that was silent whenever it was offline would reveal
whatever being offline reveals.
"""

import time
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from sudare.counting import wire
from sudare.counting._reporter import FileStore, Reporter, StateStore, check_bit
from sudare.counting._reports import Report
from sudare.counting._survey import Survey
from sudare.counting._tickets import Ticket
from sudare.counting.wire import CollectorError
from sudare.foundations import checks
from sudare.foundations.randomness import secure

if TYPE_CHECKING:
    import httpx

_VERSION = 1
_LONGEST_ANSWER = 1 << 20
_LONGEST_SECONDS = 30.0
_NEVER = -float("inf")


class Client:
    """One device in one survey; not for several threads at once.

    `store` is a file's path or a `StateStore`. A client that finds a saved state takes up where it
    was, also without a network. `ticket` is a line of `sudare survey tickets`, where tickets are
    handed out by others; without it the collector is asked for one. `transport`, `clock` and
    `sleep` are for tests and simulations.
    """

    def __init__(
        self,
        url: str,
        store: str | Path | StateStore,
        transport: "httpx.BaseTransport | None" = None,
        *,
        max_epsilon: float = 10.0,
        ticket: str | bytes | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        import httpx

        checks.positive(max_epsilon=max_epsilon)
        self._clock, self._sleep, self._offset = clock, sleep, 0.0
        self._tries, self._not_before = 0, _NEVER
        self._jitter = secure()
        try:
            self._http = httpx.Client(base_url=url, transport=transport, timeout=10.0)
        except (httpx.InvalidURL, TypeError):
            raise checks.InvalidInput("Expected url as in https://count.example") from None
        self._file: FileStore | None = None
        try:
            if self._http.base_url.scheme not in {"http", "https"} or not self._http.base_url.host:
                raise checks.InvalidInput("Expected url as in https://count.example")
            if isinstance(store, str | Path):
                store = self._file = FileStore(store)
            self._box = _Box(store)
            self._join(max_epsilon, ticket)
        except BaseException:
            self.close()
            raise

    @property
    def survey(self) -> Survey:
        """The survey, as it was checked."""
        return self._reporter.survey

    @property
    def ticket(self) -> Ticket:
        """In which rounds this client sends."""
        return self._reporter.ticket

    @property
    def pending(self) -> list[Report]:
        """Reports that were made and are not acknowledged yet, oldest first."""
        settled = self._box.read().settled
        return [report for report in self._reporter.reports() if report.slot >= settled]

    @property
    def lost(self) -> int:
        """How many reports were refused, or came too late to be counted."""
        return self._box.read().lost

    @property
    def next_due(self) -> datetime | None:
        """When the next round opens in which this client sends; None after the last."""
        slot = self._next_slot()
        if slot is None:
            return None
        try:
            opens = self._opens(self._round_of(slot)) - self._offset
            return datetime.fromtimestamp(opens, UTC)
        except (OverflowError, ValueError, OSError):  # beyond the year 9999
            return datetime.max.replace(tzinfo=UTC)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do, now or later."""
        return not self.pending and self._next_slot() is None

    def report(
        self, bit: int, at: datetime | float | None = None, *, patience: float = 10.0
    ) -> Report | None:
        """Say what is due, if it is this client's turn: call it in every round, whatever the bit.

        Called again in the same round, it sends again what is not acknowledged, and nothing
        new. `at` is when the bit was true, if that was not now; rounds come in order. Until all is
        acknowledged it tries for up to `patience` seconds, at longer and longer intervals; what is
        left then is `pending`. Returns this round's report, or None.
        """
        check_bit(bit)
        checks.non_negative(patience=patience)
        now = self._now()
        current = self._round_at(now)
        asked = current if at is None else self._round_at(_seconds(at) + self._offset)
        if asked > current:
            raise checks.InvalidInput("Expected at to be a time that has been")
        # All of this is about time, and nothing about the bit.
        put_back = at is None and asked < self._reporter.round
        countable = 0 <= asked < self.survey.rounds and now <= self._deadline(asked)
        said = self._reporter.report(asked, bit) if countable and not put_back else None
        self.send(patience=patience)
        return said

    def send(self, *, patience: float = 0.0) -> bool:
        """Try to send what is pending; whether nothing is left."""
        until = self._clock() + patience
        while not self._send_all():
            if self._not_before > until:
                return False
            self._sleep(max(0.0, self._not_before - self._clock()))
        return True

    def close(self) -> None:
        """Let go of the connection and of the file."""
        self._http.close()
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _join(self, max_epsilon: float, given: str | bytes | None) -> None:
        saved = self._box.peek()
        try:
            survey, described = self._describe(saved)
        except CollectorError:
            if saved is None:
                raise
            # Offline: what was saved is enough, and was checked when it was.
            wire.check_epsilon(saved.survey, max_epsilon)
            self._late, self._reporter = saved.late, Reporter(saved.survey, self._box)
            return
        wire.check_description(survey, described, max_epsilon)
        self._late = described.late
        if saved is None:
            self._box.begin(_Saved(_VERSION, survey, described.late, b""))
            ticket = self._ask_ticket(survey) if given is None else wire.read_ticket(given)
            self._reporter = Reporter.enrol(survey, ticket, self._box)
            return
        if survey.digest() != saved.survey.digest():
            raise checks.PrivacyError("Expected the survey that the saved ticket is for")
        if saved.late != described.late:
            self._box.change(late=described.late)
        self._reporter = Reporter(survey, self._box)

    def _describe(self, saved: "_Saved | None") -> tuple[Survey, wire.Description]:
        before = self._clock()
        path = "v1/surveys" if saved is None else wire.survey_path(saved.survey)
        status, body, _ = self._ask("GET", path)
        if status == 404 and wire.error_code(body) == "unknown_survey":
            raise checks.PrivacyError(
                "This store belongs to another survey than the collector's: use a new one for it"
            )
        survey, described = wire.read_description(body)
        # Only a clock that is off by more than the answer took is put right.
        took = self._clock() - before
        offset = described.now.timestamp() - (before + took / 2)
        self._offset = offset if abs(offset) > took + 0.001 else 0.0
        return survey, described

    def _ask_ticket(self, survey: Survey) -> Ticket:
        status, body, _ = self._ask("POST", wire.survey_path(survey, "tickets"))
        if status != 201:
            raise CollectorError(f"The collector gave no ticket: {wire.error_message(body)}")
        tickets = wire.read_tickets(body)
        if len(tickets) != 1:
            raise CollectorError("The collector gave something that is no ticket")
        return tickets[0]

    def _send_all(self) -> bool:
        for report in self.pending:
            late = self._now() > self._deadline(self._round_of(report.slot))
            if not late and self._clock() < self._not_before:
                return False
            outcome = "lost" if late else self._post(report)
            if outcome == "later":
                return False
            lost = self.lost + (outcome == "lost")
            self._box.change(settled=report.slot + 1, lost=lost)
        return True

    def _post(self, report: Report) -> Literal["counted", "lost", "later"]:
        wait = 0.0
        try:
            path = wire.survey_path(self.survey, "reports")
            status, body, wait = self._ask("POST", path, wire.report_json(report))
        except CollectorError:
            status, body = 0, b""
        if status == 204:
            self._tries, self._not_before = 0, _NEVER
            return "counted"
        if wire.error_code(body) in wire.FINAL:
            return "lost"
        first = min(1.0, max(0.05, self._round_seconds / 100))
        longest = max(first, min(60.0, self._round_seconds / 10))
        pause = min(longest, first * 2 ** min(self._tries, 60)) * (1 + self._jitter.random()) / 2
        self._tries += 1
        # A wish to be left alone for good is not heeded: the next round's report is due.
        self._not_before = self._clock() + max(pause, min(wait, self._round_seconds))
        return "later"

    def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes, float]:
        """Status, body and how many seconds to wait before asking again."""
        import httpx

        headers = {"accept-encoding": "identity"}
        if body:
            headers["content-type"] = "application/json"
        until = time.monotonic() + _LONGEST_SECONDS
        try:
            with self._http.stream(method, path, content=body, headers=headers) as response:
                told = b""
                if response.headers.get("content-encoding", "identity") != "identity":
                    # A few bytes may unpack to gigabytes: they are not unpacked.
                    raise CollectorError("The collector's answer is packed, which it should not be")
                for part in response.iter_bytes():
                    told += part
                    if len(told) > _LONGEST_ANSWER or time.monotonic() > until:
                        raise CollectorError("The collector's answer does not end")
        except httpx.HTTPError as problem:
            name = type(problem).__name__
            raise CollectorError(f"The collector cannot be reached ({name})") from None
        wait = response.headers.get("retry-after", "")
        return response.status_code, told, float(wait) if wait.isdecimal() else 0.0

    def _next_slot(self) -> int | None:
        """The first slot that can still be answered."""
        said = {report.slot for report in self._reporter.reports()}
        first = max(self._reporter.round, self._round_at(self._now() - self._late))
        slots = range(self.ticket.slots(self.survey))
        later = slots[bisect_left(slots, first, key=self._round_of) :]
        return next((slot for slot in later if slot not in said), None)

    def _round_of(self, slot: int) -> int:
        if self.survey.method == "tree":
            return ((slot + 1) << self.ticket.level) - 1
        return slot if self.survey.method == "rappor" else self.ticket.rounds[slot]

    @property
    def _round_seconds(self) -> float:
        assert self.survey.round_seconds is not None  # checked when it joined
        return self.survey.round_seconds

    def _now(self) -> float:
        """The collector's time."""
        return self._clock() + self._offset

    def _opens(self, round_: int) -> float:
        assert self.survey.start is not None
        return self.survey.start.timestamp() + round_ * self._round_seconds

    def _round_at(self, moment: float) -> int:
        return int((moment - self._opens(0)) // self._round_seconds)

    def _deadline(self, round_: int) -> float:
        """Until when a report of this round is counted."""
        return self._opens(round_ + 1) + self._late


class _Saved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    survey: Survey
    late: float
    """For how long after its round a report is counted."""
    reporter: bytes
    """The reporter's own state, ticket and coins."""
    settled: int = 0
    """All slots below this one are acknowledged or lost."""
    lost: int = 0


class _Box:
    """One store for what the client and its reporter keep: both change together or not at all."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._fresh: _Saved | None = None
        self._known: tuple[bytes, _Saved] | None = None

    def begin(self, fresh: _Saved) -> None:
        """What to save beside the reporter when it first saves."""
        self._fresh = fresh

    def peek(self) -> _Saved | None:
        data = self._store.load()
        if data is None:
            return None
        if self._known is None or self._known[0] != data:
            try:
                saved = msgspec.msgpack.decode(data, type=_Saved)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                raise checks.InvalidInput(
                    "Expected a saved client; what was saved is damaged, and its coins cannot be "
                    "drawn again: this ticket is lost"
                ) from None
            if saved.version != _VERSION:
                raise checks.InvalidInput("Expected a client saved by this version of sudare")
            self._known = data, saved
        return self._known[1]

    def read(self) -> _Saved:
        saved = self.peek()
        if saved is None:
            raise checks.InvalidInput("Expected a saved client: what was saved is gone")
        return saved

    def change(self, **fields: Any) -> None:
        self._write(msgspec.structs.replace(self.read(), **fields))

    def load(self) -> bytes | None:
        saved = self.peek()
        return None if saved is None else saved.reporter

    def save(self, state: bytes) -> None:
        saved = self.peek() or self._fresh
        assert saved is not None
        self._write(msgspec.structs.replace(saved, reporter=state))

    def _write(self, saved: _Saved) -> None:
        self._store.save(msgspec.msgpack.encode(saved))


def _seconds(at: datetime | float) -> float:
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise checks.InvalidInput("Expected at with its time zone")
        return at.timestamp()
    checks.real(at=at)
    return float(at)
