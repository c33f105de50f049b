"""Exact audits of calibrated regressions on a line, and of the published constants."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtr

from sudare.calibration._gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_bound,
)
from sudare.calibration._regression import (
    _logistic_gaussian_scale,
    _ridge_gaussian_scale,
    logistic_objective,
    ridge_objective,
)
from sudare.foundations.randomness import seeded
from tests.calibration.problems import Array, climb


def gaussian_mass(low: Array, high: Array) -> Array:
    """Φ(high) − Φ(low) without cancellation in the upper tail."""
    return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


class RidgeLine:
    """All pairs of neighbours of one shape, for ridge in one dimension, exactly.

    n − 1 records (ξ, y₀) and one more: (x, y) or (x', y'). The summed gradient is Hθ − c, the
    minimiser over [−B, B] solves Hθ − c + b = 0 or stands at an end.
    """

    def __init__(self, n: int, row_norm: float, target: float, radius: float) -> None:
        self.n, self.radius = n, radius
        self.caps = np.array([row_norm, target] * 3)
        rng = seeded(3)
        self.start = self.caps[:, None] * np.clip(rng.uniform(-2, 2, (6, 20_000)), -1, 1)
        self.start[0] *= np.exp(-rng.uniform(0, 12, 20_000) * (rng.random(20_000) < 0.7))

    def _lines(self, points: Array, curvature: float) -> tuple[Array, Array, Array, Array]:
        common, y0, x, y, x2, y2 = points
        slope = curvature + 2 * (self.n - 1) * common**2
        pull = 2 * (self.n - 1) * common * y0
        return slope + 2 * x * x, pull + 2 * x * y, slope + 2 * x2 * x2, pull + 2 * x2 * y2

    def worst_loss(self, curvature: float, scale: float) -> float:
        """The largest log-ratio of densities inside, and of probabilities at the two ends."""
        radius = self.radius

        def log_tail(z: Array) -> Array:
            return np.where(z > 0, -z - math.log(2), np.log1p(-np.exp(np.minimum(z, 0)) / 2))

        def loss(points: Array) -> Array:
            H, c, K, d = self._lines(points, curvature)

            def inside(theta: Array) -> Array:
                theta = np.clip(theta, -radius, radius)
                return (np.abs(K * theta - d) - np.abs(H * theta - c)) / scale + np.log(H / K)

            # Between these four places the loss is linear in θ.
            places = (np.full_like(H, -radius), np.full_like(H, radius), c / H, d / K)
            top = log_tail((H * radius - c) / scale) - log_tail((K * radius - d) / scale)
            bottom = log_tail((H * radius + c) / scale) - log_tail((K * radius + d) / scale)
            return np.max([*map(inside, places), top, bottom], axis=0)

        return climb(loss, self.start, self.caps, rounds=6)

    def worst_delta(self, curvature: float, scale: float, epsilon: float) -> float:
        """The largest hockey-stick divergence at ε: inside, loss > ε is a quadratic inequality."""
        radius = self.radius

        def divergence(points: Array) -> Array:
            H, c, K, d = np.array(self._lines(points, curvature)) / scale
            two, one = (K * K - H * H) / 2, H * c - K * d
            none = (d * d - c * c) / 2 + np.log(H / K) - epsilon
            root = np.sqrt(np.maximum(one * one - 4 * two * none, 0))
            w = -(one + np.where(one >= 0, root, -root)) / 2
            ends = [np.full_like(H, -radius), np.full_like(H, radius)]
            roots = [
                np.divide(up, down, out=np.full_like(H, radius), where=np.abs(down) > 1e-290)
                for up, down in ((w, two), (none, w))
            ]
            cuts = np.sort([*ends, *(np.clip(r, -radius, radius) for r in roots)], axis=0)
            total = np.zeros_like(H)
            for low, high in pairwise(cuts):
                mine = gaussian_mass(H * low - c, H * high - c)
                theirs = gaussian_mass(K * low - d, K * high - d)
                total += np.maximum(mine - math.exp(epsilon) * theirs, 0)
            for sign in (1, -1):
                mine, theirs = ndtr(-H * radius + sign * c), ndtr(-K * radius + sign * d)
                total += np.maximum(mine - math.exp(epsilon) * theirs, 0)
            return total

        return climb(divergence, self.start, self.caps, rounds=6)


class LogisticLine:
    """Pairs of neighbours for logistic regression in one dimension, seen through cells of θ.

    Some of n − 1 records are u₁ = y·x, the others u₂, and one more is u or u'. The summed gradient
    G rises with θ, so a cell's probability is that of b between two values of −G: exact, and what
    is found in cells holds all the more for θ itself.
    """

    CELLS = 300

    def __init__(self, n: int, row_norm: float, radius: float) -> None:
        self.n, self.theta = n, np.linspace(-radius, radius, self.CELLS)
        self.caps = np.array([1.0, *[row_norm] * 4])
        rng = seeded(3)
        self.start = self.caps[:, None] * np.clip(rng.uniform(-1.5, 1.5, (5, 500)), -1, 1)

    def _gradients(self, points: Array, curvature: float) -> tuple[Array, Array]:
        share, u1, u2, u, other = points[:, :, None]
        many = np.rint(np.abs(share) * (self.n - 1))

        def of(v: Array) -> Array:
            return -v * expit(-v * self.theta)

        common = curvature * self.theta + many * of(u1) + (self.n - 1 - many) * of(u2)
        return common + of(u), common + of(other)

    @staticmethod
    def _edges(gradient: Array, scale: float) -> tuple[Array, Array]:
        far = np.full((len(gradient), 1), 1e6)
        edges = np.concatenate([-far, gradient / scale, far], axis=1)
        return edges[:, :-1], edges[:, 1:]

    def worst_loss(self, curvature: float, scale: float) -> float:
        def log_mass(low: Array, high: Array) -> Array:
            below = np.exp(np.minimum(high, 0)) * -np.expm1(
                np.minimum(low, 0) - np.minimum(high, 0)
            )
            above = np.exp(-np.maximum(low, 0)) * -np.expm1(
                np.maximum(low, 0) - np.maximum(high, 0)
            )
            return np.log(np.maximum(below + above, 1e-300))

        def loss(points: Array) -> Array:
            mine, theirs = (
                log_mass(*self._edges(g, scale)) for g in self._gradients(points, curvature)
            )
            return np.max(mine - theirs, axis=1)

        return climb(loss, self.start, self.caps, rounds=6, kept=10)

    def worst_delta(self, curvature: float, scale: float, epsilon: float) -> float:
        def divergence(points: Array) -> Array:
            mine, theirs = (
                gaussian_mass(*self._edges(g, scale)) for g in self._gradients(points, curvature)
            )
            return np.maximum(mine - math.exp(epsilon) * theirs, 0).sum(axis=1)

        return climb(divergence, self.start, self.caps, rounds=4, kept=10)


LINES = [  # n, row_norm, target_bound, radius, regularization
    (1, 1.0, 1.0, 1.0, 0.0),
    (20, 1.0, 1.0, 1.0, 0.01),
    (200, 1.0, 1.0, 0.1, 1e-6),
    (1000, 1.0, 1.0, 3.0, 0.1),
    (50, 2.0, 0.5, 1.0, 1.0),
]
STRONG = (200, 1.0, 1.0, 0.1, 10.0)
LOGISTIC_LINES = [  # n, row_norm, radius, regularization
    (1, 1.0, 1.0, 0.0),
    (20, 1.0, 0.1, 0.0),
    (30, 2.0, 0.5, 5.0),
    (10, 1.0, 50.0, 2.0),
]


def ridge_on_line(epsilon: float, shape: Any) -> tuple[RidgeLine, float, float]:
    """The pairs of neighbours, κ and the Gamma scale."""
    n, row_norm, target, radius, weight = shape
    noise = ridge_objective(
        epsilon,
        0.0,
        n=n,
        dimension=1,
        row_norm=row_norm,
        target_bound=target,
        radius=radius,
        regularization=weight,
    )
    curvature = 2 * n * weight + noise.extra_regularization
    return RidgeLine(n, row_norm, target, radius), curvature, noise.scale


def logistic_on_line(epsilon: float, shape: Any) -> tuple[LogisticLine, float, float]:
    n, row_norm, radius, weight = shape
    noise = logistic_objective(
        epsilon, 0.0, n=n, dimension=1, row_norm=row_norm, radius=radius, regularization=weight
    )
    curvature = n * weight + noise.extra_regularization
    return LogisticLine(n, row_norm, radius), curvature, noise.scale


def gaussian_ridge_scale(epsilon: float, delta: float, curvature: float, shape: Any) -> float:
    """On the line the Gamma law is the cheaper one: the Gaussian has to be asked for."""
    _, row_norm, target, radius, _ = shape
    budget = epsilon - math.log1p(2 * row_norm**2 / curvature)
    return _ridge_gaussian_scale(budget, delta, row_norm, target, radius, 1)


def gaussian_logistic_scale(epsilon: float, delta: float, curvature: float, shape: Any) -> float:
    _, row_norm, radius, _ = shape
    budget = epsilon - math.log1p(row_norm**2 / 4 / curvature)
    bound = logistic_gradient_bound(row_norm, radius)
    diameter = logistic_gradient_diameter(row_norm, 1, radius)
    return _logistic_gaussian_scale(budget, delta, bound, diameter, True)


class TestAuditOnTheLine:
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("shape", [*LINES, STRONG])
    def test_pure_ridge(self, epsilon: float, shape: Any) -> None:
        line, curvature, scale = ridge_on_line(epsilon, shape)
        assert line.worst_loss(curvature, scale) <= epsilon

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    def test_pure_ridge_is_nearly_reached(self, epsilon: float) -> None:
        line, curvature, scale = ridge_on_line(epsilon, STRONG)
        assert line.worst_loss(curvature, scale) >= 0.95 * epsilon
        assert line.worst_loss(curvature, 0.9 * scale) > epsilon

    @pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.2])
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("shape", LINES[1:])
    def test_gaussian_ridge(self, epsilon: float, delta: float, shape: Any) -> None:
        line, curvature, _ = ridge_on_line(epsilon, shape)
        scale = gaussian_ridge_scale(epsilon, delta, curvature, shape)
        assert line.worst_delta(curvature, scale, epsilon) <= delta

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    def test_gaussian_ridge_with_less_noise_is_refused(self, epsilon: float) -> None:
        line, curvature, _ = ridge_on_line(epsilon, LINES[2])
        scale = gaussian_ridge_scale(epsilon, 1e-5, curvature, LINES[2])
        assert line.worst_delta(curvature, 0.8 * scale, epsilon) > 1e-5

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("shape", LOGISTIC_LINES)
    def test_pure_logistic(self, epsilon: float, shape: Any) -> None:
        line, curvature, scale = logistic_on_line(epsilon, shape)
        assert line.worst_loss(curvature, scale) <= epsilon

    @pytest.mark.parametrize("shape", LOGISTIC_LINES[2:])
    def test_pure_logistic_is_nearly_reached(self, shape: Any) -> None:
        line, curvature, scale = logistic_on_line(1.0, shape)
        assert line.worst_loss(curvature, scale) >= 0.95
        assert line.worst_loss(curvature, 0.9 * scale) > 1

    @pytest.mark.parametrize("delta", [1e-5, 1e-2])
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("shape", LOGISTIC_LINES)
    def test_gaussian_logistic(self, epsilon: float, delta: float, shape: Any) -> None:
        line, curvature, _ = logistic_on_line(epsilon, shape)
        scale = gaussian_logistic_scale(epsilon, delta, curvature, shape)
        assert line.worst_delta(curvature, scale, epsilon) <= delta

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    def test_gaussian_logistic_with_less_noise_is_refused(self, epsilon: float) -> None:
        line, curvature, _ = logistic_on_line(epsilon, LOGISTIC_LINES[1])
        scale = gaussian_logistic_scale(epsilon, 1e-2, curvature, LOGISTIC_LINES[1])
        assert line.worst_delta(curvature, 0.8 * scale, epsilon) > 1e-2


def worst_density_loss(n: int, row_norm: float, curvature: float, scale: float) -> float:
    """The largest log-ratio of densities of a logistic minimiser on the whole line.

    n − 1 records y·x = ξ, all alike, and one more, z or z'. θ has the density of b at −G(θ), of
    scale s, times G'(θ), so the ratio is exact: on a grid of all θ, ξ, z and z'.
    """
    u = np.concatenate([np.geomspace(1e-3, 1e3, 60), np.linspace(0, 12, 121), [4.0316]])
    theta = (np.concatenate([u, -u]) / row_norm)[:, None, None]
    share = np.linspace(-1, 1, 41)
    z = np.unique(np.concatenate([share, 1.2785 / 4.0316 * np.sign(share)])) * row_norm
    worst = -math.inf
    for common in np.linspace(-1, 1, 9) * row_norm:

        def of(v: Any) -> tuple[Array, Array]:
            told = expit(-v * theta)
            return -v * told, v * v * told * (1 - told)

        pull, stiff = of(common)
        gradient = curvature * theta + (n - 1) * pull
        slope = curvature + (n - 1) * stiff
        own, bend = of(z[None, :, None])
        other, bend_other = of(z[None, None, :])
        loss = (np.abs(gradient + other) - np.abs(gradient + own)) / scale
        loss = loss + np.log(slope + bend) - np.log(slope + bend_other)
        worst = max(worst, float(loss.max()))
    return worst


class TestLogisticLineWithoutABall:
    """One dimension, no radius: S = 1.0516…·X suffices, and a fifth less noise does not."""

    @staticmethod
    def noise(epsilon: float, n: int, row_norm: float, weight: float) -> tuple[float, float]:
        noise = logistic_objective(
            epsilon, 0.0, n=n, dimension=1, row_norm=row_norm, regularization=weight
        )
        return n * weight + noise.extra_regularization, noise.scale

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("shape", [(1, 1.0, 0.0), (20, 1.7, 0.01), (400, 0.6, 1.0)])
    def test_nominal_noise_is_accepted(
        self, epsilon: float, shape: tuple[int, float, float]
    ) -> None:
        n, row_norm, _ = shape
        assert worst_density_loss(n, row_norm, *self.noise(epsilon, *shape)) <= epsilon

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
    def test_a_fifth_less_is_refused(self, epsilon: float) -> None:
        curvature, scale = self.noise(epsilon, 400, 0.6, 1.0)
        assert worst_density_loss(400, 0.6, curvature, scale) >= 0.98 * epsilon
        assert worst_density_loss(400, 0.6, curvature, 0.8 * scale) > epsilon


def log_density_ratio(witness: Any, curvature: float, scale: float) -> float:
    """log f_D(0)/f_D'(0) of the ridge minimiser, at θ = 0, inside any ball."""
    common, record, other = witness
    p = len(record[0])
    hessian = curvature * np.eye(p) + sum(2 * k * np.outer(x, x) for k, x, _ in common)
    gradient = sum((-2 * k * y * x for k, x, y in common), np.zeros(p))
    values = []
    for x, y in (record, other):
        _, logdet = np.linalg.slogdet(hessian + 2 * np.outer(x, x))
        values.append(logdet - np.linalg.norm(gradient - 2 * y * x) / scale)
    return float(values[0] - values[1])


