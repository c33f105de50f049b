"""Ticket keys by ranges of serials, and what they say of reports."""

import numpy as np
import pytest

from sudare.collector import Collector, bind_store, open_store, schedule
from sudare.collector._keys import TicketKeys
from sudare.counting import METHODS, Method, Ticket
from sudare.counting._reports import RECORD
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import COUNTED, WRONG_MARK, Clock, a_collector, a_survey, packed


def test_new_keys(place: str) -> None:
    """Old tickets stay good, new ones are made with the new key, in whole blocks."""
    old, clock = bytes(range(32)), Clock()
    tickets: list[Ticket] = []
    for _ in range(3):
        collector = a_collector(place, a_survey("rappor"), clock, key=old)
        tickets += collector.issue(6)
        collector.rotate_key()
        tickets += collector.issue(3)
        collector.close()
    collector = a_collector(place, a_survey("rappor"), clock, key=old)
    assert len({own.serial for own in tickets}) == 27
    assert len(collector.store.ranges()) == 4
    assert (collector.count(packed(tickets)) == COUNTED).all()
    assert collector.status().tickets == 27
    swapped = packed(tickets)[:8] + packed(tickets[6:])[8:29]
    assert collector.count(swapped) == WRONG_MARK
    collector.close()
    for wrong, message in ((None, "are wrapped"), (bytes(32), "not the one")):
        store = open_store(place)
        with pytest.raises(InvalidInput, match=message):
            Collector(a_survey("rappor"), store, schedule(a_survey("rappor")), key=wrong)
        store.close()


@pytest.mark.parametrize("method", METHODS)
def test_many_keys_judge_like_one(file: str, method: Method) -> None:
    survey = a_survey(method, rounds=5)
    store = open_store(file)
    bind_store(store, survey)
    keys = TicketKeys(survey, store, None)
    tickets = keys.issue(12)
    for _ in range(3):
        keys.rotate()
        tickets += keys.issue(7)
    reports = np.frombuffer(packed(tickets), RECORD)
    cells, good = keys.check(reports["serial"].astype(np.uint64), reports)
    assert good.all()
    if tickets[0].rounds:
        assert cells.tolist() == [own.rounds[0] for own in tickets]
    forged = reports.copy()
    forged["mark"] = np.roll(reports["mark"], 1)
    wild = reports.copy()
    wild["serial"] = 2**64 - 1 - np.arange(len(wild), dtype=np.uint64)
    for bad in (forged, wild):
        assert not keys.check(bad["serial"].astype(np.uint64), bad)[1].any()
    store.close()
