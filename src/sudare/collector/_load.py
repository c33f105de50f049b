"""Simulated users against a running collector: real HTTP, in the collector's own rounds.

Every user has a reporter of their own (`sudare.counting.Reporter`) and reports in the rounds of a
real ticket. Users are ranked once, and in round t the first A_t of them hold a one: each changes as
seldom as the true shares allow. What cannot be delivered is sent again, the very same, until its
round can no longer be counted. As the users are made up, their coins may come from a seed.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.collector._messages import MOST_TICKETS, BatchAnswer
from sudare.collector._rounds import Round
from sudare.counting import CollectorError, MemoryStore, Report, Reporter, Survey, Ticket, wire
from sudare.foundations import checks
from sudare.foundations.randomness import Generator

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], object]
_Item = TypeVar("_Item")

_NO_TIME = (
    "The survey was over before all users had a ticket: give the operator's token, or take fewer "
    "users or longer rounds"
)
_AT_ONCE = 16
"""Requests on their way together: httpx takes longer for each the more connections it holds."""
_BATCH = 1_000
"""Reports that a relay sends together."""
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 5.0
_PATIENCE_SECONDS = 30.0
"""For the last round's estimate, after it is due."""


@dataclass(frozen=True, eq=False)
class Load:
    """What simulated users sent, and what the collector made of it."""

    survey: Survey
    users: int
    truth: Array
    """The share of users that held a one, in every round of the survey."""
    rounds: tuple[Round, ...]
    """Those published rounds in which the users took part."""
    acknowledged: int
    refused: dict[str, int]
    """Reports that will never be counted, by reason; `undelivered` are those that got no answer."""
    resent: int
    """How often something was sent again."""
    seconds: float

    @cached_property
    def errors(self) -> Array:
        """|estimate − truth| of every round that has an estimate."""
        pairs = [(r.raw, self.truth[r.round]) for r in self.rounds if r.raw is not None]
        return np.array([abs(raw - true) for raw, true in pairs])

    @cached_property
    def covered(self) -> list[bool]:
        """Whether each round's interval holds the truth."""
        return [bool(r.low <= self.truth[r.round] <= r.high) for r in self.rounds]

    @property
    def coverage(self) -> float | None:
        """The share of rounds whose interval holds the truth."""
        return sum(self.covered) / len(self.covered) if self.rounds else None


def simulate_clients(
    url: str,
    users: int,
    signal: Callable[[int], Array],
    *,
    rng: Generator,
    token: str | None = None,
    relay: bool = False,
    rounds: int | None = None,
    progress: Progress = lambda *_: None,
) -> Load:
    """Let so many users take part in the survey at `url`, from now to its end.

    `signal(T)` gives the shares to follow. With the operator's `token` all tickets are asked for in
    a few requests; without it each user asks for their own, as fast as the collector lets them.
    `relay` sends packed batches. `rounds` ends it after so many.
    """
    checks.count(users=users)
    if rounds is not None:
        checks.count(rounds=rounds)
    return asyncio.run(_simulate(url, users, signal, rng, token, relay, rounds, progress))


