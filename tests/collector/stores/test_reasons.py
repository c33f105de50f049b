"""Every complaint of SQLite says what to do."""

import pytest

from sudare.collector.stores.reasons import reason


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("attempt to write a readonly database", "the right to write"),
        ("Read-only file system", "the right to write"),
        ("database or disk is full", "the disk is full"),
        ("No space left on device", "the disk is full"),
        ("disk I/O error", "the disk reported an error"),
        ("file is not a database", "restore it from a backup"),
        ("database disk image is malformed", "restore it from a backup"),
        ("unable to open database file", "check the path and the rights"),
        ("database is locked", "another program is using it"),
        ("something new", "something new"),
    ],
)
def test_reasons(said: str, told: str) -> None:
    assert told in reason(said)
