"""A report: one bit, with the ticket and the slot it belongs to.

For people and browsers it is JSON; for relays, packed records of 29 bytes in a row: serial (8
bytes, little-endian), slot (4, likewise), bit (1), mark (16).
"""

import struct
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks

RECORD = np.dtype([("serial", "<u8"), ("slot", "<u4"), ("bit", "u1"), ("mark", "V16")])
PACKED = struct.Struct("<QIB16s")
"""The same for one report at a time."""


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a device sends: the ticket's serial and mark, which of its reports this is, the bit."""

    serial: int
    slot: int
    bit: int
    mark: bytes

    def pack(self) -> bytes:
        """The record of 29 bytes."""
        return PACKED.pack(self.serial, self.slot, self.bit, self.mark)


class Batch(NamedTuple):
    """Many reports as columns."""

    serials: NDArray[np.uint64]
    slots: NDArray[np.uint32]
    bits: NDArray[np.uint8]
    marks: bytes


def unpack(data: bytes) -> Batch:
    """Packed records as columns; their bits are checked, their marks are not."""
    if len(data) % RECORD.itemsize:
        raise checks.InvalidInput(f"Expected whole records of {RECORD.itemsize} bytes")
    records = np.frombuffer(data, RECORD)
    bits = np.ascontiguousarray(records["bit"])
    if bits.max(initial=0) > 1:
        raise checks.InvalidInput("Expected bits to hold only 0 and 1")
    return Batch(
        records["serial"].astype(np.uint64),
        records["slot"].astype(np.uint32),
        bits,
        records["mark"].tobytes(),
    )
