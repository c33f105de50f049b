"""One thread that writes: groups, order, bounds, failures."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.collector import StoreUnavailable
from sudare.collector._writer import Full, Writer
from sudare.counting import Ticket
from tests.support.waiting import PATIENCE

SIZE = 29


class Store:
    """Counts by the first byte of each record, slowly if asked to."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.issues: list[int] = []
        self.tickets = 0
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def count(self, records: bytes) -> NDArray[np.uint8]:
        self.threads.add(threading.get_ident())
        assert self.gate.wait(PATIENCE)
        self.groups.append(len(records) // SIZE)
        if self.failure is not None:
            raise self.failure
        return np.frombuffer(records[::SIZE], np.uint8)

    def issue(self, count: int) -> list[Ticket]:
        assert self.gate.wait(PATIENCE)
        self.issues.append(count)
        if self.failure is not None:
            raise self.failure
        self.tickets += count
        return [Ticket(b"", serial, b"") for serial in range(self.tickets - count, self.tickets)]


class Watcher:
    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.failures: list[bool] = []

    def committed(self, verdicts: NDArray[np.uint8], seconds: float) -> None:
        assert seconds >= 0
        self.sizes.append(verdicts.size)

    def failed(self, expected: bool) -> None:
        self.failures.append(expected)


def record(verdict: int) -> bytes:
    return bytes([verdict]) + bytes(SIZE - 1)


def play(scene: Callable[[Writer, Store], Any], **options: Any) -> tuple[Store, Watcher]:
    store, watcher = Store(), Watcher()

    async def run() -> None:
        writer = Writer(store, watcher, options.get("max_pending", 1000))
        try:
            await asyncio.wait_for(scene(writer, store), PATIENCE)
        finally:
            store.gate.set()
            await writer.close()
        assert writer.waiting == 0

    asyncio.run(run())
    return store, watcher


def test_everyone_gets_their_own_verdict() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        singles = [writer.count(record(n % 7), 1) for n in range(50)]
        batch = writer.count(b"".join(map(record, (3, 0, 6))), 3)
        assert [await each for each in singles] == [bytes([n % 7]) for n in range(50)]
        assert await batch == bytes([3, 0, 6])

    store, watcher = play(scene)
    assert len(store.threads) == 1
    assert threading.get_ident() not in store.threads
    assert sum(store.groups) == sum(watcher.sizes) == 53


def test_what_comes_during_a_commit_is_committed_together() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        first = writer.count(record(0), 1)
        while not store.threads:
            await asyncio.sleep(0.001)
        others = [writer.count(record(0), 1) for _ in range(200)]
        store.gate.set()
        await asyncio.gather(first, *others)

    store, _ = play(scene)
    assert store.groups == [1, 200]


def test_no_answer_before_the_commit() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        answer = writer.count(record(0), 1)
        while not store.threads:
            await asyncio.sleep(0.001)
        assert not answer.done()
        store.gate.set()
        assert await answer == b"\0"

    play(scene)


def test_jobs_go_before_reports() -> None:
    order: list[str] = []

    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        first = writer.count(record(0), 1)
        while not store.threads:
            await asyncio.sleep(0.001)
        second = writer.count(record(0), 1)
        second.add_done_callback(lambda _: order.append("report"))
        job = asyncio.create_task(writer.run(lambda: order.append("job")))
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.gather(first, second, job)

    play(scene)
    assert order == ["job", "report"]


def test_jobs_run_in_the_same_thread_and_may_fail() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        await writer.count(record(0), 1)
        store.threads.add(await writer.run(threading.get_ident))
        assert await writer.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await writer.run(divmod, 7, 0)
        assert await writer.count(record(2), 1) == b"\2"

    store, _ = play(scene)
    assert len(store.threads) == 1


@pytest.mark.parametrize(
    ("failure", "expected"), [(StoreUnavailable("full"), True), (ValueError("serial 4"), False)]
)
def test_failures_are_no_acknowledgements(failure: Exception, expected: bool) -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.failure = failure
        assert await writer.count(record(0), 1) is None
        assert await writer.count(record(0) * 4, 4) is None
        store.failure = None
        assert await writer.count(record(0), 1) == b"\0"

    _, watcher = play(scene)
    assert watcher.failures == [expected] * 2


def test_too_many_waiting_are_refused() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        large = writer.count(record(0) * 50, 50)  # alone, whatever its size
        with pytest.raises(Full):
            writer.count(record(0), 1)
        store.gate.set()
        await large
        store.gate.clear()
        waiting = [writer.count(record(0), 1) for _ in range(10)]
        with pytest.raises(Full):
            writer.count(record(0), 1)
        store.gate.set()
        await asyncio.gather(*waiting)
        assert writer.waiting == 0

    play(scene, max_pending=10)


def test_groups_are_bounded() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        some = [writer.count(record(0) * 20_000, 20_000) for _ in range(7)]
        store.gate.set()
        for answer in some:
            assert await answer == bytes(20_000)

    store, _ = play(scene, max_pending=10**6)
    assert max(store.groups) <= 50_000
    assert sum(store.groups) == 140_000


def test_what_waits_is_counted_before_the_end() -> None:
    answers: list[Any] = []

    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        answers.extend(writer.count(record(1), 1) for _ in range(5))
        closing = asyncio.create_task(writer.close())
        while not store.threads:
            await asyncio.sleep(0.001)
        assert not closing.done()
        store.gate.set()
        await closing
        assert [each.result() for each in answers] == [b"\1"] * 5

    play(scene)


def test_an_answer_that_nobody_waits_for() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        gone = writer.count(record(0), 1)
        job = asyncio.create_task(writer.run(time.time))
        await asyncio.sleep(0)
        gone.cancel()
        job.cancel()
        store.gate.set()
        assert await writer.count(record(0), 1) == b"\0"

    play(scene)


def test_tickets_asked_for_together_are_numbered_together() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.gate.clear()
        first = asyncio.create_task(writer.issue(1))
        await asyncio.sleep(0)
        rest = [asyncio.create_task(writer.issue(1 + n % 2)) for n in range(40)]
        await asyncio.sleep(0)
        store.gate.set()
        tickets = [await first, *[await each for each in rest]]
        assert [len(each) for each in tickets] == [1, *[1 + n % 2 for n in range(40)]]
        serials = [own.serial for each in tickets for own in each]
        assert sorted(serials) == list(range(61))

    store, _ = play(scene)
    assert sum(store.issues) == 61
    assert len(store.issues) <= 3


def test_tickets_that_could_not_be_numbered() -> None:
    async def scene(writer: Writer, store: Store) -> None:
        store.failure = StoreUnavailable("disk")
        for each in [asyncio.create_task(writer.issue(1)) for _ in range(3)]:
            with pytest.raises(StoreUnavailable):
                await each
        store.failure = None
        assert len(await writer.issue(2)) == 2

    play(scene)
