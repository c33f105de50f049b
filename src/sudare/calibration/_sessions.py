"""How far one row moves what a pooled session sums: gradient and Hessian at a public point.

A session sums, over all rows, the vector v(x) = (r·x, k·w·hess(x)): the row's part of the gradient
and k times its part of the Hessian, hess(x) being the upper triangle of xxᵀ with the diagonal
divided by √2, so that ‖hess(x)‖² = ‖x‖⁴/2. Rows have ‖x‖ ≤ 1, the coefficients θ₀ are public, and
neighbours differ in one row replaced. The sensitivity is Δ = sup ‖v(x) − v(x')‖.

    t    ‖θ₀‖                                A    |r|·‖x‖, length of the gradient
    k    weight of the Hessian               B    k·w·‖x‖²/√2, length of the weighted Hessian
    r    residual; logistic: σ(−x·θ₀)        c    cosine of the angle between x and −θ₀
    w    curvature; logistic: r(1 − r)       q    opposition of two rows, −cos of their angle

Proofs: docs/theory/sessions.md.
"""

import itertools
import math
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sudare.foundations import checks
from sudare.foundations.rounding import down, up

Array = NDArray[np.float64]

SESSION_WEIGHT = down(math.sqrt(11 + 5 * math.sqrt(5)))
"""√(2φ⁵) = 4.7096…, φ the golden ratio, rounded down: up to this weight Δ ≤ 2 for every θ₀."""

_EXCESS = 2.0**-10
"""How far above the widest pair that was found the proved sensitivity may stand."""
_ROUNDING = 2.0**-40
"""Pays for rounding in the bound of a box, which is some ten operations long."""
_MOST_BOXES = 400_000
_FAR = 64.0
"""Slopes |x·θ₀| beyond this make a row's residual 0 or 1, and need no fine boxes."""
_HEAVIEST = 1e6


class _Lengths(NamedTuple):
    """Of a row's gradient and of its weighted Hessian."""

    gradient: Array
    hessian: Array


def session_sensitivity(theta_norm: float, weight: float) -> float:
    """Δ of a logistic session at ‖θ₀‖ = `theta_norm`, with the Hessian times `weight`; rounded up.

    Labels are folded into the rows (x ← yx). The value is proved for these two numbers by
    subdivision, and stands at most a factor 1 + 2⁻¹⁰ above a pair of rows that exists in three or
    more dimensions; in one or two it holds as well. It is never above 2 for weights up to
    `SESSION_WEIGHT`. With weight 0 a session sums the gradient alone.
    """
    checks.non_negative(theta_norm=theta_norm)
    checks.between(0, _HEAVIEST, weight=weight)
    t, k = min(up(float(theta_norm)), sys.float_info.max), float(weight)
    # What holds for any model is better only if the subdivision was stopped early.
    bounds = [up(_widest_pair(t, k)), _glm_sensitivity(up(float(expit(t))), 0.25, k)]
    if k <= SESSION_WEIGHT:
        bounds.append(2.0)
    return min(bounds)


def poisson_session_sensitivity(largest_count: float, largest_mean: float, weight: float) -> float:
    """Δ of a Poisson session with counts in [0, `largest_count`]; proved, rounded up.

    The residual is y − m and the curvature m with the mean m = e^(x·θ₀) cut at `largest_mean`, so
    that they stay within R = max(Y, `largest_mean`) and W = `largest_mean`, whatever θ₀ is. Without
    a cut it would grow with e^‖θ₀‖.
    """
    checks.non_negative(largest_count=largest_count, largest_mean=largest_mean)
    checks.between(0, _HEAVIEST, weight=weight)
    steepest = up(float(largest_mean))
    return _glm_sensitivity(max(up(float(largest_count)), steepest), steepest, float(weight))


def _glm_sensitivity(residual: float, curvature: float, weight: float) -> float:
    """The largest distance that |residual| ≤ R and 0 ≤ curvature ≤ W alone allow; rounded up.

    It is convex in all four lengths, so both gradients have length R, and the Hessians b = kW/√2 or
    nothing. One Hessian: 4R² + b², at opposite rows. Two: 2R² + 2b² + 2R²q − 2b²q², largest at
    q = R²/2b²; where that is above 1 (q = 1), it is less than with one.
    """
    b = weight * curvature / math.sqrt(2)
    apart = math.hypot(2 * residual, b)
    if residual < math.sqrt(2) * b:
        cross = residual / (math.sqrt(2) * b) * residual
        apart = max(apart, math.hypot(math.sqrt(2) * residual, math.sqrt(2) * b, cross))
    return up(apart)


