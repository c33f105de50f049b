"""Which survey a store serves."""

from datetime import timedelta

import pytest

from sudare.checks import InvalidInput
from sudare.collector import Collector, open_store, schedule, settle
from tests.collector.kit import LENGTH, START, a_survey


def test_a_survey_starts_when_it_is_first_served(place: str) -> None:
    bare = a_survey(start=None, round_seconds=None)
    store, now = open_store(place), START.timestamp() + 0.25
    with pytest.raises(InvalidInput, match="round_seconds to start it now"):
        settle(store, bare)
    served = settle(store, bare, round_seconds=LENGTH, now=now)
    assert served == a_survey(start=START + timedelta(seconds=0.25))
    assert settle(store, bare, round_seconds=5.0, now=now + 9) == served
    assert settle(store, served) == served
    store.close()


def test_times_that_cannot_be_do_not_bind_a_store(file: str) -> None:
    bare = a_survey(start=None, round_seconds=None)
    store = open_store(file)
    with pytest.raises(InvalidInput, match="year 10000"):
        settle(store, bare, round_seconds=1e300)
    assert settle(store, bare, round_seconds=LENGTH).round_seconds == LENGTH
    store.close()


def test_another_survey_is_refused_by_name(place: str) -> None:
    store = open_store(place)
    settle(store, a_survey(name="ours"))
    with pytest.raises(InvalidInput, match=r"belongs to the survey 'ours', not to 'theirs'"):
        settle(store, a_survey(name="theirs"))
    with pytest.raises(InvalidInput, match=r"'ours' of another description"):
        settle(store, a_survey(name="ours", epsilon=2.0))
    store.close()


def test_another_schedule(file: str) -> None:
    store = open_store(file)
    with pytest.raises(InvalidInput, match="the schedule of this survey"):
        Collector(a_survey(), store, schedule(a_survey(rounds=5)))
    store.close()
