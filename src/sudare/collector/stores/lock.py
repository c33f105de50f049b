"""One process at a time."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from sudare import checks


def only_one(path: Path, place: str) -> int:
    """A lock beside this file that ends with the process, however it ends, or by closing it."""
    name = path.with_name(path.name + ".lock")
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {name}: {problem.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 100).decode(errors="replace").strip() or "another process"
        os.close(lock)
        raise checks.InvalidInput(
            f"{place} is in use by {holder}: a store in a file serves one collector at a time; for "
            "several, use PostgreSQL"
        ) from None
    with suppress(OSError):  # on a full disk the lock still holds, only nameless
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()}\n".encode(), 0)
    return lock
