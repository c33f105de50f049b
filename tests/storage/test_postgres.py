"""PostgreSQL: addresses without their password, connections, and what is said of faults."""

import sys

import psycopg
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.storage import postgres


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_what_is_an_address(scheme: str) -> None:
    assert postgres.is_address(f"{scheme}://host/db")
    assert not postgres.is_address(f"x{scheme}://host/db")
    assert not postgres.is_address(f"{scheme}.db")


def test_the_place_holds_no_password() -> None:
    address = postgres.parse_address("postgresql://me:canary@host:5433/db?application_name=mine")
    assert address.place == "postgresql://host/db"
    assert address.options == {
        "user": "me", "password": "canary", "host": "host", "port": "5433", "dbname": "db",
        "application_name": "mine",
    }  # fmt: skip


@pytest.mark.parametrize("rest", ["@[host/db", "@host:port/db", "@host/db?nonsense=canary"])
def test_nor_does_what_is_said_of_a_wrong_one(rest: str) -> None:
    with pytest.raises(InvalidInput, match=r"^Expected an address like") as problem:
        postgres.parse_address(f"postgresql://me:canary{rest}")
    assert "canary" not in str(problem.value)
    assert problem.value.__cause__ is None
    assert problem.value.__suppress_context__


def test_without_the_driver_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidInput, match=r"sudare\[postgres\]"):
        postgres.parse_address("postgresql://host/db")


def test_a_connection_commits_by_itself_and_the_address_comes_first(server: str) -> None:
    text = f"{server}/postgres?connect_timeout=7"
    with postgres.connect(postgres.parse_address(text), "a test", 5) as connection:
        assert connection.autocommit
        told = connection.info.get_parameters()
        assert told["application_name"] == "a test"
        assert told["connect_timeout"] == "7"
        assert told["keepalives_idle"] == "10"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("canceling statement due to lock timeout\nCONTEXT: …", "another process is using it"),
        ("no route to host\nIs it running?", "no route to host"),
        ("", "no answer"),
    ],
)
def test_reasons(said: str, told: str) -> None:
    assert postgres.reason(psycopg.OperationalError(said)).startswith(told)
