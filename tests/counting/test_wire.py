"""Answers of strangers: read if they make sense, refused in one way if not."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.collector._messages import issued
from sudare.counting import CollectorError, Report, open_office
from sudare.counting.wire import (
    error_code,
    error_message,
    read_description,
    read_ticket,
    read_tickets,
    report_json,
    survey_path,
)
from sudare.foundations.checks import InvalidInput
from tests.counting.pretend import Pretend, refusal, survey_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["surveys", "tickets", "error", "code", "name", "law", "digest"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.binary(max_size=40) | JSON.map(json.dumps).map(str.encode))
def test_answers_of_anybody(body):
    for read in (read_description, read_tickets):
        with contextlib.suppress(CollectorError):
            assert read(body) == []
    with pytest.raises(InvalidInput, match="one JSON object"):
        read_ticket(body)
    assert isinstance(error_code(body), str)
    assert error_message(body).isprintable()


@pytest.mark.parametrize("depth", [100, 100_000])
def test_answers_without_bottom(depth):
    with pytest.raises(CollectorError, match="makes no sense"):
        read_description(b"[" * depth)
    assert error_code(b'{"error":' + b"[" * depth) == ""


def test_a_description_there_and_back():
    pretend = Pretend(survey_of("tree"))
    told = pretend.description()
    for body in (told, {"surveys": [told]}):
        survey, described = read_description(json.dumps(body).encode())
        assert survey == pretend.survey
        assert described.digest == survey.digest().hex()
        assert described.late == 6.0
    for several in ([], [told, told]):
        with pytest.raises(CollectorError, match="makes no sense"):
            read_description(json.dumps({"surveys": several}).encode())


def test_refusals_in_words():
    body = refusal(410, "too_late").content
    assert error_code(body) == "too_late"
    assert error_message(body) == "It was too_late."
    for odd in ("", "x" * 201, "a\x1b[31m", 5, None):
        body = json.dumps({"error": {"code": odd, "message": odd}}).encode()
        assert error_message(body) == "no reason given"


def test_reports_and_addresses():
    report = Report(2**48 - 1, 7, 1, b"\xff\xfe" * 8)
    assert json.loads(report_json(report)) == {
        "serial": 2**48 - 1,
        "slot": 7,
        "bit": 1,
        "mark": "__7__v_-__7__v_-__7__g",
    }
    survey = survey_of()
    assert survey_path(survey) == f"v1/surveys/{survey.digest().hex()[:16]}"
    assert survey_path(survey, "reports").endswith("/reports")


def test_tickets_there_and_back():
    for own in open_office(survey_of(), bytes(32)).issue_many(range(20)):
        line = msgspec.json.encode(issued(own)).decode()
        assert read_ticket(line) == own
        assert read_tickets(b'{"tickets":[' + line.encode() + b"]}") == [own]
