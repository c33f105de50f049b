"""How good a model is on labelled rows that it has not seen, each number with an interval.

Intervals are percentiles of the bootstrap: rows are drawn again with replacement, as many as there
are, and every measure is computed for each such resample. They say what another sample of rows like
these would change; the model stays as it is. Ends are rounded outwards to a resample's own value. A
measure that a resample does not have (one class only) is left out there; one that more resamples
lack than may lie beyond an end has no interval.

All of it is computed from rows without noise, and stays inside.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np

from sudare.foundations import checks
from sudare.foundations.randomness import Generator, seeded
from sudare.site._metrics import (
    Array,
    Flags,
    log_losses,
    squared_distances,
    weighted_auc,
    weighted_calibration,
    weighted_line,
    weighted_mean,
    weighted_r_squared,
)
from sudare.site._model import Model
from sudare.study import read_blocks

KEEP_INSIDE = "made from rows without noise: keep it inside"
_BLOCK = 1 << 21
"""Counts that are held at once: rows times resamples."""

Name = Literal[
    "auc",
    "brier",
    "log_loss",
    "share_correct",
    "sensitivity",
    "specificity",
    "rmse",
    "mae",
    "r_squared",
    "calibration_slope",
    "calibration_intercept",
]
Values = dict[Name, Array]
_Measure = Callable[[Array], Values]
"""From counts, a line for each resample, to every measure of each."""


class Estimate(msgspec.Struct, frozen=True):
    """A measure with its interval; None for what is infinite or does not exist."""

    value: float | None
    low: float | None
    high: float | None


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
    targets, predicted = _predicted(model, data)
    if model.study.task == "regression":
        confusion = None
        measure = _of_numbers(targets, predicted)
    else:
        second = targets > 0
        if second.all() or not second.any():
            raise checks.InvalidInput(
                f"Expected rows of both classes in column {model.study.target.column!r}, found one "
                "class only: add rows of the other"
            )
        confusion = _confusion(second, predicted > threshold, threshold)
        measure = _of_classes(second, predicted, predicted > threshold)
    drawn = _bootstrap(measure, len(targets), resamples, seeded(seed), progress)
    itself = measure(np.ones((1, len(targets))))
    return Evaluation(
        rows=len(targets),
        level=level,
        resamples=resamples,
        seed=seed,
        measures={name: _estimate(itself[name], drawn[name], level) for name in itself},
        confusion=confusion,
    )


def _predicted(model: Model, data: Any) -> tuple[Array, Array]:
    """Targets and predictions: classes as −1 and +1 with probabilities, numbers in own units."""
    study = model.study
    numbers = study.task == "regression"
    targets, predicted = [], []
    for rows, found in read_blocks(data, study):
        if not len(rows):
            continue
        assert found is not None
        if numbers:
            targets.append(study.target_middle + study.target_reach * found)
            predicted.append(model.predictions(rows))
        else:
            targets.append(found)
            predicted.append(model.probabilities(rows))
    if not targets:
        raise checks.InvalidInput("Expected at least one row of data")
    return np.concatenate(targets), np.concatenate(predicted)


def _of_classes(second: Flags, chances: Array, called: Flags) -> _Measure:
    correct = (called == second).astype(float)
    brier, losses = squared_distances(second, chances), log_losses(second, chances)

    def measure(counts: Array) -> Values:
        slopes, intercepts = weighted_calibration(second, chances, counts)
        return {
            "auc": weighted_auc(second, chances, counts),
            "brier": weighted_mean(brier, counts),
            "log_loss": weighted_mean(losses, counts),
            "calibration_slope": slopes,
            "calibration_intercept": intercepts,
            "share_correct": weighted_mean(correct, counts),
            "sensitivity": weighted_mean(correct[second], counts[:, second]),
            "specificity": weighted_mean(correct[~second], counts[:, ~second]),
        }

    return measure


def _of_numbers(targets: Array, predicted: Array) -> _Measure:
    def measure(counts: Array) -> Values:
        slopes, intercepts = weighted_line(targets, predicted, counts)
        return {
            "rmse": np.sqrt(weighted_mean((targets - predicted) ** 2, counts)),
            "mae": weighted_mean(np.abs(targets - predicted), counts),
            "r_squared": weighted_r_squared(targets, predicted, counts),
            "calibration_slope": slopes,
            "calibration_intercept": intercepts,
        }

    return measure


def _confusion(second: Flags, called: Flags, threshold: float) -> Confusion:
    return Confusion(
        threshold=threshold,
        first_as_first=int((~second & ~called).sum()),
        first_as_second=int((~second & called).sum()),
        second_as_first=int((second & ~called).sum()),
        second_as_second=int((second & called).sum()),
    )


def _bootstrap(
    measure: _Measure,
    rows: int,
    resamples: int,
    rng: Generator,
    progress: Callable[[int, int], None] | None,
) -> Values:
    """Every measure of every resample."""
    found: list[Values] = []
    at_once = max(1, _BLOCK // rows)
    for done in range(0, resamples, at_once):
        counts = np.stack(
            [
                np.bincount(rng.integers(rows, size=rows), minlength=rows)
                for _ in range(min(at_once, resamples - done))
            ]
        )
        found.append(measure(counts.astype(float)))
        if progress is not None:
            progress(done + len(counts), resamples)
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def _estimate(itself: Array, drawn: Array, level: float) -> Estimate:
    tail = (1 - level) / 2
    known = drawn[~np.isnan(drawn)]
    if len(drawn) - len(known) > tail * len(drawn):
        return Estimate(_finite(itself[0]), None, None)
    low = np.quantile(known, tail, method="lower")
    high = np.quantile(known, 1 - tail, method="higher")
    return Estimate(_finite(itself[0]), _finite(low), _finite(high))


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
