"""Where a ledger lives: an SQLite file, or a PostgreSQL database that a team shares.

Both give the same small thing: a transaction in which nobody else can write, durable when it ends
without an error. Every failure becomes a `LedgerError` that says what to do.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from sudare import checks

_PATIENCE_SECONDS = 30.0
_LOCK = 0x5DA4E
"""PostgreSQL's advisory locks are numbers; this one is the ledger's."""


_BUSY = "another process is writing and did not finish in time; try again"
_NOTHING = "nothing was spent"
_UNSURE = "it is not known whether it was spent: run it again, the same request is charged once"


class LedgerError(checks.SudareError):
    """The ledger could not be read or written. The message says whether anything was spent."""


class Transaction(Protocol):
    """Statements that take effect together, or not at all."""

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...

    def run(self, statement: str, *values: Any) -> None: ...


class Database(Protocol):
    """Somewhere to keep a ledger."""

    place: str

    present: str
    """A query that finds something if a ledger is here already."""

    foreign: str | None
    """A query that finds what else is here, where nothing else may be."""

    @property
    def schema(self) -> str: ...

    def transaction(self) -> AbstractContextManager[Transaction]: ...

    def close(self) -> None: ...


def connect(url: str | Path) -> Database:
    """The database behind a path (SQLite) or a postgresql:// address."""
    text = str(url)
    if re.match(r"postgres(ql)?://", text):
        return PostgreSQL(text)
    if "://" in text:
        raise checks.InvalidInput(
            "Expected a path for the ledger, or an address that begins with postgresql://"
        )
    return SQLite(Path(text))


class SQLite:
    """One file, synced before a transaction counts as done."""

    present = "SELECT 1 FROM sqlite_master WHERE name = 'ledger_meta'"
    foreign: str | None = "SELECT 1 FROM sqlite_master"

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        if not path.parent.is_dir():
            raise LedgerError(f"Cannot open {path}: there is no folder {path.parent}")
        path = path.absolute()  # also, SQLite takes the bare name ":memory:" for no file at all
        try:
            if not path.exists():
                # Only its owner may read it: it holds the key of the fingerprints.
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as problem:
            raise LedgerError(f"Cannot make {path}: {problem.strerror}; {_NOTHING}") from None
        with self._explained():
            self._connection = sqlite3.connect(
                path, timeout=_PATIENCE_SECONDS, isolation_level=None
            )
            self._connection.execute("PRAGMA synchronous = EXTRA")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._check_integrity()

    @property
    def schema(self) -> str:
        return _SCHEMA.format(bytes="BLOB", number="INTEGER PRIMARY KEY") + "".join(
            f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;"
            for table in _GROWING
            for verb in ("UPDATE", "DELETE")
        )

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield _SQLiteTransaction(self._connection)
            except BaseException:
                self._abandon()
                raise
        with self._explained(_UNSURE):
            try:
                self._connection.execute("COMMIT")
            except BaseException:
                self._abandon()
                raise

    def close(self) -> None:
        self._connection.close()

    def _check_integrity(self) -> None:
        """A damaged index could hide an entry; ledgers are small, so all of it is looked at."""
        ((found,), *_) = self._connection.execute("PRAGMA integrity_check(1)").fetchall()
        if found != "ok":
            self.close()
            raise sqlite3.DatabaseError("malformed")

    def _abandon(self) -> None:
        # After an I/O error or on a full disk SQLite may have rolled back by itself.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _explained(self, outcome: str = _NOTHING) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as problem:
            # Of the second kind, when SQLite quotes a damaged text in its complaint.
            raise LedgerError(f"{self.place}: {_reason(problem)}; {outcome}") from None


class _SQLiteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def run(self, statement: str, *values: Any) -> None:
        if not values and ";" in statement:
            # executescript would commit what is under way, so the schema goes piece by piece.
            for piece in _pieces(statement):
                self._connection.execute(piece)
            return
        self._connection.execute(statement, values)


