"""A mark for each report of a ticket that makes several: who relays one cannot forge another.

Where a survey says `marks = "slots"`, the mark of a ticket never leaves the device. The report in a
slot carries a keyed function of the slot under it, SipHash-2-4 with 128 bits (Aumasson and
Bernstein 2012), which the collector works out as well, for a million reports in one call.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_CONSTANTS = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_SLOT_BYTES = 8


def slot_marks(marks: bytes, slots: NDArray[np.integer]) -> bytes:
    """For each ticket's mark, and a slot of it, the mark of the report; all of 16 bytes."""
    keys = np.frombuffer(marks, "<u8").reshape(-1, 2)
    last = np.uint64(_SLOT_BYTES << 56)
    return sip(keys[:, 0], keys[:, 1], [slots.astype(np.uint64), last]).astype("<u8").tobytes()


def sip(first: Words, second: Words, blocks: list[Words | np.uint64]) -> Words:
    """SipHash-2-4 of 128 bits, as pairs of words; the last block holds the length."""
    one, two, three, four = (np.uint64(each) for each in _CONSTANTS)
    v = [first ^ one, second ^ two ^ np.uint64(0xEE), first ^ three, second ^ four]
    for block in blocks:
        v[3] = v[3] ^ block
        _rounds(v, 2)
        v[0] = v[0] ^ block
    found = np.empty((first.size, 2), np.uint64)
    for column, constant in enumerate((0xEE, 0xDD)):
        place = 2 if column == 0 else 1
        v[place] = v[place] ^ np.uint64(constant)
        _rounds(v, 4)
        found[:, column] = v[0] ^ v[1] ^ v[2] ^ v[3]
    return found


def _rounds(v: list[Words], count: int) -> None:
    for _ in range(count):
        v[0] = v[0] + v[1]
        v[2] = v[2] + v[3]
        v[1] = _turned(v[1], 13) ^ v[0]
        v[3] = _turned(v[3], 16) ^ v[2]
        v[0] = _turned(v[0], 32)
        v[2] = v[2] + v[1]
        v[0] = v[0] + v[3]
        v[1] = _turned(v[1], 17) ^ v[2]
        v[3] = _turned(v[3], 21) ^ v[0]
        v[2] = _turned(v[2], 32)


def _turned(words: Words, places: int) -> Words:
    return words << np.uint64(places) | words >> np.uint64(64 - places)
