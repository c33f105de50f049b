"""A process a mutant, in a copy of the tree; the work tree is never written to.

The parent imports what is slow to import and nothing of the package, then forks: a mutant costs its
tests and little else. A first run of a module's tests says which of them run which lines, and how
long they take. A mutant meets the tests that run its lines, the fastest first; what runs when the
module is imported concerns all of them.
"""

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any, Literal

import coverage
import pytest
from hypothesis import Phase, settings

from tools.mutate.operators import Mutant, mutated

Outcome = Literal["killed", "timeout", "lived"]

_COPIED = ("src", "tests", "tools", "benchmarks")
_SLOW_IMPORTS = (
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "dp_accounting",
    "httpx",
    "mpmath",
    "msgspec",
    "numpy",
    "opendp.prelude",
    "scipy.integrate",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.linear_model",
    "sklearn.utils.estimator_checks",
    "starlette.applications",
)
_LEAST_SECONDS = 60.0
"""Before a mutant's tests are stopped; and as many times the time they took unmutated:"""
_TIMES_LONGER = 5.0
_NOTHING_FAILED = 0


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: Mutant
    outcome: Outcome
    test: str
    """That killed it, if one did."""
    seconds: float


@dataclass(frozen=True)
class Known:
    """What a run without a fault told: tests by line, and seconds by test."""

    by_line: dict[int, list[str]]
    seconds: dict[str, float]

    def tests_at(self, lines: tuple[int, int]) -> list[str]:
        """Those that run one of these lines, the fastest first."""
        near = {test for line in range(*lines) for test in self.by_line.get(line, [])}
        near.update(self.by_line.get(lines[1], []))
        chosen = self.seconds if "" in near else near & self.seconds.keys()
        return sorted(chosen, key=lambda test: self.seconds[test])


class Watch:
    """A pytest plugin: who runs what, for how long, and who fails first."""

    def __init__(self, order: list[str], measured: coverage.Coverage | None = None) -> None:
        self.place = {test: place for place, test in enumerate(order)}
        self.measured = measured
        self.seconds: dict[str, float] = {}
        self.failed = ""

    def pytest_sessionstart(self) -> None:
        """A failure is all that is asked for; finding the smallest takes minutes."""
        settings.register_profile(
            "mutate", settings(), phases=(Phase.explicit, Phase.generate), deadline=None
        )
        settings.load_profile("mutate")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only those asked for, in that order."""
        if self.place:
            items[:] = [item for item in items if item.nodeid in self.place]
            items.sort(key=lambda item: self.place[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note whose lines these are."""
        if self.measured is not None:
            _forget_results()
            self.measured.switch_context(item.nodeid)
        began = time.perf_counter()
        result = yield
        self.seconds[item.nodeid] = time.perf_counter() - began
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first failure."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Also of a file that does not load."""
        if report.failed and not self.failed:
            self.failed = report.nodeid or "collection"


def _forget_results() -> None:
    """What is kept from an earlier test would hide that this one needs those lines, too."""
    for name, module in list(sys.modules.items()):
        if name.startswith("sudare."):
            for value in list(vars(module).values()):
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


