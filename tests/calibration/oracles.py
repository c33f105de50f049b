"""What objective perturbation costs, computed again: at high precision, with nothing rounded up.

Every function works at the precision of mpmath's context. Lengths are in units of the noise.
"""

import math
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from sudare.calibration._shifts import disc_delta

Array = NDArray[np.float64]


def exact_curve(epsilon: Any, mu: Any) -> Any:
    """δ of telling N(0, 1) from N(μ, 1) at ε."""

    def upper(x: Any) -> Any:
        return mp.erfc(x / mp.sqrt(2)) / 2

    if mu == 0:
        return mpf(0)
    return upper(epsilon / mu - mu / 2) - mp.exp(epsilon) * upper(epsilon / mu + mu / 2)


def exact_segment_delta(epsilon: Any, distance: Any, half_length: Any) -> Any:
    """E H(ε − |N|y − y²/2), by integration over N."""
    y = mpf(half_length)
    if y == 0:
        return exact_curve(epsilon, distance)

    def at(n: Any) -> Any:
        return 2 * mp.npdf(n) * exact_curve(epsilon - n * y - y * y / 2, distance)

    # The integrand peaks where the tail of N meets the curve's rate of decrease.
    a = epsilon / distance - distance / 2
    peak = max(mpf(0), a * y / distance)
    cuts = sorted({mpf(0), *(max(mpf(0), peak + k) for k in (-8, -3, -1, 0, 1, 3, 8, 20))})
    return mp.quad(at, cuts, maxdegree=4)


def exact_disc_delta(epsilon: Any, distance: Any, radius: Any) -> Any:
    """E(1 − exp(ε − ((‖w‖ + R)² − ‖b‖²)/2))₊ for w = b + centre, by integration over angles."""
    d, r = mpf(distance), mpf(radius)
    level = epsilon + (d * d - r * r) / 2

    def tail(x: Any) -> Any:
        return mp.erfc(x / mp.sqrt(2)) * mp.sqrt(mp.pi / 2)

    def ray(turn: Any) -> Any:
        along, across = d * mp.cos(turn), d * mp.sin(turn)
        if r + along <= 0:
            return mpf(0)
        start = max(level / (r + along), mpf(0))
        mine = mp.exp(-((start - along) ** 2) / 2) + along * tail(start - along)
        theirs = mp.exp(-((start + r) ** 2) / 2) - r * tail(start + r)
        return mp.exp(-(across**2) / 2) * mine - mp.exp(epsilon) * theirs

    cuts = [mpf(c) for c in (0, 0.02, 0.1, 0.3, 0.7, 1.5)]
    last = mp.pi if d <= r else mp.acos(-r / d)
    cuts = [c for c in cuts if c < last] + [last]
    return mp.quad(ray, cuts, maxdegree=4) / mp.pi


def worst_ridge_delta(
    epsilon: Any, scale: Any, row_norm: Any, target: Any, radius: Any, dimension: int
) -> Any:
    """The largest δ over the discs of two full rows, on a grid of the angles between them."""
    epsilon, scale, row_norm = mpf(epsilon), mpf(scale), mpf(row_norm)
    target, radius = mpf(target), mpf(radius)
    a, b = 2 * row_norm * target / scale, 2 * row_norm**2 * radius / scale
    if dimension == 1:
        far = 2 * a if 2 * b <= a else a + b + a * a / (4 * b)
        return 2 * exact_curve(epsilon, far)
    tilts = np.linspace(0, math.pi / 4, 200)
    # The calibration's own function only says where to look.
    rough = disc_delta(float(epsilon), 2 * float(a) * np.cos(tilts), float(b) * np.sin(2 * tilts))
    tilt = mpf(float(tilts[np.argmax(rough)]))
    return exact_disc_delta(epsilon, 2 * a * mp.cos(tilt), b * mp.sin(2 * tilt))


def worst_logistic_delta(
    epsilon: Any, scale: Any, bound: Any, diameter: Any, dimension: int
) -> Any:
    """The rhombus with its far corner cut off at the diameter, or left; whichever is less."""
    epsilon, bound, diameter = mpf(epsilon), mpf(bound) / mpf(scale), mpf(diameter) / mpf(scale)
    half = mpf(0)
    if dimension > 1 and diameter < 2 * bound:
        # The rhombus of half angle η is cut over a half length of (2L − S/sin η)·cos η.
        eta = mp.asin(mp.cbrt(diameter / (2 * bound)))
        half = (2 * bound - diameter / mp.sin(eta)) * mp.cos(eta)
    cut = exact_segment_delta(epsilon, diameter, half)
    return min(cut, exact_curve(epsilon, 2 * bound)) + 2 * exact_curve(epsilon, bound)


def worst_logistic_loss(row_norm: Any, radius: Any, scale: Any, curvature: Any) -> Any:
    """The largest D/s + log(1 + c/κ) found for two logistic records at one θ, in two dimensions.

    Full rows at angles α, α' to a θ of full length; without a ball, the limit of very long θ.
    """
    row_norm, scale, curvature = mpf(row_norm), mpf(scale), mpf(curvature)
    m, bend = float(row_norm / scale), float(row_norm**2 / 4 / curvature)
    if radius is None:

        def limit(u: Any) -> Any:
            share = 1 / (1 + mp.exp(-u))
            size = row_norm * (1 + share) / scale
            return size + mp.log1p(row_norm**2 * share * (1 - share) / curvature)

        u = np.linspace(0, 40, 4001)
        rough = m * (1 + expit(u)) + np.log1p(4 * bend * np.exp(log_expit(u) + log_expit(-u)))
        best = mpf(float(u[np.argmax(rough)]))
        return max(limit(best), limit(mpf(200)))
    radius = mpf(radius)
    t = float(row_norm * radius)

    def loss(angles: Array) -> Array:
        first, second = angles
        mine, theirs = expit(t * np.cos(first)), expit(t * np.cos(second))
        square = mine**2 + theirs**2 - 2 * mine * theirs * np.cos(first + second)
        share = mine * expit(-t * np.cos(first))
        return np.asarray(m * np.sqrt(square) + np.log1p(4 * bend * share))

    side = np.union1d(
        np.linspace(0, math.pi, 151),
        np.arccos(np.clip(np.linspace(-15, 15, 151) / max(t, 1e-12), -1, 1)),
    )
    grid = np.stack(np.meshgrid(side, side, indexing="ij"))
    values = loss(grid)
    place = int(np.argmax(values))
    start = [float(angles.ravel()[place]) for angles in grid]

    def cost(angles: Array) -> float:
        return -float(loss(angles))

    found = minimize(cost, np.array(start), method="Nelder-Mead")
    first, second = (mpf(float(angle)) for angle in found.x)

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + mp.exp(-x))

    u, v = row_norm * radius * mp.cos(first), row_norm * radius * mp.cos(second)
    square = sigmoid(u) ** 2 + sigmoid(v) ** 2
    square -= 2 * sigmoid(u) * sigmoid(v) * mp.cos(first + second)
    curved = row_norm**2 * sigmoid(u) * sigmoid(-u)
    return row_norm * mp.sqrt(square) / scale + mp.log1p(curved / curvature)
