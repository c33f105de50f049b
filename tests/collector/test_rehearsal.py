"""The rehearsal: all that a survey does, and nothing of it in the survey's counts."""

import json
from typing import Any

import numpy as np
import pytest

from sudare.collector import schedule
from sudare.collector._rehearsal import MOST, SHOWN, Full, Rehearsal
from sudare.collector.stores import Verdict
from sudare.counting import Method, Survey, Ticket
from sudare.counting._reports import RECORD
from tests.collector.kit import LENGTH, Clock, a_survey, packed

KEY = bytes(range(32))


def a_rehearsal(clock: Clock, survey: Survey | None = None, key: bytes = KEY) -> Rehearsal:
    survey = survey or a_survey(rounds=6, epsilon=1.5)
    return Rehearsal(survey, schedule(survey), key, beta=0.1, clock=clock)


def due_tickets(rehearsal: Rehearsal, round_: int, count: int) -> list[tuple[Ticket, int]]:
    """Tickets, with the slot in which they speak in this round."""
    found: list[tuple[Ticket, int]] = []
    while len(found) < count:
        ticket = rehearsal.issue()
        slot = ticket.slot_of(rehearsal.survey, round_)
        if slot is not None:
            found.append((ticket, slot))
    return found


@pytest.mark.parametrize("method", ["glance", "masks", "rappor", "tree"])
def test_the_whole_way(method: Method) -> None:
    clock = Clock()
    rehearsal = a_rehearsal(clock, a_survey(method, rounds=4, epsilon=1.5))
    sent = due_tickets(rehearsal, 0, 9)
    for n, (ticket, slot) in enumerate(sent):
        record = packed([ticket], slot, n % 3 == 0)
        assert rehearsal.count(record) is Verdict.COUNTED
        assert rehearsal.count(record) is Verdict.REPEATED
    assert b'"rounds":[]' in rehearsal.estimates()
    clock.set(1.5)
    told = _decoded(rehearsal)
    (first,) = told["rounds"]
    assert told["rehearsal"] is True
    assert (first["round"], first["reporters"]) == (0, 9)
    assert first["low"] <= first["share"] <= first["high"]
    record = packed([sent[0][0]], sent[0][1], 1)
    assert rehearsal.count(record) in (Verdict.TOO_LATE, Verdict.REPEATED)
    late = due_tickets(rehearsal, 0, 1)[0]
    assert rehearsal.count(packed([late[0]], late[1])) is Verdict.TOO_LATE


def test_what_does_not_count() -> None:
    clock = Clock(1.5)
    rehearsal, other = a_rehearsal(clock), a_rehearsal(clock, key=bytes(32))
    ((early, slot),) = due_tickets(rehearsal, 3, 1)
    assert rehearsal.count(packed([early], slot)) is Verdict.TOO_EARLY
    assert rehearsal.count(packed([early], 1)) is Verdict.UNKNOWN_SLOT
    assert rehearsal.count(packed([early], slot, 2)) is Verdict.MALFORMED
    assert rehearsal.count(packed([other.issue()])) is Verdict.WRONG_MARK
    huge = np.frombuffer(packed([early], slot), RECORD).copy()
    huge["serial"] = 2**64 - 1
    assert rehearsal.count(huge.tobytes()) is Verdict.WRONG_MARK


def test_who_shares_the_key_takes_its_tickets() -> None:
    clock = Clock()
    first, second = a_rehearsal(clock), a_rehearsal(clock)
    ((ticket, slot),) = due_tickets(first, 0, 1)
    assert second.count(packed([ticket], slot)) is Verdict.COUNTED


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.collector._rehearsal.MOST", 3)
    assert MOST == 100_000
    clock = Clock()
    rehearsal = a_rehearsal(clock, a_survey("rappor", rounds=60, epsilon=1.5))
    for ticket in (tickets := [rehearsal.issue() for _ in range(3)]):
        assert rehearsal.count(packed([ticket], 0)) is Verdict.COUNTED
    with pytest.raises(Full):
        rehearsal.count(packed([rehearsal.issue()], 0))
    for t in range(1, 60):
        clock.set(t + 0.5)
        assert rehearsal.count(packed(tickets[:1], t)) is Verdict.COUNTED
    assert len(rehearsal._used) <= 2
    clock.pass_by(2 * LENGTH)
    assert [each["round"] for each in _decoded(rehearsal)["rounds"]] == [*range(60 - SHOWN, 60)]
    assert _decoded(rehearsal)["next"] is None


def _decoded(rehearsal: Rehearsal) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(rehearsal.estimates())
    return told
