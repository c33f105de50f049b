"""The rehearsal: all that a survey does, and nothing of it in the survey's counts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from sudare.collector import schedule
from sudare.collector._rehearsal import MOST, SHOWN, Full, Rehearsal
from sudare.collector.stores import Verdict
from sudare.counting import Method, Survey, Ticket
from sudare.counting._reports import RECORD
from tests.collector.kit import LENGTH, Clock, a_survey, packed
from tests.collector.served import Served, serving, survey_of

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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    survey = survey_of(method="rappor", epsilon=1.5)
    with serving(tmp_path_factory.mktemp("rehearsal"), survey) as collector:
        yield collector


def everything(served: Served) -> Any:
    """All that the survey keeps, counts and shows, but for the time."""
    served.collector.refresh()
    activity = served.http.get(f"{served.url}/activity").json()
    described = served.http.get(served.url).json()
    metrics = served.http.get(f"{served.health_url}/metrics").text.splitlines()
    figures = {line for line in metrics if line.startswith(("sudare_reports", "sudare_refus"))}
    figures |= {line for line in metrics if line.startswith(("sudare_tickets", "sudare_issued"))}
    kept = {name: value for name, value in activity.items() if name != "now"}
    described.pop("now")
    database = Path(served.collector.store.place)
    files = [database.read_bytes(), *(p.read_bytes() for p in database.parent.glob("*-wal"))]
    return kept, described, figures, files


def test_the_survey_is_untouched(served: Served) -> None:
    """Its store byte for byte, its figures, serials, refusals and pages."""
    (own,) = served.tickets(1)
    real = {"serial": own["serial"], "slot": 0, "bit": 1, "mark": own["mark"]}
    assert served.send(real).status_code == 204
    served.collector.publish_due()
    before = everything(served)
    root = f"{served.root}/rehearsal/v1/surveys"
    (described,) = served.http.get(root).json()["surveys"]
    assert described["id"] != served.id
    assert described["name"] == "Rehearsal: At home"
    url = f"{root}/{described['id']}"
    tickets = [served.http.post(f"{url}/tickets").json()["tickets"][0] for _ in range(5)]
    reports = [
        {"serial": each["serial"], "slot": 0, "bit": n % 2, "mark": each["mark"]}
        for n, each in enumerate(tickets)
    ]

    def send(report: Any) -> httpx.Response:
        return served.http.post(f"{url}/reports", json=report)

    assert [send(each).status_code for each in reports + reports] == [204] * 10
    # A ticket of one is worth nothing in the other.
    assert send(real).json()["error"]["code"] == "wrong_mark"
    assert send({"serial": 1}).json()["error"]["code"] == "malformed"
    assert send({"x": "y" * 2000}).json()["error"]["code"] == "oversized"
    packed_type = {"content-type": "application/octet-stream"}
    answer = served.http.post(f"{url}/reports", content=b"", headers=packed_type)
    assert answer.json()["error"]["code"] == "wrong_type"
    assert served.http.get(f"{root}/{served.id}").status_code == 404
    assert served.http.get(f"{url}/estimates").json()["rehearsal"] is True
    assert everything(served) == before
    assert served.send(reports[0]).json()["error"]["code"] == "wrong_mark"


def test_a_crowd_that_rehearses_costs_nobody_a_real_ticket(served: Served) -> None:
    root = f"{served.root}/rehearsal/v1/surveys"
    url = f"{root}/{served.http.get(root).json()['surveys'][0]['id']}"
    told = [served.http.post(f"{url}/tickets").status_code for _ in range(40)]
    assert 429 in told
    assert served.http.post(f"{served.url}/tickets").status_code == 201
    assert "access-control-allow-origin" not in served.http.get(root).headers
