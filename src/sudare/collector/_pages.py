"""Published rounds as bytes, in chunks: each is encoded once, and shared by everybody who reads.

Memory follows the rounds, at about a kilobyte each once all forms have been asked for, and not the
readers: an answer is handed on chunk by chunk, as fast as it is taken.

Compressed chunks are joined into one zlib stream (the content coding `deflate`): each is flushed,
so that it stands alone, and the check sum of the whole is made of theirs (RFC 1950).
"""

import csv
import io
import zlib
from collections.abc import Callable, Iterator, Sequence

import msgspec

from sudare.collector._rounds import Round
from sudare.collector._stream import frame

CHUNK = 512
"""Rounds in one chunk."""
_LATEST = 300
_STRETCHES = 350
"""A summary has so many of the latest rounds, and of so many stretches before them two each."""
_encode = msgspec.json.encode
_ADLER = 65521
_HEAD, _END = b"\x78\x9c", b"\x03\x00"
"""What a zlib stream begins with, and an empty last block."""


class Packed:
    """Bytes, compressed, with what the whole's check sum needs."""

    __slots__ = ("adler", "data", "length")

    def __init__(self, plain: bytes) -> None:
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        self.data = packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)
        self.adler, self.length = zlib.adler32(plain), len(plain)


class Chunk:
    """Some rounds that follow each other, and their forms so far."""

    def __init__(self, rounds: list[Round]) -> None:
        self.rounds = rounds
        self._json: bytes | None = None
        self._packed: Packed | None = None
        self._csv: bytes | None = None
        self._frames: bytes | None = None
        self._extremes: dict[int, list[Round]] = {}
        self.reporters = sum(each.reporters for each in rounds)

    def json(self) -> bytes:
        """The rounds of a list, with a comma after each."""
        if self._json is None:
            self._json = b"".join([_encode(each) + b"," for each in self.rounds])
        return self._json

    def packed(self) -> Packed:
        if self._packed is None:
            self._packed = Packed(self.json())
        return self._packed

    def csv(self) -> bytes:
        if self._csv is None:
            text = io.StringIO(newline="")
            rows = csv.writer(text)
            for each in self.rounds:
                values = (getattr(each, name) for name in Round.__struct_fields__)
                rows.writerow(["" if value is None else value for value in values])
            self._csv = text.getvalue().encode()
        return self._csv

    def frames(self) -> bytes:
        """The rounds as events of the stream."""
        if self._frames is None:
            self._frames = frames(self.rounds)
        return self._frames

    def extremes(self, stretches: int) -> list[Round]:
        """Of each of so many stretches the lowest and the highest, in order."""
        if stretches not in self._extremes:
            size = -(-len(self.rounds) // stretches)
            found = [
                each
                for begin in range(0, len(self.rounds), size)
                for each in lowest_and_highest(self.rounds[begin : begin + size])
            ]
            self._extremes[stretches] = found
        return self._extremes[stretches]


class Pages:
    """All published rounds, in order, from 0 on without a gap."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._length = 0
        self.revised: set[int] = set()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> Round:
        return self._chunks[number // CHUNK].rounds[number % CHUNK]

    def __iter__(self) -> Iterator[Round]:
        for chunk in list(self._chunks):
            yield from chunk.rounds

    def put(self, rounds: Sequence[Round]) -> None:
        """Add the next ones, or replace some by their revisions."""
        touched: dict[int, list[Round]] = {}
        for each in rounds:
            which, place = divmod(each.round, CHUNK)
            if which not in touched:
                # Readers keep the chunk they have: it is replaced, and never changed.
                known = which < len(self._chunks)
                touched[which] = list(self._chunks[which].rounds) if known else []
            touched[which][place : place + 1] = [each]
            self._length = max(self._length, each.round + 1)
            if each.revision:
                self.revised.add(each.round)
        for which in sorted(touched):
            self._chunks[which : which + 1] = [Chunk(touched[which])]

    @property
    def reporters(self) -> int:
        """Reports counted in all rounds together."""
        return sum(chunk.reporters for chunk in self._chunks)

    def clear(self) -> None:
        self._chunks, self._length = [], 0
        self.revised.clear()

    def chunks(self, since: int = 0, until: int | None = None) -> list[Chunk]:
        """The rounds in [since, until); whole chunks are the shared ones."""
        until = self._length if until is None else min(until, self._length)
        found = []
        for which in range(max(since, 0) // CHUNK, -(-until // CHUNK)):
            chunk, first = self._chunks[which], which * CHUNK
            some = chunk.rounds[max(0, since - first) : until - first]
            found.append(chunk if len(some) == len(chunk.rounds) else Chunk(some))
        return [chunk for chunk in found if chunk.rounds]

    def summary(self) -> list[Round]:
        """At most a thousand, for a picture of all: the latest, and the extremes of the others."""
        begin = max(0, self._length - _LATEST)
        if begin <= 2 * _STRETCHES:
            return list(self)
        chunks = self.chunks(0, begin)
        each = max(1, _STRETCHES // len(chunks))
        found = [chunk.extremes(each) for chunk in chunks]
        together = -(-len(chunks) // _STRETCHES)
        if together > 1:
            found = [
                lowest_and_highest([one for some in found[i : i + together] for one in some])
                for i in range(0, len(found), together)
            ]
        latest = [one for chunk in self.chunks(begin) for one in chunk.rounds]
        return [*(one for some in found for one in some), *latest]


def frames(rounds: Sequence[Round]) -> bytes:
    """Rounds as events of the stream."""
    return b"".join(
        frame("round", _encode(each), f"{each.round}.{each.revision}") for each in rounds
    )


def lowest_and_highest(rounds: Sequence[Round]) -> list[Round]:
    """The two, in order of time; of rounds without estimates one."""
    known = [each for each in rounds if each.share is not None] or rounds[:1]
    ends = {each.round: each for each in (min(known, key=_share), max(known, key=_share))}
    return [ends[number] for number in sorted(ends)]


def _share(round_: Round) -> float:
    return 0.0 if round_.share is None else round_.share


def joined(head: bytes, chunks: Sequence[Chunk], tail: bytes) -> Iterator[bytes]:
    """A JSON document, piece by piece; `head` ends in `[` and `tail` begins with `]`."""
    yield head
    for chunk in chunks[:-1]:
        yield chunk.json()
    yield (chunks[-1].json()[:-1] if chunks else b"") + tail


def packed(head: bytes, chunks: Sequence[Chunk], tail: bytes) -> Iterator[bytes]:
    """The same document as one zlib stream."""
    adler = 1
    last = chunks[-1].json()[:-1] if chunks else b""
    pieces: list[Callable[[], Packed]] = [
        lambda: Packed(head),
        *(chunk.packed for chunk in chunks[:-1]),
        lambda: Packed(last + tail),
    ]
    yield _HEAD
    for piece in pieces:
        made = piece()
        adler = _adler_of_both(adler, made.adler, made.length)
        yield made.data
    yield _END + adler.to_bytes(4, "big")


def _adler_of_both(first: int, second: int, length: int) -> int:
    """Adler-32 of two byte strings after each other, from theirs and the second's length."""
    low = (first & 0xFFFF) + (second & 0xFFFF) - 1
    low %= _ADLER
    high = (first >> 16) + (second >> 16) + length * ((first & 0xFFFF) - 1)
    return (high % _ADLER) << 16 | low
