"""Limits for requests: rates for each client and for all together, sizes of bodies, and time.

Addresses are not kept. A client is known by a keyed hash of its address (of its network, for IPv6,
where one client has a whole /64), under a key drawn at start and never written down, and it is
forgotten as soon as its bucket is full again. A forwarded address is believed only where the
connection comes from a proxy that the operator has named.
"""

import asyncio
import hashlib
import ipaddress
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from starlette.types import Receive, Scope

from sudare.collector._messages import Refusal
from sudare.collector._settings import parse_network

_MOST_CLIENTS = 100_000


class Bucket:
    """So many at once, refilled at a rate; a rate of zero means no limit."""

    def __init__(self, per_second: float, burst: float) -> None:
        self.per_second = per_second
        self.burst = max(1.0, burst)
        self._left = self.burst
        self._at = 0.0

    def take(self, now: float, count: float = 1.0) -> float:
        """Zero if granted, else in how many seconds it would be."""
        if self.per_second <= 0:
            return 0.0
        left = min(self.burst, self._left + max(0.0, now - self._at) * self.per_second)
        self._at = now
        if left >= count:
            self._left = left - count
            return 0.0
        self._left = left
        return (count - left) / self.per_second

    def wait(self, now: float) -> float:
        """In how many seconds one would be granted."""
        if self.per_second <= 0:
            return 0.0
        left = min(self.burst, self._left + max(0.0, now - self._at) * self.per_second)
        return max(0.0, (1.0 - left) / self.per_second)

    def give_back(self) -> None:
        self._left = min(self.burst, self._left + 1.0)

    def full(self, now: float) -> bool:
        """Nothing is left to remember."""
        return self._left + (now - self._at) * self.per_second >= self.burst


class Limiter:
    """One bucket for each client, and one for all."""

    def __init__(
        self,
        per_client: tuple[float, float],
        overall: tuple[float, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = per_client, overall
        self._each = per_client
        self._all = Bucket(*overall)
        self._shared_by = 1
        self._buckets: dict[bytes, Bucket] = {}
        self._clock = clock
        self._swept = clock()

    def take(self, client: bytes) -> float:
        """Zero if this request is allowed, else in how many seconds the client may try again."""
        now = self._clock()
        if now - self._swept > 60 or len(self._buckets) >= _MOST_CLIENTS:
            self._sweep(now)
        if self._each[0] > 0:
            bucket = self._buckets.get(client)
            if bucket is None:
                bucket = self._buckets[client] = Bucket(*self._each)
                bucket.take(now, 0)
            if wait := bucket.take(now):
                return wait
        return self._all.take(now)

    def share(self, many: int) -> None:
        """From now on so many collectors grant together what was meant for one."""
        if many == self._shared_by:
            return
        self._shared_by = many
        (rate, burst), overall = self._wanted
        self._each = rate / many, burst / many
        self._all = Bucket(overall[0] / many, overall[1] / many)
        self._buckets = {}

    def wait(self, client: bytes) -> float:
        """What `take` would say, without taking."""
        bucket = self._buckets.get(client)
        return 0.0 if bucket is None else bucket.wait(self._clock())

    def give_back(self, client: bytes) -> None:
        """What was taken last was taken in vain."""
        if (bucket := self._buckets.get(client)) is not None:
            bucket.give_back()

    def __len__(self) -> int:
        return len(self._buckets)

    def _sweep(self, now: float) -> None:
        self._swept = now
        self._buckets = {c: b for c, b in self._buckets.items() if not b.full(now)}
        if len(self._buckets) > _MOST_CLIENTS // 2:
            # More clients than memory is meant for: forget all of them rather than grow, or look
            # through them again for every newcomer; the limit for all together still holds.
            self._buckets = {}


class Clients:
    """Who is asking: a keyed hash, from the connection or from what a known proxy says."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = tuple(map(parse_network, proxies))
        self._key = secrets.token_bytes(32)

    def of(self, peer: str, *forwarded: bytes) -> bytes:
        """The client behind a connection from `peer`, given its X-Forwarded-For headers, all of
        them: some proxies add a line of their own below one that the client made up."""
        address = peer
        if forwarded and self._is_proxy(peer):
            # From the right: each proxy adds the one it heard from; the first that is no proxy of
            # ours is the client, whatever stands further left.
            for hop in reversed(b",".join(forwarded).decode("latin-1").split(",")):
                address = _without_port(hop.strip())
                if not self._is_proxy(address):
                    break
        return hashlib.blake2b(_place(address), key=self._key, digest_size=8).digest()

    def _is_proxy(self, address: str) -> bool:
        if not self._proxies:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._proxies)


def _without_port(hop: str) -> str:
    """Some proxies name the client's port, too, which is another one for each connection."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    host, found, _ = hop.partition(":")
    return host if found and "." in host else hop


def _place(address: str) -> bytes:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address.encode()[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return parsed.ipv4_mapped.packed
        return parsed.packed[:8]
    return parsed.packed


Headers = Iterable[tuple[bytes, bytes]]


class Gone(Exception):
    """The client has closed the connection."""


_SMALL = 4096
"""Bytes of a body that is too small to count against the limit."""
_MOST_HELD = 256 << 20


_MOST_BODIES = 1024


class _Reading(NamedTuple):
    until: float
    scope: Scope


class Reader:
    """Reads bodies, each with one deadline for the whole, and all together within `most` bytes:
    those who begin many large bodies and end none must not fill the memory.

    There are at most `most_bodies` of them: beyond that, whoever has most loses the older half.

    A timer for every request would cost more than all the rest of reading it, so deadlines are
    only written down, and `expire` is to be called now and then: a body is given up at most that
    much later.
    """

    def __init__(
        self,
        seconds: float,
        most: int = _MOST_HELD,
        *,
        most_bodies: int = _MOST_BODIES,
        client_of: Callable[[Scope], bytes] = lambda scope: b"",
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._most_bodies = most_bodies
        self._client_of = client_of
        self.held = 0
        """Bytes of large bodies that are not complete."""
        self._reading: dict[asyncio.Task[Any], _Reading] = {}
        self._expired: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._reading)

    async def read(self, receive: Receive, limit: int, scope: Scope) -> bytes:
        """The whole body; refused as soon as it is larger than `limit` or takes too long."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._reading) - len(self._expired) >= self._most_bodies:
            self._make_room()
        self._reading[task] = _Reading(time.monotonic() + self._seconds, scope)
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
        for task in [task for task, each in self._reading.items() if each.until < now]:
            self._give_up(task)

    def _make_room(self) -> None:
        """Give up the older half of the bodies of whoever has most. Who is who is only looked up
        here, as that would cost every other request more than all the rest of reading it."""
        mine: dict[bytes, list[asyncio.Task[Any]]] = {}
        for task, each in self._reading.items():
            if task not in self._expired:
                mine.setdefault(self._client_of(each.scope), []).append(task)
        most = max(mine.values(), key=len)
        for task in most[: -(-len(most) // 2)]:
            self._give_up(task)

    def _give_up(self, task: "asyncio.Task[Any]") -> None:
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
