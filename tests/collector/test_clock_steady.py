"""A clock that leaps closes no round: it is noticed, and people decide."""

from pathlib import Path

import numpy as np
import pytest

from sudare.collector import StoreUnavailable
from sudare.collector._clock import SteadyClock
from sudare.foundations import checks
from tests.collector.kit import (
    BOUND,
    COUNTED,
    LENGTH,
    REPEATED,
    START,
    TOO_LATE,
    Clock,
    Machine,
    a_collector,
    a_survey,
    due,
)


class TestTheClockAlone:
    def test_it_begins_with_the_time_of_day(self) -> None:
        machine = Machine()
        clock = machine.clock()
        assert clock() == pytest.approx(machine.wall)
        machine.pass_by(30.0)
        clock.look()
        assert clock() == pytest.approx(machine.wall)
        assert clock.leap == 0.0

    @pytest.mark.parametrize("leap", [90.0, -90.0, 2.6])
    def test_a_leap_is_noticed_and_ends_when_the_clock_is_right_again(self, leap: float) -> None:
        machine = Machine()
        clock = machine.clock()
        clock.look()
        machine.wall += leap
        machine.pass_by(5.0)
        clock.look()
        assert clock.leap == pytest.approx(leap)
        assert clock() == pytest.approx(machine.wall - leap)
        assert clock.between() == pytest.approx(sorted((machine.wall, machine.wall - leap)))
        machine.wall -= leap
        machine.pass_by(1.0)
        clock.look()
        assert clock.leap == 0.0
        assert clock() == pytest.approx(machine.wall)

    def test_small_differences_are_followed_slowly(self) -> None:
        machine = Machine()
        clock = machine.clock()
        clock.look()
        machine.wall += 1.0
        for elapsed, behind in ((1.0, 0.9), (1.0, 0.8), (20.0, 0.0)):
            machine.pass_by(elapsed)
            clock.look()
            assert clock() == pytest.approx(machine.wall - behind)
        assert clock.leap == 0.0

    def test_many_small_leaps_are_one_large_one(self) -> None:
        machine = Machine()
        clock = machine.clock()
        clock.look()
        begun = clock()
        for _ in range(60):
            machine.wall += 1.5
            machine.pass_by(1.0)
            clock.look()
        assert clock.leap > 60.0
        assert clock() - begun < 66.1

    def test_a_judge_that_answers_late_is_not_believed(self) -> None:
        machine, slow = Machine(), False

        def judge() -> float:
            told = machine.wall
            if slow:
                machine.pass_by(9.0)
            return told

        clock = SteadyClock(
            BOUND, judge=judge, wall=lambda: machine.wall, counter=lambda: machine.counter
        )
        clock.look()
        slow = True
        clock.look()
        assert clock.leap == 0.0
        assert clock() == pytest.approx(machine.wall)

    def test_a_machine_apart_from_its_judge(self) -> None:
        machine, database = Machine(), Machine()
        clock = machine.clock(judge=database)
        clock.look()
        assert clock.apart == 0.0
        machine.wall += 90.0
        clock.look()
        assert clock.apart == pytest.approx(90.0)
        assert clock() == pytest.approx(database.wall)
        assert clock.leap == 0.0
        machine.wall -= 89.0
        clock.look()
        assert clock.apart == 0.0


def test_ninety_seconds_ahead_for_five_seconds_close_nothing(place: str) -> None:
    """The rounds last six seconds, so fifteen would be lost."""
    survey = a_survey(rounds=40, round_seconds=6.0)
    machine = Machine(0.01)
    clock = machine.clock()
    collector = a_collector(place, survey, clock)
    tickets = collector.issue(400)
    machine.wall += 90.0
    for _ in range(5):
        machine.pass_by(1.0)
        assert collector.publish_due() == []
    assert collector.status().leap == pytest.approx(90.0)
    # What devices send meanwhile is counted, by whichever clock they go.
    assert (collector.count(due(survey, tickets, 1)) == COUNTED).all()
    assert (collector.count(due(survey, tickets, 15)) == COUNTED).all()
    machine.wall -= 90.0
    for round_ in range(2, 16):
        machine.pass_by(6.0)
        collector.publish_due()
        told = collector.count(due(survey, tickets, round_))
        assert (told == (REPEATED if round_ == 15 else COUNTED)).all()
    assert collector.status().leap == 0.0
    assert [each.reporters for each in collector.history()[:14]] == [0, *[10] * 13]
    collector.close()


