"""The store for several collectors at once: a PostgreSQL database, or a schema of one.

A group of reports is one transaction, which holds a shared lock; closing a round takes it
exclusively, so that no report is on its way into a round that is being published. Which reports are
used is a unique index: of two collectors with the same report one inserts it, the other waits and
then does not. Each collector adds to counts of its own (its *shard*), so that none waits for
another's rows. A connection that is lost is opened anew by the next call.
"""

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Dumper
from psycopg.pq import Format

from sudare.collector.stores import (
    Group,
    Run,
    Store,
    StoreUnavailable,
    Verdict,
    forgettable,
    note_forgotten,
    tally,
)
from sudare.storage import postgres

_SHARDS = 64
_GATE, _MOVER, _SETUP = -1, -2, -3
_TRIES = 5
_FORGOTTEN_AT_ONCE = 50_000
_INT8, _INT8_ARRAY = 20, 1016
"""PostgreSQL's numbers for these types."""
_SESSION = """
SET synchronous_commit = on;
SET lock_timeout = '10s';
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '60s';
SET default_transaction_isolation = 'read committed'
"""


class PostgreSQL(Store):
    """A store that collectors share."""

    shared = True
    _among = "= ANY (?)"
    _add_refusals = (
        "INSERT INTO collector_refusals AS kept VALUES (?, ?, ?) ON CONFLICT "
        "(shard, reason) DO UPDATE SET number = kept.number + excluded.number"
    )

    def __init__(self, address: postgres.Address) -> None:
        self.place, self._address = address.place, address
        self._connection: psycopg.Connection[Any] | None = None
        self._mover = False
        self._forgotten = 0
        with self._transaction() as run:
            if run("SELECT to_regclass('collector_progress')").fetchone() != (None,):
                return
        with self._transaction(_SETUP) as run:
            for statement in SCHEMA.split(";"):
                run(statement)

    def issue(self, count: int) -> tuple[int, bytes]:
        with self._transaction(_GATE, shared=True) as run:
            following, secret = run(
                "UPDATE collector_ranges SET next = next + ? "
                "WHERE first = (SELECT max(first) FROM collector_ranges) "
                "RETURNING next - ?, secret",
                count,
                count,
            ).fetchone()
        return following, secret

    def count(self, group: Group) -> NDArray[np.uint8]:
        for tries in range(_TRIES):
            try:
                return self._count(group)
            except psycopg.errors.DeadlockDetected:
                if tries + 1 == _TRIES:
                    raise StoreUnavailable(f"{self.place}: too many collectors at once") from None
        raise AssertionError

    def used(
        self, banks: NDArray[np.int64] | int, serials: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        with self._transaction() as run:
            return _used(run, banks, serials)

    def tidy(self) -> None:
        with self._transaction() as run:
            beyond = forgettable(run)
            if beyond <= self._forgotten:
                return
            gone = run(
                "DELETE FROM collector_used WHERE ctid = ANY (ARRAY ("
                "SELECT ctid FROM collector_used WHERE bank >= 1 AND bank <= ? LIMIT ?))",
                beyond,
                _FORGOTTEN_AT_ONCE,
            ).rowcount
            if gone:
                note_forgotten(run, beyond)
        if gone < _FORGOTTEN_AT_ONCE:
            self._forgotten = beyond

    def collectors(self) -> int:
        """Each holds the lock of its shard for as long as it is connected."""
        with self._transaction() as run:
            ((many,),) = run(
                "SELECT count(DISTINCT objid) FROM pg_locks WHERE locktype = 'advisory' "
                f"AND granted AND CAST(classid AS int8) = (CAST({_CLASS} AS int8) & 4294967295) "
                f"AND CAST(objid AS int8) < {_SHARDS} AND objsubid = 2 "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            return max(1, int(many))

    def clock(self) -> float:
        """The database's."""
        with self._transaction() as run:
            ((now,),) = run("SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)")
            return float(now)

    def raw(self, most: int) -> list[tuple[int, bytes]]:
        """Of all collectors; only one of them moves raw reports at a time."""
        with self._transaction() as run:
            if not self._mover:
                ((self._mover,),) = run(f"SELECT pg_try_advisory_lock({_CLASS}, {_MOVER})")
            if not self._mover:
                return []
            found: list[tuple[int, bytes]] = run(
                "SELECT number, reports FROM (SELECT number, reports, "
                "sum(length(reports)) OVER (ORDER BY number) - length(reports) AS before "
                "FROM collector_raw) AS oldest WHERE before < ? ORDER BY number",
                most,
            ).fetchall()
            return found

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _count(self, group: Group) -> NDArray[np.uint8]:
        banks = np.broadcast_to(group.banks, group.serials.shape)
        verdicts = np.full(group.serials.size, Verdict.REPEATED, np.uint8)
        # Two collectors insert in the same order, so that none waits for one that waits for it.
        order = np.lexsort((group.serials, banks))
        again = (np.diff(group.serials[order]) == 0) & (np.diff(banks[order]) == 0)
        order = order[np.append(True, ~again)]
        with self._transaction(_GATE, shared=True) as run:
            ((sealed,),) = run("SELECT sealed FROM collector_progress")
            late = group.rounds < sealed
            if late.any():
                verdicts[late & ~_used(run, banks, group.serials)] = Verdict.TOO_LATE
                order = order[~late[order]]
            mine, serials = banks[order], group.serials[order]
            size = order.size
            ((new, *which),) = run(_COUNT_NEW, Numbers(mine), Numbers(serials), size, size)
            if new < size:
                order = order[_among(mine, serials, list(zip(*which, strict=True)) if new else [])]
            if order.size:
                sums = np.array(tally(group.cells[order], group.bits[order]))
                run(_ADD_COUNTS, *self._shard, *(Numbers(column) for column in sums.T))
                if group.raw is not None:
                    kept = group.raw[order].tobytes()
                    run("INSERT INTO collector_raw (reports) VALUES (?)", kept)
        verdicts[order] = Verdict.COUNTED
        return verdicts

    def _reading(self) -> AbstractContextManager[Run]:
        return self._transaction()

    def _writing(self, alone: bool = False) -> AbstractContextManager[Run]:
        return self._transaction(_GATE if alone else None)

    def _numbers(self, numbers: NDArray[np.int64]) -> "Numbers":
        return Numbers(numbers)

    @contextmanager
    def _transaction(self, lock: int | None = None, shared: bool = False) -> Iterator[Run]:
        """What executes statements that take effect together."""
        try:
            if self._connection is None or self._connection.closed:
                self._connect()
            connection = self._connection
            assert connection is not None

            def run(statement: str, *values: Any) -> Any:
                said = statement.replace("?", "%s")
                return connection.execute(said, values or None, binary=bool(values))

            with connection.transaction():
                if lock is not None:
                    kind = "_shared" if shared else ""
                    run(f"SELECT pg_advisory_xact_lock{kind}({_CLASS}, {lock})")
                yield run
        except psycopg.errors.DeadlockDetected:
            raise
        except psycopg.Error as problem:
            self._drop()
            raise StoreUnavailable(f"{self.place}: {postgres.reason(problem)}") from None
        except BaseException:
            # Interrupted in the middle of a conversation: what comes next is not known.
            if self._connection is not None and self._connection.info.transaction_status != 0:
                self._drop()
            raise

    def _connect(self) -> None:
        self._drop()
        connection = postgres.connect(self._address, "sudare collector", connect_seconds=5)
        try:
            connection.execute(_SESSION)
            connection.adapters.register_dumper(Numbers, NumbersDumper)
            # A shard for this collector alone; if all are taken, sharing one costs time only.
            own = next(
                (
                    shard
                    for shard in range(_SHARDS)
                    if connection.execute(
                        f"SELECT pg_try_advisory_lock({_CLASS}, {shard})"
                    ).fetchone()
                    == (True,)
                ),
                0,
            )
            self._shard = (own,)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _drop(self) -> None:
        self._mover = False
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _used(
    run: Run, banks: NDArray[np.int64] | int, serials: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    found = run(
        "SELECT bank, serial FROM collector_used "
        "JOIN unnest(?, ?) AS wanted (bank, serial) USING (bank, serial)",
        Numbers(np.broadcast_to(banks, serials.shape)),
        Numbers(serials),
    )
    return _among(banks, serials, found.fetchall())


def _among(
    banks: NDArray[np.int64] | int, serials: NDArray[np.uint64], found: list[tuple[int, int]]
) -> NDArray[np.bool_]:
    """Which of these pairs are among those found."""
    if not found:
        return np.zeros(serials.shape, np.bool_)
    bank, serial = np.array(found, np.int64).T
    all_banks = np.broadcast_to(banks, serials.shape)
    among = np.zeros(serials.shape, np.bool_)
    for number in np.unique(bank).tolist():
        mine = all_banks == number
        among[mine] = np.isin(serials[mine], serial[bank == number].astype(np.uint64))
    return among


class Numbers:
    """Whole numbers on their way into a query, as int8[]."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        self.numbers = numbers


class NumbersDumper(Dumper):
    format = Format.BINARY
    oid = _INT8_ARRAY

    def dump(self, obj: Numbers) -> bytes:
        size = obj.numbers.size
        if not size:
            return struct.pack(">iii", 0, 0, _INT8)
        items = np.empty(size, [("bytes", ">i4"), ("number", ">i8")])
        items["bytes"], items["number"] = 8, obj.numbers
        return struct.pack(">iiiii", 1, 0, _INT8, size, 1) + items.tobytes()


_CLASS = "hashtext('sudare collector ' || current_schema())"
SCHEMA = """
CREATE TABLE IF NOT EXISTS collector_meta (name TEXT PRIMARY KEY, value BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS collector_ranges (
    first INT8 PRIMARY KEY, next INT8 NOT NULL, secret BYTEA NOT NULL
);
CREATE TABLE IF NOT EXISTS collector_counts (
    shard INT4 NOT NULL, cell INT8 NOT NULL, reporters INT8 NOT NULL, ones INT8 NOT NULL,
    PRIMARY KEY (cell, shard)
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS collector_used (
    bank INT8 NOT NULL, serial INT8 NOT NULL, PRIMARY KEY (bank, serial)
);
CREATE TABLE IF NOT EXISTS collector_rounds (
    round INT8 PRIMARY KEY, published FLOAT8 NOT NULL, users INT8 NOT NULL,
    reporters INT8 NOT NULL, raw FLOAT8, low FLOAT8 NOT NULL, high FLOAT8 NOT NULL,
    smoothed FLOAT8, revision INT8 NOT NULL
);
CREATE TABLE IF NOT EXISTS collector_refusals (
    shard INT4 NOT NULL, reason TEXT NOT NULL, number INT8 NOT NULL, PRIMARY KEY (shard, reason)
);
CREATE TABLE IF NOT EXISTS collector_raw (number BIGSERIAL PRIMARY KEY, reports BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS collector_progress (
    only_one INT4 PRIMARY KEY CHECK (only_one = 0),
    published INT8 NOT NULL, sealed INT8 NOT NULL, smoother BYTEA NOT NULL
)
"""

_COUNT_NEW = """
WITH new AS (
    INSERT INTO collector_used SELECT * FROM unnest(?, ?)
    ON CONFLICT DO NOTHING RETURNING bank, serial
)
SELECT count(*),
    CASE WHEN count(*) < ? THEN array_agg(bank) END,
    CASE WHEN count(*) < ? THEN array_agg(serial) END
FROM new
"""

_ADD_COUNTS = """
INSERT INTO collector_counts AS kept SELECT ?, * FROM unnest(?, ?, ?)
ON CONFLICT (cell, shard) DO UPDATE
SET reporters = kept.reporters + excluded.reporters, ones = kept.ones + excluded.ones
"""
