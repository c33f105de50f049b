"""What goes over the wire."""

import base64

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.collector._messages import TicketRequest, issued, pack_report
from sudare.counting import Report, Survey, Ticket, open_office
from sudare.counting._reports import RECORD
from sudare.counting.wire import SentReport, survey_id
from sudare.foundations.checks import InvalidInput

SERIALS, SLOTS = st.integers(0, 2**48 - 1), st.integers(0, 2**32 - 1)
MARKS = st.binary(min_size=16, max_size=16)


@given(SERIALS, SLOTS, st.integers(0, 1), MARKS)
def test_packing_agrees_with_the_reporter(serial: int, slot: int, bit: int, mark: bytes) -> None:
    packed = Report(serial, slot, bit, mark).pack()
    url = base64.urlsafe_b64encode(mark).decode().rstrip("=")
    plain = base64.b64encode(mark).decode()
    for text in (url, url + "==", plain):
        body = msgspec.json.encode({"mark": text, "serial": serial, "slot": slot, "bit": bit})
        assert pack_report(body) == packed
    (record,) = np.frombuffer(packed, RECORD)
    assert (record["serial"], record["slot"], record["bit"]) == (serial, slot, bit)
    assert record["mark"].tobytes() == mark


@given(st.binary(max_size=200))
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="Expected a"):
        pack_report(body)


@pytest.mark.parametrize("mark", ["", "A" * 21, "A" * 23, "A" * 24, "é" * 22, "A" * 20 + "=="])
def test_marks_are_sixteen_bytes(mark: str) -> None:
    body = msgspec.json.encode({"mark": mark, "serial": 0, "slot": 0, "bit": 0})
    with pytest.raises(InvalidInput, match="Expected a"):
        pack_report(body)


def test_what_is_described_is_what_is_taken() -> None:
    """The quick decoder takes all that the described type takes."""
    report = SentReport(serial=5, slot=0, bit=1, mark="A" * 22)
    assert pack_report(msgspec.json.encode(report)) == Report(5, 0, 1, bytes(16)).pack()
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"count":10001}', type=TicketRequest)


def test_tickets_as_they_are_sent() -> None:
    survey = Survey(name="x", rounds=5, epsilon=1.0, method="masks", slots=2)
    ticket = open_office(survey, bytes(32)).issue(3)
    sent = msgspec.to_builtins(issued(ticket))
    assert base64.urlsafe_b64decode(sent["mark"] + "==") == ticket.mark
    back = Ticket(
        bytes.fromhex(sent["survey"]), sent["serial"], ticket.mark, tuple(sent["rounds"]), 0
    )
    assert back == ticket
    assert sent["survey"].startswith(survey_id(survey))
    assert len(survey_id(survey)) == 16