def test_a_machine_that_disagrees_with_the_database_takes_no_part(database: str) -> None:
    survey, shared = a_survey(rounds=40), Machine()
    machines = Machine(), Machine()
    fast, right = (a_collector(database, survey, each.clock(judge=shared)) for each in machines)
    tickets = right.issue(400)
    machines[0].wall += 15 * LENGTH
    assert fast.publish_due() == []
    assert fast.status().apart == pytest.approx(15 * LENGTH)
    with pytest.raises(StoreUnavailable, match="disagrees with the database"):
        fast.count(due(survey, tickets, 0))
    with pytest.raises(StoreUnavailable):
        fast.issue()
    assert (right.count(due(survey, tickets, 0)) == COUNTED).all()
    for machine in (shared, *machines):
        machine.pass_by(LENGTH)
    assert fast.publish_due() == []
    assert [each.round for each in right.publish_due()] == [0]
    assert [each.round for each in fast.publish_due()] == [0]  # it follows what others publish
    for collector in (fast, right):
        collector.close()


class TestReopen:
    """A collector that is started with a clock 15 rounds ahead believes it."""

    def test_rounds_without_reports(self, place: str) -> None:
        survey, clock = a_survey(rounds=40), Clock(2.2)
        collector = a_collector(place, survey, clock)
        tickets = collector.issue(400)
        clock.set(17.5)
        assert len(collector.publish_due()) == 17
        clock.set(2.3)
        assert (collector.count(due(survey, tickets, 2)) == TOO_LATE).all()
        assert collector.reopen() == range(2, 17)
        assert collector.history()[-1].round == 1
        assert collector.next_due() == START.timestamp() + 3.1 * LENGTH
        assert (collector.count(due(survey, tickets, 2)) == COUNTED).all()
        clock.set(3.2)
        assert [(t.round, t.reporters, t.revision) for t in collector.publish_due()] == [(2, 10, 1)]
        collector.close()
        again = a_collector(place, survey, clock)
        assert len(again.history()) == 3
        again.close()

    @pytest.mark.parametrize("slots", [1, 3])
    def test_what_was_shown_stays_unless_it_is_corrected(self, place: str, slots: int) -> None:
        survey = a_survey("masks" if slots > 1 else "glance", rounds=8)
        clock = Clock(0.3)
        collector = a_collector(place, survey, clock)
        tickets = collector.issue(800)
        for round_ in range(3):
            clock.set(round_ + 0.3)
            reports = due(survey, tickets, round_)
            collector.count(reports[: 29 * 20] if round_ == 2 else reports)
            collector.publish_due()
        clock.set(6.5)
        collector.publish_due()
        before = collector.history()
        collector.close()
        clock.set(2.4)
        collector = a_collector(place, survey, clock)
        with pytest.raises(checks.InvalidInput, match="round 2 has been shown"):
            collector.reopen()
        assert collector.history() == before
        assert collector.reopen(corrected=True) == range(2, 6)
        told = collector.count(due(survey, tickets, 2))
        assert (told[:20] == REPEATED).all()
        assert (told[20:] == COUNTED).all()
        clock.set(3.2)
        (again,) = collector.publish_due()
        assert (again.round, again.revision, again.reporters) == (2, 1, told.size)
        assert collector.history()[:2] == before[:2]
        collector.close()

    def test_smoothing_goes_on_as_if_nothing_had_been(self, tmp_path: Path) -> None:
        """Two collectors, one of which once closed too much."""
        survey, found = a_survey(rounds=8), []
        for name, mistaken in (("right.db", False), ("wrong.db", True)):
            clock = Clock(0.3)
            collector = a_collector(str(tmp_path / name), survey, clock)
            tickets = collector.issue(800)
            for round_ in range(5):
                clock.set(round_ + 0.3)
                if mistaken and round_ == 3:
                    clock.set(6.5)
                    collector.publish_due()
                    clock.set(round_ + 0.3)
                    collector.reopen()
                size = 29 * (40 + 7 * round_)
                bits = np.arange(100) % (3 + round_ % 2) != round_
                collector.count(due(survey, tickets, round_, bits)[:size])
                clock.set(round_ + 1.2)
                collector.publish_due()
            found.append([t.smoothed for t in collector.history()])
            collector.close()
        assert len(set(found[0])) == 5
        assert found[0] == pytest.approx(found[1], rel=1e-12)

    def test_nothing_to_reopen(self, file: str) -> None:
        collector = a_collector(file, a_survey(), Clock(2.5))
        collector.publish_due()
        with pytest.raises(checks.InvalidInput, match="No round is closed"):
            collector.reopen()
        collector.close()

    def test_used_tickets_that_were_forgotten(self, place: str) -> None:
        """Of a survey with several reports, a round long past cannot be opened again."""
        survey, clock = a_survey("masks", rounds=9), Clock(0.3)
        collector = a_collector(place, survey, clock)
        tickets = collector.issue(200)
        for round_ in range(6):
            clock.set(round_ + 0.3)
            collector.count(due(survey, tickets, round_))
            clock.set(round_ + 1.2)
            collector.publish_due()
        clock.set(1.5)
        with pytest.raises(checks.InvalidInput, match="counted twice"):
            collector.reopen(corrected=True)
        clock.set(4.5)
        assert collector.reopen(corrected=True) == range(4, 6)
        assert (collector.count(due(survey, tickets, 4)) == REPEATED).all()
        collector.close()
