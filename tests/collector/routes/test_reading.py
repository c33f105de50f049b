"""What anyone may read, and that it is what the engine says."""

import csv
import io
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sudare.collector.messages import Activity, Description, Estimates, Surveys
from sudare.counting.prediction import predict_error
from tests.collector.served import Served, pack, serving, survey_of


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A survey of short rounds, of which a few have been published."""
    survey = survey_of(rounds=500, seconds=0.3)
    with serving(tmp_path_factory.mktemp("reading"), survey, grace_seconds=0.1) as collector:
        tickets = {each["rounds"][0]: each for each in collector.tickets(500)}
        while len(collector.collector.history()) < 4:
            now = collector.http.get(f"{collector.url}/activity").json()["round"]
            report = {"serial": tickets[now]["serial"], "slot": 0, "bit": 1}
            collector.send_packed(pack([report | {"mark": tickets[now]["mark"]}]))
            time.sleep(0.1)
        yield collector


def test_the_description(served: Served) -> None:
    answer = served.http.get(served.url)
    told = msgspec.json.decode(answer.content, type=Description)
    survey, times = served.survey, served.opened.schedule
    assert told.id == survey.digest().hex()[:16]
    assert told.digest == survey.digest().hex()
    assert (told.rounds, told.epsilon, told.method) == (500, 2.0, "glance")
    assert told.start == survey.start.isoformat().replace("+00:00", "Z")  # type: ignore[union-attr]
    assert (told.round_seconds, told.grace_seconds) == (0.3, 0.1)
    assert (told.skew_seconds, told.late_seconds) == (times.skew, 0.0)
    assert (told.law.slots, told.law.threshold) == (1, 0)
    assert int(told.law.near_weight) == survey.law.near_weight
    assert int(told.law.far_weight) == survey.law.far_weight
    assert "ε = 2" in told.promise
    assert "7.39" in told.promise
    listed = msgspec.json.decode(served.http.get(f"{served.root}/v1/surveys").content, type=Surveys)
    assert msgspec.structs.replace(listed.surveys[0], now=told.now) == told
    assert abs(time.time() - _seconds(told.now)) < 5


def _seconds(iso: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(iso).timestamp()


def test_the_plans_error_follows_the_tickets(served: Served) -> None:
    until = time.monotonic() + 10
    while (told := served.http.get(served.url).json()["predicted_error"]) is None:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert told["users"] == 500
    assert told["typical"] == pytest.approx(predict_error(served.survey, 500))
    # 500 people in 500 rounds: nothing can be promised, and no share is off by more than one.
    assert told["bound"] == 1.0


def test_estimates_are_the_engines(served: Served) -> None:
    told = msgspec.json.decode(served.http.get(f"{served.url}/estimates").content, type=Estimates)
    known = served.collector.history()[: len(told.rounds)]
    assert told.rounds == list(known)
    assert [each.round for each in told.rounds] == list(range(len(told.rounds)))
    assert told.survey == served.id
    assert told.beta == 0.05
    assert told.next is not None
    assert told.next.round == len(told.rounds)
    assert _seconds(told.next.publishes) == pytest.approx(
        served.opened.schedule.publishes(told.next.round), abs=0.002
    )


def test_since(served: Served) -> None:
    for since in (0, 1, 3):
        rounds = served.http.get(f"{served.url}/estimates?since={since}").json()["rounds"]
        assert rounds[0]["round"] == since
    assert served.http.get(f"{served.url}/estimates?since=1000000").json()["rounds"] == []
    for wrong in ("", "x", "-1", "1.5", "1e3", "٣", "1&since=2", "1000001", "9" * 50, "%00"):
        answer = served.http.get(f"{served.url}/estimates?since={wrong}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")


def test_the_table_is_the_same(served: Served) -> None:
    answer = served.http.get(f"{served.url}/estimates.csv")
    told = served.http.get(f"{served.url}/estimates").json()["rounds"]
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == (
        f'attachment; filename="sudare-{served.id}.csv"'
    )
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    for row, each in zip(rows, told, strict=False):
        assert row == {name: "" if v is None else str(v) for name, v in each.items()}
    assert len(rows) >= 4


def test_what_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        for path in ("estimates", "estimates.csv"):
            first = served.http.get(f"{served.url}/{path}")
            again = served.http.get(
                f"{served.url}/{path}", headers={"if-none-match": first.headers["etag"]}
            )
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
            other = served.http.get(f"{served.url}/{path}", headers={"if-none-match": '"x"'})
            assert other.status_code == 200


def test_activity(served: Served) -> None:
    told = msgspec.json.decode(served.http.get(f"{served.url}/activity").content, type=Activity)
    now = served.opened.schedule.current(time.time())
    assert told.round in (now, now - 1 if now else None)
    assert told.tickets == 500
    assert told.collecting
    assert all(int(each) >= 0 for each in told.reporters)


def test_published_on_time(served: Served) -> None:
    for each in served.collector.history():
        due = served.opened.schedule.publishes(each.round)
        assert 0 <= _seconds(each.published) - due + 0.001 < 0.25
    assert served.metric("sudare_publication_lag_seconds") < 0.5


def test_a_survey_that_is_over(tmp_path: Path) -> None:
    with serving(tmp_path, survey_of(rounds=2, seconds=0.1), grace_seconds=0.0) as served:
        until = time.monotonic() + 10
        while len(told := served.http.get(f"{served.url}/estimates").json()["rounds"]) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert served.http.get(f"{served.url}/estimates").json()["next"] is None
        activity = served.http.get(f"{served.url}/activity").json()
        assert activity["round"] is None
        assert not activity["collecting"]
        assert [each["share"] for each in told] == [None, None]
