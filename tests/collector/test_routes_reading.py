"""What anyone may read, and that it is what the engine says."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from sudare.collector._messages import Activity, Description, Estimates, Surveys
from sudare.counting._prediction import predict_error
from tests.collector.kit import LENGTH, Clock, a_survey
from tests.collector.served import Served, pack, serving
from tests.support.waiting import eventually

LAG = 2.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A survey in its fifth round, with one report in each: published a moment after it is due."""
    clock, survey = Clock(), a_survey(rounds=500, epsilon=2.0)
    place = tmp_path_factory.mktemp("reading")
    with serving(place, survey, clock=clock, grace_seconds=10.0) as collector:
        tickets = {each["rounds"][0]: each for each in collector.tickets(500)}
        for now in range(4):
            report = {"serial": tickets[now]["serial"], "slot": 0, "bit": 1}
            collector.send_packed(pack([report | {"mark": tickets[now]["mark"]}]))
            clock.set(now + 1 + (10.0 + LAG) / LENGTH)
            collector.published(now + 1)
        yield collector


def test_the_description(served: Served) -> None:
    answer = served.http.get(served.url)
    told = msgspec.json.decode(answer.content, type=Description)
    survey, times = served.survey, served.opened.schedule
    assert told.id == survey.digest().hex()[:16]
    assert told.digest == survey.digest().hex()
    assert (told.rounds, told.epsilon, told.method) == (500, 2.0, "glance")
    assert told.start == survey.start.isoformat().replace("+00:00", "Z")  # type: ignore[union-attr]
    assert (told.round_seconds, told.grace_seconds) == (LENGTH, 10.0)
    assert (told.skew_seconds, told.late_seconds) == (times.skew, 0.0)
    assert (told.law.slots, told.law.threshold) == (1, 0)
    assert int(told.law.near_weight) == survey.law.near_weight
    assert int(told.law.far_weight) == survey.law.far_weight
    assert "ε = 2" in told.promise
    assert "7.39" in told.promise
    listed = msgspec.json.decode(served.http.get(f"{served.root}/v1/surveys").content, type=Surveys)
    assert msgspec.structs.replace(listed.surveys[0], now=told.now) == told
    assert _seconds(told.now) == served.collector.clock()


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()


def test_the_plans_error_follows_the_tickets(served: Served) -> None:
    told = eventually(lambda: served.http.get(served.url).json()["predicted_error"])
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
    assert told.round == 4
    assert told.tickets == 500
    assert told.collecting
    assert all(int(each) >= 0 for each in told.reporters)


def test_it_is_told_when_each_was_published(served: Served) -> None:
    for each in served.collector.history():
        due = served.opened.schedule.publishes(each.round)
        assert _seconds(each.published) == due + LAG
    assert served.metric("sudare_publication_lag_seconds") == LAG


def test_a_survey_that_is_over(tmp_path: Path) -> None:
    with serving(tmp_path, a_survey(rounds=2), clock=Clock(2.5)) as served:
        told = served.published(2)
        assert served.http.get(f"{served.url}/estimates").json()["next"] is None
        activity = served.http.get(f"{served.url}/activity").json()
        assert activity["round"] is None
        assert not activity["collecting"]
        assert [each["share"] for each in told] == [None, None]