def plane_witness(lean: float, opening: float) -> Any:
    """Neighbours in the plane: two rows at these angles, and many records that favour one of them.

    One group makes the second direction stiff. A large group of very short rows makes the gradient
    point along the difference of the two records, and hardly adds curvature.
    """
    record = np.array([math.cos(lean), math.sin(lean)])
    other = np.array([math.cos(lean + opening), math.sin(lean + opening)])
    along = -(record + other) / np.linalg.norm(record + other)
    common = [(10**5, np.array([0.0, 1.0]), 0.0), (10**7, 2e-5 * along, 1.0)]
    return common, (record, 1.0), (other, -1.0)


def line_witness(shortened: float) -> Any:
    common = [(2000, np.array([-0.002]), 1.0)]
    return common, (np.array([1.0]), 1.0), (np.array([shortened]), -1.0)


class TestPublishedConstants:
    """s = 2ζ/ε and Δ = 2Λ/ε are those of another neighbour relation: exact counterexamples."""

    RADIUS = 1e-3

    def worst(self, witnesses: list[Any], n: int, epsilon: float, p: int) -> tuple[float, float]:
        published = 2 * ridge_gradient_bound(1, 1, self.RADIUS) / epsilon
        noise = ridge_objective(
            epsilon,
            0.0,
            n=n,
            dimension=p,
            row_norm=1.0,
            target_bound=1.0,
            radius=self.RADIUS,
            regularization=0.0,
        )
        assert all(sum(k for k, *_ in common) + 1 == n for common, *_ in witnesses)
        return (
            max(log_density_ratio(w, 4 / epsilon, published) for w in witnesses) / epsilon,
            max(log_density_ratio(w, noise.extra_regularization, noise.scale) for w in witnesses)
            / epsilon,
        )

    @pytest.mark.parametrize(
        ("epsilon", "known"), [(0.1, 1.288), (0.5, 1.252), (1.0, 1.218), (2.0, 1.172)]
    )
    def test_in_the_plane(self, epsilon: float, known: float) -> None:
        witnesses = [
            plane_witness(lean, opening)
            for lean in np.linspace(0.05, 0.6, 23)
            for opening in np.linspace(0.6, 1.5, 25)
        ]
        published, calibrated = self.worst(witnesses, 10**7 + 10**5 + 1, epsilon, 2)
        assert published == pytest.approx(known, abs=0.005)
        assert calibrated <= 1

    @pytest.mark.parametrize(("epsilon", "known"), [(0.1, 1.112), (0.5, 1.074), (1.0, 1.038)])
    def test_on_the_line(self, epsilon: float, known: float) -> None:
        witnesses = [line_witness(r) for r in np.linspace(0, 1, 101)]
        published, calibrated = self.worst(witnesses, 2001, epsilon, 1)
        assert published == pytest.approx(known, abs=0.005)
        assert calibrated <= 1
