"""PostgreSQL databases: their addresses, connections, and what their faults are called.

The driver is an extra, so it is loaded when it is needed.
"""

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from sudare.foundations import checks
from sudare.storage.sqlite import BUSY

if TYPE_CHECKING:
    import psycopg

_KEEPALIVE = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""A server that is gone is noticed within half a minute."""


class Address(NamedTuple):
    """Where a database is."""

    place: str
    """For messages: without the password."""
    options: dict[str, Any]


def is_address(text: str) -> bool:
    """Whether this means a PostgreSQL database, and not a file."""
    return text.startswith(("postgresql://", "postgres://"))


def parse_address(text: str) -> Address:
    """The parts of postgresql://user@host:5432/database."""
    try:
        import psycopg
    except ImportError:
        raise checks.InvalidInput(
            "PostgreSQL needs its driver: pip install 'sudare[postgres]'"
        ) from None
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  (raises for one that is not a number)
        place = f"{parts.scheme}://{parts.hostname}{parts.path}"
        return Address(place, psycopg.conninfo.conninfo_to_dict(text))
    except (ValueError, psycopg.Error):
        # `from None`, and not a word of theirs: they quote the address, password and all.
        raise checks.InvalidInput(
            "Expected an address like postgresql://user@host:5432/database; in a password, "
            "write special characters as %40 and the like"
        ) from None


def connect(address: Address, name: str, connect_seconds: int) -> "psycopg.Connection[Any]":
    """A connection on which no transaction begins by itself; what the address says comes first."""
    import psycopg

    defaults = {"application_name": name, "connect_timeout": str(connect_seconds), **_KEEPALIVE}
    return psycopg.connect(**(defaults | address.options), autocommit=True)


def reason(problem: Exception) -> str:
    """What is wrong, on one line."""
    said = (str(problem).strip().splitlines() or ["no answer"])[0]
    return BUSY if "lock timeout" in said else said
