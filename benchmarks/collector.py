"""The collector over HTTP, beside a bare ASGI application on the same server (granian).

Loopback, one process each, `wrk` on the other core; every report is another one, counted for the
first time and durable (SQLite, synchronous=FULL) before it is acknowledged. Aims: single reports at
0.5 of the rate at which the bare application reads them and answers 204; batches of 1,000 at 0.4 of
the bare rate, or a million reports a second; two collectors on PostgreSQL at 1.6 of one; 200 live
dashboards cost less than a tenth of what is taken in; started with ten million used serials within
5 s; no more memory than 2 bits a ticket and 150 MB.
"""

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.loads import Load, post, reports_of_round, servers
from benchmarks.table import Row, against
from sudare.counting.reports import RECORD

BATCH = 1000
VIEWERS = 200
_CONNECTIONS = 128
_RELAYS = 16
_TURNS = 3


def run(quick: bool) -> list[Row]:
    """Rates, and what it takes to start."""
    singles, batches = (20_000, 100_000) if quick else (150_000, 1_500_000)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), singles, batches)
        return [
            *bench.singles(),
            *bench.batches(),
            *bench.start(200_000 if quick else 10_000_000),
            *bench.databases(20_000 if quick else 200_000),
        ]


class Bench:
    """Reports to send, and stores to send them to."""

    def __init__(self, folder: Path, singles: int, batches: int) -> None:
        self.folder, self.survey = folder, servers.survey()
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
        ours, viewed, bare = [], [], []
        for _ in range(_TURNS):
            with servers.bare() as peer:
                bare.append(_checked(post(peer.reports, self.lines, "lines", _CONNECTIONS)).rate)
            with self.fresh() as running:
                load = _checked(post(running.reports, self.lines, "lines", _CONNECTIONS))
                ours.append(load.rate)
            with self.fresh() as running, viewers(running.url):
                load = _checked(post(running.reports, self.lines, "lines", _CONNECTIONS))
                viewed.append(load.rate)
        return [
            against("single reports", max(ours), "1/s", "bare ASGI", max(bare), ">= 0.5"),
            against(
                f"the same, {VIEWERS} viewers", max(viewed), "1/s", "without", max(ours), "> 0.9"
            ),
        ]

    def batches(self) -> list[Row]:
        ours, bare = [], []
        for _ in range(_TURNS):
            with servers.bare() as peer:
                load = post(peer.reports, self.blocks, str(BATCH * RECORD.itemsize), _RELAYS)
                bare.append(_checked(load).rate * BATCH)
            with self.fresh() as running:
                load = post(running.reports, self.blocks, str(BATCH * RECORD.itemsize), _RELAYS)
                ours.append(_checked(load).rate * BATCH)
        bar = min(1e6 / max(bare), 0.4)
        name = f"reports in batches of {BATCH:,}"
        return [against(name, max(ours), "1/s", "bare ASGI", max(bare), f">= {bar:.3g}")]

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

    def databases(self, count: int) -> list[Row]:
        """PostgreSQL, with one collector and with two."""
        from tests.support import postgres

        rates = []
        for collectors in (1, 2):
            with postgres.running() as server, tempfile.TemporaryDirectory() as name:
                store = postgres.schema(server.address, f"bench{collectors}")
                key = servers.found(store, self.survey)
                records = reports_of_round(self.survey, key, 0, count)
                rates.append(self._together(Path(name), store, records, collectors))
        one, two = rates
        return [against("PostgreSQL, two collectors", two, "1/s", "one", one, ">= 1.6")]

    def _together(
        self, folder: Path, store: str, records: NDArray[np.void], collectors: int
    ) -> float:
        """Reports a second when each of the collectors gets its part of them."""
        parts = np.array_split(records, collectors)
        for number, part in enumerate(parts):
            whole = part[: len(part) - len(part) % BATCH]
            (folder / f"part{number}").write_bytes(whole.tobytes())
        with (
            _all(
                [servers.collector(folder, self.survey, store) for _ in range(collectors)]
            ) as running,
            ThreadPoolExecutor(collectors) as pool,
        ):
            began = time.perf_counter()
            loads = pool.map(
                lambda n: post(
                    running[n].reports, folder / f"part{n}", str(BATCH * RECORD.itemsize), 8
                ),
                range(collectors),
            )
            sent = sum(_checked(load).requests for load in loads)
            return sent * BATCH / (time.perf_counter() - began)


@contextmanager
def _all(managers: list[Any]) -> Iterator[list[servers.Running]]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield [stack.enter_context(each) for each in managers]


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
    import base64

    serial, slot, bit, mark = record
    text = base64.urlsafe_b64encode(mark).rstrip(b"=").decode()
    return f'{{"serial":{serial},"slot":{slot},"bit":{bit},"mark":"{text}"}}'
