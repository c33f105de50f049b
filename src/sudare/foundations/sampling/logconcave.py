"""Exact draws from a log-concave density on the positive half-line.

A concave log-density lies below each of its tangents. The lower envelope of a few tangents is
piecewise linear, so that its exponential can be sampled in closed form; a draw is kept with
probability density/envelope (Gilks and Wild 1992). No table, no interpolated inverse: what is kept
has exactly the density asked for, up to rounding, in two ways that a caller can account for:

* the float is within 2⁻⁴³·x + 2⁻⁵²·(end of the domain) of an ideal draw x, near zero too;
* that ideal draw has a density within a factor e^{±3η} of the one asked for, η ≤ 2⁻⁴³·(2 + |height|
  + x·|slope|), the slope being the density's or its envelope's: rounding of the pieces'
  probabilities, and of the accept step, which is taken at the float.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sudare.foundations.mechanisms import exponentials

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
    masses: Array
    """Of the pieces, up to a common factor."""
    log_mass: float
    """Logarithm of the integral of the envelope."""


def hull(density: LogConcave, start: float = 1.0, upto: float = np.inf, since: float = 0.0) -> Hull:
    """The envelope of tangents around the mode, found from `start`, on (since, upto)."""
    mode, width = _mode(density, start)
    points = mode + width * _POINTS
    # Nearer to zero a tangent can be so steep that the others look alike beside it.
    points = points[(points > max(since, 1e-4 * mode)) & (points < upto)]
    ends = np.array([since, min(upto, 2 * mode)]) if since > 0 else np.array([upto])
    points = np.concatenate([points, ends[(ends >= since) & (ends <= upto)]])
    points = np.unique(points[np.isfinite(points)])
    values, slopes = density.log_density(points), density.slope(points)
    # Neighbouring tangents meet where both lines agree; equal slopes would be one line.
    keep = np.concatenate([[True], np.diff(slopes) < -1e-12 * np.abs(slopes).max()])
    points, values, slopes = points[keep], values[keep], slopes[keep]
    gaps = values[1:] - slopes[1:] * points[1:] - (values[:-1] - slopes[:-1] * points[:-1])
    meets = gaps / (slopes[:-1] - slopes[1:])
    starts = np.concatenate([[since], meets])
    ends = np.concatenate([meets, [upto]])
    heights = values + slopes * (starts - points)
    # A rising piece is highest at its end, a falling one at its start.
    widths = np.where(slopes > 0, ends - starts, 0.0)
    tops = heights + np.maximum(slopes, 0.0) * widths
    masses = np.exp(tops - tops.max()) * _area(-np.abs(slopes), ends - starts)
    log_mass = float(tops.max() + np.log(masses.sum()))
    return Hull(density, starts, ends, heights, slopes, masses, log_mass)


def joined(density: LogConcave, *parts: Hull) -> Hull:
    """One envelope from envelopes of the parts of a density, each log-concave by itself."""
    log_mass = float(np.logaddexp.reduce([part.log_mass for part in parts]))
    masses = [
        part.masses * (np.exp(part.log_mass - log_mass) / part.masses.sum()) for part in parts
    ]
    return Hull(
        density,
        np.concatenate([part.starts for part in parts]),
        np.concatenate([part.ends for part in parts]),
        np.concatenate([part.heights for part in parts]),
        np.concatenate([part.slopes for part in parts]),
        np.concatenate(masses),
        log_mass,
    )


def draw(envelope: Hull, size: int, rng: Generator) -> Array:
    """Independent exact draws."""
    kept = np.empty(0)
    while kept.size < size:
        trials = size - kept.size + 8
        piece = _race(envelope.masses, trials, rng)
        start, slope = envelope.starts[piece], envelope.slopes[piece]
        end = envelope.ends[piece]
        x = start + _within(slope, end - start, rng)
        (low,) = np.nonzero((slope > 0) & (x < end / 2))
        x[low] = start[low] + _from_below(slope[low], end[low] / 2 - start[low], rng)
        above = envelope.heights[piece] + slope * (x - start) - envelope.density.log_density(x)
        kept = np.concatenate([kept, x[exponentials(trials, rng) >= above]])
    return kept[:size]


def _race(masses: Array, size: int, rng: Generator) -> NDArray[np.intp]:
    """Pieces, with probabilities in proportion to their masses: the first of exponential clocks.

    The clocks are close draws, so that every probability is right to a factor 1 ± 2⁻⁴³, however
    small it is; a 53-bit uniform number would be off by 2⁻⁵³ in absolute terms.
    """
    # A piece of no mass to speak of never rings; a warning would tell of the data.
    with np.errstate(divide="ignore", over="ignore"):
        clocks = exponentials(size * masses.size, rng).reshape(size, -1) / masses
    first: NDArray[np.intp] = np.argmin(clocks, axis=1)
    return first


def _area(slope: Array, width: Array) -> Array:
    """∫₀^width exp(slope·t) dt."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(slope == 0, width, np.expm1(slope * width) / slope)


def _within(slope: Array, width: Array, rng: Generator) -> Array:
    """A point of [0, width] with density ∝ exp(slope·t); the last piece may have no end.

    Measured from the higher end: an exponential cut off at rate·width, drawn again where it falls
    beyond, is within 2⁻⁴⁵ of its own size; where rate·width < 1, the inverse of a 53-bit uniform
    number is within 2⁻⁵² of the width.
    """
    rate = np.abs(slope)
    with np.errstate(invalid="ignore"):
        room = np.where(np.isinf(width), np.inf, rate * width)
    depth = exponentials(slope.size, rng)
    (beyond,) = np.nonzero((depth > room) & (room >= 1))
    while beyond.size:
        depth[beyond] = exponentials(beyond.size, rng)
        beyond = beyond[depth[beyond] > room[beyond]]
    with np.errstate(divide="ignore", invalid="ignore"):
        depth /= rate
    (flat,) = np.nonzero(room < 1)
    if flat.size:
        uniform = rng.random(flat.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            bent = -np.log1p(uniform * np.expm1(-room[flat])) / room[flat]
        # Below 1e-300 the quotient has no digits, and the density no slope.
        depth[flat] = np.where(room[flat] > 1e-300, bent, uniform) * width[flat]
    depth = np.minimum(depth, width)
    with np.errstate(invalid="ignore"):
        return np.where(slope > 0, width - depth, depth)


def _from_below(slope: Array, width: Array, rng: Generator) -> Array:
    """A point of [0, width] with density ∝ exp(slope·t), slope > 0, to full relative precision.

    `_within` measures from the higher end, which near zero would leave few digits. Here a uniform
    point, 1 − e^{−E} of the width with E a close draw, is kept with probability e^{slope(t−width)}.
    """
    points = np.empty(slope.size)
    left = np.arange(slope.size)
    while left.size:
        points[left] = width[left] * -np.expm1(-exponentials(left.size, rng))
        below = slope[left] * (width[left] - points[left])
        left = left[exponentials(left.size, rng) < below]
    return points


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
