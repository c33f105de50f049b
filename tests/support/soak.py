"""`make soak` has hours; `make test` has minutes, and tries some of the same.

Marks:

    soak                    `make soak` tries more of it
    soak(only=True)         and nothing else runs it
    soak(tries="50 kills")  what one case tries, for the table that `make soak` writes
"""

import os
from pathlib import Path

import pytest

import sudare

SOAK = os.environ.get("SUDARE_SOAK") == "1"
_TITLE = f"""# soak

What `make soak` tried when it was run last, with sudare {sudare.__version__}: the tests that are
slow by nature, each as often as it says. A case is one set of the test's parameters, such as the
kind of store.

| test | a case tries | cases | passed | failed |
| --- | --- | --- | --- | --- |
"""


def times(few: int, many: int) -> int:
    """How often to try something by chance: few times, or many where there is time."""
    return many if SOAK else few


class Table:
    """A pytest plugin: what became of every soaked test, written as Markdown at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tries: dict[str, str] = {}
        self._cases: dict[str, dict[str, bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of setup, call and teardown: a case has passed if all of them have."""
        test, cases = report.nodeid.partition("[")[0], report.nodeid
        self._tries[test] = str(dict(report.user_properties).get("tries", ""))
        known = self._cases.setdefault(test, {})
        known[cases] = known.get(cases, True) and report.outcome == "passed"

    def pytest_sessionfinish(self) -> None:
        """Write what there is, failures as well."""
        lines = []
        for test, cases in sorted(self._cases.items()):
            passed = sum(cases.values())
            name = test.removeprefix("tests/").replace("::", " ")
            lines.append(
                f"| {name} | {self._tries[test]} | {len(cases)} | {passed} "
                f"| {len(cases) - passed} |\n"
            )
        self.path.write_text(_TITLE + "".join(lines))


def add_option(parser: pytest.Parser) -> None:
    """How `make soak` says where the table is to be."""
    parser.addoption("--soak-table", type=Path, metavar="FILE", help="write what was soaked here")


def register(config: pytest.Config) -> None:
    """One table, by the process that hears from all workers."""
    path: Path | None = config.getoption("--soak-table")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Table(path))


def note_tries(items: list[pytest.Item]) -> None:
    """What a test's marks say travels with its reports."""
    for item in items:
        for mark in item.iter_markers("soak"):
            if "tries" in mark.kwargs:
                item.user_properties.append(("tries", mark.kwargs["tries"]))
                break
