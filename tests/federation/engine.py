"""Flower for the tests: its processes, or a skip where it cannot be installed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.peers import Unavailable
from benchmarks.peers.flower import Engine, commands, running


@contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """Flower's processes in a folder, all of which end with the block."""
    try:
        commands()
    except Unavailable as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(str(problem))
        pytest.skip(str(problem))
    with running(folder) as made:
        yield made
