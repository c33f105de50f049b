"""A running collector: the engine, its one writing thread, and what happens by the clock."""

import asyncio
import logging
import math
import time
from contextlib import suppress

from starlette.types import Scope

from sudare.collector import monitoring
from sudare.collector._board import Board
from sudare.collector._clock import Schedule
from sudare.collector._engine import Collector, Round
from sudare.collector._limits import Clients, Limiter, Reader, header
from sudare.collector._messages import Refusal
from sudare.collector._openapi import document
from sudare.collector._pages import frames
from sudare.collector._rehearsal import PURPOSE, Rehearsal
from sudare.collector._sessions import PURPOSE as SESSIONS
from sudare.collector._sessions import ROLES, Role, Sessions
from sudare.collector._settings import Settings
from sudare.collector._stream import Stream
from sudare.collector._writer import Writer
from sudare.collector.monitoring import Health, Metrics
from sudare.collector.stores import StoreUnavailable
from sudare.counting import Survey

_TICK_SECONDS = 1.0
_LONGEST_SLEEP, _SHORT_SLEEP = 0.25, 0.05
_MOST_TOLD = 20
"""Rounds written to the log when many are published at once, as after a long pause."""
_GUESSES = (10 / 60, 10)
"""Wrong tokens: ten, then ten a minute."""
_MOST_CHECKED = 8
"""Tokens that wait for the slow hash."""
_NO_LIMIT = (0.0, 1.0)
_REHEARSAL_TICKETS = (1.0, 20), (100.0, 200)
_REHEARSAL_REPORTS = (5.0, 50), (500.0, 1000)
"""For each client, and for all: a rehearsal is no reason to keep a real report waiting."""
COUNTED_REFUSALS = frozenset(
    ("malformed", "oversized", "unknown_survey", "rate_limited", "unauthorised")
)
"""What the engine counts; what it refused itself it has counted."""


