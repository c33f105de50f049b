"""Closing rounds, beside a store that is a few lists."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.collector._clock import schedule
from sudare.collector._rounds import close_rounds
from sudare.collector.stores import Closing, Progress, Row
from sudare.counting import METHODS, Method, Tally, estimate, smooth
from tests.collector.kit import Clock, a_survey


class Paper(Closing):
    """What a store's transaction offers."""

    def __init__(self, reporters: NDArray[np.int64], ones: NDArray[np.int64], issued: int) -> None:
        self.reporters, self.ones, self.issued = reporters, ones, issued
        self.progress = Progress(0, 0, b"")
        self.written: list[Row] = []

    def counts(self, cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.reporters[cells], self.ones[cells]

    def rows(self, first: int, beyond: int) -> list[Row]:
        latest = {row.round: row for row in self.written}
        return [latest[t] for t in range(first, beyond) if t in latest]

    def record(self, rows: Sequence[Row], progress: Progress) -> None:
        self.written += rows
        self.progress = progress


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [[9.0], [1.2, 2.2, 3.2, 9.0], [0.5, 4.2, 4.3, 9.0]])
def test_in_any_number_of_steps(method: Method, steps: list[float]) -> None:
    survey, rng = a_survey(method, rounds=7), np.random.default_rng(2)
    reporters = rng.integers(0, 9, survey.cells)
    reporters[:2] = 3
    paper = Paper(reporters, rng.binomial(reporters, 0.5), 70)
    times = schedule(survey)
    for instant in steps:
        close_rounds(paper, survey, times, 0.1, Clock(instant).now)
        done = times.due(Clock(instant).now)
        assert paper.progress[:2] == (done, done)
    whole = estimate(
        Tally(survey.digest(), paper.reporters, paper.ones), survey, users=70, beta=0.1
    )
    assert [row.round for row in paper.written] == list(range(7))
    for name in ("reporters", "raw", "low", "high"):
        told = np.array([getattr(row, name) for row in paper.written])
        assert np.array_equal(told, getattr(whole, name), equal_nan=True)
    assert [row.smoothed for row in paper.written] == smooth(whole).tolist()
    assert {row.users for row in paper.written} == {70}


@pytest.mark.parametrize("steps", [[9.0], [1.2, 2.2, 3.2, 9.0]])
def test_nothing_is_smoothed_before_the_first_report(steps: list[float]) -> None:
    survey = a_survey(rounds=5)
    paper = Paper(np.array([0, 0, 8, 0, 8]), np.array([0, 0, 2, 0, 3]), 40)
    for instant in steps:
        close_rounds(paper, survey, schedule(survey), 0.1, Clock(instant).now)
    assert [bool(np.isnan(row.smoothed)) for row in paper.written] == [True, True] + [False] * 3


def test_a_revision_keeps_the_smoothed_share_and_its_successors() -> None:
    survey = a_survey(rounds=7)
    paper = Paper(np.full(7, 10), np.full(7, 4), 70)
    times = schedule(survey, late=300.0)
    close_rounds(paper, survey, times, 0.1, Clock(2.2).now)
    first, second = paper.written
    paper.reporters = paper.reporters + (np.arange(7) == 0)
    close_rounds(paper, survey, times, 0.1, Clock(3.2).now)
    revised, third = paper.written[2:]
    assert (revised.round, revised.revision, revised.reporters) == (0, 1, 11)
    assert (revised.smoothed, third.round) == (first.smoothed, 2)
    assert revised.raw != first.raw
    assert paper.progress[:2] == (3, 0)
    plain = Paper(np.full(7, 10), np.full(7, 4), 70)
    close_rounds(plain, survey, times, 0.1, Clock(3.2).now)
    assert plain.written[2].smoothed == third.smoothed
    assert plain.written[1].smoothed == second.smoothed
    close_rounds(paper, survey, times, 0.1, Clock(4.05).now)
    assert (len(paper.written), paper.progress[:2]) == (4, (3, 1))
