"""What happens by the clock, also when the store fails for a while."""

import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sudare.collector import StoreUnavailable
from tests.collector.kit import LENGTH, Clock, Machine, a_survey
from tests.collector.served import pack, serving
from tests.support.waiting import eventually


def test_rounds_are_published_under_load(tmp_path: Path) -> None:
    """Those who never stop sending do not keep a round from being published."""
    clock, published = Clock(), threading.Event()
    with serving(tmp_path, a_survey(), clock=clock) as served:
        rubbish = bytes(29 * 20_000)

        def send() -> None:
            while not published.is_set():
                assert served.send_packed(rubbish).status_code == 200

        crowd = [threading.Thread(target=send) for _ in range(3)]
        for each in crowd:
            each.start()
        for count in (1, 2, 3):
            clock.set(count + 0.1)
            served.published(count)
        published.set()
        for each in crowd:
            each.join()
        for told in served.rounds():
            due = served.opened.schedule.publishes(told["round"])
            assert datetime.fromisoformat(told["published"]).timestamp() == due


def test_late_reports_revise_a_round(tmp_path: Path) -> None:
    clock = Clock()
    with serving(tmp_path, a_survey(), clock=clock, late_seconds=1000.0) as served:
        (report,) = served.reports(1)
        clock.set(1.5)
        assert served.published(1)[0]["revision"] == 0
        answer = served.send_packed(pack([report]))
        assert answer.json()["counted"] == 1
        eventually(lambda: served.rounds()[0]["revision"] == 1)
        assert served.rounds()[0]["reporters"] == 1
        text = served.http.get(f"{served.url}/estimates.csv").text.splitlines()[1]
        assert text.endswith(",1")


@pytest.mark.parametrize("failure", [StoreUnavailable("disk"), ValueError("a fault")])
def test_publication_goes_on_after_a_failure(tmp_path: Path, failure: Exception) -> None:
    clock, failed = Clock(), threading.Event()
    with serving(tmp_path, a_survey(), clock=clock) as served:
        publish = served.collector.publish_due

        def fail() -> Any:
            failed.set()
            raise failure

        served.collector.publish_due = fail  # type: ignore[method-assign]
        clock.set(2.5)
        eventually(failed.is_set)
        assert served.rounds() == []
        served.collector.publish_due = publish  # type: ignore[method-assign]
        assert [each["round"] for each in served.published(2)] == [0, 1]
        expected = 0 if isinstance(failure, StoreUnavailable) else 1
        assert (served.metric("sudare_faults_total") > 0) == bool(expected)


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    """Forward over half the survey and back again: what was published stays, and stays closed."""
    clock, survey = Clock(), a_survey(rounds=40)
    with serving(tmp_path, survey, clock=clock) as served:
        (report,) = served.reports(1, round_=3)
        clock.set(20.0)
        there = served.published(19)
        clock.set(0.5)
        answer = served.send(report)
        assert (answer.status_code, answer.json()["error"]["code"]) == (410, "too_late")
        assert served.rounds() == there
    with serving(tmp_path, survey, clock=Clock(-5.0)) as served:
        assert served.rounds() == there


def test_a_leap_is_told_by_health_metrics_and_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="sudare.collector")
    machine = Machine()
    with serving(tmp_path, a_survey(rounds=40), clock=machine.clock()) as served:
        (report,) = served.reports(1, round_=0)

        def health() -> tuple[int, str, str]:
            told = served.http.get(f"{served.health_url}/health")
            return told.status_code, told.json()["status"], told.json()["clock"]

        assert health() == (200, "ok", "ok")
        machine.wall += 15 * LENGTH
        eventually(lambda: health() == (200, "paused", "leapt"))
        assert served.metric("sudare_publication_paused") == 1.0
        assert served.metric("sudare_clock_leap_seconds") == pytest.approx(15 * LENGTH)
        assert served.rounds() == []
        assert served.http.get(f"{served.url}/activity").json()["paused"] is True
        assert served.send(report).status_code == 204
        machine.wall -= 15 * LENGTH
        eventually(lambda: health() == (200, "ok", "ok"))
        assert served.metric("sudare_publication_paused") == 0.0
        machine.pass_by(LENGTH)
        assert served.published(1)[0]["reporters"] == 1
    told = [each.getMessage() for each in caplog.records if "clock" in each.getMessage()]
    assert ["leapt by +1500.0 s" in told[0], "right again" in told[1]] == [True, True]


def test_a_machine_apart_from_the_database_fails(tmp_path: Path, database: str) -> None:
    machine, shared = Machine(), Machine()
    clock = machine.clock(judge=shared)
    with serving(tmp_path, a_survey(rounds=40), clock=clock, store=database) as served:
        (report,) = served.reports(1)
        machine.wall += 15 * LENGTH
        eventually(lambda: served.http.get(f"{served.health_url}/health").status_code == 503)
        assert served.http.get(f"{served.health_url}/health").json()["clock"] == "apart"
        assert served.send(report).json()["error"]["code"] == "unavailable"
        assert served.rounds() == []
        machine.wall -= 15 * LENGTH
        eventually(lambda: served.send(report).status_code == 204)


def test_refusals_are_in_the_activity_and_last(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.send({})
        served.http.get(f"{served.url}/operator")
        served.http.get(f"{served.root}/v1/surveys/{'0' * 16}")
        told = served.http.get(f"{served.url}/activity").json()["refused"]
        assert told == {"malformed": 1, "unauthorised": 1, "unknown_survey": 1}
        survey = served.survey
    with serving(tmp_path, survey) as served:
        assert served.http.get(f"{served.url}/activity").json()["refused"] == told
