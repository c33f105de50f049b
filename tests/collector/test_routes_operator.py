"""What needs the operator's token, and that nobody gets by without it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sudare.collector import StoreUnavailable
from sudare.collector._sessions import Role
from tests.collector.served import TOKEN, Served, serving, stop_limits
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("operator"), proxies=("127.0.0.1",)) as collector:
        yield collector


def code(answer: Any) -> str:
    word: str = answer.json()["error"]["code"]
    return word


def check(served: Served, given: str | bytes, client: str = "198.51.100.1") -> Any:
    headers: list[tuple[bytes, bytes]] = [(b"x-forwarded-for", client.encode())]
    headers.append((b"authorization", given if isinstance(given, bytes) else given.encode()))
    return served.http.get(f"{served.url}/operator", headers=headers)


def test_the_token(served: Served) -> None:
    for given in (f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN}"):
        assert check(served, given).status_code == 204


@pytest.mark.parametrize(
    "given",
    [
        "", "Bearer", "Bearer x", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}", "Bearer " + "x" * 513, "Bearer " + "0" * 64,
        b"Bearer \xff\xfe\xfd", f"Bearer {TOKEN},{TOKEN}",
    ],
)  # fmt: skip
def test_anything_else(served: Served, given: str | bytes) -> None:
    before = served.collector.status().refused.get("unauthorised", 0)
    client = f"198.51.{100 + len(given) % 50}.{abs(hash(given)) % 200}"
    answer = check(served, given, client)
    assert (answer.status_code, code(answer)) == (401, "unauthorised")
    assert served.collector.status().refused["unauthorised"] == before + 1
    assert check(served, f"Bearer {TOKEN}", client).status_code == 204


def test_guessing_is_slowed_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who guesses is told more than ten times, or could go on at full speed; the operator,
    who comes from elsewhere, is not kept waiting."""
    stop_limits(monkeypatch)
    with serving(tmp_path, proxies=["127.0.0.1"]) as served:

        def asked(token: str, address: str) -> int:
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": address}
            return served.http.get(f"{served.url}/operator", headers=headers).status_code

        assert [asked(f"guess-{n}", "10.0.0.1") for n in range(14)] == [401] * 10 + [429] * 4
        assert asked(TOKEN, "10.0.0.1") == 429
        assert [asked(TOKEN, "10.0.0.2") for _ in range(20)] == [204] * 20


def test_guessers_from_many_addresses_wait_for_one_slow_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, proxies=["127.0.0.1"]) as served:
        gate, checked = threading.Event(), served.collector.check_token

        def slow(token: str, role: Role) -> bool:
            assert gate.wait(PATIENCE)
            return checked(token, role)

        monkeypatch.setattr(served.collector, "check_token", slow)
        found: list[int] = []

        def guess(number: int) -> None:
            headers = {"authorization": f"Bearer {number}", "x-forwarded-for": f"10.0.1.{number}"}
            found.append(httpx.get(f"{served.url}/operator", headers=headers).status_code)

        crowd = [threading.Thread(target=guess, args=(n,)) for n in range(12)]
        for each in crowd:
            each.start()
        eventually(lambda: found == [503] * 4)
        # Whose token was right before goes past them, and so does everybody else.
        assert check(served, f"Bearer {TOKEN}").status_code == 204
        assert served.http.get(f"{served.url}/activity").status_code == 200
        gate.set()
        for each in crowd:
            each.join()
        assert sorted(found) == [401] * 8 + [503] * 4


def test_enrolment_is_the_operators(served: Served) -> None:
    def put(body: Any, **headers: str) -> Any:
        return served.http.put(f"{served.url}/enrolment", json=body, headers=headers)

    assert code(put({"open": False})) == "unauthorised"
    assert served.http.get(served.url).json()["enrolment"] == "open"
    assert put({"open": False}, **served.operator).status_code == 204
    assert served.http.get(served.url).json()["enrolment"] == "closed"
    assert put({"open": True}, **served.operator).status_code == 204
    assert served.http.get(served.url).json()["enrolment"] == "open"
    wrong_bodies: list[Any] = [{}, {"open": 1}, {"open": "yes"}, {"open": True, "x": 1}, [], 0]
    for body in wrong_bodies:
        assert code(put(body, **served.operator)) == "malformed"
    wrong = served.operator | {"content-type": "text/plain"}
    answer = served.http.put(f"{served.url}/enrolment", content=b"{}", headers=wrong)
    assert code(answer) == "wrong_type"
    answer = put({"open": True, "x": "y" * 300}, **served.operator)
    assert code(answer) == "oversized"


def test_enrolment_lasts(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.http.put(f"{served.url}/enrolment", json={"open": False}, headers=served.operator)
        survey = served.survey
    with serving(tmp_path, survey) as served:
        assert served.http.get(served.url).json()["enrolment"] == "closed"
        assert code(served.http.post(f"{served.url}/tickets")) == "enrolment_closed"


def test_a_store_that_fails(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(open: bool) -> None:
        raise StoreUnavailable("no disk")

    monkeypatch.setattr(served.collector, "set_enrolment", fail)
    answer = served.http.put(
        f"{served.url}/enrolment", json={"open": True}, headers=served.operator
    )
    assert code(answer) == "unavailable"


def test_the_token_is_nowhere_to_be_read(served: Served, tmp_path: Path) -> None:
    for path in ("", "/estimates", "/activity"):
        assert TOKEN not in served.http.get(served.url + path).text
    kept = Path(served.collector.store.place).read_bytes()
    assert TOKEN.encode() not in kept
