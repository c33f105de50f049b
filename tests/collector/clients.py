"""What the tests of clients ask a running collector, and their time."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from sudare.collector import _load as load
from tests.collector.kit import LENGTH, Clock
from tests.collector.served import Served


def published(served: Served) -> list[int]:
    """The reporters of every round, once all rounds are published."""
    return [each["reporters"] for each in served.published(served.survey.rounds)]


def hurried(patch: pytest.MonkeyPatch) -> Clock:
    """A clock for a collector and its simulated users, half a round before the first."""
    clock = Clock(-0.5)
    patch.setattr(load, "asyncio", Hurried(clock))
    patch.setattr(load, "time", SimpleNamespace(time=clock, perf_counter=time.perf_counter))
    return clock


class Hurried:
    """Stands for asyncio: who waits for a round has the clock set to it, once all is sent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        if seconds < LENGTH / 10:  # before trying again
            await asyncio.sleep(seconds)
            return
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        self._clock.pass_by(seconds)
