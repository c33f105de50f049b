"""Every measure of a kind of model at once, with intervals by the bootstrap.

Rows are drawn again with replacement, as many as there are, and every measure is computed for each
such resample; the interval is between percentiles. It says what another sample of rows like these
would change; the predictions stay as they are. Ends are rounded outwards to a resample's own value.
A measure that a resample does not have (one class only) is left out there; one that more resamples
lack than may lie beyond an end has no interval.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np

from sudare.foundations.randomness import Generator
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
WORDS: dict[Name, str] = {
    "auc": "AUC",
    "brier": "Brier score",
    "log_loss": "log loss",
    "share_correct": "share correct",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "rmse": "RMSE",
    "mae": "MAE",
    "r_squared": "R²",
    "calibration_slope": "calibration slope",
    "calibration_intercept": "calibration intercept",
}
"""What people call the measures."""
Values = dict[Name, Array]
Measures = Callable[[Array], Values]
"""From counts, a line for each resample, to every measure of each."""


class Estimate(msgspec.Struct, frozen=True):
    """A measure with its interval; None for what is infinite or does not exist."""

    value: float | None
    low: float | None
    high: float | None


def of_classes(second: Flags, chances: Array, called: Flags) -> Measures:
    """Of probabilities of the second class; `called` says which rows are taken for it."""
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


def of_numbers(targets: Array, predicted: Array) -> Measures:
    """Of predicted numbers, in the targets' own units."""

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


def resampled(
    measure: Measures,
    rows: int,
    resamples: int,
    rng: Generator,
    progress: Callable[[int, int], None] | None = None,
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


def estimate(itself: Array, drawn: Array, level: float) -> Estimate:
    """A measure of the sample itself, with the interval between quantiles of its resamples."""
    tail = (1 - level) / 2
    known = drawn[~np.isnan(drawn)]
    if len(drawn) - len(known) > tail * len(drawn):
        return Estimate(_finite(itself[0]), None, None)
    low = np.quantile(known, tail, method="lower")
    high = np.quantile(known, 1 - tail, method="higher")
    return Estimate(_finite(itself[0]), _finite(low), _finite(high))


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