class Copy:
    """A copy of the tree for one mutant at a time."""

    def __init__(self, root: Path, where: Path) -> None:
        self.root, self.where = root, where
        where.mkdir()
        for entry in root.iterdir():
            if entry.name in _COPIED:
                leave = shutil.ignore_patterns("__pycache__")
                shutil.copytree(entry, where / entry.name, ignore=leave)
            elif not entry.name.startswith("."):
                (where / entry.name).symlink_to(entry)

    def __call__(self, path: Path) -> Path:
        """The same path in the copy."""
        return self.where / path.relative_to(self.root)

    def put(self, source: Path, text: str) -> None:
        """Another text for a module; compiled code of the old one is no use any more."""
        self(source).write_text(text)
        for compiled in (self(source).parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
            compiled.unlink()


@dataclass
class _Child:
    """A running process: what to do when it has ended."""

    pid: int
    copy: Copy
    began: float
    limit: float
    ended: Callable[["_Child", int | None], None]


class Runner:
    """Runs mutants in some copies at once."""

    def __init__(self, root: Path, scratch: Path, jobs: int) -> None:
        os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        for name in _SLOW_IMPORTS:
            importlib.import_module(name)
        self.root = root
        self.free = [Copy(root, scratch / f"copy{j}") for j in range(jobs)]
        self.children: list[_Child] = []

    def know(self, source: Path, tests: list[Path]) -> Known:
        """Run the tests without a fault, in their order."""
        copy = self.free[0]
        found = copy.where / "known.json"
        pid = self._fork(copy, lambda: _measure(copy, copy(source), tests, found))
        if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            raise RuntimeError(f"the tests fail without a fault: pytest ended with {code}")
        raw: dict[str, Any] = json.loads(found.read_text())
        return Known({int(line): who for line, who in raw["by_line"].items()}, raw["seconds"])

    def run(
        self, mutants: Iterable[Mutant], source: Path, tests: list[Path], known: Known
    ) -> Iterator[Result]:
        """Every mutant of a module, in the order in which they end; and once no mutant at all, to
        see that tests in another order pass."""
        text = source.read_text()
        results: list[tuple[Mutant | None, Outcome, str, float]] = []
        limit = max(_LEAST_SECONDS, _TIMES_LONGER * sum(known.seconds.values()))
        for mutant in [None, *mutants]:
            while not self.free:
                self._collect()
            yield from _emptied(results)
            everything = sorted(known.seconds, key=lambda test: known.seconds[test])
            order = known.tests_at(mutant.lines) if mutant else everything
            if mutant and not order:
                yield Result(mutant, "lived", "", 0.0)
                continue
            changed = mutated(text, mutant.number) if mutant else text
            copy = self.free.pop()
            copy.put(source, changed)

            def ended(child: _Child, status: int | None, mutant: Mutant | None = mutant) -> None:
                outcome, test = _outcome(child.copy, status)
                results.append((mutant, outcome, test, time.monotonic() - child.began))
                child.copy.put(source, text)
                self.free.append(child.copy)

            pid = self._fork(copy, lambda: _test(copy, tests, order))  # noqa: B023
            self.children.append(_Child(pid, copy, time.monotonic(), limit, ended))
        while self.children:
            self._collect()
        yield from _emptied(results)

    def stop(self) -> None:
        """End what still runs."""
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def _collect(self) -> None:
        for child in list(self.children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            late = time.monotonic() - child.began > child.limit
            if not pid and not late:
                continue
            # Its servers and other children go with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            if not pid:
                os.waitpid(child.pid, 0)
            self.children.remove(child)
            child.ended(child, os.waitstatus_to_exitcode(status) if pid else None)
        time.sleep(0.02)

    def _fork(self, copy: Copy, work: Callable[[], int]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        if pid := os.fork():
            return pid
        code = 70
        try:
            os.setsid()
            _enter(copy, self.root)
            code = work()
        finally:
            os._exit(code)


def _enter(copy: Copy, root: Path) -> None:
    """Make this process one that only knows the copy."""
    os.chdir(copy.where)
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(copy.where / name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
    os.environ["PYTHONPATH"] = f"{copy.where / 'src'}{os.pathsep}{copy.where}"
    own = {root, root / "src"}
    kept = [path for path in sys.path if Path(path).resolve() not in own]
    sys.path[:] = [str(copy.where / "src"), str(copy.where), *kept]
    for name in [name for name in sys.modules if name.split(".")[0] in (*_COPIED, "sudare")]:
        del sys.modules[name]


def _measure(copy: Copy, source: Path, tests: list[Path], found: Path) -> int:
    measured = coverage.Coverage(
        data_file=None, include=[str(source)], config_file=False, messages=False
    )
    watch = Watch([], measured)
    measured.start()
    code = _pytest(copy, tests, watch)
    measured.stop()
    contexts: dict[int, list[str]] = measured.get_data().contexts_by_lineno(str(source))
    found.write_text(json.dumps({"by_line": contexts, "seconds": watch.seconds}))
    return code


def _test(copy: Copy, tests: list[Path], order: list[str]) -> int:
    # What was compiled for the first runs stays; nothing of a mutant may.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    (copy.where / "killer").unlink(missing_ok=True)
    watch = Watch(order)
    code = _pytest(copy, tests, watch)
    (copy.where / "killer").write_text(watch.failed)
    return code


def _pytest(copy: Copy, tests: list[Path], watch: Watch) -> int:
    plain = [f"-pno:{plugin}" for plugin in ("cacheprovider", "randomly", "xdist", "cov")]
    quiet = ["-q", "--tb=short", "-Wignore::pytest.PytestAssertRewriteWarning"]
    places = [f"--rootdir={copy.where}", f"--basetemp={copy.where / 'tmp'}"]
    files = [str(copy(test)) for test in tests]
    return int(pytest.main(["-x", *plain, *quiet, *places, *files], plugins=[watch]))


def _outcome(copy: Copy, status: int | None) -> tuple[Outcome, str]:
    """By what its process ended with, and the test that failed first."""
    if status is None:
        return "timeout", ""
    if status == _NOTHING_FAILED:
        return "lived", ""
    killer = copy.where / "killer"
    return "killed", killer.read_text() if killer.exists() else ""


def _emptied(results: list[tuple[Mutant | None, Outcome, str, float]]) -> Iterator[Result]:
    while results:
        mutant, outcome, test, seconds = results.pop(0)
        if mutant is not None:
            yield Result(mutant, outcome, test, seconds)
        elif outcome != "lived":
            raise RuntimeError(f"a test fails without a fault, in another order: {test}")
