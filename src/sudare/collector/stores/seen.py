"""Which reports have been counted: bitmaps in memory, one bit a ticket.

A *bank* is a bitmap over serials. A survey of one report a user has one bank, number 0, for good.
Where users report more than once, each round has a bank, which is forgotten when the round is over:
then its reports are refused as too late anyway. Memory follows the serials issued, at one bit for
each bank; pages of the bitmap that nobody touched cost nothing.
"""

import numpy as np
from numpy.typing import NDArray

Serials = NDArray[np.uint64]

CHUNK = 1 << 13
"""Bytes of a bitmap that are stored together."""
_CHUNK_BITS = 16
_BITS = np.left_shift(1, np.arange(8)).astype(np.uint8)


class Bank:
    """A set of serials."""

    def __init__(self) -> None:
        self._bits = np.zeros(CHUNK, np.uint8)
        self._changed = np.zeros(1, np.bool_)

    def holds(self, serials: Serials) -> NDArray[np.bool_]:
        where = (serials >> np.uint64(3)).astype(np.int64)
        which = _BITS[serials & np.uint64(7)]
        size = len(self._bits)
        held: NDArray[np.bool_]
        if where.size and int(where.max()) >= size:
            inside = where < size
            held = inside & (self._bits[np.where(inside, where, 0)] & which != 0)
        else:
            held = self._bits[where] & which != 0
        return held

    def add(self, serials: Serials) -> None:
        if not serials.size:
            return
        self._grow(int(serials.max()) >> _CHUNK_BITS)
        where = (serials >> np.uint64(3)).astype(np.int64)
        np.bitwise_or.at(self._bits, where, _BITS[serials & np.uint64(7)])
        self._changed[where >> (_CHUNK_BITS - 3)] = True

    def load(self, chunk: int, bits: bytes) -> None:
        """A stored chunk."""
        self._grow(chunk)
        self._bits[chunk * CHUNK : (chunk + 1) * CHUNK] |= np.frombuffer(bits, np.uint8)

    def changed(self) -> list[tuple[int, bytes]]:
        """The chunks that differ from what is stored."""
        return [
            (int(chunk), self._bits[chunk * CHUNK : (chunk + 1) * CHUNK].tobytes())
            for chunk in np.flatnonzero(self._changed)
        ]

    def stored(self) -> None:
        """What `changed` gave has been stored."""
        self._changed[:] = False

    @property
    def size(self) -> int:
        """Bytes of the bitmap."""
        return len(self._bits)

    def _grow(self, chunk: int) -> None:
        have = len(self._changed)
        if chunk < have:
            return
        chunks = max(chunk + 1, have + have // 2)
        bits, changed = np.zeros(chunks * CHUNK, np.uint8), np.zeros(chunks, np.bool_)
        bits[: have * CHUNK], changed[:have] = self._bits, self._changed
        self._bits, self._changed = bits, changed


def firsts(serials: Serials, fresh: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the `fresh` ones, those that stand nowhere before them."""
    mine = serials[fresh]
    ordered = np.sort(mine)
    if not np.count_nonzero(ordered[1:] == ordered[:-1]):
        return fresh
    (where,) = np.nonzero(fresh)
    first = np.zeros_like(fresh)
    first[where[np.unique(mine, return_index=True)[1]]] = True
    return first
