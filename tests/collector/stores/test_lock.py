"""One process at a time: who holds the file is told, and its end sets it free."""

import os
from pathlib import Path

import pytest

from sudare.checks import InvalidInput
from sudare.collector.stores.lock import only_one


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    held = only_one(path, "a.db")
    with pytest.raises(InvalidInput, match=rf"a\.db is in use by process {os.getpid()}"):
        only_one(path, "a.db")
    os.close(only_one(tmp_path / "b.db", "b.db"))
    os.close(held)
    os.close(only_one(path, "a.db"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Cannot write .*\.lock: No such file"):
        only_one(tmp_path / "none" / "a.db", "a.db")
