"""How much blending helps here: own model and blend side by side on rows neither has seen.

Five folds: each fifth of the organisation's rows is predicted by models that were made without it.
These numbers are computed from the organisation's own rows without noise and stay inside.
"""

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sudare.foundations.randomness import seeded
from sudare.site._measures import (
    Estimate,
    Measures,
    Name,
    estimate,
    of_classes,
    of_numbers,
    resampled,
)
from sudare.site._metrics import log_losses

Array = NDArray[np.float64]
_FOLDS = 5
_BINS = 8
_RESAMPLES, _LEVEL = 400, 0.95


class Measure(msgspec.Struct, frozen=True):
    """A number with a 95 % interval."""

    value: float
    low: float
    high: float


class Bin(msgspec.Struct, frozen=True):
    """Rows with similar predicted probabilities: how many turned out to be of the second class."""

    predicted: float
    observed: float
    low: float
    high: float
    rows: int


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of both models on the same held-out rows, with 95 % bootstrap intervals."""

    name: Name
    own: Estimate
    blend: Estimate


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """Own model against blend, on held-out rows."""

    rows: int
    measure: str
    """What `own` and `blend` are: share correct, or mean squared error over the variance."""
    own: Measure
    blend: Measure
    gain: Measure
    """How much better the blend is, row by row; above zero is better."""
    log_loss_gain: Measure | None = None
    """Classes: how much lower the blend's log loss is; it also sees how sure a prediction was."""
    calibration: tuple[Bin, ...] = ()
    folds: int = _FOLDS
    """Parts of the own rows, each predicted by models that were made from the others."""
    compared: tuple[Compared, ...] = ()
    """Further measures; of numbers, in the target's own units."""


class HeldOut(NamedTuple):
    """Predictions for rows that were left out when they were made."""

    own: Array
    blend: Array
    targets: Array


def hold_out(rows: Array, targets: Array, own: Any, blend: Any) -> HeldOut:
    """Predict each fold by models made from the others; `own` and `blend` make, fit and predict."""
    order = seeded(0).permutation(len(rows))
    predicted = np.empty((2, len(rows)))
    for fold in range(_FOLDS):
        test = order[fold::_FOLDS]
        train = np.setdiff1d(order, test)
        for line, predict in zip(predicted, (own, blend), strict=True):
            line[test] = predict(rows[train], targets[train], rows[test])
    return HeldOut(predicted[0], predicted[1], targets)


def assess_classes(held: HeldOut) -> Assessment:
    """Share of rows classified rightly, with calibration of the blend's probabilities."""
    second = held.targets > 0
    own = ((held.own > 0.5) == second).astype(float)
    blend = ((held.blend > 0.5) == second).astype(float)
    return Assessment(
        rows=len(second),
        measure="share correct",
        own=_mean(own),
        blend=_mean(blend),
        gain=_mean(blend - own),
        log_loss_gain=_mean(log_losses(second, held.own) - log_losses(second, held.blend)),
        calibration=_calibration(held.blend, second),
        compared=_compared(
            len(second), *(of_classes(second, each, each > 0.5) for each in (held.own, held.blend))
        ),
    )


def assess_numbers(held: HeldOut) -> Assessment:
    """Squared error as a share of the targets' variance; `held` is in the target's own units."""
    spread = max(float(held.targets.var()), 1e-300)
    own = (held.own - held.targets) ** 2 / spread
    blend = (held.blend - held.targets) ** 2 / spread
    return Assessment(
        rows=len(own),
        measure="squared error over variance",
        own=_mean(own),
        blend=_mean(blend),
        gain=_mean(own - blend),
        compared=_compared(
            len(own), *(of_numbers(held.targets, each) for each in (held.own, held.blend))
        ),
    )


def _compared(rows: int, own: Measures, blend: Measures) -> tuple[Compared, ...]:
    """Both models on the same resamples."""
    found = []
    for measure in (own, blend):
        itself = measure(np.ones((1, rows)))
        drawn = resampled(measure, rows, _RESAMPLES, seeded(0))
        found.append({name: estimate(itself[name], drawn[name], _LEVEL) for name in itself})
    return tuple(Compared(name=name, own=found[0][name], blend=found[1][name]) for name in found[0])


def _mean(values: Array) -> Measure:
    mean = float(values.mean())
    half = float(norm.ppf(0.975)) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Measure(mean, mean - half, mean + half)


def _calibration(probabilities: Array, second: NDArray[np.bool_]) -> tuple[Bin, ...]:
    bins = []
    for part in np.array_split(np.argsort(probabilities, kind="stable"), _BINS):
        if not part.size:
            continue
        share = float(second[part].mean())
        low, high = _wilson(share, part.size)
        bins.append(Bin(float(probabilities[part].mean()), share, low, high, int(part.size)))
    return tuple(bins)


def _wilson(share: float, rows: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share."""
    z = float(norm.ppf(0.975))
    centre = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * math.sqrt(share * (1 - share) / rows + (z / (2 * rows)) ** 2)
    return centre - half, centre + half