class Service:
    """Everything the routes need. To be made inside a running event loop."""

    def __init__(
        self, settings: Settings, survey: Survey, schedule: Schedule, collector: Collector
    ) -> None:
        self.settings = settings
        self.collector = collector
        self.schedule = schedule
        self.metrics = Metrics()
        self.board = Board(
            survey,
            schedule,
            collector,
            beta=settings.beta,
            expected_users=settings.expected_users,
            private=settings.dashboard == "private",
            clock=collector.clock,
        )
        self.rehearsal = Rehearsal(
            survey,
            schedule,
            collector.derived_key(PURPOSE),
            beta=settings.beta,
            clock=collector.clock,
        )
        self.stream = Stream(settings.max_streams, settings.max_streams_each)
        self.writer = Writer(collector, self.metrics, settings.max_pending)
        self.reader = Reader(
            settings.body_seconds, most_bodies=settings.max_bodies, client_of=self.client_of
        )
        self.document = document()
        self.started = format(time.time_ns(), "x")
        self._clients = Clients(settings.proxies)
        self._enrolments = Limiter(
            (settings.tickets_per_minute / 60, settings.tickets_burst),
            (settings.tickets_per_second_overall, 2 * settings.tickets_per_second_overall),
        )
        self._reports = Limiter((settings.reports_per_second, settings.reports_burst), _NO_LIMIT)
        self._reads = Limiter((settings.reads_per_second, settings.reads_burst), _NO_LIMIT)
        self.private = settings.dashboard == "private"
        """Whether estimates are for viewers only."""
        self.sessions = Sessions(collector.derived_key(SESSIONS), collector.kept_token)
        self._rehearsal_tickets = Limiter(*_REHEARSAL_TICKETS)
        self._rehearsal_reports = Limiter(*_REHEARSAL_REPORTS)
        self._guesses = Limiter(_GUESSES, _NO_LIMIT)
        self._one_check, self._checking = asyncio.Lock(), 0
        self._tasks: list[asyncio.Task[None]] = []
        self._watch()

    def start(self) -> None:
        """Begin to publish rounds when they are due, and to send viewers the news."""
        self._tasks = [
            asyncio.create_task(self._publish()),
            asyncio.create_task(self._tell()),
            asyncio.create_task(self._expire()),
        ]

    async def stop(self) -> None:
        """Count what has been accepted, and end; the store is left for its owner to close."""
        self.stream.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self.writer.close()

    # What routes ask

    def admit_report(self, scope: Scope) -> None:
        """Refuse a client that sends reports too fast."""
        if self.settings.reports_per_second > 0:
            self._admit(self._reports, scope)

    def admit_enrolment(self, scope: Scope) -> None:
        """Refuse a client that asks for too many tickets."""
        self._admit(self._enrolments, scope)

    def admit_read(self, scope: Scope) -> None:
        """Refuse a client that reads too often."""
        if self.settings.reads_per_second > 0:
            self._admit(self._reads, scope)

    def admit_rehearsal(self, scope: Scope, *, ticket: bool) -> None:
        """Refuse a visitor who rehearses too often; limits of the survey are not used up."""
        self._admit(self._rehearsal_tickets if ticket else self._rehearsal_reports, scope)

    async def require_operator(self, scope: Scope) -> None:
        """Refuse a request without the operator's token."""
        await self.role_of(scope, _bearer(scope), ("operator",))

    async def require_viewer(self, scope: Scope) -> None:
        """Where the dashboard is private, refuse a request without a session or a token."""
        if not self.private:
            return
        cookies = (value for name, value in scope["headers"] if name == b"cookie")
        if not any(self.sessions.knows(each.decode("latin-1")) for each in cookies):
            await self.role_of(scope, _bearer(scope), ROLES)

    async def role_of(self, scope: Scope, token: str, roles: tuple[Role, ...]) -> Role:
        """Which of these roles a token is for; refused if none.

        Who has guessed wrong too often is not listened to for a while, or guessing would go on at
        full speed. A token that was right before is known at once; for any other the slow hash is
        computed, one at a time.
        """
        client = self.client_of(scope)
        if wait := self._guesses.wait(client):
            raise Refusal("rate_limited", retry_seconds=wait)
        for role in roles:
            if self.collector.knows_token(token, role):
                return role
        if self._checking >= _MOST_CHECKED:
            raise Refusal("unavailable")
        self._checking += 1
        try:
            async with self._one_check:
                if wait := self._guesses.take(client):  # spent before it is known to be wrong
                    raise Refusal("rate_limited", retry_seconds=wait)
                for role in roles:
                    if await asyncio.to_thread(self.collector.check_token, token, role):
                        self._guesses.give_back(client)
                        return role
        finally:
            self._checking -= 1
        raise Refusal("unauthorised")

    def health(self) -> Health:
        """Whether all is well."""
        status = self.collector.status()
        leapt, apart = bool(status.leap), bool(status.apart)
        return self.metrics.health(status.reachable, leapt=leapt, apart=apart)

    def refused(self, code: str) -> None:
        """A request was refused here."""
        self.metrics.refused(code)
        if code in COUNTED_REFUSALS:
            self.collector.refused(code)

    def client_of(self, scope: Scope) -> bytes:
        """Who is asking; see `sudare.collector._limits.Clients`."""
        client = scope.get("client") or ("",)
        forwarded = (value for name, value in scope["headers"] if name == b"x-forwarded-for")
        return self._clients.of(client[0], *forwarded)

    def _admit(self, limiter: Limiter, scope: Scope) -> None:
        if wait := limiter.take(self.client_of(scope)):
            raise Refusal("rate_limited", retry_seconds=wait)

    # What happens by the clock

    async def _publish(self) -> None:
        """Close every round when it is due, however busy the collector is; and once a second look
        at what late reports and other collectors have changed."""
        looked, failing, paused = -math.inf, False, False
        while True:
            due = None if self.collector.paused else self.collector.next_due()
            until_due = math.inf if due is None else due - self.collector.clock()
            wait = min(looked + _TICK_SECONDS - time.monotonic(), until_due)
            if wait > 0:
                # The wall clock may be set while we sleep.
                await asyncio.sleep(min(wait, _LONGEST_SLEEP))
                continue
            looked = time.monotonic()
            try:
                changed = await self.writer.run(self.collector.publish_due)
            except StoreUnavailable as problem:
                if not failing:
                    failing = True
                    monitoring.say(
                        "store",
                        f"The store cannot be used, trying again: {problem}",
                        logging.WARNING,
                        reason=str(problem),
                    )
                await asyncio.sleep(_TICK_SECONDS)
            except Exception as problem:
                monitoring.fault("publish", problem)
                self.metrics.failed(expected=False)
                await asyncio.sleep(_TICK_SECONDS)
            else:
                if failing:
                    failing = False
                    monitoring.say("store", "The store can be used again")
                self._show(changed, due)
                paused = self._say_clock(paused)
                self._enrolments.share(self.collector.status().collectors)
                if due is not None and self.collector.next_due() == due and until_due <= 0:
                    await asyncio.sleep(_SHORT_SLEEP)  # the clock was set back: no need to hurry

    def _say_clock(self, paused: bool) -> bool:
        status = self.collector.status()
        if self.collector.paused == paused:
            return paused
        if paused:
            monitoring.say("clock", "The clock is right again: rounds are published")
        elif status.apart:
            monitoring.say(
                "clock",
                f"This machine's clock is {status.apart:+.1f} s from the database's: it takes no "
                "part until that is put right",
                logging.WARNING,
                seconds=round(status.apart, 3),
            )
        else:
            monitoring.say(
                "clock",
                f"The clock has leapt by {status.leap:+.1f} s: no round is published until it is "
                "put right, or this collector is started again",
                logging.WARNING,
                seconds=round(status.leap, 3),
            )
        return not paused

    def _show(self, told: list[Round], due: float | None) -> None:
        changed = self.board.refresh(told)
        if not changed:
            return
        self.metrics.published.inc(len(changed))
        if due is not None:
            self.metrics.lag.set(max(0.0, self.collector.clock() - due))
        self.stream.send(frames(changed))
        for each in changed[-_MOST_TOLD:]:
            word = "revised" if each.revision else "published"
            monitoring.say(
                word,
                f"Round {each.round} {word}: {each.reporters} reporters",
                round=each.round,
                reporters=each.reporters,
            )

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                if (news := self.board.news()) is not None:
                    self.stream.send(news)
                self.stream.tick()
                await asyncio.to_thread(self.board.predict)
            except Exception as problem:
                monitoring.fault("tell", problem)
                self.metrics.failed(expected=False)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(min(_TICK_SECONDS, self.settings.body_seconds / 4))
            self.reader.expire()

    def _watch(self) -> None:
        watch = self.metrics.watch
        watch("pending_reports", "Reports that wait to be counted.", lambda: self.writer.waiting)
        watch("streams", "Viewers of the live stream.", lambda: len(self.stream))
        watch("issued_tickets", "Tickets handed out.", lambda: self.collector.status().tickets)
        collector = self.collector
        watch("publication_paused", "1 while the clock is in doubt.", lambda: collector.paused)
        watch(
            "clock_leap_seconds",
            "How far the clock has leapt, or is from the database's; 0 if all is well.",
            lambda: collector.status().leap or collector.status().apart,
        )
        watch(
            "publication_overdue_seconds",
            "For how long the next round should have been published.",
            lambda: max(0.0, collector.clock() - (collector.next_due() or math.inf)),
        )
        watch("rounds", "Rounds published so far.", lambda: len(self.board.rounds))


def _bearer(scope: Scope) -> str:
    """The token of the Authorization header."""
    given = header(scope["headers"], b"authorization") or b""
    kind, _, token = given.partition(b" ")
    if kind.lower() != b"bearer" or not 0 < len(token) <= 512:
        raise Refusal("unauthorised")
    return token.strip().decode("latin-1")
