"""Figures for monitoring, and health, on a listener of their own."""

from collections.abc import Iterator

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sudare.collector.monitoring import Metrics
from sudare.collector.stores import REASONS
from tests.collector.served import Served, pack, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("metrics")) as collector:
        yield collector


def figures(served: Served) -> dict[tuple[str, str], float]:
    answer = served.http.get(f"{served.health_url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_reports_are_counted_by_what_became_of_them(served: Served) -> None:
    before = figures(served)
    good = served.reports(3)
    served.send(good[0])
    served.send(good[0])
    served.send_packed(pack([good[1], good[2] | {"mark": "A" * 22}]))
    served.send({})
    after = figures(served)

    def more(name: str, label: str = "") -> float:
        return after[name, label] - before.get((name, label), 0.0)

    assert more("sudare_reports_total", "counted") == 2
    assert more("sudare_reports_total", "repeated") == 1
    assert more("sudare_reports_total", "wrong_mark") == 1
    assert more("sudare_refusals_total", "malformed") == 1
    assert more("sudare_commit_reports_sum") == 4
    assert more("sudare_commit_seconds_count") == 3
    assert more("sudare_tickets_total") >= 3
    assert after["sudare_pending_reports", ""] == 0
    assert after["sudare_faults_total", ""] == 0
    assert after["process_resident_memory_bytes", ""] > 1e6


def test_names_and_units(served: Served) -> None:
    text = served.http.get(f"{served.health_url}/metrics").text
    for family in text_string_to_metric_families(text):
        assert family.documentation
        if not family.name.startswith(("process_", "sudare_")):
            raise AssertionError(family.name)
        assert not family.name.endswith(("_ms", "_milliseconds", "_kb", "_minutes"))
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)


def test_health(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = served.http.get(f"{served.health_url}/health")
    assert answer.status_code == 200
    assert answer.json()["status"] == answer.json()["store"] == "ok"
    monkeypatch.setattr(served.collector, "_reachable", False)
    answer = served.http.get(f"{served.health_url}/health")
    monkeypatch.undo()
    assert answer.status_code == 503
    assert answer.json()["status"] == "failing"


def test_the_second_listener_has_nothing_else(served: Served) -> None:
    for path in ("/", "/v1/surveys", "/health/", "/metrics/x", "/openapi.json"):
        answer = served.http.get(served.health_url + path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert served.http.post(f"{served.health_url}/health").status_code == 405
    assert served.http.head(f"{served.health_url}/health").status_code == 200
    # And the first has nothing of the second.
    for path in ("/health", "/metrics"):
        assert served.http.get(served.root + path).status_code == 404


def test_groups_are_counted_whole() -> None:
    metrics = Metrics()
    metrics.committed(np.array([0, 0, 1, 5, 5, 5], np.uint8), 0.01)
    metrics.committed(np.zeros(4, np.uint8), 0.01)
    found = {
        outcome: metrics.registry.get_sample_value("sudare_reports_total", {"outcome": outcome})
        for outcome in REASONS
    }
    assert found["counted"] == 6
    assert found["repeated"] == 1
    assert found["too_late"] == 3
    assert found["too_early"] == 0
    metrics.failed(expected=True)
    assert metrics.faults == 0
    metrics.failed(expected=False)
    assert metrics.faults == 1
