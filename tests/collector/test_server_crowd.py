"""Exactly once, whatever happens: kills, a bad network, databases that restart.

A few kills in every run; `make soak` makes fifty for each store.
"""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.collector import crowd
from tests.support import postgres
from tests.support.soak import times
from tests.support.waiting import PATIENCE

KILLS = times(2, 50)
USERS = 60 * KILLS


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Server]:
    with postgres.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "collector.db"
    server = request.getfixturevalue("database")
    return postgres.schema(server.address, f"crowd{random.randrange(10**9)}")


@pytest.mark.soak(tries=f"{KILLS} kills")
def test_killed_again_and_again(tmp_path: Path, store: str) -> None:
    rng = random.Random(1)
    kills = 0

    async def trouble() -> None:
        nonlocal kills
        await asyncio.sleep(rng.uniform(0.02, 0.3))
        if kills < KILLS:
            await asyncio.to_thread(collector.kill)
            await asyncio.to_thread(collector.start)
            kills += 1

    async def scene() -> Any:
        async with crowd.BadNetwork([collector.port], rng, breaks=0.2) as url:
            # Few at a time, so that the crowd lasts until the last kill.
            work = crowd.send_all(url, collector.api, reports, at_once=4)
            return await crowd.while_sending(work, trouble)

    with crowd.running(tmp_path, crowd.survey_of(USERS), store) as collector:
        reports = collector.reports()
        acknowledged = asyncio.run(scene())
        assert kills >= KILLS // 2
        assert len(acknowledged) == USERS
        collector.kill()
        crowd.check_once(collector, reports, acknowledged)


def test_lost_requests_and_lost_answers(tmp_path: Path, store: str) -> None:
    rng = random.Random(2)

    async def scene() -> tuple[set[int], crowd.BadNetwork]:
        network = crowd.BadNetwork([collector.port], rng, breaks=0.5)
        async with network as url:
            return await crowd.send_all(url, collector.api, reports), network

    with crowd.running(tmp_path, crowd.survey_of(300), store) as collector:
        reports = collector.reports()
        acknowledged, network = asyncio.run(scene())
        assert min(network.lost_requests, network.lost_answers) > 20
        assert len(acknowledged) == 300
        assert collector.stop() == 0
        crowd.check_once(collector, reports, acknowledged)


def test_one_by_one_and_by_relay_at_the_same_time(tmp_path: Path, store: str) -> None:
    """The same reports by both ways, in any order."""

    async def scene() -> set[int]:
        async with httpx.AsyncClient(base_url=collector.url, timeout=PATIENCE) as relay:
            batches = [
                relay.post(
                    f"{collector.api}/reports",
                    content=crowd.pack(reports[start : start + 100]),
                    headers={"Content-Type": "application/octet-stream"},
                )
                for start in range(0, 500, 50)
            ]
            sent = crowd.send_all(collector.url, collector.api, reports)
            answers, acknowledged = await asyncio.gather(asyncio.gather(*batches), sent)
        for start, answer in zip(range(0, 500, 50), answers, strict=True):
            told = answer.json()
            assert told["counted"] + told["repeated"] == min(100, 500 - start)
            assert told["refused"] == {}
        return acknowledged

    with crowd.running(tmp_path, crowd.survey_of(500), store) as collector:
        reports = collector.reports()
        acknowledged = asyncio.run(scene())
        assert len(acknowledged) == 500
        assert collector.stop() == 0
        crowd.check_once(collector, reports, acknowledged)


def test_two_collectors_and_a_database_that_restarts(
    tmp_path: Path, database: postgres.Server
) -> None:
    rng = random.Random(3)
    store = postgres.schema(database.address, "two")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    restarts = 0

    async def trouble() -> None:
        nonlocal restarts
        await asyncio.sleep(rng.uniform(0.1, 0.4))
        if restarts < 2:
            await asyncio.to_thread(database.restart)
            restarts += 1

    async def scene() -> Any:
        async with crowd.BadNetwork([one.port, other.port], rng, breaks=0.2) as url:
            work = crowd.send_all(url, one.api, reports, at_once=4)
            return await crowd.while_sending(work, trouble)

    survey = crowd.survey_of(400)
    with (
        crowd.running(tmp_path / "one", survey, store) as one,
        crowd.running(tmp_path / "other", survey, store) as other,
    ):
        reports = one.reports()
        acknowledged = asyncio.run(scene())
        assert restarts == 2
        assert len(acknowledged) == 400
        assert one.stop() == 0
        assert other.stop() == 0
        crowd.check_once(one, reports, acknowledged)
