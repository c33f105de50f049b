"""Server-sent events: who gets what, once, and at what cost."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.collector import Round
from sudare.collector.errors import Refusal
from sudare.collector.stream import REPLAYED, Stream, frame, missed
from tests.collector.served import Served, serving, survey_of

ROUNDS = [
    Round(t, "a", "b", "c", 1, 0.5, 0.5, 0.0, 1.0, 0.5, revision)
    for t, revision in enumerate((0, 1, 0, 0))
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    survey = survey_of(rounds=1000, seconds=0.25)
    with serving(tmp_path_factory.mktemp("stream"), survey, grace_seconds=0.0) as collector:
        yield collector


def events(served: Served, count: int, query: str = "", **headers: str) -> list[dict[str, Any]]:
    """The first events that are rounds, as a browser would take them apart."""
    found: list[dict[str, Any]] = []
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with served.http.stream("GET", f"{served.url}/stream{query}", headers=given) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif fields.get("event") == "round":
                told = json.loads(fields["data"])
                assert fields["id"] == f"{told['round']}.{told['revision']}"
                found.append(told)
                if len(found) >= count:
                    return found
            if not line:
                fields = {}
    return found


def test_one_event() -> None:
    assert frame("round", b"{}", "3.0") == b"event: round\nid: 3.0\ndata: {}\n\n"
    assert frame("activity", b"{}") == b"event: activity\ndata: {}\n\n"


def test_what_a_viewer_has_missed() -> None:
    def told(last: str | None, since: int | None = None) -> list[int]:
        return [each.round for each in missed(ROUNDS, last, since)]

    assert told(None) == [0, 1, 2, 3]
    assert told(None, 2) == [2, 3]
    assert told("2.0") == [1, 3]  # the revised one again: it may have come later
    assert told("3.0") == [1]
    for strange in ("", "x", "1", "1.x", "-1.0", "9" * 30 + ".0", "²."):
        assert told(strange, 3) == [3]
    many = [Round(t, "", "", "", 0, None, None, 0.0, 1.0, None, 0) for t in range(100)]
    for strange in ("²", "².²", "1.²", "٣.٣", "", ".", "-1.0", "9" * 5000 + ".0"):
        assert len(missed(many, strange, None)) == REPLAYED
    assert len(missed(many, None, None)) == REPLAYED


def test_rounds_come_as_they_are_published(served: Served) -> None:
    told = events(served, 3)
    numbers = [each["round"] for each in told]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    by_number = {
        each["round"]: each for each in served.http.get(f"{served.url}/estimates").json()["rounds"]
    }
    assert [by_number[each["round"]] for each in told] == told


def test_a_viewer_that_comes_back_misses_nothing(served: Served) -> None:
    seen = [each["round"] for each in events(served, 2, "?since=0")]
    time.sleep(0.6)
    more = [each["round"] for each in events(served, 4, last_event_id=f"{seen[-1]}.0")]
    assert seen + more == list(range(seen[0], seen[0] + 6))


def test_the_query_is_checked(served: Served) -> None:
    answer = served.http.get(f"{served.url}/stream?since=x")
    assert answer.status_code == 400


def test_viewers_are_let_go_when_they_leave(served: Served) -> None:
    events(served, 1)
    until = time.monotonic() + 10
    while served.metric("sudare_streams") and time.monotonic() < until:
        time.sleep(0.05)
    assert served.metric("sudare_streams") == 0


def test_many_viewers_see_the_same(served: Served) -> None:
    found: list[list[int]] = []

    def watch() -> None:
        import httpx

        with httpx.Client(timeout=20) as client:
            mine = Served.__new__(Served)
            mine.http, mine.url = client, served.url
            found.append([each["round"] for each in events(mine, 30, "?since=0")])

    threads = [threading.Thread(target=watch) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [list(range(30))] * 10


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
    with serving(tmp_path) as served:
        wire = socket.create_connection((served.host, served.port), timeout=20)
        wire.sendall(f"GET /v1/surveys/{served.id}/stream HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        assert wire.recv(100).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
    received = b"x"
    while received:
        received = wire.recv(65536)
    wire.close()
    assert time.monotonic() - began < 5


def test_a_viewer_that_does_not_read_is_dropped() -> None:
    async def scene() -> None:
        stream = Stream(10)
        blocked = asyncio.Event()
        taken: list[bytes] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def stuck(message: Any) -> None:
            if message["type"] == "http.response.body":
                blocked.set()
                await asyncio.sleep(60)

        async def quick(message: Any) -> None:
            taken.append(message.get("body", b""))

        slow = asyncio.create_task(stream.serve(b"first", receive, stuck))
        fast = asyncio.create_task(stream.serve(b"first", receive, quick))
        await blocked.wait()
        assert len(stream) == 2
        for n in range(70):
            stream.send(b"%d" % n)
            await asyncio.sleep(0)
        await asyncio.wait_for(slow, 5)
        assert len(stream) == 1
        stream.close()
        await asyncio.wait_for(fast, 5)
        assert taken[2:72] == [b"%d" % n for n in range(70)]
        assert len(stream) == 0
        with pytest.raises(Refusal):
            await stream.serve(b"", receive, quick)

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
