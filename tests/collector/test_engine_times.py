"""Rounds and the clock: what is closed stays closed, and what is published stays as it was."""

from pathlib import Path

import numpy as np
import pytest

from sudare.collector import Collector
from sudare.counting import Method
from tests.collector.kit import (
    COUNTED,
    LENGTH,
    REPEATED,
    START,
    TOO_EARLY,
    TOO_LATE,
    Clock,
    a_collector,
    a_survey,
    due,
)


def reporters(collector: Collector) -> list[int]:
    return [each.reporters for each in collector.history()]


@pytest.mark.parametrize(
    ("instant", "verdict"),
    [
        (0.9499, TOO_EARLY),
        (0.95, COUNTED),
        (1.5, COUNTED),
        (2.0, COUNTED),
        (2.0999, COUNTED),
        (2.1, TOO_LATE),
        (-5.0, TOO_EARLY),
        (1e6, TOO_LATE),
    ],
)
def test_when_reports_of_round_1_are_accepted(file: str, instant: float, verdict: int) -> None:
    survey, clock = a_survey(), Clock()
    collector = a_collector(file, survey, clock)
    data = due(survey, collector.issue(8), 1)
    clock.set(instant)
    assert (collector.count(data) == verdict).all()
    collector.close()


def test_what_is_accepted_is_published(file: str) -> None:
    """A report in the last instant, then the clock moves on by the least there is."""
    survey, clock = a_survey(), Clock()
    collector = a_collector(file, survey, clock)
    publishes = collector.next_due()
    assert publishes == START.timestamp() + 1.1 * LENGTH
    clock.now = float(np.nextafter(publishes, 0))
    assert collector.publish_due() == []
    assert (collector.count(due(survey, collector.issue(8), 0)) == COUNTED).all()
    clock.now = publishes
    assert [each.reporters for each in collector.publish_due()] == [2]
    collector.close()


def test_a_clock_that_jumps_back(place: str) -> None:
    survey, clock = a_survey(), Clock()
    collector = a_collector(place, survey, clock)
    tickets = collector.issue(40)
    first = due(survey, tickets, 0)
    collector.count(first[: 29 * 6])
    clock.set(1.2)
    published = collector.publish_due()
    for _ in range(2):  # the second time after a restart
        for instant in (0.5, -7.0):
            clock.set(instant)
            told = collector.count(first)
            assert told.tolist() == [REPEATED] * 6 + [TOO_LATE] * 4
            assert collector.publish_due() == []
        clock.set(1.5)
        assert collector.publish_due() == []
        assert list(collector.history()) == published
        collector.close()
        collector = a_collector(place, survey, clock)
    assert (collector.count(due(survey, tickets, 1)) == COUNTED).all()
    clock.set(2.2)
    assert [each.round for each in collector.publish_due()] == [1]
    assert reporters(collector) == [6, 10]
    collector.close()


def test_a_clock_that_jumps_ahead_closes_all_rounds_between(place: str) -> None:
    survey, clock = a_survey(rounds=6), Clock()
    collector = a_collector(place, survey, clock)
    tickets = collector.issue(60)
    collector.count(due(survey, tickets, 0))
    clock.set(4.5)
    assert [each.round for each in collector.publish_due()] == [0, 1, 2, 3]
    assert reporters(collector) == [10, 0, 0, 0]
    clock.set(1.5)  # it was a mistake, and is put right: those rounds are lost, the others not
    assert (collector.count(due(survey, tickets, 1)) == TOO_LATE).all()
    clock.set(4.6)
    assert (collector.count(due(survey, tickets, 4)) == COUNTED).all()
    collector.close()


def test_after_a_long_pause_rounds_are_closed_bit_by_bit(tmp_path: Path) -> None:
    """So that reports get their turn in between."""
    clock = Clock()
    collector = a_collector(str(tmp_path / "long.db"), a_survey(rounds=6000), clock)
    clock.set(6001.0)
    first = collector.publish_due()
    assert 0 < len(first) < 6000
    due_next = collector.next_due()
    assert due_next is not None
    assert due_next <= clock()
    second = collector.publish_due()
    assert [each.round for each in (*first, *second)] == list(range(6000))
    assert collector.next_due() is None
    collector.close()


