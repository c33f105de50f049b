"""Where a ledger lives: an SQLite file, or a PostgreSQL database that a team shares.

Both give the same small thing: a transaction in which nobody else can write, durable when it ends
without an error. Every failure becomes a `LedgerError` that says what to do.
"""

import hashlib
import os
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sudare.foundations import checks
from sudare.storage import postgres, sqlite

_PATIENCE_SECONDS = 30.0
_LOCK = 0x5DA4E
"""PostgreSQL's advisory locks are numbers; this one is the ledger's."""
_NOTHING = "nothing was spent"
_UNSURE = "it is not known whether it was spent: run it again, the same request is charged once"


class LedgerError(checks.SudareError):
    """The ledger could not be read or written. The message says whether anything was spent."""


class Transaction:
    """Statements that take effect together, or not at all; values stand for question marks."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._execute(statement, values).fetchall()
        return found

    def run(self, statement: str, *values: Any) -> None:
        self._execute(statement, values)


class Database(ABC):
    """Somewhere to keep a ledger."""

    place: str
    present: str
    """A query that finds something if a ledger is here already."""
    foreign: str | None = None
    """A query that finds what else is here, where nothing else may be."""
    extended: str
    """A query that finds something if releases can be kept in parts here."""
    key_path: Path
    """Where the ledger's key is unless it is said otherwise; never in the database itself."""
    _faults: tuple[type[Exception], ...]
    _connection: Any

    def create(self, step: Transaction) -> None:
        """Make the tables, which only grow."""
        self._make(step, _SCHEMA, _GROWING)
        self.extend(step)

    def extend(self, step: Transaction) -> None:
        """Make the table of parts, which ledgers of earlier versions do not have."""
        self._make(step, _PARTS, ("ledger_parts",))

    @abstractmethod
    def _make(self, step: Transaction, schema: str, tables: Sequence[str]) -> None:
        """Make tables that only grow."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        outcome = _NOTHING
        try:
            with self._alone() as step:
                yield step
                outcome = _UNSURE
        except self._faults as problem:
            raise self._explained(problem, outcome) from None

    def close(self) -> None:
        self._connection.close()

    @abstractmethod
    def _alone(self) -> AbstractContextManager[Transaction]:
        """A transaction, as the database has it."""

    @abstractmethod
    def _reason(self, problem: Exception) -> str: ...

    def _explained(self, problem: Exception, outcome: str = _NOTHING) -> LedgerError:
        return LedgerError(f"{self.place}: {self._reason(problem)}; {outcome}")


def connect(url: str | Path) -> Database:
    """The database behind a path (SQLite) or a postgresql:// address."""
    text = str(url)
    if postgres.is_address(text):
        return PostgreSQL(text)
    if "://" in text:
        raise checks.InvalidInput(
            "Expected a path for the ledger, or an address that begins with postgresql://"
        )
    return SQLite(Path(text))


class SQLite(Database):
    """One file, synced before a transaction counts as done."""

    present = "SELECT 1 FROM sqlite_master WHERE name = 'ledger_meta'"
    foreign = "SELECT 1 FROM sqlite_master"
    extended = "SELECT 1 FROM sqlite_master WHERE name = 'ledger_parts'"
    _faults = sqlite.FAULTS

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        if not path.parent.is_dir():
            raise LedgerError(f"Cannot open {path}: there is no folder {path.parent}")
        # Not in place of the suffix: people call their signing keys so.
        self.key_path = Path(f"{path.resolve()}.key")
        try:
            self._connection = sqlite.connect(path.absolute(), timeout=_PATIENCE_SECONDS)
            self._connection.execute("PRAGMA synchronous = EXTRA")
            self._connection.execute("PRAGMA foreign_keys = ON")
            # A damaged index could hide an entry; ledgers are small, so all of it is looked at.
            ((found,), *_) = self._connection.execute("PRAGMA integrity_check(1)").fetchall()
            if found != "ok":
                self.close()
                raise sqlite3.DatabaseError("malformed")
        except self._faults as problem:
            raise self._explained(problem) from None

    def _make(self, step: Transaction, schema: str, tables: Sequence[str]) -> None:
        guards = (
            f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END;"
            for table in tables
            for verb in ("UPDATE", "DELETE")
        )
        made = schema.format(bytes="BLOB", number="INTEGER PRIMARY KEY")
        sqlite.run_script(self._connection, made + "".join(guards))

    @contextmanager
    def _alone(self) -> Iterator[Transaction]:
        with sqlite.transaction(self._connection):
            yield Transaction(self._connection.execute)

    def _reason(self, problem: Exception) -> str:
        return sqlite.reason(problem, "a ledger")


class PostgreSQL(Database):
    """A shared database; one advisory lock keeps two spenders apart."""

    present = "SELECT 1 WHERE to_regclass('ledger_meta') IS NOT NULL"
    extended = "SELECT 1 WHERE to_regclass('ledger_parts') IS NOT NULL"

    def __init__(self, text: str) -> None:
        address = postgres.parse_address(text)
        self.place, self.key_path = address.place, _in_configuration(address.options)
        import psycopg

        self._faults = (psycopg.Error,)
        try:
            self._connection = postgres.connect(address, "sudare ledger", connect_seconds=10)
        except psycopg.Error as problem:
            raise self._explained(problem) from None
        # Each statement must see what was committed before it began: with the snapshot of a whole
        # transaction, taken before the lock was ours, a spender would not see the one before.
        self._connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED

    def create(self, step: Transaction) -> None:
        step.run(
            "CREATE FUNCTION ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'a ledger only grows'; END $$;"
        )
        super().create(step)

    def _make(self, step: Transaction, schema: str, tables: Sequence[str]) -> None:
        guards = (
            f"CREATE TRIGGER {table}_grows BEFORE UPDATE OR DELETE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION ledger_only_grows();"
            f"CREATE TRIGGER {table}_stays BEFORE TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION ledger_only_grows();"
            for table in tables
        )
        made = schema.format(bytes="BYTEA", number="BIGINT PRIMARY KEY")
        step.run(made + "".join(guards))

    @contextmanager
    def _alone(self) -> Iterator[Transaction]:
        with self._connection.transaction():
            self._connection.execute(f"SET LOCAL lock_timeout = '{_PATIENCE_SECONDS:g}s'")
            self._connection.execute("SET LOCAL synchronous_commit = on")
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            yield self._step()

    def _step(self) -> Transaction:
        execute = self._connection.execute
        return Transaction(lambda said, values: execute(said.replace("?", "%s"), values or None))

    def _reason(self, problem: Exception) -> str:
        return postgres.reason(problem)


def _in_configuration(address: dict[str, Any]) -> Path:
    """Named after server, database and schema, not after who asks."""
    parts = [str(address.get(part, "")) for part in ("host", "port", "dbname", "options")]
    readable = re.sub(r"[^\w.]+", "-", "-".join(parts[:3])).strip("-")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return home / "sudare" / f"ledger-{readable}-{digest}.key"


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
_PARTS = """
CREATE TABLE ledger_parts (
    request TEXT NOT NULL REFERENCES ledger_events (request), part TEXT NOT NULL,
    payload {bytes} NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (request, part)
);
"""
