"""Ledgers to test with: every test that asks for a `place` runs on a file and on a server."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support import postgres

_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgres.server() as address:
        yield address


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the keys of ledgers on a server are."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SUDARE_LEDGER_KEY", raising=False)
    return tmp_path / "config" / "sudare"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture
def database(server: str) -> str:
    return postgres.schema(server, f"ledger{next(_numbers)}")


@pytest.fixture(params=["file", "database"])
def place(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(request.param)
    return address
