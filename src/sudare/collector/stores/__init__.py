"""Where a collector keeps what must survive it: an SQLite file, or a PostgreSQL database that
several collectors share.

A store holds the survey, wrapped ticket keys, counts, used serials, published rounds and numbers of
refusals; no bits of anybody. Each method is one transaction, durable when it returns. A method that
raises `StoreUnavailable` may or may not have taken effect; doing the same again is safe.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.foundations import checks
from sudare.storage.postgres import is_address, parse_address

FORGOTTEN = "forgotten"
"""The name of the value that says whose used serials have been forgotten."""
KEPT_BANKS = 2
"""Sealed rounds whose used serials are kept all the same."""
Counts = NDArray[np.int64]
Run = Callable[..., Any]
"""Executes a statement with its values."""


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


REASONS = tuple(verdict.name.lower() for verdict in Verdict)


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


class Closing:
    """A transaction during which no report is counted."""

    def __init__(self, store: "Store", run: Run) -> None:
        self._store, self._run = store, run
        self.progress = read_progress(run)
        ((issued,),) = run("SELECT CAST(sum(next - first) AS INT8) FROM collector_ranges")
        self.issued: int = issued

    @property
    def forgotten(self) -> int:
        """Which serials were used in rounds before this one is not known any more."""
        found = self._run("SELECT value FROM collector_meta WHERE name = ?", FORGOTTEN).fetchone()
        return self.progress.sealed if found is None else int(found[0])

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        """Reporters and ones."""
        return self._store._counts(self._run, cells)

    def rows(self, first: int, beyond: int) -> list[Row]:
        return _rows(self._run, first, beyond)

    def record(self, rows: Sequence[Row], progress: Progress) -> None:
        """Publish rounds, or replace them by their revision."""
        for row in rows:
            values = [None if value != value else value for value in row]  # NULL for NaN
            self._run("DELETE FROM collector_rounds WHERE round = ?", row.round)
            self._run("INSERT INTO collector_rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values)
        self._run(
            "UPDATE collector_progress SET published = ?, sealed = ?, smoother = ?", *progress
        )
        self.progress = progress


class Store(ABC):
    """What both kinds have in common, in statements that both databases understand.

    Values stand for question marks. The tables are called collector_…; a file of its own leaves
    that out.
    """

    place: str
    """For messages; without a password."""
    shared: bool
    """Whether other collectors may be using it."""
    _among: str
    """How to ask for any of a list of numbers, as `_numbers` gives it."""
    _add_refusals: str
    _shard: tuple[int, ...] = ()
    """Which counts are this collector's own."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Run]:
        """To look something up."""

    @abstractmethod
    def _writing(self, alone: bool = False) -> AbstractContextManager[Run]:
        """A transaction; `alone` is without any report being counted, or ticket issued."""

    @abstractmethod
    def _numbers(self, numbers: NDArray[np.int64]) -> Any:
        """Whole numbers as one value of a query."""

    def clock(self) -> float:
        """The time by which all who share the store go."""
        return time.time()

    def collectors(self) -> int:
        """How many are at work on it."""
        return 1

    def meta(self) -> dict[str, bytes]:
        """Named values; empty before `initialise`."""
        with self._reading() as run:
            return dict(run("SELECT name, value FROM collector_meta"))

    def initialise(self, values: Mapping[str, bytes], secret: bytes) -> None:
        """Set up an empty store with its first ticket key; does nothing if that was done before."""
        with self._writing(alone=True) as run:
            if run("SELECT 1 FROM collector_meta").fetchone():
                return
            for name, value in values.items():
                run("INSERT INTO collector_meta VALUES (?, ?)", name, value)
            run("INSERT INTO collector_ranges VALUES (0, 0, ?)", secret)
            run("INSERT INTO collector_progress VALUES (0, 0, 0, ?)", b"")

    def set_meta(self, name: str, value: bytes) -> None:
        with self._writing() as run:
            _set_meta(run, name, value)

    def ranges(self) -> list[KeyRange]:
        """In order."""
        with self._reading() as run:
            found = run("SELECT first, next, secret FROM collector_ranges ORDER BY first")
            return [KeyRange(*row) for row in found]

    def add_range(self, secret: bytes, multiple: int) -> None:
        """From the next multiple on, issue tickets with another key."""
        with self._writing(alone=True) as run:
            first, following, _ = last_range(run)
            if first == following:  # no ticket has been made with it
                run("UPDATE collector_ranges SET secret = ? WHERE first = ?", secret, first)
            else:
                aligned = -(-following // multiple) * multiple
                run("INSERT INTO collector_ranges VALUES (?, ?, ?)", aligned, aligned, secret)

    @abstractmethod
    def issue(self, count: int) -> tuple[int, bytes]:
        """The first of `count` numbers never issued before, and the secret of their range."""

    @abstractmethod
    def count(self, group: Group) -> NDArray[np.uint8]:
        """For each report COUNTED, REPEATED, or TOO_LATE for one whose round is sealed."""

    @abstractmethod
    def used(
        self, banks: NDArray[np.int64] | int, serials: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Which have been counted; where a bank has been forgotten none."""

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        with self._reading() as run:
            return self._counts(run, cells)

    def progress(self) -> Progress:
        with self._reading() as run:
            return read_progress(run)

    def rows(self, first: int, beyond: int) -> list[Row]:
        """Published rounds in [first, beyond)."""
        with self._reading() as run:
            return _rows(run, first, beyond)

    @contextmanager
    def closing(self) -> Iterator[Closing]:
        with self._writing(alone=True) as run:
            yield Closing(self, run)

    @abstractmethod
    def tidy(self) -> None:
        """Forget a little of what is not needed any more: banks of sealed rounds, but for the last
        two in which anybody reported, which a wrong clock may have closed."""

    def refused(self, reasons: Mapping[str, int]) -> None:
        """Add to the numbers of refusals."""
        with self._writing() as run:
            for reason, number in reasons.items():
                run(self._add_refusals, *self._shard, reason, number)

    def refusals(self) -> dict[str, int]:
        with self._reading() as run:
            found = run("SELECT reason, sum(number) FROM collector_refusals GROUP BY reason")
            return {reason: int(number) for reason, number in found}

    @abstractmethod
    def raw(self, most: int) -> list[tuple[int, bytes]]:
        """The oldest raw reports this collector has kept, about `most` bytes, with numbers."""

    def drop_raw(self, numbers: Sequence[int]) -> None:
        with self._writing() as run:
            chosen = self._numbers(np.array(numbers, np.int64))
            run(f"DELETE FROM collector_raw WHERE number {self._among}", chosen)

    def discard(self) -> None:  # noqa: B027  (a database is not made here)
        """Leave nothing behind, if this call of `open_store` made the store: nobody has used it."""

    @abstractmethod
    def close(self) -> None: ...

    def _counts(self, run: Run, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        found = run(
            "SELECT cell, CAST(sum(reporters) AS INT8), CAST(sum(ones) AS INT8) "
            f"FROM collector_counts WHERE cell {self._among} GROUP BY cell",
            self._numbers(cells),
        )
        sums = {cell: (reporters, ones) for cell, reporters, ones in found}
        both = [sums.get(cell, (0, 0)) for cell in cells.tolist()]
        reporters, ones = np.array(both, np.int64).reshape(-1, 2).T
        return reporters, ones


def open_store(url: str | Path) -> Store:
    """The store behind a path (SQLite) or a postgresql:// address."""
    text = str(url)
    if is_address(text):
        address = parse_address(text)  # says so if there is no driver
        from sudare.collector.stores.postgres import PostgreSQL

        return PostgreSQL(address)
    if "://" in text:
        raise checks.InvalidInput(
            "Expected a path for the store, or an address that begins with postgresql://"
        )
    from sudare.collector.stores.sqlite import SQLite

    return SQLite(Path(text))


def read_progress(run: Run) -> Progress:
    found = run("SELECT published, sealed, smoother FROM collector_progress").fetchone()
    return Progress(*(found or (0, 0, b"")))


def forgettable(run: Run) -> int:
    """Banks from 1 to this one are not needed."""
    found = run(
        "SELECT round FROM collector_rounds WHERE reporters > 0 "
        "AND round < (SELECT sealed FROM collector_progress) ORDER BY round DESC LIMIT 1 OFFSET ?",
        KEPT_BANKS - 1,
    ).fetchone()
    return 0 if found is None else int(found[0])


def note_forgotten(run: Run, banks: int) -> None:
    """To be called where banks up to this one are forgotten, in the same transaction."""
    _set_meta(run, FORGOTTEN, b"%d" % banks)


def _set_meta(run: Run, name: str, value: bytes) -> None:
    run(
        "INSERT INTO collector_meta VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name,
        value,
    )


def last_range(run: Run) -> KeyRange:
    """The one from which tickets are issued."""
    return KeyRange(
        *run(
            "SELECT first, next, secret FROM collector_ranges ORDER BY first DESC LIMIT 1"
        ).fetchone()
    )


def _rows(run: Run, first: int, beyond: int) -> list[Row]:
    found = run(
        "SELECT * FROM collector_rounds WHERE round >= ? AND round < ? ORDER BY round",
        first,
        beyond,
    )
    return [Row._make(math.nan if value is None else value for value in row) for row in found]


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
