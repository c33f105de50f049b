"""A copy of a store in a file, also while its collector runs.

What lies in a safe is read by more people than the store itself: so the copy is readable by its
owner only, and holds ticket keys only where they are wrapped by the collector's key, or where that
was asked for. Without them the counts and all published rounds are there, and new tickets can be
handed out, but those handed out before are worth nothing.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sudare.counting import KEY_BYTES
from sudare.foundations import checks
from sudare.storage import sqlite
from sudare.storage.postgres import is_address


def back_up(place: str, to: Path, *, with_keys: bool = False) -> bool:
    """Write a copy; whether it holds all ticket keys."""
    if is_address(place):
        raise checks.InvalidInput("A database is copied by its own tools: see pg_dump")
    source = Path(place)
    if not source.is_file():
        raise checks.InvalidInput(f"There is no store {place}")
    try:
        os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise checks.InvalidInput(f"{to} is there already: a copy is not written over it") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {to}: {problem.strerror}") from None
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as store,
            closing(sqlite3.connect(to, isolation_level=None)) as copy,
        ):
            store.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            whole = with_keys or _without_keys(copy)
        with to.open("rb") as written:
            os.fsync(written.fileno())
    except sqlite.FAULTS as problem:
        to.unlink(missing_ok=True)
        reason = sqlite.reason(problem, "a collector's store")
        raise checks.InvalidInput(f"Cannot copy {place}: {reason}") from None
    except BaseException:
        to.unlink(missing_ok=True)
        raise
    return whole


def _without_keys(copy: sqlite3.Connection) -> bool:
    """Take out the ticket keys that are not wrapped; whether there were none."""
    copy.execute("PRAGMA secure_delete = ON")
    bare = "UPDATE ranges SET secret = x'' WHERE length(secret) = ?"
    found = copy.execute(bare, (KEY_BYTES,)).rowcount
    copy.execute("VACUUM")
    return not found
