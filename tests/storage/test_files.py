"""Whole or not at all: checked by stopping the write in every way a disk can."""

import os
import stat
import tomllib
from pathlib import Path

import pytest

from sudare.foundations.checks import InvalidInput
from sudare.storage.files import (
    read_bytes,
    read_text,
    replace_file,
    sync_folder,
    toml_value,
    unreadable,
)


def test_reading(tmp_path: Path) -> None:
    file = tmp_path / "a"
    for content in (b"\xce\xb5", b"\xef\xbb\xbf\xce\xb5"):  # without and with a mark in front
        file.write_bytes(content)
        assert read_text(file) == read_text(str(file)) == "ε"
        assert read_bytes(file) == content


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match=r"^Cannot read .*a: it is not UTF-8 text$") as problem:
        read_text(tmp_path / "a")
    assert problem.value.__suppress_context__
    for read in (read_text, read_bytes):
        with pytest.raises(InvalidInput, match=r"^Cannot read .*none: No such file or directory$"):
            read(tmp_path / "none")


def test_what_is_in_a_file_is_never_quoted() -> None:
    """As some errors do that are of the system's kind."""
    problem = OSError("Not a gzipped file (b'canary')")
    assert str(unreadable("a", problem, "it is damaged")) == "Cannot read a: it is damaged"


@pytest.mark.parametrize("value", ['ε "quoted" \\ \n\t', "\x7f\x00\x1f", "", 0.1, 1e300, 12])
def test_values_in_toml(value: str | float) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}


def test_replaces_the_file_and_sets_its_rights(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_bytes(b"old")
    replace_file(file, b"new", 0o640)
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.parametrize("call", ["fsync", "fchmod"])
def test_a_failing_disk_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    file = tmp_path / "model.json"
    file.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        replace_file(file, b"new", 0o640)
    assert file.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


def test_the_file_is_synced_before_it_gets_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.json"
    seen: list[tuple[bool, bool]] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), file.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    replace_file(file, b"new", 0o600)
    assert seen == [(False, False), (True, True)]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "gone" / "model.json", b"", 0o600)
