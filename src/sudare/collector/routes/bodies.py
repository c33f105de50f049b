"""Reading what is sent: never more than is allowed, and never for longer."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from starlette.types import Receive

from sudare.collector.errors import Refusal

Headers = Iterable[tuple[bytes, bytes]]


class Gone(Exception):
    """The client has left: nobody is there to answer."""


_SMALL = 4096
"""Bytes of a body that nobody minds keeping, however many there are."""
_MOST_HELD = 256 << 20


class Reader:
    """Reads bodies, each with one deadline for the whole, and all together within `most` bytes:
    those who begin many large bodies and end none must not fill the memory.

    A timer for every request would cost more than all the rest of reading it, so deadlines are
    only written down, and `expire` is to be called now and then: a body is given up at most that
    much later.
    """

    def __init__(self, seconds: float, most: int = _MOST_HELD) -> None:
        self._seconds = seconds
        self._most = most
        self.held = 0
        """Bytes of large bodies that are not complete."""
        self._reading: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._reading)

    async def read(self, receive: Receive, limit: int) -> bytes:
        """The whole body; refused as soon as it is larger than `limit` or takes too long."""
        task = asyncio.current_task()
        assert task is not None
        self._reading[task] = time.monotonic() + self._seconds
        held = 0
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                parts, size = [body], len(body)
                while message.get("more_body") and size <= limit:
                    message = await receive()
                    part = message.get("body", b"")
                    size += len(part)
                    parts.append(part)
                    if size > _SMALL:
                        self.held += size - held
                        held = size
                        if self.held > self._most:
                            raise Refusal("unavailable")
                body = b"".join(parts)
        except asyncio.CancelledError:
            if task not in self._expired:
                raise
            self._expired.discard(task)
            task.uncancel()
            raise Refusal("too_slow") from None
        finally:
            self.held -= held
            del self._reading[task]
        if message["type"] == "http.disconnect":
            raise Gone
        if len(body) > limit:
            raise Refusal("oversized")
        return body

    def expire(self) -> None:
        """Give up every body that should have been here by now."""
        now = time.monotonic()
        for task in [task for task, until in self._reading.items() if until < now]:
            if task not in self._expired:
                self._expired.add(task)
                task.cancel()


def header(headers: Headers, name: bytes) -> bytes | None:
    """A header's value; names come in lower case."""
    for key, value in headers:
        if key == name:
            return value
    return None


def media_type(headers: Headers) -> bytes:
    """The content type without its parameters."""
    value = header(headers, b"content-type")
    return b"" if value is None else value.partition(b";")[0].strip().lower()


def check_length(headers: Headers, limit: int) -> None:
    """Refuse at once what says itself that it is too large."""
    declared = header(headers, b"content-length")
    if declared is not None and declared.isdigit() and int(declared[:20]) > limit:
        raise Refusal("oversized")
