"""A crowd of devices, a bad network and a collector that is killed: who was counted how often?

The oracle of exactly once. The survey has as many rounds as users and one ticket for each, so that
every user has a round, and with it two counters, of their own. All rounds are long over, and take
late reports for years. Whatever happens on the way, a user who was acknowledged must be counted
once, and nobody twice.
"""

import asyncio
import base64
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from sudare.collector.stores import open_store
from sudare.counting import Report, Survey, parse_survey
from tests.support.waiting import PATIENCE, eventually

TOKEN = "a-token-that-only-tests-know"
ANY_TIME = ("--late-seconds", "1e9")


def survey_of(users: int) -> Survey:
    """One round a user."""
    return parse_survey(
        f'name = "crowd"\nrounds = {users}\nepsilon = 1.0\n'
        f"start = 2026-01-01T00:00:00Z\nround_seconds = 1.0\n"
    )


class Collector:
    """`sudare collect` as a process that can be killed and started again on the same port."""

    def __init__(
        self,
        folder: Path,
        survey: Survey,
        store: str,
        prefix: Sequence[str] = (),
        options: Sequence[str] = ANY_TIME,
    ) -> None:
        self.folder, self.survey, self.store = folder, survey, store
        self.prefix, self.options = prefix, options
        self.port, self.health = free_ports()
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = f"/v1/surveys/{survey.digest().hex()[:16]}"
        (folder / "survey.toml").write_text(survey.to_toml())
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = Path(sys.executable).with_name("sudare")
        words = ["collect", "survey.toml", "--host", "127.0.0.1", "--port", str(self.port)]
        words += ["--health-port", str(self.health), *self.options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, str(program), *words],
                cwd=self.folder,
                env=os.environ | {"SUDARE_OPERATOR_TOKEN": TOKEN, "SUDARE_STORE": self.store},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait()

    def wait(self) -> None:
        """Until it answers."""
        assert self.process is not None
        process = self.process

        def answers() -> bool:
            assert process.poll() is None, (self.folder / "log").read_text()[-3000:]
            with suppress(httpx.HTTPError):
                found = httpx.get(f"{self.url}/v1/surveys", timeout=PATIENCE)
                return found.status_code == 200
            return False

        eventually(answers)

    def kill(self) -> None:
        """kill -9, of all its processes."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with suppress(ProcessLookupError):
            while True:  # what it started may take a moment longer
                os.killpg(self.process.pid, 0)
                time.sleep(0.005)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def reports(self) -> list[dict[str, Any]]:
        """A report of each user, who has just been given a ticket."""
        found: list[dict[str, Any]] = []
        while (left := self.survey.rounds - len(found)) > 0:
            answer = httpx.post(
                f"{self.url}{self.api}/tickets",
                json={"count": min(left, 10_000)},
                headers={"Authorization": f"Bearer {TOKEN}"},
                timeout=PATIENCE,
            )
            if answer.status_code == 503:
                continue
            assert answer.status_code == 201, answer.text
            for ticket in answer.json()["tickets"]:
                report = {"serial": ticket["serial"], "slot": 0, "mark": ticket["mark"]}
                found.append({**report, "bit": ticket["serial"] % 2, "round": ticket["rounds"][0]})
        return found

    def counted(self) -> NDArray[np.int64]:
        """How often each round was counted: reporters, and ones. The process must have ended."""
        store = open_store(self.store if "://" in self.store else str(self.folder / self.store))
        try:
            return np.stack(store.counts(np.arange(self.survey.rounds)))
        finally:
            store.close()


@contextmanager
def running(
    folder: Path,
    survey: Survey,
    store: str = "collector.db",
    prefix: Sequence[str] = (),
    options: Sequence[str] = ANY_TIME,
) -> Iterator[Collector]:
    """A collector that is gone afterwards."""
    collector = Collector(folder, survey, store, prefix, options)
    collector.start()
    try:
        yield collector
    finally:
        collector.kill()


class BadNetwork:
    """Passes connections on, and breaks some: before the request arrives, or before its answer."""

    def __init__(self, ports: Sequence[int], rng: random.Random, breaks: float) -> None:
        self._ports, self._rng, self._breaks = ports, rng, breaks
        self._tasks: set[asyncio.Task[Any]] = set()
        self.lost_requests = self.lost_answers = 0

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass_on(self, inside: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """One request a connection, as the crowd sends them."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = await inside.read(65536)
            fate = self._rng.random()
            if fate < self._breaks / 2:
                self.lost_requests += 1
                return
            port = self._rng.choice(self._ports)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(request)
                answer = await reader.read(65536)
            finally:
                writer.close()
            if fate < self._breaks:
                self.lost_answers += 1
                return
            back.write(answer)
            await back.drain()
        except OSError:
            return
        finally:
            self._tasks.discard(task)
            back.close()


async def send_all(
    url: str, api: str, reports: Sequence[dict[str, Any]], at_once: int = 40
) -> set[int]:
    """Every device sends until it is acknowledged; the serials of those that were."""
    gate, acknowledged = asyncio.Semaphore(at_once), set()
    host, _, port = url.removeprefix("http://").partition(":")
    deadline = time.monotonic() + 2 * PATIENCE

    async def send(report: dict[str, Any]) -> None:
        body = httpx.Response(200, json={k: v for k, v in report.items() if k != "round"}).content
        head = f"POST {api}/reports HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        async with gate:
            while time.monotonic() < deadline:
                answer = await _exchange(host, int(port), head.encode() + body)
                if answer.startswith(b"HTTP/1.1 204"):
                    acknowledged.add(report["serial"])
                    return
                assert not answer or answer.startswith(b"HTTP/1.1 503"), answer
                await asyncio.sleep(0.01)

    await asyncio.gather(*map(send, reports))
    return acknowledged


async def _exchange(host: str, port: int, request: bytes) -> bytes:
    """What comes back, or nothing."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return b""
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(65536), 10)
    except (OSError, TimeoutError):
        return b""
    finally:
        writer.close()


async def while_sending(work: Awaitable[set[int]], trouble: Callable[[], Awaitable[None]]) -> Any:
    """Make trouble until the crowd is done."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await trouble()
        await asyncio.wait([task], timeout=0)
    return task.result()


def pack(reports: Sequence[dict[str, Any]]) -> bytes:
    """As a relay sends them."""
    return b"".join(
        Report(r["serial"], r["slot"], r["bit"], base64.urlsafe_b64decode(r["mark"] + "==")).pack()
        for r in reports
    )


def check_once(
    collector: Collector, reports: Sequence[dict[str, Any]], acknowledged: set[int]
) -> None:
    """The oracle: nobody twice, and everybody who was told so once, with their own bit."""
    reporters, ones = collector.counted()
    assert reporters.max() <= 1, "somebody was counted twice"
    for report in reports:
        counted = reporters[report["round"]]
        if report["serial"] in acknowledged:
            assert counted == 1, "an acknowledged report was lost"
        if counted:
            assert ones[report["round"]] == report["bit"], "a report was counted as another"


def free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
