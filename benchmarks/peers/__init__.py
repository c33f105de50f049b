"""Peers that cannot share our environment: each gets one of its own and answers from there.

diffprivlib 0.6.6 does not import with today's scikit-learn, so it runs with the last one it knows;
numpyro brings half a gigabyte of JAX that nothing else here needs, multi-freq-ldpy a compiler. An
environment is made on first use, in `.venv-peers`, and kept.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"
DIFFPRIVLIB = ("diffprivlib==0.6.6", "scikit-learn==1.7.2")
NUMPYRO = ("numpyro==0.22.0",)
MULTI_FREQ_LDPY = ("multi-freq-ldpy==0.2.5",)
_PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
_ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Unavailable(Exception):
    """The peer could not be installed here."""


class Peer:
    """A running peer: takes requests with arrays, answers with numbers."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout
        self._folder = folder

    def give(self, name: str, **arrays: Any) -> None:
        """Data that later requests name."""
        np.savez(self._folder / f"{name}.npz", **arrays)

    def ask(self, **request: Any) -> Any:
        """The peer's answer to one request."""
        print(json.dumps(request), file=self._requests, flush=True)
        if not (answer := self._answers.readline()):
            raise RuntimeError(f"the peer stopped at {request}")
        return json.loads(answer)


def diffprivlib() -> AbstractContextManager[Peer]:
    """diffprivlib in its own environment, on one core."""
    return _running("diffprivlib", DIFFPRIVLIB)


def numpyro() -> AbstractContextManager[Peer]:
    """numpyro in its own environment, on as many cores as JAX likes to use."""
    return _running("numpyro", NUMPYRO)


def multi_freq_ldpy() -> AbstractContextManager[Peer]:
    """multi-freq-ldpy, which compiles its clients with numba, in its own environment."""
    return _running("multi_freq_ldpy", MULTI_FREQ_LDPY)


@contextmanager
def _running(name: str, requirements: tuple[str, ...]) -> Iterator[Peer]:
    python = _environment(name, requirements)
    script = Path(__file__).with_name(f"{name}_worker.py")
    env = os.environ | _ONE_CORE | {"PYTHONPATH": str(ROOT)}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [python, "-W", "ignore", script, folder],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield Peer(process, Path(folder))


def _environment(name: str, requirements: tuple[str, ...]) -> Path:
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    done = folder / "requirements.txt"
    wanted = "\n".join(requirements) + "\n"
    if done.exists() and done.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    make: list[str | Path] = [sys.executable, "-m", "venv", folder]
    fill: list[str | Path] = [python, *_PIP, *requirements]
    for command in (make, fill):
        if subprocess.run(command, capture_output=True).returncode:
            raise Unavailable(f"{' '.join(requirements)} could not be installed")
    done.write_text(wanted)
    return python
