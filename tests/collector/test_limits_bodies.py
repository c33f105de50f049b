"""Reading what is sent, piece by piece."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sudare.collector import _limits as limits
from sudare.collector._limits import Gone, Reader, check_length, header, media_type
from sudare.collector._messages import Refusal


def read(*pieces: Any, limit: int = 10, seconds: float = 600.0) -> bytes:
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        piece = left.pop(0)
        if isinstance(piece, float):
            await asyncio.sleep(piece)
            piece = left.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    async def run() -> bytes:
        reader = Reader(seconds)

        async def expire() -> None:
            while True:
                await asyncio.sleep(0.01)
                reader.expire()

        expiring = asyncio.create_task(expire())
        try:
            return await reader.read(receive, limit, {})
        finally:
            expiring.cancel()
            assert len(reader) == 0
            assert not reader._expired

    return asyncio.run(run())


def test_pieces_are_put_together() -> None:
    assert read(b"") == b""
    assert read(b"abc") == b"abc"
    assert read(b"abc", b"", b"def") == b"abcdef"
    assert read(b"x" * 10) == b"x" * 10


@pytest.mark.parametrize("pieces", [(b"x" * 11,), (b"x" * 10, b"y"), (b"x" * 5,) * 3])
def test_no_more_is_read_than_is_allowed(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(Refusal, match="oversized"):
        read(*pieces, 99.0, b"never")


def test_no_longer_is_waited_than_is_allowed() -> None:
    with pytest.raises(Refusal, match="too_slow"):
        read(b"x", 60.0, b"y", seconds=0.05)
    with pytest.raises(Refusal, match="too_slow"):
        read(60.0, b"y", seconds=0.05)


def test_a_body_is_given_up_when_its_time_is_over_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: now))

    async def run() -> None:
        nonlocal now
        reader = Reader(5.0)
        reading = asyncio.create_task(reader.read(asyncio.Event().wait, 10, {}))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        for moment, given_up in ((1004.9, False), (1005.1, True)):
            now = moment
            reader.expire()
            await asyncio.wait([reading], timeout=0)
            await asyncio.sleep(0)
            assert reading.done() == given_up
        with pytest.raises(Refusal, match="too_slow"):
            await reading

    asyncio.run(run())


def test_others_may_still_cancel() -> None:
    async def run() -> None:
        reader = Reader(60.0)

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(60)
            raise AssertionError

        task = asyncio.create_task(reader.read(receive, 10, {}))
        await asyncio.sleep(0)
        reader.expire()
        await asyncio.sleep(0)
        assert len(reader) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(reader) == 0

    asyncio.run(run())


def test_a_client_that_leaves() -> None:
    for pieces in ((None,), (b"x", None)):
        with pytest.raises(Gone):
            read(*pieces)


def test_whoever_has_most_unfinished_bodies_loses_some() -> None:
    """4,600 slow bodies of one client, and a slow one of each of fifty others."""

    async def run() -> None:
        def whose(scope: Any) -> bytes:
            client: bytes = scope["who"]
            return client

        reader = Reader(60.0, most_bodies=1024, client_of=whose)

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(60)
            raise AssertionError

        others = [
            asyncio.create_task(reader.read(receive, 10, {"who": b"%d" % n})) for n in range(50)
        ]
        await asyncio.sleep(0)
        attack = []
        for _ in range(4600):
            attack.append(asyncio.create_task(reader.read(receive, 10, {"who": b"attacker"})))
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(reader) <= 1024
        assert not any(task.done() for task in others)
        done = [task for task in attack if task.done()]
        assert len(done) >= 4600 - 1024
        assert all(str(task.exception()) == "too_slow" for task in done)

        async def whole() -> dict[str, Any]:
            return {"type": "http.request", "body": b"report", "more_body": False}

        assert await reader.read(whole, 10, {"who": b"honest"}) == b"report"
        for task in (*others, *attack):
            task.cancel()
        await asyncio.gather(*others, *attack, return_exceptions=True)

    asyncio.run(run())


def test_headers() -> None:
    headers = [(b"content-type", b" Text/Plain ; a=b"), (b"content-length", b"12")]
    assert media_type(headers) == b"text/plain"
    assert media_type([]) == b""
    assert header(headers, b"content-length") == b"12"
    assert header(headers, b"x") is None
    check_length(headers, 12)
    with pytest.raises(Refusal, match="oversized"):
        check_length(headers, 11)
    with pytest.raises(Refusal, match="oversized"):
        check_length([(b"content-length", b"9" * 5000)], 11)
    check_length([(b"content-length", b"x")], 11)


def test_bodies_that_are_begun_and_never_ended_do_not_fill_the_memory() -> None:
    async def run() -> list[Any]:
        reader = Reader(60.0, most=1_000_000)

        def sender(size: int) -> Any:
            left = [b"x" * (size // 2)] * 2

            async def receive() -> dict[str, Any]:
                if not left:
                    await asyncio.sleep(60)
                return {"type": "http.request", "body": left.pop(), "more_body": True}

            return receive

        large = [asyncio.create_task(reader.read(sender(300_000), 10**6, {})) for _ in range(5)]
        small = [asyncio.create_task(reader.read(sender(1000), 1024, {})) for _ in range(500)]
        for _ in range(10):  # until everybody waits for more
            await asyncio.sleep(0)
        done = [task for task in (*large, *small) if task.done()]
        assert reader.held <= 1_000_000
        found = [task.exception() for task in done]
        for task in (*large, *small):
            task.cancel()
        await asyncio.gather(*large, *small, return_exceptions=True)
        assert reader.held == 0
        return found

    found = asyncio.run(run())
    assert [str(each) for each in found] == ["unavailable"] * 2
