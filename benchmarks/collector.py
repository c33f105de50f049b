"""The collector over HTTP, beside a bare ASGI application on the same server (granian).

Loopback, one process each, `wrk` on the other core; every report is another one, counted for the
first time and durable (SQLite, synchronous=FULL) before it is acknowledged. Aims: single reports at
0.5 of the rate at which the bare application reads them and answers 204; batches of 1,000 at 0.4 of
the bare rate, or a million reports a second; two collectors on PostgreSQL at 1.6 of one; 200 live
dashboards cost less than a tenth of what is taken in; started with ten million used serials within
5 s; no more memory than 2 bits a ticket and 150 MB.
"""

import asyncio
import base64
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.loads import Load, post, reports_of_round, servers
from benchmarks.table import Row, against
from sudare.counting import RECORD

BATCH = 1000
VIEWERS = 200
_CONNECTIONS = 128
_RELAYS = 16
_TURNS = 3


def run(quick: bool) -> list[Row]:
    """Rates, and what it takes to start."""
    seconds = 1 if quick else 2
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), 50_000 * seconds, 3_000_000 * seconds, seconds)
        return [
            *bench.singles(),
            *bench.batches(),
            *bench.start(200_000 if quick else 10_000_000),
            *bench.databases(),
        ]


class Bench:
    """Reports to send, and stores to send them to."""

    def __init__(self, folder: Path, singles: int, batches: int, seconds: int) -> None:
        self.folder, self.survey, self.seconds = folder, servers.survey(), seconds
        self.single_count, self.batch_count = singles, batches
        key = servers.found(str(folder / "template.db"), self.survey)
        self.records = reports_of_round(self.survey, key, 0, max(singles, batches))
        self.lines = folder / "lines"
        self.lines.write_text("\n".join(map(_json, self.records[:singles].tolist())))
        self.blocks = folder / "blocks"
        self.blocks.write_bytes(self.records[: batches - batches % BATCH].tobytes())

    @contextmanager
    def fresh(self) -> Iterator[servers.Running]:
        """A collector that has counted nothing yet."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            store = Path(name) / "collector.db"
            store.write_bytes((self.folder / "template.db").read_bytes())
            with servers.collector(Path(name), self.survey, str(store)) as running:
                yield running

    def singles(self) -> list[Row]:
        def rate(url: str) -> float:
            return self._sent(url, self.lines, "lines", self.single_count, _CONNECTIONS)

        ours, viewed, bare = [], [], []
        for _ in range(_TURNS):
            with servers.bare() as peer:
                bare.append(self._bare(peer.reports, self.lines, "lines", _CONNECTIONS))
            with self.fresh() as running:
                ours.append(rate(running.reports))
            with self.fresh() as running, viewers(running.url):
                viewed.append(rate(running.reports))
        return [
            against("single reports", max(ours), "1/s", "bare ASGI", max(bare), ">= 0.5"),
            against(
                f"the same, {VIEWERS} viewers", max(viewed), "1/s", "without", max(ours), "> 0.9"
            ),
        ]

    def batches(self) -> list[Row]:
        size, ours, bare = str(BATCH * RECORD.itemsize), [], []
        for _ in range(_TURNS):
            with servers.bare() as peer:
                bare.append(BATCH * self._bare(peer.reports, self.blocks, size, _RELAYS))
            with self.fresh() as running:
                sent = self._sent(
                    running.reports, self.blocks, size, self.batch_count // BATCH, _RELAYS
                )
                ours.append(BATCH * sent)
        bar = min(1e6 / max(bare), 0.4)
        name = f"reports in batches of {BATCH:,}"
        return [against(name, max(ours), "1/s", "bare ASGI", max(bare), f">= {bar:.3g}")]

    def _sent(self, url: str, bodies: Path, kind: str, count: int, connections: int) -> float:
        """Requests a second; each body is another one, to be counted for the first time."""
        load = _checked(post(url, bodies, kind, connections, self.seconds))
        if load.requests + connections > count:
            raise RuntimeError("too few bodies: some were sent twice")
        return load.rate

    def _bare(self, url: str, bodies: Path, kind: str, connections: int) -> float:
        return _checked(post(url, bodies, kind, connections, self.seconds)).rate

    def start(self, used: int) -> list[Row]:
        """With many serials used already."""
        store = self.folder / "used.db"
        store.write_bytes((self.folder / "template.db").read_bytes())
        servers.fill(str(store), self.survey, used)
        began = time.perf_counter()
        with servers.collector(self.folder, self.survey, str(store)) as running:
            seconds, memory = time.perf_counter() - began, running.memory() / 1e6
        limit = 150 + used / 4 / 1e6
        title = f"{used:,} used serials"
        return [
            Row(name=f"start, {title}", value=seconds, unit="s", aim="< 5 s", ok=seconds < 5),
            Row(
                name=f"memory, {title}",
                value=memory,
                unit="MB",
                aim=f"<= {limit:.4g} MB",
                ok=memory <= limit,
            ),
        ]

    def databases(self) -> list[Row]:
        """PostgreSQL, with one collector and with two."""
        from tests.support import postgres

        rates = []
        for collectors in (1, 2):
            with postgres.running() as server, tempfile.TemporaryDirectory() as name:
                store = postgres.schema(server.address, f"bench{collectors}")
                key = servers.found(store, self.survey)
                records = reports_of_round(self.survey, key, 0, 200_000 * self.seconds * collectors)
                rates.append(self._together(Path(name), store, records, collectors))
        one, two = rates
        return [against("PostgreSQL, two collectors", two, "1/s", "one", one, ">= 1.6")]

    def _together(
        self, folder: Path, store: str, records: NDArray[np.void], collectors: int
    ) -> float:
        """Reports a second when each of the collectors gets its part of them."""
        parts = np.array_split(records, collectors)
        for number, part in enumerate(parts):
            (folder / f"part{number}").write_bytes(part.tobytes())
        size = str(BATCH * RECORD.itemsize)
        with ExitStack() as stack, ThreadPoolExecutor(collectors) as pool:
            running = [
                stack.enter_context(servers.collector(folder, self.survey, store))
                for _ in range(collectors)
            ]
            rates = pool.map(
                lambda n: self._sent(
                    running[n].reports, folder / f"part{n}", size, len(parts[n]) // BATCH, 8
                ),
                range(collectors),
            )
            return BATCH * sum(rates)


@contextmanager
def viewers(url: str) -> Iterator[None]:
    """Dashboards that follow the live stream."""
    ready, stop = threading.Event(), threading.Event()

    async def watch() -> None:
        limits = httpx.Limits(max_connections=VIEWERS)
        async with httpx.AsyncClient(limits=limits, timeout=None) as client:

            async def one() -> None:
                async with client.stream("GET", f"{url}/stream") as answer:
                    opened.append(answer.status_code)
                    async for _ in answer.aiter_bytes():
                        pass

            opened: list[int] = []
            tasks = [asyncio.create_task(one()) for _ in range(VIEWERS)]
            while len(opened) < VIEWERS:
                await asyncio.sleep(0.05)
            ready.set()
            await asyncio.to_thread(stop.wait)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(watch()))
    thread.start()
    ready.wait(30)
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _checked(load: Load) -> Load:
    if load.refused or load.broken:
        raise RuntimeError(f"{load.refused} requests refused, {load.broken} broken")
    return load


def _json(record: tuple[int, int, int, bytes]) -> str:
    serial, slot, bit, mark = record
    text = base64.urlsafe_b64encode(mark).rstrip(b"=").decode()
    return f'{{"serial":{serial},"slot":{slot},"bit":{bit},"mark":"{text}"}}'
