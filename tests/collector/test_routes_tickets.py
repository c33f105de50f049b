"""Handing out tickets, and not too many."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.collector import StoreUnavailable
from sudare.collector._messages import MOST_TICKETS
from tests.collector.served import Served, serving, stop_limits, survey_of


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = {"tickets_per_minute": 0.0}
    with serving(tmp_path_factory.mktemp("tickets"), **options) as collector:
        yield collector


def code(answer: Any) -> str:
    word: str = answer.json()["error"]["code"]
    return word


def join(served: Served, **options: Any) -> Any:
    return served.http.post(f"{served.url}/tickets", **options)


def test_a_ticket_for_everyone_who_asks(served: Served) -> None:
    answers = [join(served), join(served, json={}), join(served, json={"count": 1})]
    assert [each.status_code for each in answers] == [201] * 3
    tickets = [each.json()["tickets"] for each in answers]
    assert [len(each) for each in tickets] == [1] * 3
    assert len({each[0]["serial"] for each in tickets}) == 3
    (ticket,) = tickets[0]
    assert sorted(ticket) == ["level", "mark", "rounds", "serial", "survey"]
    assert ticket["survey"] == served.survey.digest().hex()
    assert len(base64.urlsafe_b64decode(ticket["mark"] + "==")) == 16
    assert "=" not in ticket["mark"]
    assert all(each.headers["cache-control"] == "no-store" for each in answers)


def test_many_for_the_operator_alone(served: Served) -> None:
    for headers in ({}, {"authorization": "Bearer guess"}, {"authorization": "Basic eDp5"}):
        answer = join(served, json={"count": 2}, headers=headers)
        assert (answer.status_code, code(answer)) == (401, "unauthorised")
        assert answer.headers["www-authenticate"] == "Bearer"
    found = served.tickets(MOST_TICKETS)
    assert len({each["serial"] for each in found}) == MOST_TICKETS
    rounds = [each["rounds"][0] for each in found]
    most = max(rounds.count(t) for t in range(served.survey.rounds))
    assert most - MOST_TICKETS // served.survey.rounds <= 2


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'{"count":0}', b'{"count":-1}', b'{"count":10001}', b'{"count":"2"}',
     b'{"count":1.5}', b'{"count":1,"x":1}', b'{"count":null}', b"\xff\xfe", b'{"count":1e99}'],
)  # fmt: skip
def test_what_is_no_request(served: Served, body: bytes) -> None:
    headers = served.operator | {"content-type": "application/json"}
    answer = join(served, content=body, headers=headers)
    assert (answer.status_code, code(answer)) == (400, "malformed")


def test_types_and_sizes(served: Served) -> None:
    answer = join(served, content=b'{"count":1}', headers={"content-type": "text/plain"})
    assert (answer.status_code, code(answer)) == (415, "wrong_type")
    answer = join(served, json={"count": 1, "x": "y" * 300})
    assert (answer.status_code, code(answer)) == (413, "oversized")


def test_a_wrong_token_is_refused_even_for_one(served: Served) -> None:
    answer = join(served, headers={"authorization": "Bearer not-this-one"})
    assert code(answer) == "unauthorised"


def test_closed_enrolment(served: Served) -> None:
    def set_to(value: bool) -> None:
        answer = served.http.put(
            f"{served.url}/enrolment", json={"open": value}, headers=served.operator
        )
        assert answer.status_code == 204

    set_to(False)
    answer = join(served)
    assert (answer.status_code, code(answer)) == (403, "enrolment_closed")
    assert len(served.tickets(3)) == 3  # the operator may
    set_to(True)
    assert join(served).status_code == 201


def test_each_client_has_its_limit_and_proxies_are_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_limits(monkeypatch)
    options = {"tickets_per_minute": 1.0, "tickets_burst": 2, "proxies": ("127.0.0.0/8",)}
    with serving(tmp_path, **options) as served:

        def ask(client: str) -> Any:
            return join(served, headers={"x-forwarded-for": client})

        assert [ask("198.51.100.7").status_code for _ in range(3)] == [201, 201, 429]
        assert [ask("198.51.100.8").status_code for _ in range(3)] == [201, 201, 429]
        # What a client writes itself stands to the left of what our proxy adds.
        assert ask("203.0.113.9, 198.51.100.7").status_code == 429
        assert ask("198.51.100.7, 203.0.113.9").status_code == 201
        # Or in a line above.
        lines = [("x-forwarded-for", "203.0.113.77"), ("x-forwarded-for", "198.51.100.7")]
        assert join(served, headers=lines).status_code == 429
        last = ask("198.51.100.8")
        assert code(last) == "rate_limited"
        assert int(last.headers["retry-after"]) == 60
        assert len(served.tickets(50)) == 50
        assert served.collector.status().refused["rate_limited"] == 5


def test_forwarded_addresses_of_strangers_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_limits(monkeypatch)
    with serving(tmp_path, tickets_per_minute=1.0, tickets_burst=2) as served:
        answers = [
            join(served, headers={"x-forwarded-for": f"198.51.100.{n}"}).status_code
            for n in range(4)
        ]
        assert answers == [201, 201, 429, 429]


def test_all_clients_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_limits(monkeypatch)
    options = {
        "tickets_per_minute": 600.0, "tickets_burst": 50, "tickets_per_second_overall": 0.5,
        "proxies": ("127.0.0.1",),
    }  # fmt: skip
    with serving(tmp_path, **options) as served:
        answers = [
            join(served, headers={"x-forwarded-for": f"198.51.100.{n}"}).status_code
            for n in range(5)
        ]
        assert answers == [201, 429, 429, 429, 429]


def test_a_store_that_fails(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(count: int) -> None:
        raise StoreUnavailable("no disk")

    monkeypatch.setattr(served.collector, "issue", fail)
    answer = join(served)
    assert (answer.status_code, code(answer)) == (503, "unavailable")
    assert "retry-after" in answer.headers


@pytest.mark.parametrize(
    ("fields", "rounds", "level"),
    [
        ({"method": "rappor"}, 0, [0]),
        ({"method": "masks", "slots": 2}, 2, [0]),
        ({"method": "tree", "changes": 1}, 0, [0, 1, 2]),
    ],
)
def test_tickets_of_every_kind(
    tmp_path: Path, fields: dict[str, Any], rounds: int, level: list[int]
) -> None:
    with serving(tmp_path, survey_of(**fields)) as served:
        for each in served.tickets(20):
            assert len(each["rounds"]) == rounds
            assert each["rounds"] == sorted(set(each["rounds"]))
            assert each["level"] in level
