"""One thread that writes: reports that arrive while a commit runs are committed together.

Everything that changes the store goes through it, in turn: closing rounds and handing out tickets
before the reports that wait, so that a round is published on time however many they are. A report's
answer is given when its group is durable, and never before.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.collector import monitoring
from sudare.collector._engine import StoreUnavailable
from sudare.collector._messages import MOST_TICKETS
from sudare.counting import Ticket

_LARGEST_GROUP = 50_000
"""Reports committed together at most, unless one batch alone has more."""
T = TypeVar("T")


class Full(Exception):
    """More reports wait than there is room for."""


class Counts(Protocol):
    """What is needed of a `Collector`."""

    def count(self, records: bytes) -> NDArray[np.uint8]: ...

    def issue(self, count: int) -> list[Ticket]: ...


class Watcher(Protocol):
    """Notified of every group: `sudare.collector.monitoring.Metrics`."""

    def committed(self, verdicts: NDArray[np.uint8], seconds: float) -> None: ...

    def failed(self, expected: bool) -> None: ...


class _Waiting(NamedTuple):
    records: bytes
    size: int
    answer: "asyncio.Future[bytes | None]"


class Writer:
    """Hands what comes in to the collector, from one thread of its own."""

    def __init__(self, collector: Counts, watcher: Watcher, max_pending: int) -> None:
        self._collector = collector
        self._watcher = watcher
        self._max_pending = max_pending
        self._pending: deque[_Waiting] = deque()
        self._jobs: deque[Callable[[], None]] = deque()
        self._wanted: deque[tuple[int, asyncio.Future[list[Ticket]]]] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._rung = False
        self._closing = False
        self.waiting = 0
        """Reports that have not been answered; kept by the event loop's thread alone."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="sudare-writer", daemon=True)
        self._thread.start()

    def count(self, records: bytes, count: int) -> "asyncio.Future[bytes | None]":
        """One verdict a record once they are durable; None if the store could not be reached."""
        # A lone batch is taken whatever its size: it would never fit otherwise.
        if self.waiting and self.waiting + count > self._max_pending:
            raise Full
        answer = self._loop.create_future()
        self.waiting += count
        self._pending.append(_Waiting(records, count, answer))
        self._ring()
        return answer

    async def issue(self, count: int) -> list[Ticket]:
        """New tickets; what is asked for while a commit runs is numbered in one transaction."""
        answer: asyncio.Future[list[Ticket]] = self._loop.create_future()
        self._wanted.append((count, answer))
        self._ring()
        return await answer

    async def run(self, job: Callable[..., T], *arguments: Any) -> T:
        """Call this in the writer's thread, before the reports that wait."""
        answer: asyncio.Future[T] = self._loop.create_future()

        def done() -> None:
            try:
                result = job(*arguments)
            except BaseException as problem:
                self._loop.call_soon_threadsafe(_fail, answer, problem)
            else:
                self._loop.call_soon_threadsafe(_succeed, answer, result)

        self._jobs.append(done)
        self._ring()
        return await answer

    async def close(self) -> None:
        """Answer what waits, then end."""
        self._closing = True
        self._ring(force=True)
        await self._loop.run_in_executor(None, self._thread.join)

    def _ring(self, force: bool = False) -> None:
        if force or not self._rung:
            self._rung = True
            self._bell.put(None)

    def _work(self) -> None:
        while not (self._closing and not (self._jobs or self._wanted or self._pending)):
            self._bell.get()
            self._rung = False  # before looking: what comes after this rings again
            while self._jobs or self._wanted or self._pending:
                if self._jobs:
                    self._jobs.popleft()()
                elif self._wanted:
                    self._issue()
                else:
                    self._commit()

    def _commit(self) -> None:
        group: list[_Waiting] = []
        size = 0
        while self._pending and (not group or size + self._pending[0].size <= _LARGEST_GROUP):
            group.append(self._pending.popleft())
            size += group[-1].size
        records = group[0].records if len(group) == 1 else b"".join([w.records for w in group])
        began = time.perf_counter()
        verdicts: bytes | None = None
        try:
            judged = self._collector.count(records)
            verdicts = judged.tobytes()
            self._watcher.committed(judged, time.perf_counter() - began)
        except StoreUnavailable:
            self._watcher.failed(expected=True)
        except Exception as problem:
            monitoring.fault("count", problem)
            self._watcher.failed(expected=False)
        self._loop.call_soon_threadsafe(self._answer, group, size, verdicts)

    def _issue(self) -> None:
        wanted: list[tuple[int, asyncio.Future[list[Ticket]]]] = []
        total = 0
        while self._wanted and (not wanted or total + self._wanted[0][0] <= MOST_TICKETS):
            wanted.append(self._wanted.popleft())
            total += wanted[-1][0]
        try:
            tickets = self._collector.issue(total)
        except BaseException as problem:
            for _, answer in wanted:
                self._loop.call_soon_threadsafe(_fail, answer, problem)
            return
        at = 0
        for count, answer in wanted:
            self._loop.call_soon_threadsafe(_succeed, answer, tickets[at : at + count])
            at += count

    def _answer(self, group: list[_Waiting], size: int, verdicts: bytes | None) -> None:
        self.waiting -= size
        at = 0
        for _, count, answer in group:
            if not answer.done():
                answer.set_result(None if verdicts is None else verdicts[at : at + count])
            at += count


def _succeed(answer: "asyncio.Future[Any]", result: object) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[Any]", problem: BaseException) -> None:
    if not answer.done():
        answer.set_exception(problem)
