"""One process at a time."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class InUse(Exception):
    """Another process holds the lock; the text says which."""


def only_one(path: Path) -> int:
    """A lock beside this file that ends with the process, however it ends, or by closing it.

    Raises `InUse` if another process has it, and OSError if the lock's file cannot be made.
    """
    lock = os.open(lock_file(path), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 100).decode(errors="replace").strip() or "another process"
        os.close(lock)
        raise InUse(holder) from None
    with suppress(OSError):  # on a full disk the lock still holds, only nameless
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()}\n".encode(), 0)
    return lock


def lock_file(path: Path) -> Path:
    """The file that `only_one` locks."""
    return path.with_name(path.name + ".lock")
