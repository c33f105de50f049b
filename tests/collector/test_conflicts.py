"""A second report that says something else is not counted, but noticed."""

import numpy as np
import pytest

from sudare.counting import RECORD
from tests.collector.kit import COUNTED, REPEATED, Clock, a_collector, a_survey, due


@pytest.mark.parametrize("method", ["glance", "masks"])
@pytest.mark.parametrize("together", [False, True])
def test_conflicting_reports_are_counted_as_such(place: str, method: str, together: bool) -> None:
    survey, clock = a_survey(method), Clock()  # type: ignore[arg-type]
    collector = a_collector(place, survey, clock)
    first = np.frombuffer(due(survey, collector.issue(40), 0), RECORD).copy()
    first["bit"] = np.arange(first.size) % 3 == 0
    second = first.copy()
    second["bit"][:4] ^= 1
    parts = [np.concatenate([first, second])] if together else [first, second]
    told = np.concatenate([collector.count(part.tobytes()) for part in parts])
    assert told.tolist() == [COUNTED] * first.size + [REPEATED] * first.size
    assert collector.status().refused == {"conflicting": 4}
    clock.set(1.2)
    (round_,) = collector.publish_due()
    assert round_.reporters == first.size
    _, ones = collector.store.counts(np.array([0]))
    assert ones.sum() == first["bit"].sum()
    # Of a round that is over nothing is known any more, nor after a start.
    collector.count(second.tobytes())
    assert collector.status().refused["conflicting"] == 4
    collector.close()


def test_what_came_before_a_start_is_not_known(file: str) -> None:
    survey, clock = a_survey(), Clock()
    collector = a_collector(file, survey, clock)
    first = np.frombuffer(due(survey, collector.issue(40), 0), RECORD).copy()
    collector.count(first.tobytes())
    collector.close()
    again = a_collector(file, survey, clock)
    first["bit"] ^= 1
    assert (again.count(first.tobytes()) == REPEATED).all()
    assert "conflicting" not in again.status().refused
    again.close()
