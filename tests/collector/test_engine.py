"""The collector at work: every report judged, counted once, published as estimated."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from sudare.collector import Collector
from sudare.collector._engine import Round
from sudare.collector._retention import Retention, recount
from sudare.counting import METHODS, Method, Survey, Tally, empty_tally, estimate, smooth
from sudare.counting._reports import RECORD
from sudare.counting._survey import MAX_ROUNDS
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import (
    COUNTED,
    LENGTH,
    MALFORMED,
    REPEATED,
    START,
    TOO_EARLY,
    TOO_LATE,
    UNKNOWN_SLOT,
    WRONG_MARK,
    Clock,
    a_collector,
    a_survey,
    due,
    packed,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(place: str, clock: Clock) -> Iterator[Collector]:
    """Of a survey of four rounds and one report a user, in its first round."""
    collector = a_collector(place, a_survey(), clock)
    yield collector
    collector.close()


def tallied(collector: Collector) -> Tally:
    reporters, ones = collector.store.counts(np.arange(collector.survey.cells))
    return Tally(collector.survey.digest(), reporters, ones)


class TestJudging:
    def test_every_verdict(self, collector: Collector) -> None:
        tickets = collector.issue(8)
        now, later = ([o for o in tickets if o.rounds == (t,)] for t in (0, 2))
        data = packed([*now, now[0], later[0], now[1], now[1]], [0, 0, 0, 0, 7, 0])
        records = np.frombuffer(data, RECORD).copy()
        records["bit"][5] = 2
        forged = records[:1].copy()
        forged["serial"] += 4
        strange = records[:1].copy()
        strange["serial"] = 2**64 - 1
        told = collector.count(np.concatenate([records, forged, strange]).tobytes()).tolist()
        assert told == [
            COUNTED,
            COUNTED,
            REPEATED,
            TOO_EARLY,
            UNKNOWN_SLOT,
            MALFORMED,
            WRONG_MARK,
            WRONG_MARK,
        ]
        reasons = {"too_early": 1, "unknown_slot": 1, "malformed": 1, "wrong_mark": 2}
        assert collector.status().refused == reasons
        assert tallied(collector).reporters.tolist() == [2, 0, 0, 0]

    def test_nothing_and_half_a_record(self, collector: Collector) -> None:
        assert collector.count(b"").tolist() == []
        with pytest.raises(InvalidInput, match="whole records of 29 bytes"):
            collector.count(bytes(30))

    def test_other_surveys_and_stores(
        self, collector: Collector, clock: Clock, tmp_path: Path
    ) -> None:
        for survey in (a_survey(), a_survey(name="other")):
            other = a_collector(str(tmp_path / survey.name), survey, clock)
            assert (collector.count(packed(other.issue(4))) == WRONG_MARK).all()
            other.close()

    def test_a_counted_report_is_acknowledged_ever_after(
        self, collector: Collector, clock: Clock
    ) -> None:
        own = next(own for own in collector.issue(4) if own.rounds == (0,))
        assert collector.count(packed([own])) == COUNTED
        for instant in (0.7, 1.5, 9.0, -9.0):
            clock.set(instant)
            collector.publish_due()
            assert collector.count(packed([own], bits=0)) == REPEATED
        assert tallied(collector).ones.tolist() == [1, 0, 0, 0]

    def test_bits_of_one_group(self, collector: Collector) -> None:
        """Of two reports of one ticket the first counts, whatever they say."""
        own = next(own for own in collector.issue(4) if own.rounds == (0,))
        told = collector.count(packed([own, own], bits=[0, 1]))
        assert told.tolist() == [COUNTED, REPEATED]
        assert tallied(collector).ones.tolist() == [0, 0, 0, 0]


def whole_survey(place: str, survey: Survey, users: int, clock: Clock) -> Collector:
    """Everybody reports in time, some twice, and every round is published when it is due."""
    collector = a_collector(place, survey, clock)
    tickets, rng = collector.issue(users), np.random.default_rng(5)
    for t in range(survey.rounds):
        clock.set(t + 0.3)
        data = due(survey, tickets, t)
        records = np.frombuffer(data, RECORD).copy()
        records["bit"] = rng.random(records.size) < 0.4
        told = [collector.count(part.tobytes()) for part in np.array_split(records, 3)]
        assert (np.concatenate(told) == COUNTED).all()
        assert (collector.count(data) == REPEATED).all()
        clock.set(t + 1.1)
        assert [each.round for each in collector.publish_due()] == [t]
        assert collector.publish_due() == []
    return collector


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_survey(place: str, method: Method) -> None:
    survey, clock = a_survey(method, rounds=6), Clock()
    collector = whole_survey(place, survey, 50, clock)
    whole = estimate(tallied(collector), survey, users=50)
    history = collector.history()
    assert [each.round for each in history] == list(range(6))
    assert [each.reporters for each in history] == whole.reporters.tolist()
    assert [each.raw for each in history] == whole.raw.tolist()
    assert [each.share for each in history] == whole.share.tolist()
    assert [each.low for each in history] == whole.low.tolist()
    assert [each.high for each in history] == whole.high.tolist()
    assert [each.smoothed for each in history] == smooth(whole).tolist()
    collector.close()
    again = a_collector(place, survey, clock)
    assert again.history() == history
    assert again.publish_due() == []
    assert again.history(since=4) == history[4:]
    again.close()


def test_a_published_round(collector: Collector, clock: Clock) -> None:
    collector.count(due(collector.survey, collector.issue(400), 0))
    clock.set(1.25)
    (round_,) = collector.publish_due()
    assert msgspec.to_builtins(round_) | {"low": 0, "high": 0, "raw": 0, "smoothed": 0} == {
        "round": 0,
        "opens": "2026-01-01T00:00:00.000Z",
        "closes": "2026-01-01T00:01:40.000Z",
        "published": "2026-01-01T00:02:05.000Z",
        "reporters": 100,
        "share": 1.0,
        "raw": 0,
        "low": 0,
        "high": 0,
        "smoothed": 0,
        "revision": 0,
    }
    assert round_.raw is not None
    assert round_.raw > 1


def test_nobody_reports(collector: Collector, clock: Clock) -> None:
    clock.set(9.0)
    for each in collector.publish_due():
        assert (each.reporters, each.share, each.raw, each.low, each.high) == (0, None, None, 0, 1)
        assert each.smoothed is None
    assert len(collector.history()) == 4


@pytest.mark.parametrize("method", METHODS)
def test_nobody_has_a_ticket(place: str, method: Method) -> None:
    clock = Clock(9.0)
    collector = a_collector(place, a_survey(method), clock)
    assert [each.share for each in collector.publish_due()] == [None] * 4
    collector.close()


@pytest.mark.parametrize("method", METHODS)
def test_the_smallest_survey(file: str, method: Method) -> None:
    survey = a_survey(method, rounds=1, **({"slots": 1} if method == "masks" else {}))
    collector = whole_survey(file, survey, 30, Clock())
    assert [each.reporters for each in collector.history()] == [30]
    collector.close()


@pytest.mark.parametrize("method", METHODS)
def test_the_largest_survey(place: str, method: Method) -> None:
    """Of a million rounds: joined, reported, begun again, the first rounds published."""
    survey, clock = a_survey(method, rounds=MAX_ROUNDS, epsilon=30.0), Clock()
    collector = a_collector(place, survey, clock)
    tickets = collector.issue(5)
    turn = next(t for t in range(MAX_ROUNDS) if tickets[0].slot_of(survey, t) is not None)
    clock.set(turn + 0.5)
    data = due(survey, tickets, turn)
    assert (collector.count(data) == COUNTED).all()
    collector.close()
    again = a_collector(place, survey, clock)
    assert again.status().reporters == {turn: len(data) // RECORD.itemsize}
    assert (again.count(data) == REPEATED).all()
    others = [own for own in tickets if own.rounds and turn not in own.rounds]
    early = np.array([own.rounds[0] > turn for own in others])
    assert (again.count(packed(others)) == np.where(early, TOO_EARLY, TOO_LATE)).all()
    clock.set(2.2)
    assert [each.round for each in again.publish_due()] == [0, 1]
    again.close()


class TestTickets:
    def test_never_the_same(self, place: str, clock: Clock) -> None:
        serials = set[int]()
        for _ in range(3):
            collector = a_collector(place, a_survey(), clock)
            serials |= {own.serial for count in (1, 3, 7) for own in collector.issue(count)}
            assert collector.status().tickets == len(serials)
            collector.close()
        assert len(serials) == 33

    def test_how_many(self, collector: Collector) -> None:
        with pytest.raises(InvalidInput, match="count=0 >= 1"):
            collector.issue(0)

    def test_enrolment(self, collector: Collector, place: str, clock: Clock) -> None:
        assert collector.status().enrolment
        collector.set_enrolment(False)
        assert not collector.status().enrolment
        collector.close()
        again = a_collector(place, a_survey(), clock)
        assert not again.status().enrolment
        again.close()

    def test_the_operators_token(self, collector: Collector, place: str, clock: Clock) -> None:
        assert not collector.has_token()
        assert not collector.check_token("")
        first = collector.new_token()
        assert collector.check_token(first)
        collector.set_token("of my own")
        assert not collector.check_token(first)
        collector.close()
        again = a_collector(place, a_survey(), clock)
        assert again.has_token()
        assert again.check_token("of my own")
        again.close()


class TestRetention:
    def test_what_is_kept_is_what_was_counted(
        self, place: str, clock: Clock, tmp_path: Path
    ) -> None:
        survey = a_survey("masks", rounds=6)
        retain = Retention(tmp_path / "raw", survey)
        collector = a_collector(place, survey, clock, retain=retain)
        tickets, rng = collector.issue(30), np.random.default_rng(1)
        for t in range(3):
            clock.set(t + 0.5)
            data = due(survey, tickets, t, 0)
            records = np.frombuffer(data, RECORD).copy()
            records["bit"] = rng.integers(0, 2, records.size)
            forged = records[:3].copy()
            forged["serial"] += 1
            collector.count(np.concatenate([records, records, forged]).tobytes())
            if t < 2:
                collector.publish_due()
        expected = tallied(collector)
        collector.close()
        assert recount(tmp_path / "raw", survey) == expected
        assert expected.reporters.sum() == 45

    def test_a_folder_that_is_gone_keeps_them_in_the_store(
        self, place: str, clock: Clock, tmp_path: Path
    ) -> None:
        survey = a_survey("rappor")
        retain = Retention(tmp_path / "raw", survey)
        collector = a_collector(place, survey, clock, retain=retain)
        shutil.rmtree(tmp_path / "raw")
        assert (collector.count(packed(collector.issue(5))) == COUNTED).all()
        collector.publish_due()
        assert not collector.status().reachable
        (tmp_path / "raw").mkdir()
        collector.publish_due()
        assert collector.status().reachable
        assert len(collector.store.raw(1 << 20)) == 1
        expected = tallied(collector)
        collector.close()
        assert recount(tmp_path / "raw", survey) == expected

    def test_by_default_nothing_is_kept(self, collector: Collector) -> None:
        collector.count(due(collector.survey, collector.issue(40), 0))
        assert collector.store.raw(1 << 20) == []


def test_status(collector: Collector, clock: Clock) -> None:
    tickets = collector.issue(40)
    collector.count(due(collector.survey, tickets, 0))
    collector.refused("rate_limited", 3)
    clock.set(0.97)  # when the next round's reports may come, too
    collector.count(due(collector.survey, tickets, 1))
    for _ in range(2):
        status = collector.status()
        assert (status.round, status.tickets, status.reporters) == (0, 40, {0: 10, 1: 10})
        assert (status.published, status.reachable, status.enrolment) == (0, True, True)
        assert status.refused == {"rate_limited": 3}
        assert status.now == clock.now
        collector.refresh()
    assert collector.next_due() == START.timestamp() + 1.1 * LENGTH
    clock.set(1.5)
    collector.publish_due()
    assert (collector.status().reporters, collector.status().published) == ({1: 10}, 1)
    clock.set(9)
    collector.publish_due()
    assert (collector.status().round, collector.status().reporters) == (None, {})
    assert collector.next_due() is None


def test_rounds_are_plain_for_json(collector: Collector, clock: Clock) -> None:
    clock.set(9)
    for each in collector.publish_due():
        assert msgspec.json.decode(msgspec.json.encode(each), type=Round) == each


def test_empty_tally_is_what_a_new_store_holds(collector: Collector) -> None:
    assert tallied(collector) == empty_tally(collector.survey)
