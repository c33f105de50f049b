"""Files that are there whole or not at all, read with one word for what is wrong with them.

A crash, a full disk or a loss of power leaves the file as it was before, or as it was to be; never
a part of it.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from sudare.foundations import checks


def read_text(path: str | Path) -> str:
    """A file of UTF-8 text, with or without a byte order mark."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem) from None


def read_bytes(path: str | Path) -> bytes:
    """A whole file."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as problem:
        raise unreadable(path, problem) from None


def unreadable(
    path: str | Path, problem: Exception, otherwise: str = "it is not UTF-8 text"
) -> checks.InvalidInput:
    """Why a file cannot be read: what the system says, or else `otherwise`."""
    said = problem.strerror if isinstance(problem, OSError) else None
    return checks.InvalidInput(f"Cannot read {path}: {said or otherwise}")


def toml_value(value: str | float) -> str:
    """A text in quotes, or a number: JSON's are TOML's, but for one character."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Put a file in place of the one that may be there; it is safe on disk when this returns.

    Until then nobody else can read what is written, whatever rights `mode` gives in the end.
    """
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(draft).unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power, where its file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
