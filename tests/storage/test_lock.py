"""One process at a time: who holds the file is told, and its end sets it free."""

import os
from pathlib import Path

import pytest

from sudare.storage.lock import InUse, lock_file, only_one


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    held = only_one(path)
    with pytest.raises(InUse, match=rf"^process {os.getpid()}$"):
        only_one(path)
    os.close(only_one(tmp_path / "b.db"))
    os.close(held)
    os.close(only_one(path))


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    os.close(only_one(tmp_path / "a.db"))
    assert lock_file(tmp_path / "a.db").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        only_one(tmp_path / "none" / "a.db")
