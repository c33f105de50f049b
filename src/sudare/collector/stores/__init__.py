"""Where a collector keeps what must survive it: an SQLite file, or a PostgreSQL database that
several collectors share.

A store holds the survey, wrapped ticket keys, counts, used serials, published rounds and numbers of
refusals; no bits of anybody. Each method is one transaction, durable when it returns. A method that
raises `StoreUnavailable` may or may not have taken effect; doing the same again is safe.
"""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sudare import checks

Counts = NDArray[np.int64]


class StoreUnavailable(checks.SudareError):
    """Nothing of this call is known to be durable: the sender must try again."""


class Verdict(IntEnum):
    """What became of a report; in lower case, the reasons of the API."""

    COUNTED = 0
    REPEATED = 1
    WRONG_MARK = 2
    UNKNOWN_SLOT = 3
    TOO_EARLY = 4
    TOO_LATE = 5
    MALFORMED = 6


class Group(NamedTuple):
    """Reports that are committed together, as columns."""

    banks: NDArray[np.int64] | int
    """What `serials` must be unique within: a round, or 0 for the whole survey."""
    serials: NDArray[np.uint64]
    rounds: NDArray[np.int64]
    cells: NDArray[np.int64]
    bits: NDArray[np.uint8]
    raw: NDArray[np.void] | None = None
    """To be kept as well, for those that count."""

    def only(self, chosen: NDArray[Any]) -> "Group":
        """Some of them."""
        return Group(
            self.banks if isinstance(self.banks, int) else self.banks[chosen],
            self.serials[chosen],
            self.rounds[chosen],
            self.cells[chosen],
            self.bits[chosen],
            None if self.raw is None else self.raw[chosen],
        )


class KeyRange(NamedTuple):
    """Tickets from `first` on are made with this key; `next` has not been issued yet."""

    first: int
    next: int
    secret: bytes


class Row(NamedTuple):
    """A published round; NaN where there is no estimate."""

    round: int
    published: float
    users: int
    reporters: int
    raw: float
    low: float
    high: float
    smoothed: float
    revision: int


class Progress(NamedTuple):
    """How far publication is."""

    published: int
    """Rounds before this one are published."""
    sealed: int
    """Rounds before this one take no more reports, whatever the clock says."""
    smoother: bytes
    """State of the smoothing filter after the last published round."""


class Closing(Protocol):
    """A transaction during which no report is counted."""

    progress: Progress
    issued: int

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        """Reporters and ones."""
        ...

    def rows(self, first: int, beyond: int) -> list[Row]: ...

    def record(self, rows: Sequence[Row], progress: Progress) -> None:
        """Publish rounds, or replace them by their revision."""
        ...


class Store(Protocol):
    place: str
    """For messages; without a password."""
    shared: bool
    """Whether other collectors may be using it."""

    def meta(self) -> dict[str, bytes]:
        """Named values; empty before `found`."""
        ...

    def found(self, values: Mapping[str, bytes], secret: bytes) -> None:
        """Set up an empty store with its first ticket key; nothing if somebody has done so."""
        ...

    def set_meta(self, name: str, value: bytes) -> None: ...

    def ranges(self) -> list[KeyRange]:
        """In order."""
        ...

    def add_range(self, secret: bytes, multiple: int) -> None:
        """From the next multiple on, issue tickets with another key."""
        ...

    def issue(self, count: int) -> tuple[int, bytes]:
        """The first of `count` numbers that nobody had before, and the secret of their range."""
        ...

    def count(self, group: Group) -> NDArray[np.uint8]:
        """For each report COUNTED, REPEATED, or TOO_LATE for one whose round is sealed."""
        ...

    def used(
        self, banks: NDArray[np.int64] | int, serials: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Which have been counted; where a bank has been forgotten none."""
        ...

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]: ...

    def progress(self) -> Progress: ...

    def rows(self, first: int, beyond: int) -> list[Row]:
        """Published rounds in [first, beyond)."""
        ...

    def closing(self) -> AbstractContextManager[Closing]: ...

    def tidy(self) -> None:
        """Forget a little of what is not needed any more: banks of sealed rounds."""
        ...

    def refused(self, reasons: Mapping[str, int]) -> None:
        """Add to the numbers of refusals."""
        ...

    def refusals(self) -> dict[str, int]: ...

    def raw(self, most: int) -> list[tuple[int, bytes]]:
        """The oldest raw reports this collector has kept, about `most` bytes, with numbers."""
        ...

    def drop_raw(self, numbers: Sequence[int]) -> None: ...

    def close(self) -> None: ...


def open_store(url: str | Path) -> Store:
    """The store behind a path (SQLite) or a postgresql:// address."""
    text = str(url)
    if re.match(r"postgres(ql)?://", text):
        from sudare.collector.stores.postgres import PostgreSQL

        return PostgreSQL(text)
    if "://" in text:
        raise checks.InvalidInput(
            "Expected a path for the store, or an address that begins with postgresql://"
        )
    from sudare.collector.stores.sqlite import SQLite

    return SQLite(Path(text))


def read_row(values: Sequence[Any]) -> Row:
    """A published round from a database, where NaN is NULL."""
    numbers: list[Any] = [math.nan if value is None else value for value in values]
    return Row(*numbers)


def tally(cells: NDArray[np.int64], bits: NDArray[np.uint8]) -> list[tuple[int, int, int]]:
    """Cell, reporters and ones, for each cell that got a report."""
    low = int(cells.min())
    if int(cells.max()) == low:
        return [(low, cells.size, int(np.count_nonzero(bits)))]
    codes = (cells - low) * 2 + bits
    if int(codes.max()) <= 4 * codes.size + 64:
        counts = np.bincount(codes, minlength=2)
        counts = np.append(counts, 0)[: len(counts) + len(counts) % 2].reshape(-1, 2)
        (where,) = np.nonzero(counts.sum(axis=1))
        chosen = counts[where]
    else:
        where, back = np.unique(codes >> 1, return_inverse=True)
        chosen = np.bincount(back * 2 + bits, minlength=2 * where.size).reshape(-1, 2)
    columns = ((where + low).tolist(), chosen.sum(axis=1).tolist(), chosen[:, 1].tolist())
    return list(zip(*columns, strict=True))
