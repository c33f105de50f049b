"""Schedules: every instant belongs to the right rounds, and to the same ones in every method."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.collector._clock import Schedule, iso, schedule
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import START, a_survey

BEGIN = START.timestamp()


def test_defaults() -> None:
    assert schedule(a_survey()) == Schedule(BEGIN, 100.0, 4, 10.0, 5.0, 0.0)
    assert schedule(a_survey(round_seconds=0.5))[3:] == (0.05, 0.025, 0.0)
    assert schedule(a_survey(round_seconds=86400.0))[3:] == (60.0, 5.0, 0.0)


def test_instants() -> None:
    times = schedule(a_survey(), late=150.0)
    assert (times.opens(2), times.closes(2), times.publishes(2)) == (
        BEGIN + 200,
        BEGIN + 300,
        BEGIN + 310,
    )
    for seconds, current, begun, due, over in [
        (-5.1, None, 0, 0, 0),
        (-5, None, 1, 0, 0),
        (0, 0, 1, 0, 0),
        (94.9, 0, 1, 0, 0),
        (95, 0, 2, 0, 0),
        (100, 1, 2, 0, 0),
        (109.9, 1, 2, 0, 0),
        (110, 1, 2, 1, 0),
        (250, 2, 3, 2, 1),
        (399, 3, 4, 3, 2),
        (400, None, 4, 3, 2),
        (410, None, 4, 4, 2),
        (550, None, 4, 4, 4),
        (1e9, None, 4, 4, 4),
        (-1e9, None, 0, 0, 0),
    ]:
        now = BEGIN + seconds
        found = times.current(now), times.begun(now), times.due(now), times.over(now)
        assert found == (current, begun, due, over), seconds


@given(
    length=st.floats(0.01, 1e6),
    rounds=st.integers(1, 1000),
    at=st.integers(0, 1000),
    nudge=st.sampled_from([-1e-6, 0.0, 1e-6]),
    share=st.floats(0, 0.99),
)
def test_due_is_exactly_when_reports_end(
    length: float, rounds: int, at: int, nudge: float, share: float
) -> None:
    """At any instant a round is due or still accepted, whatever is lost in rounding."""
    survey = a_survey(rounds=rounds, round_seconds=length)
    times = schedule(survey, grace=share * length)
    now = times.publishes(at) + nudge
    due = times.due(now)
    assert due == times.over(now) == sum(times.publishes(t) <= now for t in range(rounds))
    current = times.current(now)
    assert current is None or times.opens(current) <= now < times.closes(current)
    assert times.begun(now) == sum(times.opens(t) <= now + times.skew for t in range(rounds))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"grace": 100.0}, "less than a round"),
        ({"grace": -1.0}, "grace=-1.0 >= 0"),
        ({"skew": 101.0}, "at most a round"),
        ({"late": float("nan")}, "late=nan"),
    ],
)
def test_mistakes(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        schedule(a_survey(), **wrong)


def test_a_survey_without_times() -> None:
    with pytest.raises(InvalidInput, match="start and round_seconds"):
        schedule(a_survey(start=None, round_seconds=None))


@pytest.mark.parametrize("length", [1e9, 1e300])
def test_a_survey_without_end(length: float) -> None:
    with pytest.raises(InvalidInput, match="ends before the year 10000"):
        schedule(a_survey(rounds=1000, round_seconds=length))
    schedule(a_survey(rounds=1000, round_seconds=1e8))


def test_iso() -> None:
    assert iso(BEGIN) == "2026-01-01T00:00:00.000Z"
    assert iso(BEGIN + 0.25) == "2026-01-01T00:00:00.250Z"
    assert datetime.fromisoformat(iso(BEGIN)) == datetime(2026, 1, 1, tzinfo=UTC)