def test_more_rounds_at_once_than_fit_into_a_transaction(place: str) -> None:
    clock = Clock()
    collector = a_collector(place, a_survey(rounds=700), clock)
    clock.set(610.5)
    assert [each.round for each in collector.publish_due()] == list(range(610))
    history = collector.history()
    assert len(history) == 610
    collector.close()
    again = a_collector(place, a_survey(rounds=700), clock)
    assert again.history() == history
    again.close()


def test_after_the_last_round(place: str) -> None:
    survey, clock = a_survey(), Clock()
    collector = a_collector(place, survey, clock)
    tickets = collector.issue(8)
    clock.set(4.2)
    assert len(collector.publish_due()) == 4
    assert all((collector.count(due(survey, tickets, t)) == TOO_LATE).all() for t in range(4))
    assert (collector.publish_due(), collector.next_due()) == ([], None)
    assert collector.status().round is None
    collector.close()


@pytest.mark.parametrize("method", ["harmony", "harmony-signed", "tree"])
def test_who_joins_later_changes_nothing_published(place: str, method: Method) -> None:
    survey, clock = a_survey(method), Clock()
    collector = a_collector(place, survey, clock)
    collector.count(due(survey, collector.issue(40), 0))
    clock.set(1.2)
    before = collector.publish_due()
    collector.issue(400)
    clock.set(2.2)
    collector.publish_due()
    assert collector.history()[:1] == tuple(before)
    collector.close()


class TestLateReports:
    """Counted up to 150 seconds after the close: one and a half rounds."""

    def test_a_round_is_revised_until_it_is_sealed(self, place: str) -> None:
        survey, clock = a_survey(), Clock()
        collector = a_collector(place, survey, clock, late=150.0)
        data = due(survey, collector.issue(40), 0)
        collector.count(data[: 29 * 3])
        clock.set(1.2)
        (first,) = collector.publish_due()
        assert (collector.count(data[: 29 * 5]) == [REPEATED] * 3 + [COUNTED] * 2).all()
        (second,) = collector.publish_due()
        assert (first.reporters, first.revision) == (3, 0)
        assert (second.reporters, second.revision, second.round) == (5, 1, 0)
        assert second.smoothed == first.smoothed
        assert (second.low, second.raw) != (first.low, first.raw)
        assert collector.publish_due() == []
        collector.close()
        collector = a_collector(place, survey, clock, late=150.0)
        assert collector.history() == (second,)
        clock.set(2.49)
        collector.count(data[: 29 * 6])
        clock.set(2.5)
        assert (collector.count(data) == [REPEATED] * 6 + [TOO_LATE] * 4).all()
        changed = collector.publish_due()
        assert [(each.round, each.revision, each.reporters) for each in changed] == [
            (0, 2, 6),
            (1, 0, 0),
        ]
        clock.set(1.3)  # sealed is sealed
        assert (collector.count(data) == [REPEATED] * 6 + [TOO_LATE] * 4).all()
        assert collector.publish_due() == []
        collector.close()

    def test_a_stretch_counts_in_later_rounds_as_well(self, place: str) -> None:
        survey, clock = a_survey("tree", rounds=8), Clock()
        collector = a_collector(place, survey, clock, late=450.0)
        tickets = collector.issue(250)  # so many that every level is among the last
        for t in range(4):
            clock.set(t + 0.5)
            collector.count(due(survey, tickets[:50], t))
        clock.set(4.2)
        before = collector.publish_due()
        assert [each.round for each in before] == [0, 1, 2, 3]
        # A stretch of two rounds that ends with round 1 is part of the sums of rounds 1 and 2.
        late = [own for own in tickets[50:] if own.level == 1]
        assert len(late) > 0
        assert (collector.count(due(survey, late, 1)) == COUNTED).all()
        assert [each.round for each in collector.publish_due()] == [1, 2]
        collector.close()

    def test_survey_over_and_all_sealed(self, place: str) -> None:
        survey, clock = a_survey(), Clock(4.2)
        collector = a_collector(place, survey, clock, late=150.0)
        tickets = collector.issue(8)
        assert len(collector.publish_due()) == 4
        assert (collector.count(due(survey, tickets, 3)) == COUNTED).all()
        clock.set(9.0)
        assert [(each.round, each.revision) for each in collector.publish_due()] == [(3, 1)]
        assert collector.store.progress().sealed == 4
        collector.close()
