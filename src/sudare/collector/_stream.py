"""The live stream: server-sent events, prepared once and sent to every viewer.

    event: round      a round that was published or revised; its id is round.revision
    event: activity   once a second, where something has changed
    : still here      where nothing was to be said for a while

A viewer who reads too slowly is dropped, and may come back with Last-Event-ID: nothing is kept for
it. The cost of an event is one write for each viewer, and no more.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Send

from sudare.collector._messages import Refusal
from sudare.collector._rounds import Round

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


def missed(rounds: Iterable[Round], last_event: str | None, since: int | None) -> list[Round]:
    """The rounds that a viewer has not seen; all that were revised among them.

    The client says what it has: the id of the last event it saw, or the first round it wants.
    """
    known = list(rounds)
    if last_event is not None:
        number, _, revision = last_event.partition(".")
        if last_event.isascii() and number.isdigit() and revision.isdigit() and len(number) < 10:
            seen = int(number)
            return [each for each in known if each.round > seen or each.revision]
    if since is not None:
        return [each for each in known if each.round >= since]
    return known[-REPLAYED:]


class Stream:
    """Those who are watching."""

    def __init__(self, most: int) -> None:
        self._most = most
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

    async def serve(self, first: bytes, receive: Receive, send: Send) -> None:
        """One viewer, for as long as it stays."""
        if self._closed or len(self._viewers) >= self._most:
            raise Refusal("unavailable")
        task = asyncio.current_task()
        assert task is not None
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_FRAMES)
        self._viewers[queue] = task
        watch = asyncio.create_task(_until_gone(queue, receive, task))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": first, "more_body": True})
            while (data := await queue.get()) is not None:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            pass  # too slow: returning closes the connection
        finally:
            self._viewers.pop(queue, None)
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
