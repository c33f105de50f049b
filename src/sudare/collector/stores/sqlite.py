"""The embedded store: one SQLite file, one process.

Write-ahead log with synchronous=FULL: a commit is on the disk when it returns. A group of reports
is one blob of serials and a few counts, in one transaction; which serials are used is looked up in
bitmaps in memory, rebuilt at start from the blobs and from the chunks into which old blobs are
folded. Bits are set after the commit. When a commit fails nobody knows what reached the disk, so
everything in memory is read again before anything else is counted.

The log tells more than the file: from two commits in a row, which serials came and by how much the
counts rose, so of a report that came alone its bit. `tidy` therefore empties it every few seconds.
What stays is sums, and which tickets were used, in the order in which they came.

A *bank* is a bitmap over serials. A survey of one report a user has one bank, number 0, for good.
Where users report more than once, each round has a bank, which is forgotten when the round is over:
then its reports are refused as too late anyway. Memory follows the serials issued, at one bit for
each bank; pages of the bitmap that nobody touched cost nothing.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.collector.stores import (
    KEPT_BANKS,
    Closing,
    Counts,
    Group,
    Progress,
    Run,
    Store,
    StoreUnavailable,
    Verdict,
    forgettable,
    last_range,
    note_forgotten,
    read_progress,
    tally,
)
from sudare.foundations import checks
from sudare.storage import sqlite
from sudare.storage.lock import InUse, lock_file, only_one

Serials = NDArray[np.uint64]

CHUNK = 1 << 13
"""Bytes of a bitmap that are stored together."""
_CHUNK_BITS = 16
_BITS = np.left_shift(1, np.arange(8)).astype(np.uint8)
_FORMAT = 2
_NEW = ".new"
"""A store that is being made."""
_P, _REPORTERS, _ONES, _CELL = 2_147_483_647, 1_000_003, 8_191, 131
_CONTROL = f"(reporters * {_REPORTERS} + ones * {_ONES} + cell * {_CELL}) % {_P}"
"""What a row of counts must have beside it. It is added up by itself, and never worked out from the
row again: so a number that the disk has changed does not fit from then on. No flipped bit fits, of
other damage one in two thousand millions."""
_APPLICATION = 0x5DA4EC0
_FOLD_BYTES = 4 << 20
_EMPTY_SECONDS = 10.0
"""How long what was written stays in the log at most, if nobody else is reading."""


class SQLite(Store):
    """A store in a file, which this process alone may use."""

    shared = False
    _among = "IN (SELECT value FROM json_each(?))"
    _add_refusals = (
        "INSERT INTO refusals VALUES (?, ?) "
        "ON CONFLICT (reason) DO UPDATE SET number = number + excluded.number"
    )

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        if not path.absolute().parent.is_dir():
            raise checks.InvalidInput(f"Cannot open {path}: there is no folder {path.parent}")
        # Links must not lead past the lock; also, SQLite takes ":memory:" for no file at all.
        self._path = path.resolve()
        self._progress = Progress(0, 0, b"")
        try:
            self._lock = only_one(self._path)
        except OSError as problem:
            raise checks.InvalidInput(
                f"Cannot write {lock_file(self._path)}: {problem.strerror}"
            ) from None
        except InUse as holder:
            raise checks.InvalidInput(
                f"{path} is in use by {holder}: a store in a file serves one collector at a time; "
                "for several, use PostgreSQL"
            ) from None
        self._made = not self._path.exists()
        try:
            self._check_file()
            self._open()
        except BaseException:
            if self._made:
                self._remove()
            self.close()
            raise

    def issue(self, count: int) -> tuple[int, bytes]:
        with self._writing() as run:
            first, following, secret = last_range(run)
            run("UPDATE ranges SET next = next + ? WHERE first = ?", count, first)
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

    def progress(self) -> Progress:
        self._recover()
        return self._progress

    @contextmanager
    def closing(self) -> Iterator[Closing]:
        with super().closing() as closing:
            yield closing
        self._progress = closing.progress

    def tidy(self) -> None:
        self._recover()
        beyond = self._progress.sealed
        over = [bank for bank in self._banks if 1 <= bank <= beyond]
        if len(over) > KEPT_BANKS:
            beyond = forgettable(self._run)
            over = [bank for bank in over if bank <= beyond]
            with self._writing() as run:
                run("DELETE FROM groups WHERE bank BETWEEN 1 AND ?", beyond)
                run("DELETE FROM chunks WHERE bank BETWEEN 1 AND ?", beyond)
                note_forgotten(run, beyond)
            for bank in over:
                del self._banks[bank]
        if self._unfolded > max(_FOLD_BYTES, self._folded_bytes):
            self._fold()
        if self._written and time.monotonic() >= self._emptied + _EMPTY_SECONDS:
            self._empty_log()

    def raw(self, most: int) -> list[tuple[int, bytes]]:
        with self._reading() as run:
            found, size = [], 0
            for number, reports in run("SELECT number, reports FROM raw ORDER BY number"):
                found.append((number, reports))
                size += len(reports)
                if size >= most:
                    break
            return found

    def discard(self) -> None:
        if self._made:
            self._remove()

    def close(self) -> None:
        """Give the file free."""
        with suppress(AttributeError, sqlite3.Error):
            self._db.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _remove(self) -> None:
        with suppress(AttributeError, sqlite3.Error):
            self._db.close()
        for ending in ("", "-wal", "-shm", _NEW):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
        lock_file(self._path).unlink(missing_ok=True)

    def _check_file(self) -> None:
        """What is not a store, and what two names lead to, is not opened."""
        if self._made:
            self._make()
            return
        try:
            seen = self._path.stat()
        except OSError:
            return  # opening it says why
        if seen.st_nlink > 1:
            raise checks.InvalidInput(
                f"{self.place} has another name (a hard link), under which another collector could "
                "use it: remove the other name, or copy the file"
            )
        if seen.st_size == 0:
            raise checks.InvalidInput(
                f"{self.place} is an empty file, and no store: restore it from a backup. To begin "
                "a new survey, remove the file"
            )

    def _make(self) -> None:
        """An empty store, there whole or not at all."""
        new = self._path.with_name(self._path.name + _NEW)
        try:
            new.unlink(missing_ok=True)
            database = sqlite.connect(new)
            try:
                with sqlite.transaction(database):
                    sqlite.run_script(database, SCHEMA)
                    database.execute(f"PRAGMA application_id = {_APPLICATION}")
                    database.execute(f"PRAGMA user_version = {_FORMAT}")
            finally:
                database.close()
            new.rename(self._path)
        except sqlite.FAULTS as problem:
            new.unlink(missing_ok=True)
            raise self._explained(problem) from None
        except OSError as problem:
            raise self._explained(sqlite3.OperationalError(str(problem.strerror))) from None

    def _open(self) -> None:
        try:
            self._stale = False
            self._db = sqlite.connect(self._path, any_thread=True)
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
        except sqlite.FAULTS as problem:
            self._stale = True
            raise self._explained(problem) from None

    def _check_format(self) -> None:
        ((application,),) = self._db.execute("PRAGMA application_id")
        ((version,),) = self._db.execute("PRAGMA user_version")
        if application != _APPLICATION or version > _FORMAT:
            other = "is of a newer version" if application == _APPLICATION else "is something else"
            raise checks.InvalidInput(
                f"Expected {self.place} to be a collector's store: it {other}"
            )
        if version < 2:  # the first had no controls
            with sqlite.transaction(self._db):
                self._db.execute("ALTER TABLE counts ADD COLUMN control INTEGER")
                self._db.execute(f"UPDATE counts SET control = {_CONTROL}")
                self._db.execute(f"PRAGMA user_version = {_FORMAT}")

    def _load(self) -> None:
        """What is kept in memory, from the file."""
        self._progress = read_progress(self._run)
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
        with self._writing() as run:
            for number, bank in self._banks.items():
                for chunk, bits in bank.changed():
                    run("REPLACE INTO chunks VALUES (?, ?, ?)", number, chunk, bits)
            run("DELETE FROM groups")
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
        with self._writing() as run:
            for bank, serials in parts:
                width = 4 if int(serials.max()) < 2**32 else 8
                blob = serials.astype(f"<u{width}").tobytes()
                run(_KEEP, bank, width, blob)
                self._unfolded += len(blob)
            self._db.executemany(_ADD, tally(group.cells, group.bits))
            if group.raw is not None:
                run("INSERT INTO raw (reports) VALUES (?)", group.raw.tobytes())
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

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._db.execute(statement.replace("collector_", ""), values)

    @contextmanager
    def _reading(self) -> Iterator[Run]:
        self._recover()
        try:
            yield self._run
        except sqlite.FAULTS as problem:
            self._stale = True
            raise self._explained(problem) from None

    @contextmanager
    def _writing(self, alone: bool = False) -> Iterator[Run]:
        with self._reading():
            try:
                with sqlite.transaction(self._db):
                    yield self._run
            except BaseException:
                self._stale = True
                raise
            self._written = True

    def _counts(self, run: Run, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        chosen = self._numbers(cells)
        wrong = run(
            f"SELECT 1 FROM collector_counts WHERE cell {self._among} "
            f"AND control IS NOT {_CONTROL} LIMIT 1",
            chosen,
        ).fetchone()
        if wrong is not None:
            raise StoreUnavailable(
                f"{self.place}: a count does not fit its control number, so the file is damaged: "
                "restore it from a backup"
            )
        return super()._counts(run, cells)

    def _numbers(self, numbers: NDArray[np.int64]) -> str:
        return msgspec.json.encode(numbers.tolist()).decode()

    def _explained(self, problem: Exception) -> StoreUnavailable:
        reason = sqlite.reason(problem, "a collector's store")
        return StoreUnavailable(f"{self.place}: {reason}")


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


_KEEP = "INSERT INTO groups (bank, width, serials) VALUES (?, ?, ?)"
_ADD = (
    f"INSERT INTO counts VALUES (?1, ?2, ?3, (?2 * {_REPORTERS} + ?3 * {_ONES} + ?1 * {_CELL}) "
    f"% {_P}) ON CONFLICT (cell) DO UPDATE SET reporters = reporters + ?2, ones = ones + ?3, "
    f"control = (control + ?2 * {_REPORTERS} + ?3 * {_ONES}) % {_P}"
)
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE ranges (first INTEGER PRIMARY KEY, next INTEGER NOT NULL, secret BLOB NOT NULL);
CREATE TABLE progress (
    only INTEGER PRIMARY KEY CHECK (only = 0),
    published INTEGER NOT NULL, sealed INTEGER NOT NULL, smoother BLOB NOT NULL
);
CREATE TABLE counts (
    cell INTEGER PRIMARY KEY, reporters INTEGER NOT NULL, ones INTEGER NOT NULL, control INTEGER
);
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, bank INTEGER NOT NULL, width INTEGER NOT NULL, serials BLOB NOT NULL
);
CREATE TABLE chunks (
    bank INTEGER NOT NULL, chunk INTEGER NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (bank, chunk)
);
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY, published REAL NOT NULL, users INTEGER NOT NULL,
    reporters INTEGER NOT NULL, raw REAL, low REAL NOT NULL, high REAL NOT NULL, smoothed REAL,
    revision INTEGER NOT NULL
);
CREATE TABLE refusals (reason TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE raw (number INTEGER PRIMARY KEY AUTOINCREMENT, reports BLOB NOT NULL)
"""
