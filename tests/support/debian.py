"""Commands that come from Debian packages."""

import fcntl
import os
import shutil
import subprocess
from functools import cache

import pytest

from tests.support import ROOT

_LIMIT_SECONDS = 600


def require(command: str, package: str) -> str:
    """The path of `command`; installs `package` if we may, else skips the test."""
    path = shutil.which(command)
    if path is None and (problem := _install(package)) is not None:
        reason = f"{command} is missing ({problem}); try: apt-get install {package}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    path = path or shutil.which(command)
    assert path is not None, f"the package {package} brought no {command}"
    return path


@cache
def _install(package: str) -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "not root on a Debian system"
    folder = ROOT / ".pytest_cache"
    folder.mkdir(exist_ok=True)
    with (folder / "apt.lock").open("w") as lock:
        # Several workers may ask at once; for all but the first there is nothing left to do.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _apt("update") or _apt("install", "-y", "--no-install-recommends", package)


def _apt(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={_LIMIT_SECONDS}", *arguments],
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"apt-get {arguments[0]} took more than {_LIMIT_SECONDS} s"
    return f"apt-get {arguments[0]} ended with {done.returncode}" if done.returncode else None
