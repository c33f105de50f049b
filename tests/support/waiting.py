"""Waiting for what must happen, however busy the machine is: only a hang makes a test fail."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 120.0
"""Seconds. Far more than anything here takes; no test may pass because they are over."""
_PAUSE = 0.02

T = TypeVar("T")


def eventually(condition: Callable[[], T]) -> T:
    """What the condition says as soon as that is true; a failure if it never becomes so."""
    until = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(_PAUSE)
    return found
