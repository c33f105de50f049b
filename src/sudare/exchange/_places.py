"""Where releases are exchanged: a folder, a bucket or a web server, by any fsspec address.

For folders and files of this machine, by their paths, fsspec need not be installed.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sudare.exchange._envelope import LARGEST_RELEASE
from sudare.foundations import checks
from sudare.storage.files import replace_file

SUFFIX = ".release"
_ADDRESS = re.compile("://|::|^(?:data|file|local):")
"""What fsspec takes for more than a path."""


def file_name(party: str, data: bytes, suffix: str = SUFFIX) -> str:
    """A name for a release: readable, and different for different contents."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", party).strip("-.")[:60] or "release"
    return f"{plain}-{hashlib.sha256(data).hexdigest()[:12]}{suffix}"


def put(place: str, name: str, data: bytes) -> str:
    """Write one file, whole or not at all; its address."""
    if "://" not in place:
        return _put_file(Path(place), name, data)
    address = f"{place.rstrip('/')}/{name}"
    from fsspec.implementations.local import LocalFileSystem

    system, path = _system(address)
    with _explained(address):
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
    system, path = _system(place)
    with _explained(place):
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
    system, path = _system(place)
    with _explained(place):
        return bool(system.exists(path))


def subfolders(place: str) -> list[str]:
    """The folders within a folder; none if it is not one."""
    system, path = _system(place)
    with _explained(place):
        if not system.isdir(path):
            return []
        names = [
            each["name"] for each in system.ls(path, detail=True) if each["type"] == "directory"
        ]
        return [
            f"{place.rstrip('/')}/{name.rstrip('/').rpartition('/')[2]}" for name in sorted(names)
        ]


class _Files:
    """This machine's files: as much of fsspec's interface as is used here."""

    exists = staticmethod(os.path.exists)
    isdir = staticmethod(os.path.isdir)
    isfile = staticmethod(os.path.isfile)
    open = staticmethod(open)

    def ls(self, path: str, detail: bool) -> list[Any]:
        if not stat.S_ISDIR(Path(path).stat().st_mode):
            return [path]
        with os.scandir(path) as entries:
            if not detail:
                return [each.path for each in entries]
            return [{"name": each.path, "type": _kind(each)} for each in entries]


def _kind(entry: os.DirEntry[str]) -> str:
    return "directory" if entry.is_dir(follow_symlinks=False) else "other"


def _system(place: str) -> tuple[Any, str]:
    """What holds a place, without anything it remembers, and the path there."""
    if _ADDRESS.search(place) is None:
        return _Files(), _absolute(place)
    import fsspec

    with _explained(place):
        system, path = fsspec.core.url_to_fs(place)
        system.invalidate_cache()
    return system, path


def _absolute(path: str) -> str:
    """A path as fsspec has it."""
    if path.startswith("~"):
        path = os.path.expanduser(path)  # noqa: PTH111 (which keeps an unknown name as it is)
    elif not path.startswith("/"):
        path = f"{Path.cwd()}/{'' if path == '.' else path.removeprefix('./')}"
    return path.rstrip("/") or "/"


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
