"""The live stream: server-sent events, prepared once and sent to every viewer.

    event: round      a round that was published or revised; its id is round.revision
    event: activity   once a second, where something has changed
    : still here      where nothing was to be said for a while

A viewer who reads too slowly is dropped, and may come back with Last-Event-ID: nothing is kept for
it. The cost of an event is one write for each viewer, and no more.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Send

from sudare.collector._messages import Refusal

REPLAYED = 20
"""Rounds that a new viewer is sent who does not say what it has."""
_MOST_FRAMES = 64
"""Frames that wait for one viewer before it is dropped."""
_QUIET_SECONDS = 15.0
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy is to hand on each event at once
]


def frame(event: str, data: bytes, name: str | None = None) -> bytes:
    """One event; its data is JSON on a single line."""
    head = f"event: {event}\n" + (f"id: {name}\n" if name is not None else "")
    return head.encode() + b"data: " + data + b"\n\n"


def seen_by(last_event: str | None, since: int | None, published: int) -> tuple[int, bool]:
    """The first round that a viewer has not seen, and whether it may have seen others before they
    were revised. It says what it has: the id of the last event it saw, or the first it wants."""
    if last_event is not None:
        number, _, revision = last_event.partition(".")
        if last_event.isascii() and number.isdigit() and revision.isdigit() and len(number) < 10:
            return int(number) + 1, True
    if since is not None:
        return since, False
    return max(0, published - REPLAYED), False


class Stream:
    """Those who are watching."""

    def __init__(self, most: int, most_each: int | None = None) -> None:
        self._most, self._most_each = most, most_each or most
        self._each: Counter[bytes] = Counter()
        """How many streams a client has."""
        self._viewers: dict[asyncio.Queue[bytes | None], asyncio.Task[Any]] = {}
        self._closed = False
        self._last = 0.0

    def __len__(self) -> int:
        return len(self._viewers)

    def send(self, data: bytes) -> None:
        """The same bytes to every viewer."""
        self._last = asyncio.get_running_loop().time()
        for queue, task in list(self._viewers.items()):
            try:
                queue.put_nowait(data)
            except asyncio.QueueFull:
                del self._viewers[queue]
                task.cancel()

    def tick(self) -> None:
        """To be called now and then: keeps quiet connections from being taken for dead ones."""
        if asyncio.get_running_loop().time() - self._last >= _QUIET_SECONDS:
            self.send(b": still here\n\n")

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for queue, task in list(self._viewers.items()):
            try:
                queue.put_nowait(None)
            except asyncio.QueueFull:
                task.cancel()

    async def serve(
        self, first: Iterable[bytes], receive: Receive, send: Send, client: bytes = b""
    ) -> None:
        """One viewer, for as long as it stays; `first` is handed on as fast as it is taken."""
        if self._closed or len(self._viewers) >= self._most:
            raise Refusal("unavailable")
        if self._each[client] >= self._most_each:
            raise Refusal("rate_limited", retry_seconds=_QUIET_SECONDS)
        task = asyncio.current_task()
        assert task is not None
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_FRAMES)
        self._viewers[queue] = task
        self._each[client] += 1
        watch = asyncio.create_task(_until_gone(queue, receive, task))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            for data in first:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.sleep(0)  # others get their turn
            while (news := await queue.get()) is not None:
                await send({"type": "http.response.body", "body": news, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            pass  # too slow: returning closes the connection
        finally:
            self._viewers.pop(queue, None)
            self._each[client] -= 1
            if not self._each[client]:
                del self._each[client]
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


async def _until_gone(
    queue: "asyncio.Queue[bytes | None]", receive: Receive, task: "asyncio.Task[Any]"
) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    try:
        queue.put_nowait(None)
    except asyncio.QueueFull:
        task.cancel()
