"""Which survey a store serves."""

from datetime import timedelta

import pytest

from sudare.collector import Collector, bind_store, open_store, schedule
from sudare.counting import parse_survey
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import LENGTH, START, a_survey


def test_a_survey_starts_when_it_is_first_served(place: str) -> None:
    bare = a_survey(start=None, round_seconds=None)
    store, now = open_store(place), START.timestamp() + 0.25
    with pytest.raises(InvalidInput, match="round_seconds to start it now"):
        bind_store(store, bare)
    served = bind_store(store, bare, round_seconds=LENGTH, now=now)
    assert served == a_survey(start=START + timedelta(seconds=0.25))
    assert bind_store(store, bare, round_seconds=5.0, now=now + 9) == served
    assert bind_store(store, served) == served
    store.close()


def test_times_that_cannot_be_do_not_bind_a_store(file: str) -> None:
    bare = a_survey(start=None, round_seconds=None)
    store = open_store(file)
    with pytest.raises(InvalidInput, match="year 10000"):
        bind_store(store, bare, round_seconds=1e300)
    assert bind_store(store, bare, round_seconds=LENGTH).round_seconds == LENGTH
    store.close()


def test_another_survey_is_refused_by_name(place: str) -> None:
    store = open_store(place)
    bind_store(store, a_survey(name="ours"))
    with pytest.raises(InvalidInput, match=r"belongs to the survey 'ours', not to 'theirs'"):
        bind_store(store, a_survey(name="theirs"))
    with pytest.raises(InvalidInput, match=r"'ours' of another description"):
        bind_store(store, a_survey(name="ours", epsilon=2.0))
    store.close()


def test_a_tree_of_the_version_before_goes_on(file: str) -> None:
    """What was kept says nothing of flips: it is the survey it was, and its file still opens it."""
    before, few = a_survey("tree", changes=4), a_survey("tree", changes=4, flips="stretches")
    store = open_store(file)
    assert bind_store(store, before) == before
    assert b"flips" not in store.meta()["survey"]
    assert bind_store(store, parse_survey(before.to_toml())) == before
    with pytest.raises(InvalidInput, match="of another description"):
        bind_store(store, few)
    store.close()
    store = open_store(f"{file}.few")
    assert bind_store(store, few) == bind_store(store, few) == few
    store.close()


def test_another_schedule(file: str) -> None:
    store = open_store(file)
    with pytest.raises(InvalidInput, match="the schedule of this survey"):
        Collector(a_survey(), store, schedule(a_survey(rounds=5)))
    store.close()
