"""Files that are there whole or not at all.

A crash, a full disk or a loss of power leaves the file as it was before, or as it was to be; never
a part of it.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


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
