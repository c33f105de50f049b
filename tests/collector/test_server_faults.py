"""Full and failing disks, clocks that jump, clients that mean harm: against the real server."""

import asyncio
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from sudare.counting import Survey, parse_survey
from tests.collector import crowd
from tests.support import debian
from tests.support.soak import times
from tests.support.waiting import PATIENCE, eventually

FUZZ = times(1000, 20_000)
"""Requests of random bytes."""
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of this size."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def send(collector: crowd.Collector, report: dict[str, Any]) -> httpx.Response:
    body = {name: report[name] for name in ("serial", "slot", "bit", "mark")}
    return httpx.post(f"{collector.url}{collector.api}/reports", json=body, timeout=PATIENCE)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[crowd.Collector]:
    """For attacks that must leave no trace; it waits for slow clients longer than any test."""
    patient = ("--header-seconds", f"{10 * PATIENCE:g}", "--body-seconds", f"{10 * PATIENCE:g}")
    folder, survey = tmp_path_factory.mktemp("shared"), crowd.survey_of(3000)
    with crowd.running(folder, survey, options=(*crowd.ANY_TIME, *patient)) as collector:
        yield collector


@root_only
def test_a_disk_that_fills_up_and_is_cleared(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "600k") as disk:
        (tmp_path / "disk" / "survey.toml").touch()
        with crowd.running(tmp_path, crowd.survey_of(50), str(disk / "collector.db")) as collector:
            reports = collector.reports()
            acknowledged = {r["serial"] for r in reports[:10] if send(collector, r).is_success}
            assert len(acknowledged) == 10
            with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(4096))
            full = [send(collector, r) for r in reports[10:30]]
            refused = [answer for answer in full if answer.status_code == 503]
            assert refused, "the disk was not full"
            assert all(answer.json()["error"]["code"] == "unavailable" for answer in refused)
            assert all("Retry-After" in answer.headers for answer in refused)
            told = {r["serial"] for r, a in zip(reports[10:30], full, strict=True) if a.is_success}
            (disk / "ballast").unlink()
            again = [send(collector, r) for r in reports]
            assert all(answer.status_code == 204 for answer in again)
            assert collector.stop() == 0
            crowd.check_once(collector, reports, acknowledged | told)
            assert collector.counted()[0].sum() == 50


def test_a_disk_that_cannot_sync(tmp_path: Path) -> None:
    """Of the syncs some fail with an error: none of those may be acknowledged and lost."""
    strace = debian.require("strace", "strace")
    fault = "inject=fdatasync,fsync:error=EIO:when=30+6"
    prefix = [strace, "-f", "--seccomp-bpf", "-qq", "-o", str(tmp_path / "strace"), "-e", fault]
    prefix += ["-e", "trace=fdatasync,fsync"]
    with crowd.running(tmp_path, crowd.survey_of(60), prefix=prefix) as collector:
        reports = collector.reports()
        answers = [send(collector, r) for r in reports]
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {204, 503}, statuses
        told = {r["serial"] for r, s in zip(reports, statuses, strict=True) if s == 204}
        collector.kill()
        crowd.check_once(collector, reports, told)


