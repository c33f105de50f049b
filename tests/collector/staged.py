"""Collectors to look at: surveys with a past, and people who take part in them."""

import base64
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from sudare.collector._clock import schedule
from sudare.collector._engine import Collector
from sudare.collector.stores import open_store
from sudare.counting import MemoryStore, Reporter, Survey, Ticket
from sudare.foundations.randomness import Generator, seeded
from tests.support.waiting import PATIENCE

TOKEN = "a-token-that-only-tests-know"


class People:
    """Holders of tickets, and how many of them say yes in each round."""

    def __init__(
        self,
        survey: Survey,
        tickets: list[Ticket],
        share: Callable[[int], float],
        silent: float = 0.0,
    ) -> None:
        self._survey, self._share, self._silent = survey, share, silent
        self._rng: Generator = seeded(8)
        self._due: dict[int, list[Ticket]] = {}
        for ticket in tickets:
            for round_ in ticket.rounds:
                self._due.setdefault(round_, []).append(ticket)
        self._reporters: dict[int, Reporter] = {}

    def records(self, round_: int) -> bytes:
        """The packed reports of a round."""
        due, records = self._due.get(round_, []), []
        yes = np.arange(len(due)) < round(len(due) * self._share(round_))
        for ticket, bit in zip(due, yes, strict=True):
            if ticket.serial not in self._reporters:
                self._reporters[ticket.serial] = Reporter.enrol(
                    self._survey, ticket, MemoryStore(), self._rng
                )
            if self._rng.random() < self._silent:
                continue
            report = self._reporters[ticket.serial].report(round_, int(bit))
            assert report is not None
            records.append(report.pack())
        return b"".join(records)


def stage(
    path: Path, survey: Survey, users: int, share: Callable[[int], float], silent: float = 0.0
) -> People:
    """A store of a survey that has been running until now, lived through in a moment."""
    now = 0.0
    times = schedule(survey)
    collector = Collector(survey, open_store(str(path)), times, clock=lambda: now)
    try:
        now = times.opens(0)
        people = People(survey, collector.issue(users), share, silent)
        for round_ in range(times.due(time.time())):
            now = times.opens(round_)
            collector.count(people.records(round_))
            now = times.publishes(round_) + 1e-3
            collector.publish_due()
    finally:
        collector.close()
    return people


class Server:
    """`sudare collect`, to be stopped and started again in the same place."""

    def __init__(self, folder: Path, survey: Survey, *options: str) -> None:
        self._folder, self.survey, self._options = folder, survey, options
        self._port, self._health = _free_ports()
        self.url = f"http://127.0.0.1:{self._port}"
        (folder / "survey.toml").write_text(survey.to_toml())
        self._id = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = str(Path(sys.executable).with_name("sudare"))
        words = ["collect", "survey.toml", "--port", str(self._port), *self._options]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, *words, "--health-port", str(self._health)],
                cwd=self._folder,
                env=os.environ | {"SUDARE_OPERATOR_TOKEN": TOKEN},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(httpx.HTTPError):
                told = (
                    httpx.get(f"{self.url}/v1/surveys", timeout=PATIENCE).raise_for_status().json()
                )
                self._id = told["surveys"][0]["id"]
                return
            time.sleep(0.05)
        raise AssertionError((self._folder / "log").read_text()[-3000:])

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(PATIENCE) == 0, (self._folder / "log").read_text()[-3000:]
        self._process = None

    def api(self, name: str) -> str:
        return f"{self.url}/v1/surveys/{self._id}/{name}"

    def ask(self, name: str) -> Any:
        return httpx.get(self.api(name), timeout=PATIENCE).raise_for_status().json()

    def tickets(self, count: int) -> list[Ticket]:
        told = httpx.post(
            self.api("tickets"),
            json={"count": count},
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=PATIENCE,
        ).raise_for_status()
        return [ticket_from(each) for each in told.json()["tickets"]]

    def report(self, records: bytes) -> None:
        """Send packed reports, as a relay does."""
        headers = {"Content-Type": "application/octet-stream"}
        httpx.post(self.api("reports"), content=records, headers=headers, timeout=PATIENCE)


def ticket_from(sent: dict[str, Any]) -> Ticket:
    mark = base64.urlsafe_b64decode(sent["mark"] + "==")
    digest = bytes.fromhex(sent["survey"])
    return Ticket(digest, sent["serial"], mark, tuple(sent["rounds"]), sent["level"])


@contextmanager
def serving(folder: Path, survey: Survey, *options: str) -> Iterator[Server]:
    """A server, gone afterwards."""
    server = Server(folder, survey, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
