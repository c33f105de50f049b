"""What holds for every test."""

import os
from collections.abc import Generator

# Workers share the cores; more threads in each only get in one another's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from tests.support import pages, soak

pytest_plugins = ["tests.support.places"]

settings.register_profile("sudare", derandomize=True, deadline=None, database=None)
settings.load_profile("sudare")

_CI = os.environ.get("CI") == "true"


def pytest_addoption(parser: pytest.Parser) -> None:
    soak.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    soak.register(config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not hasattr(report, "wasxfail"):
        _fail_skips(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_skips(report)
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to `make soak` what only it has the time for."""
    soak.note_tries(items)
    if soak.SOAK:
        return
    left = [item for item in items if _only_soaked(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def _only_soaked(item: pytest.Item) -> bool:
    return any(mark.kwargs.get("only") for mark in item.iter_markers("soak"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if lines := pages.not_tested():
        terminalreporter.section("examples that are not run")
        for line in lines:
            terminalreporter.write_line(line)


def _fail_skips(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"With CI=true nothing may be skipped: {report.longreprtext}"
