"""Where releases are exchanged: a folder, a bucket or a web server, by any fsspec address."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sudare.exchange._envelope import LARGEST_RELEASE
from sudare.foundations import checks
from sudare.storage.files import replace_file

SUFFIX = ".release"


def file_name(party: str, data: bytes, suffix: str = SUFFIX) -> str:
    """A name for a release: readable, and different for different contents."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", party).strip("-.")[:60] or "release"
    return f"{plain}-{hashlib.sha256(data).hexdigest()[:12]}{suffix}"


def put(place: str, name: str, data: bytes) -> str:
    """Write one file, whole or not at all; its address."""
    if "://" not in place:
        return _put_file(Path(place), name, data)
    address = f"{place.rstrip('/')}/{name}"
    with _explained(address):
        system, path = fsspec.core.url_to_fs(address)
        if isinstance(system, LocalFileSystem):
            return _put_file(Path(path).parent, name, data)
        system.pipe_file(path, data)
    return address


def get_all(
    place: str, suffixes: tuple[str, ...] = (SUFFIX,), largest: int = LARGEST_RELEASE
) -> Iterator[tuple[str, bytes]]:
    """Every release in a folder, or the one file that is named; larger files are cut off.

    A file of a folder that cannot be read comes as an empty one: it must not stop the others.
    """
    with _explained(place):
        system, path = fsspec.core.url_to_fs(place)
        system.invalidate_cache()
        if path.endswith(suffixes) or (system.isfile(path) and not system.isdir(path)):
            found = [path]
        else:
            # Not by a pattern: a folder may have brackets in its name. Pipes and folders that are
            # called like a release are left alone.
            names = system.ls(path, detail=False)
            found = sorted(n for n in names if n.endswith(suffixes) and system.isfile(n))
    for each in found:
        try:
            with _explained(each), system.open(each, "rb") as file:
                data = file.read(largest + 1)
        except checks.SudareError:
            if found == [path]:
                raise
            data = b""
        yield each, data


def exists(place: str) -> bool:
    """Whether there is a file or folder at this address."""
    with _explained(place):
        system, path = fsspec.core.url_to_fs(place)
        system.invalidate_cache()
        return bool(system.exists(path))


def subfolders(place: str) -> list[str]:
    """The folders within a folder; none if it is not one."""
    with _explained(place):
        system, path = fsspec.core.url_to_fs(place)
        system.invalidate_cache()
        if not system.isdir(path):
            return []
        names = [
            each["name"] for each in system.ls(path, detail=True) if each["type"] == "directory"
        ]
        return [
            f"{place.rstrip('/')}/{name.rstrip('/').rpartition('/')[2]}" for name in sorted(names)
        ]


def _put_file(folder: Path, name: str, data: bytes) -> str:
    with _explained(folder / name):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / name, data, 0o644)
    return str(folder / name)


class _explained:
    """Turns a failure of files or network into a sentence."""

    def __init__(self, address: Any) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        # Each kind of place has errors of its own; none of them is the caller's mistake to debug.
        if isinstance(problem, Exception) and not isinstance(problem, checks.SudareError):
            reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            if isinstance(problem, FileNotFoundError):
                reason = "there is no such file or folder"
            raise checks.SudareError(f"{self._address}: {reason}") from None