async def _simulate(
    url: str,
    users: int,
    signal: Callable[[int], Array],
    rng: Generator,
    token: str | None,
    relay: bool,
    rounds: int | None,
    progress: Progress,
) -> Load:
    began = time.perf_counter()
    limits = httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=_AT_ONCE)
    try:
        http = httpx.AsyncClient(base_url=url, limits=limits, timeout=30.0)
    except (httpx.InvalidURL, TypeError):
        raise checks.InvalidInput("Expected url as in http://127.0.0.1:8000") from None
    if http.base_url.scheme not in {"http", "https"}:
        raise checks.InvalidInput("Expected url as in http://127.0.0.1:8000")
    async with http:
        line = await _open_line(http)
        survey = line.survey
        held = np.rint(np.asarray(signal(survey.rounds)) * users).astype(np.int64)
        tickets = await _tickets(line, users, token, progress)
        crowd = _Crowd(survey, tickets, held, rng)
        first = max(0, line.round_at(line.now()) + 1)  # a whole round, not what is left of one
        if first >= survey.rounds:
            raise CollectorError(_NO_TIME)
        last = survey.rounds if rounds is None else min(survey.rounds, first + rounds)
        sending = set()
        for t in range(first, last):
            await asyncio.sleep(max(0.0, line.opens(t) - line.now()))
            reports = crowd.reports(t)
            sending.add(asyncio.create_task(_send(line, t, reports, relay)))
            progress("Reporting", t + 1 - first, last - first)
        await asyncio.gather(*sending)
        published = await _published(line, first, last, token)
    return Load(
        survey,
        users,
        held / users,
        published,
        line.acknowledged,
        dict(sorted(line.refused.items())),
        line.resent,
        time.perf_counter() - began,
    )


class _Crowd:
    """All users: their reporters, and who is due in which round."""

    def __init__(
        self, survey: Survey, tickets: list[Ticket], held: NDArray[np.int64], rng: Generator
    ) -> None:
        self._survey, self._held = survey, held
        self._devices = [Reporter.enrol(survey, own, MemoryStore(), rng) for own in tickets]
        self._rank = rng.permutation(len(tickets))
        self._due: dict[int, list[int]] = {}
        for i, own in enumerate(tickets):
            for t in own.rounds:
                self._due.setdefault(t, []).append(i)

    def reports(self, t: int) -> list[Report]:
        """What is said in a round, by those whose turn it is."""
        everybody = self._survey.method in {"rappor", "tree"}
        due = range(len(self._devices)) if everybody else self._due.get(t, ())
        bits = (self._rank < self._held[t]).tolist()
        said = (self._devices[i].report(t, bits[i]) for i in due)
        return [report for report in said if report is not None]


class _Line:
    """The connection to one survey, what went over it, and the collector's clock."""

    def __init__(
        self, http: httpx.AsyncClient, survey: Survey, described: wire.Description, offset: float
    ) -> None:
        self.http, self.survey = http, survey
        self.grace, self.late, self._offset = described.grace_seconds, described.late, offset
        self.acknowledged, self.resent = 0, 0
        self.refused: Counter[str] = Counter()
        self.at_once = asyncio.Semaphore(_AT_ONCE)
        assert survey.start is not None
        assert survey.round_seconds is not None
        self._start, self._seconds = survey.start.timestamp(), survey.round_seconds

    def now(self) -> float:
        return time.time() + self._offset

    def opens(self, t: int) -> float:
        return self._start + t * self._seconds

    def round_at(self, moment: float) -> int:
        return int((moment - self._start) // self._seconds)

    async def post(
        self, what: str, content: bytes, until: float, headers: dict[str, str]
    ) -> httpx.Response | None:
        """The final answer, with retries until `until`; None if there was none by then."""
        pause = _PAUSE_SECONDS
        async with self.at_once:
            while True:
                wait = pause
                try:
                    path = wire.survey_path(self.survey, what)
                    answer = await self.http.post(path, content=content, headers=headers)
                    if answer.status_code not in {425, 429, 503}:
                        return answer
                    after = answer.headers.get("retry-after", "")
                    wait = max(pause, float(after) if after.isdecimal() else 0.0)
                except httpx.HTTPError:
                    pass
                if self.now() + wait > until:
                    return None
                await asyncio.sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                self.resent += 1


async def _open_line(http: httpx.AsyncClient) -> _Line:
    before = time.time()
    try:
        answer = await http.get("v1/surveys")
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        raise CollectorError(
            f"The collector at {http.base_url} cannot be reached ({type(problem).__name__})"
        ) from None
    took = time.time() - before
    survey, described = wire.read_description(answer.content)
    wire.check_description(survey, described, max_epsilon=float("inf"))
    offset = described.now.timestamp() - (before + took / 2)
    line = _Line(http, survey, described, offset if abs(offset) > took + 0.001 else 0.0)
    if line.round_at(line.now()) >= survey.rounds:
        raise CollectorError("The survey is over")
    return line


async def _tickets(line: _Line, users: int, token: str | None, progress: Progress) -> list[Ticket]:
    """A ticket for every user."""
    at_once = MOST_TICKETS if token else 1
    counts = [min(at_once, users - start) for start in range(0, users, at_once)]
    headers = {"authorization": f"Bearer {token}"} if token else {}
    issued: list[Ticket] = []
    until = line.opens(line.survey.rounds)

    async def ask(count: int) -> None:
        body = msgspec.json.encode({"count": count})
        kind = {"content-type": "application/json"}
        answer = await line.post("tickets", body, until, headers | kind)
        if answer is None:
            raise CollectorError(_NO_TIME)
        if answer.status_code != 201:
            raise CollectorError(
                f"The collector gave no ticket: {wire.error_message(answer.content)}"
            )
        issued.extend(wire.read_tickets(answer.content))
        progress("Enrolling", len(issued), users)

    for several in _parts(counts, _AT_ONCE):
        await asyncio.gather(*map(ask, several))
    line.resent = 0
    if len(issued) != users:
        raise CollectorError("The collector gave another number of tickets than was asked for")
    return issued


async def _send(line: _Line, t: int, reports: list[Report], relay: bool) -> None:
    """Everything said in a round, by a few workers that take one after another."""
    until = line.opens(t + 1) + line.late
    work: Iterator[Any] = _parts(reports, _BATCH) if relay else iter(reports)
    send = _send_batch if relay else _send_one

    async def worker() -> None:
        for part in work:
            await send(line, part, until)

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))


