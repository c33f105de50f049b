"""Simulated users and Python clients against the real server."""

from typing import Any

import httpx
import numpy as np
import pytest

from sudare.collector._load import Load, simulate_clients
from sudare.collector._rounds import Round
from sudare.counting import Client, CollectorError, Survey
from sudare.counting.signals import constant, sine, step
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.collector.clients import hurried, published
from tests.collector.kit import Clock, a_survey
from tests.collector.served import TOKEN, serving, survey_of


@pytest.fixture
def clock(monkeypatch):
    return hurried(monkeypatch)


@pytest.mark.parametrize(
    ("method", "more", "each"),
    [("glance", {}, 1), ("masks", {"slots": 2}, 2), ("rappor", {"epsilon": 20.0}, 4)],
)
def test_relays_deliver_everything(tmp_path, clock, method, more, each):
    survey = a_survey(method, **{"epsilon": 6.0, **more})
    with serving(tmp_path, survey, clock=clock) as served:
        told = simulate_clients(served.root, 1200, step, rng=seeded(3), token=TOKEN, relay=True)
        heard = published(served)
    assert told.refused == {}
    assert told.acknowledged == sum(heard)
    assert [r.reporters for r in told.rounds] == heard == [300 * each] * 4
    assert np.array_equal(told.truth, [0.2, 0.2, 0.8, 0.8])
    # The tickets' order is not seeded: more than eight standard deviations, for glance.
    assert told.errors.max() < 0.2


def test_tree_over_http(tmp_path, clock):
    """Everybody is asked in every round, and speaks at the end of a stretch."""
    with serving(tmp_path, a_survey("tree", changes=1, epsilon=8.0), clock=clock) as served:
        told = simulate_clients(
            served.root, 2000, lambda t: constant(t, 0.75), rng=seeded(3), token=TOKEN, relay=True
        )
        levels = [own.level for own in served.collector.issue(1)]
    assert levels
    assert told.refused == {}
    assert told.acknowledged > 2000
    assert told.errors[0] < 0.25


def test_one_by_one_without_the_operator(tmp_path, clock):
    """Everybody asks for a ticket, in the collector's own time, and reports alone."""
    limits = {"tickets_burst": 5, "tickets_per_minute": 600}
    with serving(tmp_path, a_survey(rounds=3), clock=clock, **limits) as served:
        ticks: list[tuple[str, int, int]] = []
        told = simulate_clients(
            served.root, 12, sine, rng=seeded(1), progress=lambda *tick: ticks.append(tick)
        )
        heard = published(served)
    assert ("Enrolling", 12, 12) in ticks
    assert ticks[-1][0] == "Reporting"
    assert told.acknowledged == sum(heard) > 0
    assert told.refused == {}


def test_it_stops_after_so_many_rounds(tmp_path, clock):
    with serving(tmp_path, a_survey(rounds=60), clock=clock) as served:
        told = simulate_clients(
            served.root, 60, sine, rng=seeded(1), token=TOKEN, relay=True, rounds=2
        )
    assert len(told.rounds) == 2


def test_what_cannot_be():
    with pytest.raises(InvalidInput, match="users=0"):
        simulate_clients("http://127.0.0.1:9", 0, sine, rng=seeded(1))
    with pytest.raises(CollectorError, match="cannot be reached"):
        simulate_clients("http://127.0.0.1:9", 1, sine, rng=seeded(1))
    url: Any
    for url in (5, "", "127.0.0.1:9", "ftp://127.0.0.1"):
        with pytest.raises(InvalidInput, match="Expected url"):
            simulate_clients(url, 1, sine, rng=seeded(1))


def test_a_wrong_token_and_a_survey_that_is_over(tmp_path):
    refused = pytest.raises(CollectorError, match="no ticket")
    with serving(tmp_path, survey_of()) as served, refused:
        simulate_clients(served.root, 5, sine, rng=seeded(1), token="wrong")
    (tmp_path / "over").mkdir()
    refused = pytest.raises(CollectorError, match="is over")
    with serving(tmp_path / "over", a_survey(), clock=Clock(4.5)) as served, refused:
        simulate_clients(served.root, 5, sine, rng=seeded(1))


def test_misses_are_counted():
    rounds = tuple(
        Round(t, "", "", "", 10, raw, raw, low, high, raw, 0)
        for t, (raw, low, high) in enumerate([(0.5, 0.4, 0.6), (None, 0.0, 1.0), (0.9, 0.8, 1.0)])
    )
    survey = Survey(name="s", rounds=3, epsilon=1.0)
    told = Load(survey, 10, np.array([0.5, 0.5, 0.5]), rounds, 20, {}, 0, 1.0)
    assert told.covered == [True, True, False]
    assert told.coverage == pytest.approx(2 / 3)
    assert told.errors == pytest.approx([0.0, 0.4])


class Lossy(httpx.HTTPTransport):
    """A network that loses every third request and, of the answers to reports, every second."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = self.answered = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/reports"):
            return super().handle_request(request)
        self.asked += 1
        if self.asked % 3 == 0:
            raise httpx.ConnectError("lost on the way", request=request)
        response = super().handle_request(request)
        response.read()
        self.answered += 1
        if self.answered % 2:
            raise httpx.ReadTimeout("lost on the way back", request=request)
        return response


def test_python_clients_in_a_real_survey(tmp_path):
    """Restarted before every round, on a bad line: each report is counted once, in its round."""
    bits = [1, 0, 0, 1]
    clock, survey = Clock(), a_survey("rappor", epsilon=8.0)
    network = Lossy()

    def client_of(number: int) -> Client:
        place = tmp_path / f"{number}.state"
        return Client(served.root, place, network, clock=clock, sleep=clock.pass_by)

    with serving(tmp_path, survey, clock=clock, tickets_burst=50) as served:
        said: set[tuple[int, int]] = set()
        for t in range(4):
            clock.set(t + 0.5)
            for i in range(3):
                with client_of(i) as client:
                    if (report := client.report(bits[t], patience=40.0)) is not None:
                        said.add((i, report.slot))
                    assert client.pending == []
                    assert client.lost == 0
        clock.set(4.5)
        heard = published(served)
    assert heard == [sum(slot == t for _, slot in said) for t in range(4)]
    assert network.answered > sum(heard) > 0, "nothing had to be sent again"
