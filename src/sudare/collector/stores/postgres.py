"""The store for several collectors at once: a PostgreSQL database, or a schema of one.

A group of reports is one transaction, which holds a shared lock; closing a round takes it
exclusively, so that no report is on its way into a round that is being published. Which reports are
used is a unique index: of two collectors with the same report one inserts it, the other waits and
then does not. Each collector adds to counts of its own (its *shard*), so that none waits for
another's rows. A connection that is lost is opened anew by the next call.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

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
from sudare.collector.stores.schemas import ADD_COUNTS, COUNT_NEW, POSTGRESQL

try:
    import psycopg

    from sudare.collector.stores.numbers import Numbers, NumbersDumper
except ImportError:
    raise checks.InvalidInput(
        "A store in PostgreSQL needs the driver: pip install 'sudare[postgres]'"
    ) from None

_SHARDS = 64
_GATE, _MOVER, _SETUP = -1, -2, -3
_TRIES = 5
_FORGOTTEN_AT_ONCE = 50_000
_DEFAULTS = {
    "application_name": "sudare collector",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_SESSION = """
SET synchronous_commit = on;
SET lock_timeout = '10s';
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '60s';
SET default_transaction_isolation = 'read committed'
"""


class PostgreSQL:
    """A store that collectors share."""

    shared = True

    def __init__(self, address: str) -> None:
        try:
            parts = urlsplit(address)
            parts.port  # noqa: B018  (raises for one that is not a number)
            self.place = f"{parts.scheme}://{parts.hostname}{parts.path}"  # without the password
            given = psycopg.conninfo.conninfo_to_dict(address)
        except (ValueError, psycopg.Error):
            # `from None`, and not a word of theirs: they quote the address, password and all.
            raise checks.InvalidInput(
                "Expected an address like postgresql://user@host:5432/database; in a password, "
                "write special characters as %40 and the like"
            ) from None
        self._address: dict[str, Any] = _DEFAULTS | given
        self._connection: psycopg.Connection[Any] | None = None
        self._mover = False
        with self._transaction() as run:
            if run("SELECT to_regclass('collector_progress')").fetchone() != (None,):
                return
        with self._transaction(_SETUP) as run:
            for statement in POSTGRESQL.split(";"):
                run(statement)

    def meta(self) -> dict[str, bytes]:
        with self._transaction() as run:
            return dict(run("SELECT name, value FROM collector_meta"))

    def found(self, values: Mapping[str, bytes], secret: bytes) -> None:
        with self._transaction(_GATE) as run:
            if run("SELECT 1 FROM collector_meta").fetchone():
                return
            for name, value in values.items():
                run("INSERT INTO collector_meta VALUES (%s, %s)", name, value)
            run("INSERT INTO collector_ranges VALUES (0, 0, %s)", secret)
            run("INSERT INTO collector_progress VALUES (0, 0, 0, '')")

    def set_meta(self, name: str, value: bytes) -> None:
        with self._transaction() as run:
            run(
                "INSERT INTO collector_meta VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                name,
                value,
            )

    def ranges(self) -> list[KeyRange]:
        with self._transaction() as run:
            found = run("SELECT first, next, secret FROM collector_ranges ORDER BY first")
            return [KeyRange(*row) for row in found]

    def add_range(self, secret: bytes, multiple: int) -> None:
        with self._transaction(_GATE) as run:
            first, following = run(
                "SELECT first, next FROM collector_ranges ORDER BY first DESC LIMIT 1"
            ).fetchone()
            if first == following:  # no ticket has been made with it
                run("UPDATE collector_ranges SET secret = %s WHERE first = %s", secret, first)
            else:
                aligned = -(-following // multiple) * multiple
                run("INSERT INTO collector_ranges VALUES (%s, %s, %s)", aligned, aligned, secret)

    def issue(self, count: int) -> tuple[int, bytes]:
        with self._transaction(_GATE, shared=True) as run:
            following, secret = run(
                "UPDATE collector_ranges SET next = next + %s "
                "WHERE first = (SELECT max(first) FROM collector_ranges) "
                "RETURNING next - %s, secret",
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

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        with self._transaction() as run:
            return _counts(run, cells)

    def progress(self) -> Progress:
        with self._transaction() as run:
            return _progress(run)

    def rows(self, first: int, beyond: int) -> list[Row]:
        with self._transaction() as run:
            return _rows(run, first, beyond)

    @contextmanager
    def closing(self) -> Iterator[Closing]:
        with self._transaction(_GATE) as run:
            yield _Closing(run)

    def tidy(self) -> None:
        with self._transaction() as run:
            run(
                "DELETE FROM collector_used WHERE ctid = ANY (ARRAY ("
                "SELECT ctid FROM collector_used WHERE bank >= 1 "
                "AND bank <= (SELECT sealed FROM collector_progress) LIMIT %s))",
                _FORGOTTEN_AT_ONCE,
            )

    def refused(self, reasons: Mapping[str, int]) -> None:
        with self._transaction() as run:
            for reason, number in reasons.items():
                run(
                    "INSERT INTO collector_refusals AS kept VALUES (%s, %s, %s) ON CONFLICT "
                    "(shard, reason) DO UPDATE SET number = kept.number + excluded.number",
                    self._shard,
                    reason,
                    number,
                )

    def refusals(self) -> dict[str, int]:
        with self._transaction() as run:
            found = run("SELECT reason, sum(number) FROM collector_refusals GROUP BY reason")
            return {reason: int(number) for reason, number in found}

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
                "FROM collector_raw) AS oldest WHERE before < %s ORDER BY number",
                most,
            ).fetchall()
            return found

    def drop_raw(self, numbers: Sequence[int]) -> None:
        with self._transaction() as run:
            run("DELETE FROM collector_raw WHERE number = ANY (%s)", Numbers(np.array(numbers)))

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
            ((new, *which),) = run(COUNT_NEW, Numbers(mine), Numbers(serials), size, size)
            if new < size:
                order = order[_among(mine, serials, list(zip(*which, strict=True)) if new else [])]
            if order.size:
                sums = np.array(tally(group.cells[order], group.bits[order]))
                run(ADD_COUNTS, self._shard, *(Numbers(column) for column in sums.T))
                if group.raw is not None:
                    kept = group.raw[order].tobytes()
                    run("INSERT INTO collector_raw (reports) VALUES (%s)", kept)
        verdicts[order] = Verdict.COUNTED
        return verdicts

    @contextmanager
    def _transaction(self, lock: int | None = None, shared: bool = False) -> Iterator[Any]:
        """What executes statements that take effect together."""
        try:
            if self._connection is None or self._connection.closed:
                self._connect()
            connection = self._connection
            assert connection is not None

            def run(statement: str, *values: Any) -> Any:
                return connection.execute(statement, values or None, binary=bool(values))

            with connection.transaction():
                if lock is not None:
                    kind = "_shared" if shared else ""
                    run(f"SELECT pg_advisory_xact_lock{kind}({_CLASS}, {lock})")
                yield run
        except psycopg.errors.DeadlockDetected:
            raise
        except psycopg.Error as problem:
            self._drop()
            raise self._explained(problem) from None
        except BaseException:
            # Interrupted in the middle of a conversation: what comes next is not known.
            if self._connection is not None and self._connection.info.transaction_status != 0:
                self._drop()
            raise

    def _connect(self) -> None:
        self._drop()
        connection = psycopg.connect(**self._address, autocommit=True)
        try:
            connection.execute(_SESSION)
            connection.adapters.register_dumper(Numbers, NumbersDumper)
            # A number of one's own; if all are taken, to share one costs time only.
            self._shard = next(
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

    def _explained(self, problem: Exception) -> StoreUnavailable:
        reason = (str(problem).strip().splitlines() or ["no answer"])[0]
        return StoreUnavailable(f"{self.place}: {reason}")


class _Closing:
    def __init__(self, run: Any) -> None:
        self._run = run
        self.progress = _progress(run)
        ((issued,),) = run("SELECT sum(next - first)::int8 FROM collector_ranges")
        self.issued: int = issued

    def counts(self, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
        return _counts(self._run, cells)

    def rows(self, first: int, beyond: int) -> list[Row]:
        return _rows(self._run, first, beyond)

    def record(self, rows: Sequence[Row], progress: Progress) -> None:
        for row in rows:
            values = [None if value != value else value for value in row]
            self._run("DELETE FROM collector_rounds WHERE round = %s", row.round)
            self._run(
                "INSERT INTO collector_rounds VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", *values
            )
        self._run(
            "UPDATE collector_progress SET published = %s, sealed = %s, smoother = %s", *progress
        )
        self.progress = progress


def _used(
    run: Any, banks: NDArray[np.int64] | int, serials: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    found = run(
        "SELECT bank, serial FROM collector_used "
        "JOIN unnest(%s, %s) AS wanted (bank, serial) USING (bank, serial)",
        Numbers(np.broadcast_to(banks, serials.shape)),
        Numbers(serials),
    )
    return _among(banks, serials, found.fetchall())


def _among(
    banks: NDArray[np.int64] | int, serials: NDArray[np.uint64], found: list[tuple[int, int]]
) -> NDArray[np.bool_]:
    """Which of these are found."""
    if not found:
        return np.zeros(serials.shape, np.bool_)
    bank, serial = np.array(found, np.int64).T
    all_banks = np.broadcast_to(banks, serials.shape)
    among = np.zeros(serials.shape, np.bool_)
    for number in np.unique(bank).tolist():
        mine = all_banks == number
        among[mine] = np.isin(serials[mine], serial[bank == number].astype(np.uint64))
    return among


def _counts(run: Any, cells: NDArray[np.int64]) -> tuple[Counts, Counts]:
    found = run(
        "SELECT cell, sum(reporters)::int8, sum(ones)::int8 FROM collector_counts "
        "WHERE cell = ANY (%s) GROUP BY cell",
        Numbers(cells),
    ).fetchall()
    sums = {cell: (reporters, ones) for cell, reporters, ones in found}
    both = [sums.get(cell, (0, 0)) for cell in cells.tolist()]
    reporters, ones = np.array(both, np.int64).reshape(-1, 2).T
    return reporters, ones


def _progress(run: Any) -> Progress:
    found = run("SELECT published, sealed, smoother FROM collector_progress").fetchone()
    return Progress(*(found or (0, 0, b"")))


def _rows(run: Any, first: int, beyond: int) -> list[Row]:
    found = run(
        "SELECT * FROM collector_rounds WHERE round >= %s AND round < %s ORDER BY round",
        first,
        beyond,
    )
    return [read_row(row) for row in found]


_CLASS = "hashtext('sudare collector ' || current_schema())"