class PostgreSQL:
    """A shared database; one advisory lock keeps two spenders apart."""

    present = "SELECT 1 WHERE to_regclass('ledger_meta') IS NOT NULL"
    foreign: str | None = None

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise LedgerError(
                "A PostgreSQL ledger needs the driver: pip install 'sudare[postgres]'"
            ) from None
        try:
            parts = urlsplit(address)
            # Without the password: this is shown in messages.
            self.place = f"{parts.scheme}://{parts.hostname}{parts.path}"
            psycopg.conninfo.conninfo_to_dict(address)
        except (ValueError, psycopg.Error):
            # `from None`, and not a word of theirs: they quote the address, password and all.
            raise checks.InvalidInput(
                "Expected an address like postgresql://user@host:5432/database; in a password, "
                "write special characters as %40 and the like"
            ) from None
        self._error = psycopg.Error
        with self._explained():
            self._connection = psycopg.connect(address, autocommit=True, connect_timeout=10)
        # Each statement must see what was committed before it began: with the snapshot of a whole
        # transaction, taken before the lock was ours, a spender would not see the one before.
        self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED

    @property
    def schema(self) -> str:
        guards = "".join(
            f"CREATE TRIGGER {table}_grows BEFORE UPDATE OR DELETE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION ledger_only_grows();"
            f"CREATE TRIGGER {table}_stays BEFORE TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();"
            for table in _GROWING
        )
        return (
            _SCHEMA.format(bytes="BYTEA", number="BIGINT PRIMARY KEY")
            + "CREATE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'a ledger only grows'; END $$;" + guards
        )

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        outcome = _NOTHING
        try:
            with self._connection.transaction():
                self._connection.execute(f"SET LOCAL lock_timeout = '{_PATIENCE_SECONDS:g}s'")
                self._connection.execute("SET LOCAL synchronous_commit = on")
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                yield _PostgreSQLTransaction(self._connection)
                outcome = _UNSURE
        except self._error as problem:
            raise self._explain(problem, outcome) from None

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._error as problem:
            raise self._explain(problem, _NOTHING) from None

    def _explain(self, problem: Exception, outcome: str) -> LedgerError:
        reason = (str(problem).strip().splitlines() or ["no answer"])[0]
        if "lock timeout" in reason:
            reason = _BUSY
        return LedgerError(f"{self.place}: {reason}; {outcome}")


class _PostgreSQLTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(
            statement.replace("?", "%s"), values
        ).fetchall()
        return found

    def run(self, statement: str, *values: Any) -> None:
        if values:
            self._connection.execute(statement.replace("?", "%s"), values)
        else:
            self._connection.execute(statement)


_GROWING = ("ledger_meta", "ledger_datasets", "ledger_events", "ledger_releases")
_SCHEMA = """
CREATE TABLE ledger_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE ledger_datasets (
    name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, opened TEXT NOT NULL, seal TEXT NOT NULL
);
CREATE TABLE ledger_events (
    number {number}, dataset TEXT NOT NULL REFERENCES ledger_datasets (name),
    event TEXT NOT NULL, purpose TEXT NOT NULL, request TEXT NOT NULL UNIQUE,
    moment TEXT NOT NULL, chain TEXT NOT NULL
);
CREATE TABLE ledger_releases (
    request TEXT PRIMARY KEY REFERENCES ledger_events (request),
    payload {bytes} NOT NULL, seal TEXT NOT NULL
);
"""


def _pieces(script: str) -> list[str]:
    """The statements of a script; a trigger's body holds semicolons of its own."""
    pieces, piece = [], ""
    for part in script.split(";"):
        piece += part + ";"
        if sqlite3.complete_statement(piece):
            if piece.strip() != ";":
                pieces.append(piece)
            piece = ""
    return pieces


_DAMAGE = ("not a database", "malformed", "no such table", "no such column", "decode to UTF-8")


def _reason(problem: Exception) -> str:
    said = "malformed" if isinstance(problem, UnicodeDecodeError) else str(problem)
    if "locked" in said:
        return _BUSY
    if "readonly" in said:
        return "it is read-only: give yourself the right to write it"
    if any(sign in said for sign in _DAMAGE):
        return "this is not a ledger, or it is damaged: restore it from a backup"
    if "full" in said:
        return "the disk is full"
    if "disk I/O error" in said:
        return "the disk reported an error"
    if "unable to open" in said:
        return "it cannot be opened: check the path and the rights"
    return said
