"""A collector in this process: the real server on a real socket, over a real store."""

import asyncio
import threading
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from sudare.collector._limits import Limiter
from sudare.collector._opening import Opened, open_collector
from sudare.collector._server import addresses_of, listen, serve
from sudare.collector._service import Service
from sudare.collector._settings import Secrets, Settings
from sudare.counting import Survey
from sudare.counting._reports import RECORD
from sudare.counting.wire import survey_id
from tests.support.waiting import PATIENCE, eventually

TOKEN = "only-the-tests-know-this-token"


def survey_of(rounds: int = 4, seconds: float = 3600.0, **fields: Any) -> Survey:
    """A survey whose first round has just begun, and lasts until the tests are over."""
    begun = datetime.now(UTC) - timedelta(seconds=min(60.0, seconds / 10))
    known: dict[str, Any] = {"name": "At home", "question": "Is somebody at home?", "epsilon": 2.0}
    return Survey(rounds=rounds, start=begun, round_seconds=seconds, **(known | fields))


class Served:
    """A running collector, and what its operator has."""

    service: Service
    """What its routes ask."""

    def __init__(self, opened: Opened, url: str, health_url: str) -> None:
        self.opened, self.health_url, self.root = opened, health_url, url
        self.survey, self.collector = opened.survey, opened.collector
        self.id = survey_id(opened.survey)
        self.url = f"{url}/v1/surveys/{self.id}"
        self.host, _, port = url.removeprefix("http://").rpartition(":")
        self.port = int(port)
        self.http = httpx.Client(timeout=PATIENCE)
        self._unused: dict[int, list[Any]] = {}

    def tickets(self, count: int) -> list[dict[str, Any]]:
        """Tickets as the operator gets them."""
        answer = self.http.post(f"{self.url}/tickets", json={"count": count}, headers=self.operator)
        assert answer.status_code == 201, answer.text
        found: list[dict[str, Any]] = answer.json()["tickets"]
        return found

    def reports(self, count: int, round_: int = 0) -> list[dict[str, Any]]:
        """Reports of different people that are due in this round."""
        mine = self._unused.setdefault(round_, [])
        while len(mine) < count:
            for each in self.tickets(max(400, 2 * count * self.survey.rounds)):
                for slot, due in enumerate(each["rounds"]):
                    report = {"serial": each["serial"], "slot": slot, "bit": 1}
                    self._unused.setdefault(due, []).append(report | {"mark": each["mark"]})
        taken, mine[:] = mine[:count], mine[count:]
        return taken

    def send(self, report: Any, **options: Any) -> httpx.Response:
        """One report."""
        return self.http.post(f"{self.url}/reports", json=report, **options)

    def send_packed(self, body: bytes) -> httpx.Response:
        """A batch."""
        kind = {"content-type": "application/octet-stream"}
        return self.http.post(f"{self.url}/reports", content=body, headers=kind)

    def heard(self, round_: int = 0) -> int:
        """Reporters counted in a round that is open."""
        answer = self.http.get(f"{self.url}/activity")
        return int(answer.json()["reporters"][str(round_)])

    def rounds(self) -> list[dict[str, Any]]:
        """What has been published."""
        found: list[dict[str, Any]] = self.http.get(f"{self.url}/estimates").json()["rounds"]
        return found

    def published(self, count: int) -> list[dict[str, Any]]:
        """The rounds, once so many are published."""
        eventually(lambda: len(self.rounds()) >= count)
        return self.rounds()

    @property
    def operator(self) -> dict[str, str]:
        """The operator's headers."""
        return {"authorization": f"Bearer {TOKEN}"}

    def metric(self, name: str) -> float:
        """A figure of the second listener."""
        for line in self.http.get(f"{self.health_url}/metrics").text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
        raise AssertionError(f"no figure {name}")


def pack(reports: list[dict[str, Any]]) -> bytes:
    """Reports as a relay sends them."""
    records = np.zeros(len(reports), RECORD)
    for record, each in zip(records, reports, strict=True):
        record["serial"], record["slot"], record["bit"] = each["serial"], each["slot"], each["bit"]
        record["mark"] = np.void(urlsafe_b64decode(each["mark"] + "=="))
    return records.tobytes()


def stop_limits(patch: pytest.MonkeyPatch) -> None:
    """For those who count what is allowed: no time passes in which more would be."""
    patch.setattr("sudare.collector._service.Limiter", partial(Limiter, clock=lambda: 0.0))


@contextmanager
def serving(
    folder: Path,
    survey: Survey | None = None,
    /,
    clock: Any = None,
    **options: Any,
) -> Iterator[Served]:
    """A collector for as long as the block lasts, with a clock of the test's own if given."""
    survey = survey or survey_of()
    file = folder / "survey.toml"
    file.write_text(survey.to_toml())
    chosen = {"survey": str(file), "store": str(folder / "collector.db"), "port": 0} | options
    settings = msgspec.convert(chosen, Settings)
    opened = open_collector(settings, Secrets(token=TOKEN))
    if clock is not None:
        opened.collector.clock = clock
    sockets = listen(settings)
    addresses = addresses_of(sockets)
    up, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve(settings, opened, sockets, stop, up.set))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    made: list[Service] = []

    class Kept(Service):
        def __init__(self, *told: Any) -> None:
            super().__init__(*told)
            made.append(self)

    thread = threading.Thread(target=run, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sudare.collector._server.Service", Kept)
        thread.start()
        assert up.wait(PATIENCE)
    served = Served(opened, *addresses)
    served.service = made[0]
    try:
        yield served
    finally:
        served.http.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()
