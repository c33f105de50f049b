"""Servers to be measured: a bare application, and collectors over a store of their own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

from sudare.collector import bind_store
from sudare.collector._keys import unwrap
from sudare.collector.stores import open_store
from sudare.counting import Survey, parse_survey

ROUNDS = 24
_START_SECONDS = 60


class Running(NamedTuple):
    """A server under load."""

    url: str
    reports: str
    """Where reports are posted."""
    process: int

    def memory(self) -> float:
        """What it has in use, in bytes."""
        for line in Path(f"/proc/{self.process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) * 1024
        raise AssertionError("no memory in use")


def survey() -> Survey:
    """One round an hour, of which the first has just begun."""
    start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    return parse_survey(
        f'name = "at-home"\nrounds = {ROUNDS}\nepsilon = 2.0\nstart = {start}\n'
        "round_seconds = 3600.0\n"
    )


def found(store: str, chosen: Survey) -> bytes:
    """Set up a store; its ticket key."""
    opened = open_store(store)
    try:
        bind_store(opened, chosen)
        return unwrap(opened.ranges()[0].secret, None)
    finally:
        opened.close()


@contextmanager
def bare() -> Iterator[Running]:
    """Reads the body and answers 204."""
    port = _free_port()
    words = [sys.executable, "-m", "benchmarks.loads.bare", str(port)]
    with _started(words, port, "/") as process:
        yield Running(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/", process)


@contextmanager
def collector(folder: Path, chosen: Survey, store: str) -> Iterator[Running]:
    """`sudare collect`."""
    port = _free_port()
    file = folder / "survey.toml"
    file.write_text(chosen.to_toml())
    program = str(Path(sys.executable).with_name("sudare"))
    words = [program, "collect", str(file), "--port", str(port), "--health-port", "0"]
    path = f"/v1/surveys/{chosen.digest().hex()[:16]}"
    with _started(words, port, path, {"SUDARE_STORE": store}) as process:
        url = f"http://127.0.0.1:{port}"
        yield Running(url + path, f"{url}{path}/reports", process)


@contextmanager
def _started(
    words: list[str], port: int, path: str, environment: dict[str, str] | None = None
) -> Iterator[int]:
    process = subprocess.Popen(
        words,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            with suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{port}{path}").is_success:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{words[0]} does not answer")
            time.sleep(0.01)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def fill(store: str, key_survey: Survey, used: int) -> None:
    """Mark this many serials as used, as if their reports had come."""
    from sudare.collector.stores import Group

    opened = open_store(store)
    try:
        for first in range(0, used, 1_000_000):
            serials = np.arange(first, min(first + 1_000_000, used), dtype=np.uint64)
            zeros = np.zeros(serials.size, np.int64)
            bits = np.zeros(serials.size, np.uint8)
            opened.count(Group(0, serials, zeros, zeros, bits, None))
    finally:
        opened.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
