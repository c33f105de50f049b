"""What the tests of clients ask a running collector."""

import time
from datetime import UTC, datetime
from typing import Any

from sudare.counting import Survey
from tests.collector.served import Served


def soon(rounds: int, seconds: float, method: str = "glance", **more: Any) -> Survey:
    """A survey that begins when the server is up."""
    fields: dict[str, Any] = {"name": "At home", "epsilon": 6.0, "method": method, **more}
    start = datetime.fromtimestamp(round(time.time() + 2.0, 3), UTC)
    return Survey(rounds=rounds, start=start, round_seconds=seconds, **fields)


def published(served: Served) -> list[int]:
    """The reporters of every round, once all rounds are published."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        rounds = served.http.get(f"{served.url}/estimates").json()["rounds"]
        if len(rounds) == served.survey.rounds:
            return [each["reporters"] for each in rounds]
        time.sleep(0.05)
    raise AssertionError("not all rounds were published in time")
