"""Server-sent events: who gets what, once, and at what cost."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sudare.collector import Round
from sudare.collector._messages import Refusal
from sudare.collector._stream import REPLAYED, Stream, frame, seen_by
from tests.collector.kit import Clock, a_survey
from tests.collector.served import Served, serving
from tests.support.waiting import PATIENCE, eventually

ROUNDS = [
    Round(t, "a", "b", "c", 1, 0.5, 0.5, 0.0, 1.0, 0.5, revision)
    for t, revision in enumerate((0, 1, 0, 0))
]


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("stream")
    with serving(place, a_survey(rounds=1000), clock=clock, grace_seconds=0.0) as collector:
        yield collector


def publish(served: Served, clock: Clock, count: int) -> None:
    """So many rounds more, at once."""
    known = len(served.rounds())
    clock.set(known + count)
    served.published(known + count)


@contextmanager
def watching(served: Served, query: str = "", **headers: str) -> Iterator[Iterator[Any]]:
    """The events that are rounds, as a browser would take them apart."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with served.http.stream("GET", f"{served.url}/stream{query}", headers=given) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _rounds(answer.iter_lines())


def _rounds(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
            continue
        if fields.get("event") == "round":
            told = json.loads(fields["data"])
            assert fields["id"] == f"{told['round']}.{told['revision']}"
            yield told
        fields = {}


def test_one_event() -> None:
    assert frame("round", b"{}", "3.0") == b"event: round\nid: 3.0\ndata: {}\n\n"
    assert frame("activity", b"{}") == b"event: activity\ndata: {}\n\n"


def test_what_a_viewer_has_seen() -> None:
    assert seen_by(None, None, 4) == (0, False)
    assert seen_by(None, 2, 4) == (2, False)
    assert seen_by("2.0", None, 4) == (3, True)
    assert seen_by("3.0", 1, 4) == (4, True)
    for strange in ("", "x", "1", "1.x", "-1.0", "9" * 30 + ".0", "²."):
        assert seen_by(strange, 3, 4) == (3, False)
    for strange in ("²", "².²", "1.²", "٣.٣", "", ".", "-1.0", "9" * 5000 + ".0"):
        assert seen_by(strange, None, 100) == (100 - REPLAYED, False)
    assert seen_by(None, None, 100) == (100 - REPLAYED, False)


def test_a_thousand_streams_of_one_client_leave_room_for_others() -> None:
    async def scene() -> None:
        stream = Stream(1000, 50)

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(10 * PATIENCE)
            raise AssertionError

        async def send(message: Any) -> None:
            pass

        def watch(client: bytes) -> "asyncio.Task[None]":
            return asyncio.create_task(stream.serve([b"first"], receive, send, client))

        crowd = [watch(b"one") for _ in range(1000)]
        for _ in range(3):
            await asyncio.sleep(0)
        refused = [task for task in crowd if task.done()]
        assert len(refused) == 950
        assert {str(task.exception()) for task in refused} == {"rate_limited"}
        others = [watch(b"%d" % n) for n in range(300)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert not any(task.done() for task in others)
        assert len(stream) == 350
        stream.close()
        await asyncio.wait([*(task for task in crowd if not task.done()), *others])
        assert len(stream) == 0
        assert not stream._each

    asyncio.run(scene())


def test_rounds_come_as_they_are_published(served: Served, clock: Clock) -> None:
    publish(served, clock, 1)
    known = len(served.rounds())
    with watching(served, f"?since={known}") as rounds:
        told = []
        for _ in range(3):
            publish(served, clock, 1)
            told.append(next(rounds))
    assert told == served.rounds()[known:]


def test_a_viewer_that_comes_back_misses_nothing(served: Served, clock: Clock) -> None:
    publish(served, clock, 2)
    with watching(served, "?since=0") as rounds:
        seen = [next(rounds)["round"] for _ in range(2)]
    publish(served, clock, 2)
    with watching(served, last_event_id=f"{seen[-1]}.0") as rounds:
        more = [next(rounds)["round"] for _ in range(2)]
        publish(served, clock, 1)
        more += [each["round"] for each in islice(rounds, len(served.rounds()) - 4)]
    assert seen + more == list(range(len(served.rounds())))


def test_the_query_is_checked(served: Served) -> None:
    answer = served.http.get(f"{served.url}/stream?since=x")
    assert answer.status_code == 400


def test_viewers_are_let_go_when_they_leave(served: Served, clock: Clock) -> None:
    publish(served, clock, 1)
    with watching(served) as rounds:
        next(rounds)
    eventually(lambda: served.metric("sudare_streams") == 0)


def test_many_viewers_see_the_same(served: Served, clock: Clock) -> None:
    """Some come before a round is published and some after: nobody misses one, or sees it twice."""
    found: list[list[int]] = []
    count = len(served.rounds()) + 30

    def watch() -> None:
        with watching(served, "?since=0") as rounds:
            found.append([each["round"] for each in islice(rounds, count)])

    threads = [threading.Thread(target=watch) for _ in range(10)]
    for thread in threads:
        thread.start()
        publish(served, clock, 3)
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [list(range(count))] * 10


def test_no_more_viewers_than_allowed(tmp_path: Path) -> None:
    with (
        serving(tmp_path, max_streams=1) as served,
        served.http.stream("GET", f"{served.url}/stream") as first,
    ):
        assert first.status_code == 200
        answer = served.http.get(f"{served.url}/stream")
        assert answer.status_code == 503
        assert "retry-after" in answer.headers


def test_streams_end_when_the_collector_does(tmp_path: Path) -> None:
    with serving(tmp_path, stop_seconds=10 * PATIENCE) as served:
        wire = socket.create_connection((served.host, served.port), timeout=PATIENCE)
        wire.sendall(f"GET /v1/surveys/{served.id}/stream HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        assert wire.recv(100).startswith(b"HTTP/1.1 200")
    # The end did not wait for its viewers, and they are told that nothing more will come.
    received = b"x"
    while received:
        received = wire.recv(65536)
    wire.close()


def test_a_viewer_that_does_not_read_is_dropped() -> None:
    async def scene() -> None:
        stream = Stream(10)
        blocked = asyncio.Event()
        taken: list[bytes] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(10 * PATIENCE)
            return {"type": "http.disconnect"}

        async def stuck(message: Any) -> None:
            if message["type"] == "http.response.body":
                blocked.set()
                await asyncio.sleep(10 * PATIENCE)

        async def quick(message: Any) -> None:
            taken.append(message.get("body", b""))

        slow = asyncio.create_task(stream.serve([b"first"], receive, stuck))
        fast = asyncio.create_task(stream.serve([b"first"], receive, quick))
        await blocked.wait()
        assert len(stream) == 2
        for n in range(70):
            stream.send(b"%d" % n)
            await asyncio.sleep(0)
        await asyncio.wait_for(slow, PATIENCE)
        assert len(stream) == 1
        stream.close()
        await asyncio.wait_for(fast, PATIENCE)
        assert taken[2:72] == [b"%d" % n for n in range(70)]
        assert len(stream) == 0
        with pytest.raises(Refusal):
            await stream.serve([], receive, quick)

    asyncio.run(scene())


def test_quiet_streams_are_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        stream = Stream(10)
        sent: list[bytes] = []
        monkeypatch.setattr(stream, "send", sent.append)
        loop = asyncio.get_running_loop()
        stream._last = loop.time()
        stream.tick()
        assert sent == []
        stream._last = loop.time() - 16
        stream.tick()
        assert sent == [b": still here\n\n"]

    asyncio.run(scene())
