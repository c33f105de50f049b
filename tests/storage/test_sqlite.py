"""SQLite files: made for their owner, written whole, and every complaint says what to do."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from sudare.storage import sqlite


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("attempt to write a readonly database", "the right to write"),
        ("it cannot be made: Read-only file system", "the right to write"),
        ("database or disk is full", "the disk is full"),
        ("it cannot be made: No space left on device", "the disk is full"),
        ("disk I/O error", "the disk reported an error"),
        ("file is not a database", "this is not a diary, or it is damaged: restore it from a b"),
        ("database disk image is malformed", "restore it from a backup"),
        ("no such table: rounds", "restore it from a backup"),
        ("unable to open database file", "check the path and the rights"),
        ("database is locked", "another process is using it"),
        ("something new", "something new"),
    ],
)
def test_reasons(said: str, told: str) -> None:
    assert told in sqlite.reason(sqlite3.OperationalError(said), "a diary")


def test_a_text_that_cannot_be_shown_is_damage() -> None:
    problem = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    assert "damaged" in sqlite.reason(problem, "a diary")


def test_a_new_file_is_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    sqlite.connect(file).close()
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    sqlite.connect(file).close()
    assert file.stat().st_mode & 0o777 == 0o640
    with pytest.raises(sqlite3.Error, match="it cannot be made: No such file"):
        sqlite.connect(tmp_path / "none" / "a.db")


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    with closing(sqlite.connect(tmp_path / "a.db")) as db:
        with sqlite.transaction(db):
            sqlite.run_script(db, _SCRIPT)
            db.execute("INSERT INTO notes VALUES ('kept')")
        with suppress(KeyboardInterrupt), sqlite.transaction(db):
            db.execute("INSERT INTO notes VALUES ('lost')")
            raise KeyboardInterrupt
        with suppress(sqlite3.IntegrityError), sqlite.transaction(db):
            db.execute("INSERT INTO notes VALUES ('lost')")
            db.execute("DELETE FROM notes")
        assert not db.in_transaction
        assert db.execute("SELECT text FROM notes").fetchall() == [("kept",)]


def test_nobody_else_writes_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite.connect(file)) as db, closing(sqlite.connect(file, timeout=0)) as other:
        with (
            sqlite.transaction(db),
            pytest.raises(sqlite3.OperationalError, match="locked"),
            sqlite.transaction(other),
        ):
            pass
        with sqlite.transaction(other):
            pass


_SCRIPT = """
CREATE TABLE notes (text TEXT);
CREATE TRIGGER grows BEFORE DELETE ON notes BEGIN SELECT RAISE(ABORT, 'only grows'); END;
"""