@lru_cache(maxsize=1024)
def _widest_pair(t: float, k: float) -> float:
    """An upper bound on Δ(t, k) of a logistic session; a proof by subdivision.

    Rows of length 1 suffice (lengthen them across everything else), so that a pair is two cosines
    c, c' and the opposition q they leave free. Boxes of (c, c') are halved until each is certainly
    below the widest pair found so far, times 1 + 2⁻¹⁰; the largest bound of a box is the result.
    Should that take too many boxes, those that are left count with the bounds they have.
    """
    edge = min(1.0, _FAR / t)
    nodes = np.unique([-1.0, -edge, edge, 1.0])
    first, second = np.triu_indices(len(nodes) - 1)
    low = np.stack([nodes[first], nodes[second]], axis=1)
    high = np.stack([nodes[first + 1], nodes[second + 1]], axis=1)
    found, proved = 0.0, 0.0
    while len(low):
        middle = (low + high) / 2
        found = max(found, float(np.max(_reach([_lengths(t, k, middle)], middle, middle))))
        bound = _box_bound(t, k, low, high) * (1 + _ROUNDING)
        is_open = bound > found * (1 + _EXCESS) ** 2
        if 4 * np.count_nonzero(is_open) > _MOST_BOXES:
            is_open[:] = False
        proved = max(proved, float(np.max(bound, initial=0.0, where=~is_open)))
        low, high = _quarters(low[is_open], middle[is_open], high[is_open])
    return math.sqrt(proved)


def _quarters(low: Array, middle: Array, high: Array) -> tuple[Array, Array]:
    """Every box in four, without those that are the mirror image of another."""
    upper = np.array(list(itertools.product((False, True), repeat=2)))
    lows = np.where(upper, middle[:, None], low[:, None]).reshape(-1, 2)
    highs = np.where(upper, high[:, None], middle[:, None]).reshape(-1, 2)
    needed = lows[:, 0] <= lows[:, 1]
    return lows[needed], highs[needed]


def _lengths(t: float, k: float, cosine: Array) -> _Lengths:
    r = expit(t * cosine)
    return _Lengths(r, k / math.sqrt(2) * r * expit(-t * cosine))


def _box_bound(t: float, k: float, low: Array, high: Array) -> Array:
    """No less than the squared distance of any pair with cosines in [low, high].

    A rises with c, and B rises up to c = 0 and falls from there. For every q the squared distance
    is convex in the four lengths, and so is the largest over q: its corners bound it.
    """
    start, end = _lengths(t, k, low), _lengths(t, k, high)
    largest = np.maximum(start.hessian, end.hessian)
    largest = np.where((low < 0) & (high > 0), k / math.sqrt(32), largest)
    corners = [
        _Lengths(gradient, hessian)
        for gradient in _mixed(start.gradient, end.gradient)
        for hessian in _mixed(np.minimum(start.hessian, end.hessian), largest)
    ]
    return _reach(corners, low, high)


def _mixed(start: Array, end: Array) -> list[Array]:
    """Each of the two rows at either end."""
    return [
        np.stack([a, b], axis=1) for a in (start[:, 0], end[:, 0]) for b in (start[:, 1], end[:, 1])
    ]


def _reach(corners: Iterable[_Lengths], low: Array, high: Array) -> Array:
    """The largest squared distance of rows with these lengths, over all q that [low, high] allow.

    Rows at angles α, α' to −θ₀ have an angle between |α − α'| and α + α'. Over q the squared
    distance is a parabola, or a line, with its top at AA'/2BB'.
    """
    wide, narrow = np.arccos(low), np.arccos(high)
    sums = narrow.sum(axis=1), wide.sum(axis=1)
    most = np.maximum(-np.cos(sums[0]), -np.cos(sums[1]))
    most = np.where((sums[0] < math.pi) & (sums[1] > math.pi), 1.0, most)
    gap = np.maximum(narrow[:, 0] - wide[:, 1], narrow[:, 1] - wide[:, 0])
    least = -np.cos(np.maximum(gap, 0.0))
    reached = np.zeros(len(low))
    for a, b in corners:
        across, curved = a[:, 0] * a[:, 1], b[:, 0] * b[:, 1]
        q = np.clip(across / np.maximum(2 * curved, 1e-300), least, most)
        squares = (a**2 + b**2).sum(axis=1)
        reached = np.maximum(reached, squares + 2 * q * (across - curved * q))
    return reached
