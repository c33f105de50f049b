"""A store of an earlier version opens, and its survey goes on as if nothing had been."""

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from sudare.collector import Collector, Round
from sudare.counting import RECORD, Ticket
from sudare.counting.wire import read_tickets
from tests.collector.kit import COUNTED, REPEATED, WRONG_MARK, Clock
from tests.collector.stores.golden import STORE, SURVEY, TOKEN, TOLD, finish, opened, reports

DIGEST = "5b0fe22263febdb8ec8c5a15184941cd569f8ec323eae89713ae7db6d8d9ce97"
ISSUED = 60
"""Tickets that the store had issued."""
TICKETS = read_tickets(TOLD.read_bytes())


class Told(msgspec.Struct):
    rounds: tuple[Round, ...]


ROUNDS = msgspec.json.decode(TOLD.read_bytes(), type=Told).rounds


@pytest.fixture
def clock() -> Clock:
    return Clock(3.45)


@pytest.fixture
def collector(tmp_path: Path, clock: Clock) -> Collector:
    place = tmp_path / "collector.db"
    shutil.copy(STORE, place)
    return opened(place, clock)


def judged(collector: Collector, tickets: list[Ticket], round_: int) -> dict[int, int]:
    """What is made of everybody's reports, by serial."""
    data = reports(tickets, round_)
    serials = np.frombuffer(data, RECORD)["serial"].tolist()
    return dict(zip(serials, collector.count(data).tolist(), strict=True))


def test_it_opens_with_all_it_held(collector: Collector) -> None:
    assert collector.survey == SURVEY
    assert collector.survey.digest().hex() == DIGEST
    assert collector.history() == ROUNDS[:3]
    status = collector.status()
    assert (status.tickets, status.published, status.enrolment) == (ISSUED, 3, False)
    assert collector.check_token(TOKEN)
    collector.close()


def test_it_knows_its_tickets_and_who_was_counted(collector: Collector) -> None:
    known = TICKETS[:ISSUED]
    before = {own.serial for own in known[::2]}
    found = judged(collector, known, 3)
    assert len(found) > 20
    for serial, verdict in found.items():
        assert verdict == (REPEATED if serial in before else COUNTED)
    forged = [msgspec.structs.replace(own, mark=bytes(16)) for own in known]
    assert set(judged(collector, forged, 3).values()) == {WRONG_MARK}
    collector.close()


def test_the_rest_of_the_survey_is_what_it_would_have_been(
    collector: Collector, clock: Clock
) -> None:
    more = finish(collector, clock, TICKETS[:ISSUED])
    # Which comes first is drawn; what they hold follows from key and serial.
    assert sorted(more, key=lambda own: own.serial) == sorted(
        TICKETS[ISSUED:], key=lambda own: own.serial
    )
    assert len(collector.history()) == SURVEY.rounds
    for found, round_ in zip(collector.history(), ROUNDS, strict=True):
        numbers, expected = msgspec.structs.asdict(found), msgspec.structs.asdict(round_)
        for name, value in expected.items():
            assert numbers[name] == (
                pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            )
    collector.close()
