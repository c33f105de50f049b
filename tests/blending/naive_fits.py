"""Own rows, and fits to them under a normal law, one row at a time: for the naive hedged blend.

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
GRID = [0.1 * 30000 ** (k / 11) for k in range(12)]


@dataclass
class Own:
    """Own rows in units of the contract."""

    rows: Array
    y: Array
    noise: float | None
    constant: float

    @property
    def curvature(self) -> float:
        return 0.2 if self.noise is None else 1 / self.noise

    @property
    def variances(self) -> Array:
        """Of the columns, with one more row that varies as they do on average."""
        if self.constant:
            found = np.array([np.var(column) for column in self.rows.T[:-1]])
        else:
            found = np.array([np.mean(column**2) for column in self.rows.T])
        return (len(self.y) * found + found.mean()) / (len(self.y) + 1)

    def loss(self, i: int, score: float) -> float:
        if self.noise is None:
            return math.log1p(math.exp(-self.y[i] * score))
        return float((self.y[i] - score) ** 2 / (2 * self.noise))

    def pull(self, i: int, score: float) -> tuple[float, float]:
        if self.noise is None:
            wrong = 1 / (1 + math.exp(self.y[i] * score))
            return self.y[i] * wrong, wrong * (1 - wrong)
        return (self.y[i] - score) / self.noise, 1 / self.noise


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
    units_of_rows = np.array(rows) / full, contract.constant / full
    if contract.classes is not None:
        labels = np.where(y == contract.classes[1], 1.0, -1.0)
        return Own(units_of_rows[0], labels, None, units_of_rows[1])
    targets = np.array([max(-bound, min(bound, t)) for t in y]) / bound
    own = Own(units_of_rows[0], targets, 1.0, units_of_rows[1])
    own.noise = max(1e-6, min(_mean_square_left_out(own, penalty) for penalty in GRID))
    return own


def _mean_square_left_out(own: Own, penalty: float) -> float:
    """An intercept of its own, and slopes penalised in units of the columns' deviations."""
    squares = []
    x = own.rows[:, :-1] if own.constant else own.rows
    x = x / np.sqrt(own.variances)
    if own.constant:
        x = np.column_stack([x, np.ones(len(x))])
    ridge = penalty * np.eye(x.shape[1])
    if own.constant:
        ridge[-1, -1] = 0.0
        # Slopes are penalised about the mean of all rows, the one left out among them.
        x[:, :-1] -= x[:, :-1].mean(axis=0)
    hat = x @ np.linalg.solve(x.T @ x + ridge, x.T)
    for i in range(len(own.y)):
        squares.append(((own.y[i] - hat[i] @ own.y) / (1 - hat[i, i])) ** 2)
    return float(np.mean(squares))


def prior(own: Own, variances: Array, middle: Array, penalty: float) -> Array:
    """Precision: slopes in units of these deviations, and the score of this average row."""
    found = np.zeros((len(middle), len(middle)))
    for j, variance in enumerate(variances):
        found[j, j] = penalty * variance
    if own.constant:
        found += (0.3 if own.noise is None else 4.0) * np.outer(middle, middle)
    return found


def fit(own: Own, mean: Array, precision: Array) -> tuple[Array, Array, float]:
    """Coefficients, scores left out, evidence under a normal law of them."""

    def energy(theta: Array) -> tuple[float, Array, Array]:
        off = theta - mean
        value, gradient, curvature = off @ precision @ off / 2, precision @ off, precision.copy()
        for i, x in enumerate(own.rows):
            pull, bend = own.pull(i, x @ theta)
            value += own.loss(i, x @ theta)
            gradient = gradient - pull * x
            curvature = curvature + bend * np.outer(x, x)
        return float(value), gradient, curvature

    theta, value, curvature = lowest(energy, mean)
    left_out = []
    for i, x in enumerate(own.rows):
        pull, bend = own.pull(i, x @ theta)
        leverage = x @ np.linalg.inv(curvature) @ x
        left_out.append(x @ theta - pull * leverage / max(1 - bend * leverage, 1e-3))
    dets = math.log(np.linalg.det(precision) / np.linalg.det(curvature))
    return theta, np.array(left_out), dets / 2 - value


def behind(
    target: Array, precision: Array, about: Array, law: tuple[Array, Array], labels: bool
) -> tuple[Array, Array, float, Array]:
    """Coefficients that match a target, their precision, evidence of the prior, the slope."""
    mean, spread = law

    def energy(theta: Array) -> tuple[float, Array, Array]:
        if labels:
            found = expected_labels(theta[None], RowLaw(mean, spread))
            expected, slope = found[0][0], found[1][0]
        else:
            slope = spread + np.outer(mean, mean)
            expected = slope @ theta
        slopes.append(slope)
        r = target - expected
        value = (r @ precision @ r + theta @ about @ theta) / 2
        gradient = about @ theta - slope.T @ precision @ r
        return float(value), gradient, slope.T @ precision @ slope + about

    slopes: list[Array] = []
    theta, value, curvature = lowest(energy, np.zeros(len(target)))
    energy(theta)
    dets = math.log(np.linalg.det(about) / np.linalg.det(curvature))
    return theta, curvature, dets / 2 - value, slopes[-1]


def lowest(energy: Any, theta: Array) -> tuple[Array, float, Array]:
    value, gradient, curvature = energy(theta)
    for _ in range(200):
        step = np.linalg.solve(curvature, gradient)
        for k in range(40):
            found = energy(theta - step / 2**k)
            if found[0] < value:
                theta, (value, gradient, curvature) = theta - step / 2**k, found
                break
        else:
            break
    return theta, value, curvature


class Alone:
    """The own model."""

    def __init__(self, own: Own) -> None:
        size = 1.0 if own.noise is None else own.noise
        middle, zero = own.rows.mean(axis=0), np.zeros(own.rows.shape[1])
        flat = np.full(len(own.variances), own.variances.mean())
        usual = [math.exp(-((math.log(each / 15) / 1.2) ** 2) / 2) for each in GRID]
        fits, chances, evidences = [], [], []
        for variances in (own.variances, flat):
            for penalty, chance in zip(GRID, usual, strict=True):
                found = fit(own, zero, prior(own, variances, middle, penalty / size))
                lost = sum(own.loss(i, s) for i, s in enumerate(found[1]))
                fits.append(found)
                chances.append(chance * math.exp(-lost))
                evidences.append(chance / (2 * sum(usual)) * math.exp(found[2]))
        share = np.array(chances) / sum(chances)
        self.theta = sum(each * theta for each, (theta, _, _) in zip(share, fits, strict=True))
        self.left_out = sum(each * s for each, (_, s, _) in zip(share, fits, strict=True))
        self.evidence = math.log(sum(evidences))
