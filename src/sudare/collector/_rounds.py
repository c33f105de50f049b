"""Published rounds: how they are made from counts, and how they are kept in memory.

Closing runs in a transaction that holds reports off. `History` holds a few numbers for each round,
made into `Round`s when asked for; one thread writes to it, any may read.
"""

import threading
from collections.abc import Iterable
from typing import get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.collector._clock import Schedule, iso
from sudare.collector.stores import Closing, Progress, Row
from sudare.counting import Survey, estimate_rounds
from sudare.counting.smoothing import WANDERINGS, Filter, init, result, step
from sudare.counting.tree import needed
from sudare.foundations import checks

_AT_ONCE = 256
"""Rounds closed in one transaction."""


def close_rounds(
    closing: Closing, survey: Survey, schedule: Schedule, beta: float, now: float
) -> None:
    """Publish the next rounds that are due, revise those that late reports have changed, and seal
    those that are over."""
    published, sealed, smoother = closing.progress
    beyond = max(published, min(schedule.due(now), published + _AT_ONCE))
    before = closing.rows(sealed, published)
    users = max(closing.issued, 1)
    cells = [needed(survey, t) for t in range(sealed, beyond)]
    reporters, ones = _gathered(closing, cells)
    changed = [i for i, row in enumerate(before) if reporters[i].sum() != row.reporters]
    chosen = [*changed, *range(published - sealed, beyond - sealed)]
    found = estimate_rounds(
        survey,
        [sealed + i for i in chosen],
        [reporters[i] for i in chosen],
        [ones[i] for i in chosen],
        users=users,
        beta=beta,
    )
    rows = [
        Row(
            round=sealed + i,
            published=now,
            users=users,
            reporters=int(found.reporters[j]),
            raw=float(found.raw[j]),
            low=float(found.low[j]),
            high=float(found.high[j]),
            smoothed=0.0,
            revision=0,
        )
        for j, i in enumerate(chosen)
    ]
    for i, which in enumerate(changed):
        old = before[which]
        rows[i] = rows[i]._replace(smoothed=old.smoothed, revision=old.revision + 1)
    withdrawn = {row.round: row.revision for row in closing.rows(published, beyond)}
    for i in range(len(changed), len(rows)):
        if rows[i].round in withdrawn:
            rows[i] = rows[i]._replace(revision=withdrawn[rows[i].round] + 1)
    state = _thawed(smoother)
    for i in range(len(changed), len(rows)):
        state = step(state, rows[i].raw, found.std[i])
        rows[i] = rows[i]._replace(smoothed=float(result(state)[0]))
    over = max(sealed, min(schedule.over(now), beyond))
    closing.record(rows, Progress(beyond, over, _frozen(state)))


def reopen_rounds(
    closing: Closing,
    survey: Survey,
    schedule: Schedule,
    now: float,
    *,
    corrected: bool,
    keeps_serials: bool,
) -> range:
    """Take back the rounds that a wrong clock has closed: those that are not over by `now`.

    Their rows stay, so that each is published again as its own revision.
    """
    published, sealed, smoother = closing.progress
    first, open_ = min(published, schedule.due(now)), min(sealed, schedule.over(now))
    if (first, open_) == (published, sealed):
        raise checks.InvalidInput("No round is closed that by the clock should still be open")
    rows = closing.rows(open_, published)
    shown = [row.round for row in rows if row.round >= first and row.raw == row.raw]
    if shown and not corrected:
        raise checks.InvalidInput(
            f"The estimate of round {shown[0]} has been shown, so it stays as it is. To publish "
            "it again, marked as revised, say --corrected"
        )
    forgotten = 0 if keeps_serials else closing.forgotten
    lost = [row.round for row in rows if row.reporters and row.round < min(forgotten, sealed)]
    if lost:
        raise checks.InvalidInput(
            f"Round {lost[-1]} cannot be opened again: which of its tickets were used is "
            "forgotten, so that a report could be counted twice"
        )
    state = _thawed(smoother)
    if first < published:
        state = _state_after(closing, survey, first)
    closing.record([], Progress(first, open_, _frozen(state)))
    return range(open_, published)


def _state_after(closing: Closing, survey: Survey, rounds: int) -> Filter:
    """The smoothing filter's state after the first rounds, worked out again from the counts."""
    state = init()
    for begin in range(0, rounds, _AT_ONCE):
        numbers = range(begin, min(begin + _AT_ONCE, rounds))
        reporters, ones = _gathered(closing, [needed(survey, t) for t in numbers])
        users = max(closing.issued, 1)
        found = estimate_rounds(survey, numbers, reporters, ones, users=users, beta=0.5)
        for row, std in zip(closing.rows(begin, numbers.stop), found.std, strict=True):
            state = step(state, row.raw, std)
    return state


def _gathered(
    closing: Closing, cells: list[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Reporters and ones of each list of cells."""
    if not cells:
        return [], []
    ends = np.cumsum([len(each) for each in cells])[:-1]
    reporters, ones = closing.counts(np.concatenate(cells))
    return np.split(reporters, ends), np.split(ones, ends)


def _frozen(state: Filter) -> bytes:
    return np.stack(state).astype("<f8").tobytes()


def _thawed(kept: bytes) -> Filter:
    if not kept:
        return init()
    return Filter(*np.frombuffer(kept, "<f8").reshape(3, len(WANDERINGS)))


_ROW = np.dtype(
    [(name, "i8" if kind is int else "f8") for name, kind in get_type_hints(Row).items()]
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

    def cut(self, length: int) -> None:
        """Forget the rounds that were taken back."""
        with self._lock:
            self._length = min(self._length, length)

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