def fake_time(dial: Path) -> list[str]:
    """What makes a process's wall clock follow a file; its counters stay true."""
    debian.require("faketime", "faketime")
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    dial.write_text("+0")
    settings = [f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={dial}", "FAKETIME_NO_CACHE=1"]
    return ["env", *settings, "FAKETIME_DONT_FAKE_MONOTONIC=1"]


def just_begun() -> Survey:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return parse_survey(
        f'name = "leaps"\nrounds = 400\nepsilon = 1.0\nstart = {started}\nround_seconds = 6.0\n'
    )


def health(collector: crowd.Collector) -> dict[str, Any]:
    told: dict[str, Any] = httpx.get(
        f"http://127.0.0.1:{collector.health}/health", timeout=PATIENCE
    ).json()
    return told


def published(collector: crowd.Collector) -> int:
    answer = httpx.get(f"{collector.url}{collector.api}/estimates", timeout=PATIENCE)
    return len(answer.json()["rounds"])


@pytest.mark.soak(
    only=True, tries="a clock 90 s ahead for 5 s"
)  # tests/collector/test_service.py: with a clock of our own
def test_a_clock_ninety_seconds_ahead_closes_nothing(tmp_path: Path) -> None:
    """Fifteen rounds of six seconds, which a collector that believed it would close for good."""
    dial = tmp_path / "dial"
    prefix = fake_time(dial)
    with crowd.running(tmp_path, just_begun(), prefix=prefix, options=()) as collector:
        reports = {report["round"]: report for report in collector.reports()}
        before = published(collector)
        dial.write_text("+90")
        eventually(lambda: health(collector)["status"] == "paused")
        time.sleep(5)
        assert published(collector) == before
        dial.write_text("+0")
        eventually(lambda: health(collector)["status"] == "ok")
        assert published(collector) < 14
        assert send(collector, reports[14]).json()["error"]["code"] == "too_early"
        eventually(lambda: published(collector) > before)


@pytest.mark.soak(only=True, tries="two collectors, one 90 s ahead")
def test_one_fast_collector_of_two(tmp_path: Path, database: str) -> None:
    dial, survey = tmp_path / "dial", just_begun()
    fast_folder, right_folder = tmp_path / "fast", tmp_path / "right"
    fast_folder.mkdir()
    right_folder.mkdir()
    with (
        crowd.running(right_folder, survey, database, options=()) as right,
        crowd.running(fast_folder, survey, database, prefix=fake_time(dial), options=()) as fast,
    ):
        reports = {report["round"]: report for report in right.reports()}
        dial.write_text("+90")
        eventually(lambda: health(fast)["clock"] == "apart")
        time.sleep(5)
        assert published(right) < 14
        assert published(fast) < 14
        assert send(fast, reports[14]).json()["error"]["code"] == "unavailable"
        assert send(right, reports[14]).json()["error"]["code"] == "too_early"
        assert health(right)["status"] == "ok"
        before = published(right)
        eventually(lambda: published(right) > before)
        dial.write_text("+0")
        eventually(lambda: health(fast)["status"] == "ok")
        eventually(lambda: send(fast, reports[14]).status_code == 204)


def test_slow_clients_do_not_keep_others_waiting(shared: crowd.Collector) -> None:
    """Three hundred that never finish their head or body, and some that say nothing at all.

    Nobody gives them up while the test runs, so whoever had to wait for them would never be heard.
    """
    beginnings = [
        b"",
        b"POST /v1/sur",
        f"POST {shared.api}/reports HTTP/1.1\r\nHost: x\r\nContent-Le".encode(),
        f"POST {shared.api}/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Content-Length: 90\r\n\r\n{".encode(),
    ]
    with ExitStack() as stack:
        for number in range(300):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", shared.port)))
            slow.sendall(beginnings[number % len(beginnings)])
        for _ in range(20):
            assert httpx.get(f"{shared.url}/v1/surveys", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_a_hundred_megabytes_are_refused_while_they_come(
    shared: crowd.Collector, chunked: bool
) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(1 << 20)

    before = memory(shared)
    headers = {"Content-Type": "application/octet-stream"}
    if not chunked:
        headers["Content-Length"] = str(100 << 20)
    try:
        answer = httpx.post(
            f"{shared.url}{shared.api}/reports", content=body(), headers=headers, timeout=PATIENCE
        )
    except httpx.HTTPError:
        pass  # it hung up, which is as good an answer
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "oversized")
    assert httpx.get(f"{shared.url}/v1/surveys").status_code == 200
    assert memory(shared) - before < 30 << 20


def memory(collector: crowd.Collector) -> int:
    """Bytes in use by its processes."""
    assert collector.process is not None
    listed = subprocess.run(
        ["ps", "-o", "rss=", "-g", str(collector.process.pid)], capture_output=True, text=True
    )
    return sum(map(int, listed.stdout.split())) * 1024


@pytest.mark.soak(tries=f"{FUZZ:,} requests")
def test_random_bytes_are_answered_or_dropped(shared: crowd.Collector) -> None:
    """Never a 500, and afterwards all is as it was."""
    rng = random.Random(4)
    api = shared.api.encode()
    verbs = [b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"\xff", b"PATCH"]
    paths = [b"/", b"/try", b"/openapi.json", api, api + b"/reports", api + b"/tickets"]
    paths += [api + b"/estimates", b"/pages/../../secret", b"/v1/surveys/%00", b"*", b"/%ff%fe"]
    kinds = [b"application/json", b"application/octet-stream", b"text/plain", b"\x00", b""]

    def request() -> bytes:
        body = rng.randbytes(rng.choice([0, 1, 29, 58, 60, 200]))
        if rng.random() < 0.3:
            body = b'{"serial":%d,"slot":%d,"bit":%d,"mark":"%s"}' % (
                rng.choice([0, 1, -1, 2**48, 2**64, 10**30]),
                rng.choice([0, -1, 2**31, 2**32]),
                rng.choice([0, 1, 2, -1]),
                rng.choice([b"", b"A" * 22, b"A" * 21, b"!" * 22]),
            )
        if rng.random() < 0.1:
            return rng.randbytes(rng.randrange(1, 300))
        path = rng.choice(paths)
        if rng.random() < 0.3:
            path += (
                b"?" + rng.choice([b"since=", b"format=", b"x="]) + rng.randbytes(3).hex().encode()
            )
        head = b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\n" % (
            rng.choice(verbs),
            path,
            rng.choice(kinds),
        )
        length = len(body) if rng.random() < 0.9 else rng.choice([0, 5, -1, 10**9])
        return head + b"Content-Length: %d\r\n\r\n" % length + body

    async def one(gate: asyncio.Semaphore) -> bytes:
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", shared.port)
            try:
                writer.write(request())
                writer.write_eof()
                return await asyncio.wait_for(reader.read(15), PATIENCE)
            except OSError:
                return b""
            finally:
                writer.close()

    async def all_of_them() -> list[bytes]:
        gate = asyncio.Semaphore(50)
        return await asyncio.gather(*(one(gate) for _ in range(FUZZ)))

    before = httpx.get(f"{shared.url}{shared.api}/activity").json()["reporters"]
    answers = asyncio.run(all_of_them())
    statuses = {answer[9:12] for answer in answers if answer}
    assert not {status for status in statuses if status >= b"500"}, statuses
    assert b"200" in statuses
    assert b"400" in statuses
    assert httpx.get(f"{shared.url}{shared.api}/activity").json()["reporters"] == before
