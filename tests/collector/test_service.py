"""What happens by the clock, also when the store fails for a while."""

import time
from pathlib import Path
from typing import Any

import pytest

from sudare.collector import StoreUnavailable
from tests.collector.served import Served, pack, serving, survey_of


def wait_for(condition: Any, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def rounds(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.http.get(f"{served.url}/estimates").json()["rounds"]
    return found


def test_rounds_are_published_on_time_under_load(tmp_path: Path) -> None:
    survey = survey_of(rounds=1000, seconds=0.5)
    with serving(tmp_path, survey, grace_seconds=0.1) as served:
        rubbish = bytes(29 * 20_000)
        wait_for(lambda: rounds(served))
        first = len(rounds(served))
        while len(rounds(served)) < first + 3:
            assert served.send_packed(rubbish).status_code == 200
        from datetime import datetime

        for each in rounds(served)[first:]:
            due = served.opened.schedule.publishes(each["round"])
            assert datetime.fromisoformat(each["published"]).timestamp() - due < 0.4


def test_late_reports_revise_a_round(tmp_path: Path) -> None:
    survey = survey_of(rounds=500, seconds=0.4)
    options = {"grace_seconds": 0.0, "late_seconds": 20.0}
    with serving(tmp_path, survey, **options) as served:
        ticket = min(served.tickets(500), key=lambda each: int(each["rounds"][0]))
        number = ticket["rounds"][0]
        wait_for(lambda: len(rounds(served)) > number)
        assert rounds(served)[number]["revision"] == 0
        report = {"serial": ticket["serial"], "slot": 0, "bit": 1, "mark": ticket["mark"]}
        answer = served.send_packed(pack([report]))
        assert answer.json()["counted"] == 1
        wait_for(lambda: rounds(served)[number]["revision"] == 1)
        assert rounds(served)[number]["reporters"] == 1
        text = served.http.get(f"{served.url}/estimates.csv").text.splitlines()[number + 1]
        assert text.endswith(",1")


@pytest.mark.parametrize("failure", [StoreUnavailable("disk"), ValueError("a fault")])
def test_publication_goes_on_after_a_failure(tmp_path: Path, failure: Exception) -> None:
    survey = survey_of(rounds=1000, seconds=0.3)
    with serving(tmp_path, survey, grace_seconds=0.0) as served:
        wait_for(lambda: rounds(served))
        publish = served.collector.publish_due

        def fail() -> Any:
            raise failure

        served.collector.publish_due = fail  # type: ignore[method-assign]
        time.sleep(0.5)
        stuck = len(rounds(served))
        served.collector.publish_due = publish  # type: ignore[method-assign]
        wait_for(lambda: len(rounds(served)) > stuck + 2)
        numbers = [each["round"] for each in rounds(served)]
        assert numbers == list(range(len(numbers)))
        expected = 0 if isinstance(failure, StoreUnavailable) else 1
        assert (served.metric("sudare_faults_total") > 0) == bool(expected)


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
