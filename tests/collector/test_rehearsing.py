"""The rehearsal's routes: whatever is asked of them, the survey stays as it is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.collector.served import Served, serving, survey_of


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
