"""A mechanism of the user's own, from a Python file, as an audit case.

The file defines `mechanism(data, runs, rng)`, two neighbouring inputs `first` and `second`, the
claimed `epsilon` and, if any, `delta`. It is the user's own code and runs with the user's rights.
"""

import runpy
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.random import Generator

from sudare.audit import _blackbox as blackbox
from sudare.audit._blackbox import Progress
from sudare.audit._cases import Case
from sudare.audit._findings import Finding
from sudare.foundations import checks

SUGGESTED_RUNS = 100_000


def load_case(path: Path) -> Case:
    """Read the file and check that it defines what an audit needs."""
    given = _read(path)
    missing = [name for name in ("mechanism", "first", "second", "epsilon") if name not in given]
    if missing:
        raise checks.InvalidInput(f"Expected {path.name} to define {', '.join(missing)}")
    if not callable(given["mechanism"]):
        raise checks.InvalidInput(
            f"Expected mechanism in {path.name} to be a function (data, runs, rng)"
        )
    checks.positive(epsilon=given["epsilon"])
    checks.delta_like(delta=given.get("delta", 0.0))

    def mechanism(data: Any, runs: int, rng: Generator) -> Any:
        with _blamed_on(path):
            return given["mechanism"](data, runs, rng)

    def check(runs: int, rng: Generator, progress: Progress | None, confidence: float) -> Finding:
        return blackbox.audit(
            mechanism,
            given["first"],
            given["second"],
            epsilon=given["epsilon"],
            delta=given.get("delta", 0.0),
            runs=runs,
            confidence=confidence,
            rng=rng,
            progress=progress,
        )

    what = (given.get("__doc__") or "A mechanism of your own.").strip().splitlines()[0]
    return Case(
        name=path.stem,
        title=path.name,
        what=what,
        claim=f"ε = {given['epsilon']:g}",
        expected="passes",
        method="black box",
        partner="",
        suggested_runs=SUGGESTED_RUNS,
        check=check,
    )


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise checks.InvalidInput(f"No file {str(path)!r}")
    with _blamed_on(path):
        return runpy.run_path(str(path))


@contextmanager
def _blamed_on(path: Path) -> Iterator[None]:
    """An error in the user's file as one line: where and of what kind, without its values."""
    try:
        yield
    except SyntaxError as problem:
        raise checks.InvalidInput(
            f"{path.name}, line {problem.lineno}: not valid Python"
        ) from problem
    except Exception as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
        where = f", line {lines[-1]}" if lines else ""
        raise checks.InvalidInput(f"{path.name}{where}: {type(problem).__name__}") from problem
