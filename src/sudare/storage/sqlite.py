"""SQLite files: how they are opened and written, and what their faults are called.

Who opens one sets how it is synced; everything here keeps to that.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""All that may come out of a connection: the second where SQLite quotes a damaged text."""
BUSY = "another process is using it and did not finish in time; try again"
_REASONS = (
    (("locked",), BUSY),
    (("readonly", "read-only", "Read-only"), "it is read-only: the right to write it is missing"),
    (
        ("not a database", "malformed", "no such table", "no such column", "decode to UTF-8"),
        "this is not {kind}, or it is damaged: restore it from a backup",
    ),
    (("full", "No space"), "the disk is full"),
    (("disk I/O error",), "the disk reported an error"),
    (("unable to open",), "it cannot be opened: check the path and the rights"),
)


def connect(path: Path, *, timeout: float = 5.0, any_thread: bool = False) -> sqlite3.Connection:
    """Open a file, which only its owner may read if it is made by this; no transaction begins by
    itself. A bare name such as ":memory:" must not be given: SQLite takes it for no file at all."""
    try:
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as problem:
        raise sqlite3.OperationalError(f"it cannot be made: {problem.strerror}") from None
    return sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=not any_thread
    )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Nobody else writes meanwhile; committed at the end, or nothing of it after an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            # After an I/O error or on a full disk SQLite may have rolled back by itself.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Several statements, without the commit that `executescript` would begin with."""
    statement = ""
    for part in script.split(";"):
        statement += part + ";"  # a trigger's body holds semicolons of its own
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def reason(problem: Exception, kind: str) -> str:
    """What is wrong, in words that tell what to do; `kind` is what the file should be."""
    said = "malformed" if isinstance(problem, UnicodeDecodeError) else str(problem)
    for signs, words in _REASONS:
        if any(sign in said for sign in signs):
            return words.format(kind=kind)
    return said
