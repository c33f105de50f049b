"""Neighbours for ridge and logistic regression, in the plane and on the line."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from sudare.audit import LogDensity
from sudare.foundations.randomness import seeded

Array = NDArray[np.float64]

MANY = 10.0**6
"""Records that make one direction stiff."""
TILT = 10.0**9
"""Length of the gradient of records so short that they hardly add curvature."""


class Pair(NamedTuple):
    """Two records at a θ: gradients, rows and second derivatives along them; (m, 2) and (m,)."""

    gradients: tuple[Array, Array]
    rows: tuple[Array, Array]
    bends: tuple[Array, Array]
    stiff: Array
    """A unit vector: the direction in which all other records resist."""


@dataclass(frozen=True)
class Plane:
    """Pairs of records for objective perturbation in the plane, from points of the unit cube."""

    size: int
    pairs: Callable[[Array], Pair]

    def distance(self, rounds: int = 25) -> float:
        """The largest distance between two gradients at one θ."""
        return self._climb(_gap, rounds)[0]

    def loss(self, scale: float, curvature: float, rounds: int = 25) -> float:
        """The largest log density ratio of the minimiser under noise ∝ exp(−‖b‖/s).

        At an interior θ the other records may pull b along the difference of the two gradients,
        and may make one direction as stiff as they like; the ratio is that of one such table.
        """

        def limit(pair: Pair) -> Array:
            across = np.stack([-pair.stiff[:, 1], pair.stiff[:, 0]], axis=1)
            gain, loss = (
                np.log1p(bend * np.sum(row * across, axis=1) ** 2 / curvature)
                for row, bend in zip(pair.rows, pair.bends, strict=True)
            )
            return np.asarray(_gap(pair) / scale + gain - loss)

        _, best = self._climb(limit, rounds)
        return _realised(self.pairs(best[:, None]), scale, curvature)

    def _climb(self, score: Callable[[Pair], Array], rounds: int) -> tuple[float, Array]:
        """Random points; then the best are moved about at all scales, again and again."""
        rng = seeded(11)
        points = rng.random((self.size, 20_000))
        for _ in range(rounds):
            values = score(self.pairs(points))
            best = points[:, np.argsort(values)[-40:]]
            moved = np.repeat(best, 100, axis=1)
            step = rng.normal(size=moved.shape) * np.exp(-rng.uniform(0, 12, moved.shape))
            moved = np.clip(moved + step * (rng.random(moved.shape) < 0.5), 0, 1)
            points = np.concatenate([best, moved], axis=1)
        values = score(self.pairs(points))
        top = int(np.argmax(values))
        return float(values[top]), points[:, top]


def ridge_plane(row_norm: float, target_bound: float, radius: float) -> Plane:
    """Squared loss: θ at some length, two rows and targets, and the stiff direction."""

    def pairs(cube: Array) -> Pair:
        theta = radius * cube[0][:, None] * _unit(np.zeros(cube.shape[1]))
        rows = tuple(row_norm * cube[k][:, None] * _unit(2 * math.pi * cube[k + 1]) for k in (1, 3))
        targets = (target_bound * (2 * cube[k] - 1) for k in (5, 6))
        gradients = tuple(
            2 * (np.sum(theta * row, axis=1) - y)[:, None] * row
            for row, y in zip(rows, targets, strict=True)
        )
        bend = np.full(cube.shape[1], 2.0)
        return Pair(_two(gradients), _two(rows), (bend, bend), _unit(math.pi * cube[7]))

    return Plane(8, pairs)


def logistic_plane(row_norm: float, radius: float) -> Plane:
    """Logistic loss, labels taken into the rows."""

    def pairs(cube: Array) -> Pair:
        theta = radius * cube[0][:, None] * _unit(np.zeros(cube.shape[1]))
        rows = tuple(row_norm * cube[k][:, None] * _unit(2 * math.pi * cube[k + 1]) for k in (1, 3))
        slopes = [np.sum(theta * row, axis=1) for row in rows]
        gradients = tuple(
            -expit(-slope)[:, None] * row for slope, row in zip(slopes, rows, strict=True)
        )
        bends = tuple(expit(slope) * expit(-slope) for slope in slopes)
        return Pair(_two(gradients), _two(rows), _two(bends), _unit(math.pi * cube[5]))

    return Plane(6, pairs)


def ridge_output_distance(row_norm: float, target_bound: float, weight: float) -> float:
    """Two ridge minimisers: one row with targets ±Y, all others zero; `weight` is nλ."""
    length = min(row_norm, math.sqrt(weight))
    return 2 * length * target_bound / (length**2 + weight)


def logistic_output_distance(row_norm: float, weight: float) -> float:
    """Two logistic minimisers: one row with either label, all others zero; `weight` is nλ."""
    square = row_norm**2
    along = brentq(lambda a: weight * a - expit(-a * square), 0.0, 1 / weight)
    return float(2 * along * row_norm)


def gibbs_pair(
    loss: Callable[[Array, float], Array], temperature: float, curvature: float, radius: float
) -> tuple[LogDensity, LogDensity]:
    """Two posteriors on [−B, B]: one row with the target or label +1 or −1, all others zero."""

    def law(sign: float) -> LogDensity:
        def log_density(theta: Array) -> Array:
            return -temperature * loss(theta, sign) - curvature / 2 * theta**2

        nodes, weights = np.polynomial.legendre.leggauss(2000)
        total = float(weights @ np.exp(log_density(radius * nodes))) * radius
        return lambda theta: log_density(theta) - math.log(total)

    return law(1.0), law(-1.0)


def _gap(pair: Pair) -> Array:
    return np.asarray(np.linalg.norm(pair.gradients[0] - pair.gradients[1], axis=1))


def _realised(pair: Pair, scale: float, curvature: float) -> float:
    """The log ratio for one table: stiff records, a long pull, and one of the two records."""
    gradients, rows = ([v[0] for v in both] for both in (pair.gradients, pair.rows))
    pull = gradients[1] - gradients[0]
    common = TILT * pull / np.linalg.norm(pull)
    hessian = curvature * np.eye(2) + MANY * np.outer(pair.stiff[0], pair.stiff[0])
    values = []
    for gradient, row, bend in zip(gradients, rows, pair.bends, strict=True):
        _, logdet = np.linalg.slogdet(hessian + bend[0] * np.outer(row, row))
        # ‖common + g‖ less TILT, without cancellation.
        along = 2 * common @ gradient + gradient @ gradient
        longer = along / (np.linalg.norm(common + gradient) + TILT)
        values.append(logdet - longer / scale)
    return float(values[0] - values[1])


def _unit(angle: Array) -> Array:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _two(values: tuple[Array, ...]) -> tuple[Array, Array]:
    first, second = values
    return first, second
