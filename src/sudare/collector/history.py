"""Published rounds in memory: a few numbers each, made into `Round`s when asked for.

One thread writes; any may read.
"""

import threading
from collections.abc import Iterable

import msgspec
import numpy as np

from sudare.collector.clock import Schedule, iso
from sudare.collector.stores import Row

_ROW = np.dtype(
    [
        ("round", "i4"),
        ("published", "f8"),
        ("users", "i8"),
        ("reporters", "i8"),
        ("raw", "f8"),
        ("low", "f8"),
        ("high", "f8"),
        ("smoothed", "f8"),
        ("revision", "i4"),
    ]
)


class Round(msgspec.Struct, frozen=True):
    """A published round."""

    round: int
    opens: str
    closes: str
    published: str
    reporters: int
    share: float | None
    """The estimate within [0, 1]; without reporters none."""
    raw: float | None
    """Unbiased, and possibly outside [0, 1]."""
    low: float
    high: float
    smoothed: float | None
    """Of this round and those before it; before the first report none."""
    revision: int
    """How often it has been changed by late reports."""


class History:
    """All published rounds, in order, from 0 on without a gap."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lock = threading.Lock()
        self._rows = np.empty(64, _ROW)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, rows: Iterable[Row]) -> set[int]:
        """Add rounds, or replace them by their revisions; which were new."""
        changed = set()
        with self._lock:
            for row in rows:
                t = row.round
                if t < self._length and self._rows[t]["revision"] == row.revision:
                    continue
                if t == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
                self._rows[t] = row
                self._length = max(self._length, t + 1)
                changed.add(t)
        return changed

    def reporters(self, first: int, beyond: int) -> list[int]:
        """How many reports each of these rounds was published with."""
        counts: list[int] = self._rows["reporters"][first:beyond].tolist()
        return counts

    def rounds(self, chosen: slice | list[int]) -> tuple[Round, ...]:
        with self._lock:
            rows = [Row(*row) for row in self._rows[: self._length][chosen].tolist()]
        return tuple(self._round(row) for row in rows)

    def _round(self, row: Row) -> Round:
        t, schedule = row.round, self._schedule
        return Round(
            round=t,
            opens=iso(schedule.opens(t)),
            closes=iso(schedule.closes(t)),
            published=iso(row.published),
            reporters=row.reporters,
            share=None if np.isnan(row.raw) else min(max(row.raw, 0.0), 1.0),
            raw=None if np.isnan(row.raw) else row.raw,
            low=row.low,
            high=row.high,
            smoothed=None if np.isnan(row.smoothed) else row.smoothed,
            revision=row.revision,
        )
