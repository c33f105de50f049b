"""Where a ledger or a collector can be: a file, or a schema on one server for all tests."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support import postgres

_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server that nobody restarts."""
    with postgres.running() as made:
        yield made.address


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def database(server: str) -> str:
    return postgres.schema(server, f"place{next(_numbers)}")


@pytest.fixture(params=["file", "database"])
def place(request: pytest.FixtureRequest) -> str:
    """Every test that asks for it runs on a file and on a server."""
    address: str = request.getfixturevalue(request.param)
    return address