async def _send_one(line: _Line, report: Report, until: float) -> None:
    kind = {"content-type": "application/json"}
    answer = await line.post("reports", wire.report_json(report), until, kind)
    if answer is None:
        line.refused["undelivered"] += 1
    elif answer.status_code == 204:
        line.acknowledged += 1
    else:
        line.refused[wire.error_code(answer.content) or "unreadable"] += 1


async def _send_batch(line: _Line, reports: list[Report], until: float) -> None:
    kind = {"content-type": "application/octet-stream"}
    packed = b"".join(report.pack() for report in reports)
    answer = await line.post("reports", packed, until, kind)
    if answer is None:
        line.refused["undelivered"] += len(reports)
        return
    try:
        told = msgspec.json.decode(answer.content, type=BatchAnswer)
    except msgspec.MsgspecError:
        line.refused[wire.error_code(answer.content) or "unreadable"] += len(reports)
        return
    line.acknowledged += told.counted + told.repeated
    for reason, positions in told.refused.items():
        line.refused[reason] += len(positions)


def _parts(items: list[_Item], size: int) -> Iterator[list[_Item]]:
    whole = iter(items)
    while part := list(islice(whole, size)):
        yield part


async def _published(line: _Line, first: int, last: int, token: str | None) -> tuple[Round, ...]:
    """The estimates of the rounds taken part in, once they are all there."""
    due = line.opens(last) + line.grace
    headers = {"authorization": f"Bearer {token}"} if token else {}  # a dashboard may be private
    while True:
        await asyncio.sleep(max(_PAUSE_SECONDS, due - line.now()))
        path = wire.survey_path(line.survey, "estimates")
        try:
            answer = await line.http.get(path, params={"since": first}, headers=headers)
            told = msgspec.convert(answer.json()["rounds"], list[Round])
        except (httpx.HTTPError, msgspec.MsgspecError, KeyError, TypeError, ValueError):
            told = []
        mine = tuple(each for each in told if first <= each.round < last)
        if len(mine) == last - first or line.now() > due + _PATIENCE_SECONDS:
            return mine
