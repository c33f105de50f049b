"""Published rounds in chunks: the same bytes for all, compressed once, and few of them at first."""

import json
import zlib

import pytest

from sudare.collector import Round
from sudare.collector._pages import (
    CHUNK,
    Chunk,
    Packed,
    Pages,
    _adler_of_both,
    frames,
    joined,
    packed,
)

DAY = 86_400


def a_round(t: int, revision: int = 0) -> Round:
    share = None if t % 977 == 5 else (t * 7919 % 10_007) / 10_007
    at = "2026-01-01T00:00:00.000Z"
    return Round(
        t, at, at, at, t % 50, share, share, 0.1234567891234, 0.98765432198, share, revision
    )


def pages_of(count: int) -> Pages:
    pages = Pages()
    pages.put([a_round(t) for t in range(count)])
    return pages


@pytest.fixture(scope="module")
def day() -> Pages:
    return pages_of(DAY)


@pytest.mark.parametrize("count", [0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_both_forms_hold_the_same(count: int) -> None:
    chunks = pages_of(count).chunks()
    plain = b"".join(joined(b'{"rounds":[', chunks, b"]}"))
    told = json.loads(plain)["rounds"]
    assert [each["round"] for each in told] == list(range(count))
    assert zlib.decompress(b"".join(packed(b'{"rounds":[', chunks, b"]}"))) == plain


def test_the_check_sum_of_both_is_made_of_theirs() -> None:
    """Also where sums pass the modulus."""
    parts = [b"\xff" * 70_000, b"", b"a", bytes(65_521), b"\xff" * 65_521 + b"z"]
    for first in parts:
        for second in parts:
            made = [Packed(first), Packed(second)]
            stream = b"".join([b"\x78\x9c", made[0].data, made[1].data, b"\x03\x00"])
            assert zlib.decompressobj(-15).decompress(stream[2:]) == first + second

            both = _adler_of_both(made[0].adler, made[1].adler, made[1].length)
            assert both == zlib.adler32(first + second)


def test_slices() -> None:
    pages = pages_of(3 * CHUNK + 10)
    for since, until in (
        (0, 5),
        (CHUNK - 1, CHUNK + 1),
        (700, 1400),
        (5, 5),
        (9, 3),
        (10**6, None),
    ):
        told = [each.round for chunk in pages.chunks(since, until) for each in chunk.rounds]
        assert told == list(range(3 * CHUNK + 10))[since:until]


def test_what_is_published_later_changes_the_last_chunk_alone(day: Pages) -> None:
    pages = pages_of(2 * CHUNK + 3)
    before = pages.chunks()
    reading = joined(b"[", before, b"]")
    next(reading)
    pages.put([a_round(2 * CHUNK + 3), a_round(5, 1)])
    after = pages.chunks()
    assert after[1] is before[1]
    assert after[0] is not before[0]
    assert (pages[5].revision, pages.revised) == (1, {5})
    # Who has begun to read goes on with what there was.
    assert json.loads(b"[" + b"".join(reading)) == json.loads(b"".join(joined(b"[", before, b"]")))


def test_a_summary_of_a_day_is_small_and_shows_the_extremes(day: Pages) -> None:
    summary = day.summary()
    numbers = [each.round for each in summary]
    assert len(summary) <= 1000
    assert numbers == sorted(set(numbers))
    assert numbers[-300:] == list(range(DAY - 300, DAY))
    known = [each for each in day if each.share is not None]
    for end in (min, max):
        assert end(known, key=lambda each: each.share or 0.0) in summary
    plain = b"".join(joined(b"[", [Chunk(summary)], b"]"))
    assert len(plain) < 300_000


@pytest.mark.parametrize("count", [0, 1, 299, 1000, 1001, 5000, 1_000_000])
def test_a_summary_has_at_most_a_thousand(count: int, day: Pages) -> None:
    if count <= 5000:
        pages = pages_of(count)
        assert len(pages.summary()) <= 1000
        if count <= 1000:
            assert len(pages.summary()) == count
        return
    pages = Pages()
    pages._chunks, pages._length = day.chunks() * 12, 12 * DAY  # numbers repeat; sizes do not care
    assert len(pages.summary()) <= 1000


def test_a_days_memory_is_bounded_whatever_readers_do(day: Pages) -> None:
    """Forty streams and sixty readers hold the same bytes."""
    first, second = ([chunk.frames() for chunk in day.chunks()] for _ in range(2))
    assert all(one is other for one, other in zip(first, second, strict=True))
    forms = [
        sum(len(form(chunk)) for chunk in day.chunks())
        for form in (
            lambda chunk: chunk.json(),
            lambda chunk: chunk.packed().data,
            lambda chunk: chunk.csv(),
            lambda chunk: chunk.frames(),
        )
    ]
    assert sum(forms) < 1000 * DAY
    assert frames([day[3]]) == day.chunks(3, 4)[0].frames()
