"""Ledgers to begin with, and what is in their tables."""

from pathlib import Path
from typing import Any

from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger
from tests.ledger.edits import statements

PRINT = "ab" * 32


def opened(place: str, epsilon: float = 1.0, delta: float = 0.0) -> Ledger:
    ledger = Ledger(place)
    ledger.open("people", PRINT, epsilon, delta)
    return ledger


def filled(place: str) -> None:
    """Two data sets, three entries, two releases."""
    with Ledger(place) as ledger:
        ledger.open("people", PRINT, 2.0)
        ledger.open("others", "cd" * 32, 1.0)
        for request in ("r", "s", "t"):
            receipt = ledger.spend("people", PureEvent(0.5), request=request)
            if request != "s":
                ledger.keep(receipt, request.encode())


def key_of(place: str) -> Path:
    with Ledger(place) as ledger:
        return ledger._key_path


def rows(place: str, query: str) -> list[Any]:
    with statements(place) as connection:
        found: list[Any] = connection.execute(query).fetchall()
        return found
