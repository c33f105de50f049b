"""The embedded store: one SQLite file, one process.

Write-ahead log with synchronous=FULL: a commit is on the disk when it returns. A group of reports
is one blob of serials and a few counts, in one transaction; which serials are used is looked up in
bitmaps in memory, rebuilt at start from the blobs and from the chunks into which old blobs are
folded. Bits are set after the commit. When a commit fails nobody knows what reached the disk, so
everything in memory is read again before anything else is counted.

The log tells more than the file: from two commits in a row, which serials came and by how much the
counts rose, so of a report that came alone its bit. `tidy` therefore empties it every few seconds.
What stays is sums, and which tickets were used, in the order in which they came.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare import checks
from sudare.collector.stores import (
    Closing,
    Counts,
    Group,
    KeyRange,
    Progress,
    Row,
    StoreUnavailable,
    Verdict,
    read_row,
    tally,
)
from sudare.collector.stores.lock import only_one
from sudare.collector.stores.reasons import reason
from sudare.collector.stores.schemas import SQLITE
from sudare.collector.stores.seen import Bank, firsts

_FORMAT = 1
_APPLICATION = 0x5DA4EC0
_FOLD_BYTES = 4 << 20
_EMPTY_SECONDS = 10.0
"""How long what was written stays in the log at most, if nobody else is reading."""


class SQLite:
    """A store in a file, which this process alone may use."""

    shared = False

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        if not path.absolute().parent.is_dir():
            raise checks.InvalidInput(f"Cannot open {path}: there is no folder {path.parent}")
        # Links must not lead past the lock; also, SQLite takes ":memory:" for no file at all.
        self._path = path.resolve()
        self._progress = Progress(0, 0, b"")
        self._lock = only_one(self._path, self.place)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def meta(self) -> dict[str, bytes]:
        with self._reading() as db:
            return dict(db.execute("SELECT name, value FROM meta"))

    def found(self, values: Mapping[str, bytes], secret: bytes) -> None:
        with self._writing() as db:
            if not db.execute("SELECT 1 FROM meta").fetchone():
                db.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
                db.execute("INSERT INTO ranges VALUES (0, 0, ?)", (secret,))
                db.execute("INSERT INTO progress VALUES (0, 0, 0, x'')")

    def set_meta(self, name: str, value: bytes) -> None:
        with self._writing() as db:
            db.execute("REPLACE INTO meta VALUES (?, ?)", (name, value))

    def ranges(self) -> list[KeyRange]:
        with self._reading() as db:
            found = db.execute("SELECT first, next, secret FROM ranges ORDER BY first")
            return [KeyRange(*row) for row in found]

    def add_range(self, secret: bytes, multiple: int) -> None:
        with self._writing() as db:
            first, following, _ = _last_range(db)
            if first == following:  # no ticket has been made with it
                db.execute("UPDATE ranges SET secret = ? WHERE first = ?", (secret, first))
            else:
                aligned = -(-following // multiple) * multiple
                db.execute("INSERT INTO ranges VALUES (?, ?, ?)", (aligned, aligned, secret))

    def issue(self, count: int) -> tuple[int, bytes]:
        with self._writing() as db:
            first, following, secret = _last_range(db)
            db.execute("UPDATE ranges SET next = next + ? WHERE first = ?", (count, first))
        return following, secret

    def count(self, group: Group) -> NDArray[np.uint8]:
        self._recover()
        fresh = self._fresh(group.banks, group.serials)
        late = None
        if int(group.rounds.min()) < self._progress.sealed:
            late = group.rounds < self._progress.sealed
            unknown = late & ~self.used(group.banks, group.serials)
            fresh &= ~late
        verdicts = np.logical_not(fresh).view(np.uint8)  # COUNTED is 0, REPEATED is 1
        if late is not None:
            verdicts[unknown] = Verdict.TOO_LATE
        if fresh.any():
            self._add(group if fresh.all() else group.only(fresh))
        return verdicts

    def used(
        self, banks: NDArray[np.int64] | int, serials: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        self._recover()
        return ~self._fresh(banks, serials, once=False)

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        with self._reading() as db:
            return _counts(db, cells)

    def progress(self) -> Progress:
        self._recover()
        return self._progress

    def rows(self, first: int, beyond: int) -> list[Row]:
        with self._reading() as db:
            return _rows(db, first, beyond)

    @contextmanager
    def closing(self) -> Iterator[Closing]:
        with self._writing() as db:
            closing = _Closing(db, self._progress)
            yield closing
        self._progress = closing.progress

    def tidy(self) -> None:
        self._recover()
        sealed = self._progress.sealed
        over = [bank for bank in self._banks if 1 <= bank <= sealed]
        if over:
            with self._writing() as db:
                db.execute("DELETE FROM groups WHERE bank BETWEEN 1 AND ?", (sealed,))
                db.execute("DELETE FROM chunks WHERE bank BETWEEN 1 AND ?", (sealed,))
            for bank in over:
                del self._banks[bank]
        if self._unfolded > max(_FOLD_BYTES, self._folded_bytes):
            self._fold()
        if self._written and time.monotonic() >= self._emptied + _EMPTY_SECONDS:
            self._empty_log()

    def refused(self, reasons: Mapping[str, int]) -> None:
        with self._writing() as db:
            db.executemany(
                "INSERT INTO refusals VALUES (?, ?) "
                "ON CONFLICT (reason) DO UPDATE SET number = number + excluded.number",
                reasons.items(),
            )

    def refusals(self) -> dict[str, int]:
        with self._reading() as db:
            return dict(db.execute("SELECT reason, number FROM refusals"))

    def raw(self, most: int) -> list[tuple[int, bytes]]:
        with self._reading() as db:
            found, size = [], 0
            for number, reports in db.execute("SELECT number, reports FROM raw ORDER BY number"):
                found.append((number, reports))
                size += len(reports)
                if size >= most:
                    break
            return found

    def drop_raw(self, numbers: Sequence[int]) -> None:
        with self._writing() as db:
            db.executemany("DELETE FROM raw WHERE number = ?", [(number,) for number in numbers])

    def close(self) -> None:
        """Give the file free."""
        with suppress(AttributeError, sqlite3.Error):
            self._db.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _open(self) -> None:
        try:
            if not self._path.exists():
                # Only its owner may read it: it may hold ticket keys.
                os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._stale = False
            self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            # Overwritten, not just given free: raw reports that were moved are to be gone.
            self._db.execute("PRAGMA secure_delete = ON")
            # After a failed sync the log may not be on the disk, whatever is read from it: what
            # counts from here on has been written, and synced, once more.
            ((busy, *_),) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if busy:
                raise sqlite3.OperationalError("locked")
            self._db.execute("PRAGMA wal_autocheckpoint = 4000")
            self._written, self._emptied = False, time.monotonic()
            self._check_format()
            self._load()
        except (OSError, sqlite3.Error) as problem:
            self._stale = True
            raise self._explained(problem) from None

    def _check_format(self) -> None:
        ((application,),) = self._db.execute("PRAGMA application_id")
        ((version,),) = self._db.execute("PRAGMA user_version")
        if application == 0 and not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
            self._db.execute("BEGIN IMMEDIATE")
            for statement in SQLITE.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {_FORMAT}")
            self._db.execute("COMMIT")
        elif application != _APPLICATION or version > _FORMAT:
            other = "is of a newer version" if application == _APPLICATION else "is something else"
            raise checks.InvalidInput(
                f"Expected {self.place} to be a collector's store: it {other}"
            )

    def _load(self) -> None:
        """What is kept in memory, from the file."""
        found = self._db.execute("SELECT published, sealed, smoother FROM progress").fetchone()
        self._progress = Progress(*(found or (0, 0, b"")))
        self._banks: dict[int, Bank] = {}
        self._unfolded = self._folded_bytes = 0
        for bank, chunk, bits in self._db.execute("SELECT bank, chunk, bits FROM chunks"):
            self._banks.setdefault(bank, Bank()).load(chunk, bits)
            self._folded_bytes += len(bits)
        for bank, width, serials in self._db.execute("SELECT bank, width, serials FROM groups"):
            numbers = np.frombuffer(serials, f"<u{width}").astype(np.uint64)
            self._banks.setdefault(bank, Bank()).add(numbers)
            self._unfolded += len(serials)

    def _empty_log(self) -> None:
        """Into the file with it; if that cannot be now, all is safe in the log until next time."""
        self._db.execute("PRAGMA busy_timeout = 0")  # a backup that reads is not waited for
        with suppress(sqlite3.Error):
            ((busy, *_),) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._written = bool(busy)
        self._db.execute("PRAGMA busy_timeout = 5000")
        self._emptied = time.monotonic()

    def _fold(self) -> None:
        """Blobs into chunks: the file stays as small as the bitmaps."""
        with self._writing() as db:
            for number, bank in self._banks.items():
                db.executemany(
                    "REPLACE INTO chunks VALUES (?, ?, ?)",
                    ((number, chunk, bits) for chunk, bits in bank.changed()),
                )
            db.execute("DELETE FROM groups")
        for bank in self._banks.values():
            bank.stored()
        self._unfolded = 0
        self._folded_bytes = sum(bank.size for bank in self._banks.values())

    def _fresh(
        self, banks: NDArray[np.int64] | int, serials: NDArray[np.uint64], once: bool = True
    ) -> NDArray[np.bool_]:
        """Which are not used yet; of equal ones, `once` the first."""
        if isinstance(banks, int):
            bank = self._banks.get(banks)
            fresh = np.ones(serials.shape, np.bool_) if bank is None else ~bank.holds(serials)
            return firsts(serials, fresh) if once else fresh
        fresh = np.empty(serials.shape, np.bool_)
        for number in np.unique(banks).tolist():
            mine = banks == number
            fresh[mine] = self._fresh(number, serials[mine], once)
        return fresh

    def _add(self, group: Group) -> None:
        """Count reports that are known to be new."""
        parts = (
            [(group.banks, group.serials)]
            if isinstance(group.banks, int)
            else [
                (number, group.serials[group.banks == number])
                for number in np.unique(group.banks).tolist()
            ]
        )
        with self._writing() as db:
            for bank, serials in parts:
                width = 4 if int(serials.max()) < 2**32 else 8
                blob = serials.astype(f"<u{width}").tobytes()
                db.execute(_KEEP, (bank, width, blob))
                self._unfolded += len(blob)
            db.executemany(_ADD, tally(group.cells, group.bits))
            if group.raw is not None:
                db.execute("INSERT INTO raw (reports) VALUES (?)", (group.raw.tobytes(),))
        for bank, serials in parts:
            if bank not in self._banks:
                self._banks[bank] = Bank()
            self._banks[bank].add(serials)

    def _recover(self) -> None:
        if self._lock < 0:
            raise StoreUnavailable(f"{self.place} is closed")
        if self._stale:
            with suppress(sqlite3.Error):
                self._db.close()
            self._open()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._recover()
        try:
            yield self._db
        except sqlite3.Error as problem:
            self._stale = True
            raise self._explained(problem) from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._recover()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
            self._written = True
        except BaseException as problem:
            self._stale = True
            with suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            if isinstance(problem, sqlite3.Error):
                raise self._explained(problem) from None
            raise

    def _explained(self, problem: Exception) -> StoreUnavailable:
        said = problem.strerror if isinstance(problem, OSError) else str(problem)
        return StoreUnavailable(f"{self.place}: {reason(said or 'no answer')}")


class _Closing:
    def __init__(self, db: sqlite3.Connection, progress: Progress) -> None:
        self._db = db
        self.progress = progress
        ((issued,),) = db.execute("SELECT SUM(next - first) FROM ranges")
        self.issued: int = issued

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        return _counts(self._db, cells)

    def rows(self, first: int, beyond: int) -> list[Row]:
        return _rows(self._db, first, beyond)

    def record(self, rows: Sequence[Row], progress: Progress) -> None:
        self._db.executemany("REPLACE INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._db.execute("UPDATE progress SET published = ?, sealed = ?, smoother = ?", progress)
        self.progress = progress


def _last_range(db: sqlite3.Connection) -> KeyRange:
    return KeyRange(*db.execute("SELECT * FROM ranges ORDER BY first DESC LIMIT 1").fetchone())


def _counts(db: sqlite3.Connection, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
    wanted = msgspec.json.encode(cells.tolist()).decode()
    found: dict[int, tuple[Any, ...]] = {
        row[0]: row
        for row in db.execute(
            "SELECT cell, reporters, ones FROM counts "
            "WHERE cell IN (SELECT value FROM json_each(?))",
            (wanted,),
        )
    }
    both = [found.get(cell, (cell, 0, 0))[1:] for cell in cells.tolist()]
    reporters, ones = np.array(both, np.int64).reshape(-1, 2).T
    return reporters, ones


def _rows(db: sqlite3.Connection, first: int, beyond: int) -> list[Row]:
    found = db.execute(
        "SELECT * FROM rounds WHERE round >= ? AND round < ? ORDER BY round", (first, beyond)
    )
    return [read_row(row) for row in found]


_KEEP = "INSERT INTO groups (bank, width, serials) VALUES (?, ?, ?)"
_ADD = (
    "INSERT INTO counts VALUES (?, ?, ?) ON CONFLICT (cell) DO UPDATE "
    "SET reporters = reporters + excluded.reporters, ones = ones + excluded.ones"
)
