"""Exact draws from a log-concave density on the positive half-line.

A concave log-density lies below each of its tangents. The lower envelope of a few tangents is
piecewise linear, so that its exponential can be sampled in closed form; a draw is kept with
probability density/envelope (Gilks and Wild 1992). No table, no interpolated inverse: what is kept
has exactly the density asked for, up to the rounding of the evaluations.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sudare.mechanisms import exponentials

Array = NDArray[np.float64]

# Tangent points around the mode, in units of the density's own width.
_POINTS = np.array([-6, -4, -3, -2.2, -1.5, -1, -0.6, -0.2, 0.2, 0.6, 1, 1.5, 2.2, 3, 4, 6])


class LogConcave(NamedTuple):
    """A concave log-density on (0, ∞), up to a constant, and its derivative."""

    log_density: Callable[[Array], Array]
    slope: Callable[[Array], Array]


class Hull(NamedTuple):
    """Tangents of a log-concave density: from `start` on, exp(height + slope·(x − start))."""

    density: LogConcave
    starts: Array
    ends: Array
    heights: Array
    slopes: Array
    shares: Array
    """Cumulative probabilities of the pieces."""
    log_mass: float
    """Logarithm of the integral of the envelope."""


def hull(density: LogConcave, start: float = 1.0) -> Hull:
    """The envelope of tangents around the mode, which is found from `start`."""
    mode, width = _mode(density, start)
    points = mode + width * _POINTS
    # Nearer to zero a tangent can be so steep that the others look alike beside it.
    points = points[points > 1e-4 * mode]
    values, slopes = density.log_density(points), density.slope(points)
    # Neighbouring tangents meet where both lines agree; equal slopes would be one line.
    keep = np.concatenate([[True], np.diff(slopes) < -1e-12 * np.abs(slopes).max()])
    points, values, slopes = points[keep], values[keep], slopes[keep]
    gaps = values[1:] - slopes[1:] * points[1:] - (values[:-1] - slopes[:-1] * points[:-1])
    meets = gaps / (slopes[:-1] - slopes[1:])
    starts = np.concatenate([[0.0], meets])
    ends = np.concatenate([meets, [np.inf]])
    heights = values + slopes * (starts - points)
    # A rising piece is highest at its end, a falling one at its start.
    widths = np.where(slopes > 0, ends - starts, 0.0)
    tops = heights + np.maximum(slopes, 0.0) * widths
    masses = np.exp(tops - tops.max()) * _area(-np.abs(slopes), ends - starts)
    shares, log_mass = np.cumsum(masses) / masses.sum(), float(tops.max() + np.log(masses.sum()))
    return Hull(density, starts, ends, heights, slopes, shares, log_mass)


def draw(envelope: Hull, size: int, rng: Generator) -> Array:
    """Independent exact draws."""
    kept = np.empty(0)
    while kept.size < size:
        trials = size - kept.size + 8
        piece = np.searchsorted(envelope.shares, rng.random(trials), side="right")
        piece = np.minimum(piece, len(envelope.shares) - 1)
        start, slope = envelope.starts[piece], envelope.slopes[piece]
        x = start + _within(slope, envelope.ends[piece] - start, rng)
        above = envelope.heights[piece] + slope * (x - start) - envelope.density.log_density(x)
        kept = np.concatenate([kept, x[exponentials(trials, rng) >= above]])
    return kept[:size]


def _area(slope: Array, width: Array) -> Array:
    """∫₀^width exp(slope·t) dt."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(slope == 0, width, np.expm1(slope * width) / slope)


def _within(slope: Array, width: Array, rng: Generator) -> Array:
    """A point of [0, width] with density ∝ exp(slope·t); the last piece has no end."""
    uniform, tail = rng.random(slope.size), exponentials(slope.size, rng)
    rate = np.abs(slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Measured from the higher end, where the exponential cannot overflow.
        steep = -np.log1p(uniform * np.expm1(-rate * width)) / rate
        depth = np.clip(np.where(rate == 0, uniform * width, steep), 0.0, width)
        return np.where(np.isinf(width), tail / rate, np.where(slope > 0, width - depth, depth))


def _mode(density: LogConcave, start: float) -> tuple[float, float]:
    """Where the slope changes sign, and the distance over which the density falls by e^-½."""

    def slope(x: float) -> float:
        return float(density.slope(np.array([x]))[0])

    low = high = start
    while slope(low) < 0 and low > 1e-300:
        low /= 2
    while slope(high) > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if slope(middle) > 0:
            low = middle
        else:
            high = middle
        if high - low <= 1e-9 * high:
            break
    mode = (low + high) / 2
    step = mode * 1e-3
    bend = (slope(mode) - slope(mode + step)) / step
    return mode, 1 / np.sqrt(bend) if bend > 0 else mode
