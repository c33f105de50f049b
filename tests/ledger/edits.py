"""What somebody may do to a ledger without sudare: plain SQL on the same database."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

_TABLES = ("ledger_meta", "ledger_datasets", "ledger_events", "ledger_releases")


@contextmanager
def statements(place: str) -> Iterator[Any]:
    """A connection that takes effect at once."""
    if place.startswith("postgresql:"):
        with psycopg.connect(place, autocommit=True) as connection:
            yield connection
    else:
        with closing(sqlite3.connect(place, isolation_level=None)) as file:
            yield file


def edit(place: str, *changes: str) -> None:
    """Change rows, with the triggers out of the way."""
    with statements(place) as connection:
        if place.startswith("postgresql:"):
            connection.execute("SET session_replication_role = replica")
        else:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in names.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
        for change in changes:
            connection.execute(change)
