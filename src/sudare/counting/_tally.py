"""Counts of reports: all that a collector has to keep.

A tally is two numbers a cell: how many reported, and how many of those sent a one. Tallies add up
in any order, so shards can count apart and be merged later.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.counting._survey import Survey
from sudare.foundations import checks

Counts = NDArray[np.int64]
_MAGIC = b"sudare-tally/1\n"
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}


@dataclass(frozen=True, eq=False)
class Tally:
    """Reporters and ones in each cell of one survey."""

    digest: bytes
    """Which survey: `survey.digest()`."""
    reporters: Counts
    ones: Counts

    def __post_init__(self) -> None:
        if self.reporters.shape != self.ones.shape or self.reporters.ndim != 1:
            raise checks.InvalidInput("Expected as many counts of ones as of reporters")
        if not ((self.ones >= 0) & (self.ones <= self.reporters)).all():
            raise checks.InvalidInput("Expected 0 <= ones <= reporters in every cell")

    def add(self, cells: ArrayLike, bits: ArrayLike) -> "Tally":
        """With these reports counted as well; `cells` and `bits` go together."""
        where, what = _cells(cells, len(self.ones)), _bits(bits)
        if where.shape != what.shape or where.ndim != 1:
            raise checks.InvalidInput("Expected two lists: as many bits as cells")
        counts = np.bincount(where * 2 + what, minlength=2 * len(self.ones)).reshape(-1, 2)
        return Tally(self.digest, self.reporters + counts.sum(axis=1), self.ones + counts[:, 1])

    def __add__(self, other: "Tally") -> "Tally":
        """Two shards of one survey together."""
        if self.digest != other.digest or len(self.ones) != len(other.ones):
            raise checks.InvalidInput("Expected two tallies of the same survey")
        return Tally(self.digest, self.reporters + other.reporters, self.ones + other.ones)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_bytes(self) -> bytes:
        """A compact form: the counts in the shortest width that holds them all."""
        most = int(self.reporters.max(initial=0))
        width = next(w for w in _WIDTHS if most < 256**w)
        header = struct.pack("<32sBI", self.digest, width, len(self.ones))
        numbers = np.concatenate([self.reporters, self.ones]).astype(_WIDTHS[width])
        return _MAGIC + header + numbers.tobytes()


def empty_tally(survey: Survey) -> Tally:
    """Nothing counted yet."""
    return Tally(
        survey.digest(), np.zeros(survey.cells, np.int64), np.zeros(survey.cells, np.int64)
    )


def read_tally(data: bytes) -> Tally:
    """What `Tally.to_bytes` wrote."""
    size = struct.calcsize("<32sBI")
    body = data[len(_MAGIC) + size :]
    if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + size:
        raise checks.InvalidInput("Expected a tally written by this version of sudare")
    digest, width, cells = struct.unpack_from("<32sBI", data, len(_MAGIC))
    if width not in _WIDTHS or len(body) != 2 * cells * width:
        raise checks.InvalidInput("Expected a whole tally: this one is cut short or damaged")
    numbers = np.frombuffer(body, _WIDTHS[width]).astype(np.int64)
    return Tally(digest, numbers[:cells], numbers[cells:])


def _cells(cells: ArrayLike, count: int) -> NDArray[np.int64]:
    values = _array(cells)
    if values.size == 0:
        return np.zeros(values.shape, np.int64)
    if not np.issubdtype(values.dtype, np.integer) or values.min() < 0 or values.max() >= count:
        raise checks.InvalidInput(f"Expected cells to be whole numbers from 0 to {count - 1}")
    return values.astype(np.int64, copy=False)


def _bits(bits: ArrayLike) -> NDArray[np.int64]:
    values = _array(bits)
    if values.size == 0:
        return np.zeros(values.shape, np.int64)
    whole = values.dtype == np.bool_ or np.issubdtype(values.dtype, np.integer)
    if not whole or values.min() < 0 or values.max() > 1:
        raise checks.InvalidInput("Expected bits to hold only 0 and 1")
    return values.astype(np.int64)


def _array(values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # numpy's message is about lists of different lengths
        raise checks.InvalidInput("Expected two lists: as many bits as cells") from None
