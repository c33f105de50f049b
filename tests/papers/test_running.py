"""Whatever the number of processes, the same numbers."""

import os
import sys

import numpy as np
import pytest

from papers import figures
from papers.figure import Conclusion, Figure, Results, Sample, Setting, measured
from papers.files import as_csv
from papers.running import run
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.papers.smoke import SMOKE

REAL = "ridge-diabetes"


def _draw(seed: int) -> list[Sample]:
    rng = seeded(seed)
    return [
        measured("p", "draw", 0.0, rng.normal()),
        measured("p", "process", 0.0, os.getpid()),
        measured("p", "matplotlib", 0.0, "matplotlib" in sys.modules),
    ]


def _figure(title: str, count: int) -> tuple[Figure, list[int]]:
    figure = Figure(
        name=title,
        title=title,
        paper="",
        claim="",
        columns=("p", "c", "x", "value"),
        tasks=lambda setting: [],
        measure=_draw,
        conclude=lambda results: Conclusion("", "", ()),
    )
    return figure, Setting().seeds(title, count)


def _run(jobs: int) -> tuple[dict[str, Results], list[tuple[str, int, int]]]:
    heard: list[tuple[str, int, int]] = []
    real = figures()[REAL]
    work = [
        (real, real.tasks(SMOKE)[:2]),
        _figure("first", 5),
        _figure("second", 2),
        _figure("empty", 0),
    ]
    done = run(work, jobs, lambda title, part, whole: heard.append((title, part, whole)))
    return {figure.name: results for figure, results in done}, heard


def test_processes_change_nothing() -> None:
    (alone, heard), (shared, also_heard) = _run(1), _run(2)
    assert heard == also_heard
    assert heard[2:4] == [("first", 1, 5), ("first", 2, 5)]
    assert heard[-1] == ("second", 2, 2)
    for title in ("first", "second"):
        draws = [found[title].values("p", "draw", 0.0) for found in (alone, shared)]
        np.testing.assert_array_equal(draws[0], draws[1])
        assert len(np.unique(draws[0])) == len(draws[0])
    assert set(alone["first"].values("p", "process", 0.0)) == {os.getpid()}
    assert os.getpid() not in shared["first"].values("p", "process", 0.0)
    assert alone["empty"].rows() == []
    # Nothing has been drawn there, so nothing that draws was loaded.
    assert not shared["first"].values("p", "matplotlib", 0.0).any()
    # A real figure too, with learners, blends and linear algebra.
    assert as_csv(figures()[REAL], alone[REAL]) == as_csv(figures()[REAL], shared[REAL])


def test_jobs_are_counted() -> None:
    with pytest.raises(InvalidInput, match="jobs=0"):
        list(run([], 0, lambda *_: None))
