"""Closing rounds: from counts to published rows, within a transaction that holds reports off."""

import numpy as np
from numpy.typing import NDArray

from sudare.collector.clock import Schedule
from sudare.collector.stores import Closing, Progress, Row
from sudare.counting import Survey
from sudare.counting.live import estimate_rounds, needed
from sudare.counting.smoothing import WANDERINGS, Filter, init, result, step

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
        survey, [reporters[i] for i in chosen], [ones[i] for i in chosen], users=users, beta=beta
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
    state = _thawed(smoother)
    for i in range(len(changed), len(rows)):
        state = step(state, rows[i].raw, found.std[i])
        rows[i] = rows[i]._replace(smoothed=float(result(state)[0]))
    over = max(sealed, min(schedule.over(now), beyond))
    closing.record(rows, Progress(beyond, over, _frozen(state)))


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
