"""A disk that is full, and a folder that is not ours."""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """No file of this process can grow beyond `size` bytes; Python ignores the signal for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def unprivileged() -> Iterator[Path]:
    """A folder of nobody's, where root's right to write everything does not count."""
    folder = Path(tempfile.mkdtemp(prefix="sudare-test-"))
    was_root = os.geteuid() == 0
    try:
        if was_root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield folder
    finally:
        folder.chmod(0o700)
        if was_root:
            os.seteuid(0)
        shutil.rmtree(folder)
