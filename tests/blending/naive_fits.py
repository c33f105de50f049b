"""Own rows, and fits to them under a belief, one row at a time: for the naive hedged blend.

Only the expected labels of normal rows are taken from the package, since `test_matching` has them
by quadrature.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sudare.blending._matching import RowLaw, expected_labels
from sudare.releases import Contract, LearnerRelease

Array = Any
GRID = [0.001 * 10 ** (k / 4) for k in range(17)]


@dataclass
class Own:
    """Own rows in units of the contract."""

    rows: Array
    y: Array
    noise: float | None

    @property
    def curvature(self) -> float:
        return 0.2 if self.noise is None else 1 / self.noise

    def loss(self, i: int, score: float) -> float:
        if self.noise is None:
            return math.log1p(math.exp(-self.y[i] * score))
        return float((self.y[i] - score) ** 2 / (2 * self.noise))

    def pull(self, i: int, score: float) -> tuple[float, float]:
        if self.noise is None:
            wrong = 1 / (1 + math.exp(self.y[i] * score))
            return self.y[i] * wrong, wrong * (1 - wrong)
        return (self.y[i] - score) / self.noise, 1 / self.noise


@dataclass
class Belief:
    target: Array
    precision: Array
    about: str
    penalty: float
    mean: Array
    spread: Array


def units(contract: Contract) -> tuple[float, float]:
    return math.hypot(contract.row_norm, contract.constant), contract.target_bound or 1.0


def theta_of(release: LearnerRelease) -> Array:
    """Within the ball it was released from."""
    length = float(np.linalg.norm(release.theta))
    return release.theta * min(1.0, release.radius / length)


def own_rows(contract: Contract, table: Array, y: Array) -> Own:
    full, bound = units(contract)
    rows = []
    for x in table:
        x = x * min(1.0, contract.row_norm / math.sqrt(sum(x * x)))
        rows.append([*x, contract.constant] if contract.constant else [*x])
    if contract.classes is not None:
        return Own(np.array(rows) / full, np.where(y == contract.classes[1], 1.0, -1.0), None)
    own = Own(np.array(rows) / full, np.array([max(-bound, min(bound, t)) for t in y]) / bound, 1.0)
    own.noise = max(1e-6, min(_mean_square_left_out(own, 4 * penalty) for penalty in GRID))
    return own


def _mean_square_left_out(own: Own, penalty: float) -> float:
    squares = []
    for i in range(len(own.y)):
        x, y = np.delete(own.rows, i, axis=0), np.delete(own.y, i)
        theta = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
        squares.append((own.y[i] - own.rows[i] @ theta) ** 2)
    return float(np.mean(squares))


def _energy(own: Own | None, belief: Belief, theta: Array) -> tuple[float, Array, Array]:
    if belief.about == "labels":
        found = expected_labels(theta[None], RowLaw(belief.mean, belief.spread))
        expected, slope = found[0][0], found[1][0]
    else:
        slope = np.eye(len(theta))
        if belief.about == "targets":
            slope = belief.spread + np.outer(belief.mean, belief.mean)
        expected = slope @ theta
    r = belief.target - expected
    value = (r @ belief.precision @ r + belief.penalty * theta @ theta) / 2
    gradient = belief.penalty * theta - slope.T @ belief.precision @ r
    curvature = slope.T @ belief.precision @ slope + belief.penalty * np.eye(len(theta))
    for i in range(len(own.y) if own else 0):
        assert own is not None
        x = own.rows[i]
        pull, bend = own.pull(i, x @ theta)
        value += own.loss(i, x @ theta)
        gradient = gradient - pull * x
        curvature = curvature + bend * np.outer(x, x)
    return float(value), gradient, curvature


def lowest(own: Own | None, belief: Belief, theta: Array) -> tuple[Array, float, Array]:
    value, gradient, curvature = _energy(own, belief, theta)
    for _ in range(200):
        step = np.linalg.solve(curvature, gradient)
        for k in range(40):
            found = _energy(own, belief, theta - step / 2**k)
            if found[0] < value:
                theta, (value, gradient, curvature) = theta - step / 2**k, found
                break
        else:
            break
    return theta, value, curvature


def fit(own: Own, belief: Belief) -> tuple[Array, Array, float]:
    """Coefficients, scores left out, evidence."""
    start, prior, prior_curvature = lowest(None, belief, np.zeros(len(belief.target)))
    theta, value, curvature = lowest(own, belief, start)
    left_out = []
    for i, x in enumerate(own.rows):
        pull, bend = own.pull(i, x @ theta)
        leverage = x @ np.linalg.inv(curvature) @ x
        left_out.append(x @ theta - pull * leverage / max(1 - bend * leverage, 1e-3))
    dets = math.log(np.linalg.det(prior_curvature) / np.linalg.det(curvature))
    return theta, np.array(left_out), prior - value + dets / 2


class Alone:
    """The own model."""

    def __init__(self, own: Own) -> None:
        p = own.rows.shape[1]
        factor = 1.0 if own.noise is None else 4 / own.noise
        self.penalties = [factor * penalty for penalty in GRID]
        zero, square = np.zeros(p), np.zeros((p, p))
        fits = [
            fit(own, Belief(zero, square, "coefficients", each, zero, square))
            for each in self.penalties
        ]
        chances = np.array(
            [math.exp(-sum(own.loss(i, s) for i, s in enumerate(scores))) for _, scores, _ in fits]
        )
        chances /= chances.sum()
        self.theta = sum(
            chance * theta for chance, (theta, _, _) in zip(chances, fits, strict=True)
        )
        self.left_out = sum(chance * s for chance, (_, s, _) in zip(chances, fits, strict=True))
        self.evidence = [evidence for _, _, evidence in fits]

    def plausible(self, k: int) -> float:
        beyond = max(math.log(self.penalties[k] / self.penalties[0]) - math.log(300), 0.0)
        return self.evidence[k] - beyond**2 / 4

    def likeliest(self) -> float:
        return self.penalties[max(range(len(GRID)), key=self.plausible)]

    def beside(self, penalty: float) -> float:
        nearest = min(range(len(GRID)), key=lambda k: abs(math.log(self.penalties[k] / penalty)))
        return max(self.evidence[nearest], math.log(np.mean(np.exp(self.evidence))))
