"""How good a model is on labelled rows that it has not seen, each number with an interval.

Intervals are by the bootstrap (`_measures`). All of it is computed from rows without noise, and
stays inside.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from sudare.foundations import checks
from sudare.foundations.randomness import seeded
from sudare.site._measures import Estimate, Name, estimate, of_classes, of_numbers, resampled
from sudare.site._metrics import Array, Flags
from sudare.site._model import Model
from sudare.study import read_labelled

_FEWEST, _FEW = 10, 30
"""Rows below which there are no intervals, and below which they come with a caution."""
KEEP_INSIDE = "made from rows without noise: keep it inside"


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """Rows by what they are and what they are called: the second class above the threshold."""

    threshold: float
    first_as_first: int
    first_as_second: int
    second_as_first: int
    second_as_second: int


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is worth on labelled rows."""

    rows: int
    level: float
    resamples: int
    seed: int
    measures: dict[Name, Estimate]
    confusion: Confusion | None
    """Classes only."""
    left_out: int = 0
    """Rows without a label."""
    caution: str = ""
    """Why intervals are missing, or too narrow to rely on."""
    note: str = KEEP_INSIDE


def evaluate(
    model: Model,
    data: Any,
    *,
    threshold: float = 0.5,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Compare a model's predictions with what came out, for a file or frame with the target.

    Args:
        threshold: Rows with a larger probability are called the second class.
        level: Of the intervals.
        resamples: Of the bootstrap.
        seed: The same one gives the same intervals.
        progress: Called with the resamples done and their number.
    """
    checks.proportion(threshold=threshold, level=level)
    checks.count(resamples=resamples)
    targets, predicted, left_out = _predicted(model, data)
    smallest = len(targets)
    if model.study.task == "regression":
        confusion = None
        measure = of_numbers(targets, predicted)
    else:
        second = targets > 0
        if second.all() or not second.any():
            raise checks.InvalidInput(
                f"Expected rows of both classes in column {model.study.target.column!r}, found one "
                "class only: add rows of the other"
            )
        smallest = int(min(second.sum(), (~second).sum()))
        confusion = _confusion(second, predicted > threshold, threshold)
        measure = of_classes(second, predicted, predicted > threshold)
    itself = measure(np.ones((1, len(targets))))
    if len(targets) < _FEWEST:
        nothing = np.full(resamples, np.nan)
        drawn = dict.fromkeys(itself, nothing)
    else:
        drawn = resampled(measure, len(targets), resamples, seeded(seed), progress)
    return Evaluation(
        rows=len(targets),
        level=level,
        resamples=resamples,
        seed=seed,
        measures={name: estimate(itself[name], drawn[name], level) for name in itself},
        confusion=confusion,
        left_out=left_out,
        caution=_caution(len(targets), smallest),
    )


def _caution(rows: int, smallest: int) -> str:
    """`smallest` is how many rows the rarer class has, or all rows for numbers."""
    if rows < _FEWEST:
        return f"Fewer than {_FEWEST} rows: no intervals."
    if rows < _FEW or smallest < _FEWEST:
        which = "Few rows" if smallest == rows or rows < _FEW else f"Only {smallest} of one class"
        return f"{which}: intervals by resampling are too narrow."
    return ""


def _predicted(model: Model, data: Any) -> tuple[Array, Array, int]:
    """Targets and predictions: classes as −1 and +1 with probabilities, numbers in own units.

    And how many rows have no label, or gaps where the study learns without such rows.
    """
    study = model.study
    numbers = study.task == "regression"
    targets, predicted, left_out = [], [], 0
    for rows, found, without in read_labelled(data, study):
        left_out += without
        if not len(rows):
            continue
        if numbers:
            targets.append(study.target_middle + study.target_reach * found)
            predicted.append(model.predictions(rows))
        else:
            targets.append(found)
            predicted.append(model.probabilities(rows))
    if not targets and left_out:
        raise checks.InvalidInput(
            f"Expected labelled rows: column {study.target.column!r} is empty in all {left_out}"
        )
    if not targets:
        raise checks.InvalidInput("Expected at least one row of data")
    return np.concatenate(targets), np.concatenate(predicted), left_out


def _confusion(second: Flags, called: Flags, threshold: float) -> Confusion:
    return Confusion(
        threshold=threshold,
        first_as_first=int((~second & ~called).sum()),
        first_as_second=int((~second & called).sum()),
        second_as_first=int((second & ~called).sum()),
        second_as_second=int((second & called).sum()),
    )
