"""Regression noise against 80-digit arithmetic, exact one-dimensional audits and brute force."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from sudare.calibration.gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_bound,
    ridge_gradient_diameter,
)
from sudare.calibration.regression import (
    ObjectiveNoise,
    _one_sided_gaussian_scale,
    _polygon_gaussian_scale,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_objective,
    ridge_output_sensitivity,
)
from sudare.checks import InvalidInput
from sudare.randomness import seeded

Array = NDArray[np.float64]
TIGHT = mpf(10) ** -6


def spread(low: float, high: float) -> st.SearchStrategy[float]:
    """Floats spread evenly over the orders of magnitude between two bounds."""
    return st.floats(math.log(low), math.log(high)).map(lambda x: min(high, max(low, math.exp(x))))


EPSILON = spread(1e-4, 50)
DELTA = spread(1e-60, 0.3)
PROBLEM = {
    "n": st.integers(1, 10**7),
    "dimension": st.sampled_from([1, 2, 5, 100, 10_000]),
    "row_norm": spread(1e-4, 1e4),
    "regularization": st.one_of(st.just(0.0), spread(1e-12, 1e4)),
}
RIDGE = st.fixed_dictionaries(
    PROBLEM
    | {
        "target_bound": st.one_of(st.just(0.0), spread(1e-4, 1e4)),
        "radius": spread(1e-4, 1e4),
        "norm_guess": st.one_of(st.none(), spread(1e-4, 1e4)),
    }
)
LOGISTIC = st.fixed_dictionaries(
    PROBLEM
    | {
        "radius": st.one_of(st.none(), spread(1e-4, 1e4)),
        "norm_guess": st.one_of(st.none(), st.just(0.0), spread(1e-4, 1e4)),
    }
)
UNIT: dict[str, Any] = {
    "n": 1000,
    "dimension": 5,
    "row_norm": 1.0,
    "target_bound": 1.0,
    "radius": 1.0,
    "regularization": 0.01,
}
PLAIN: dict[str, Any] = {"n": 1000, "dimension": 5, "row_norm": 1.0, "regularization": 0.01}


def exact_curve(epsilon: Any, mu: Any) -> Any:
    """δ of telling N(0, 1) from N(μ, 1) at ε, at the precision of the context."""

    def upper(x: Any) -> Any:
        return mp.erfc(x / mp.sqrt(2)) / 2

    if mu == 0:
        return mpf(0)
    return upper(epsilon / mu - mu / 2) - mp.exp(epsilon) * upper(epsilon / mu + mu / 2)


def exact_curvature(noise: ObjectiveNoise, given: dict[str, Any], per_weight: int) -> Any:
    return per_weight * mpf(given["n"]) * mpf(given["regularization"]) + mpf(
        noise.extra_regularization
    )


def exact_ridge_diameter(row_norm: Any, target: Any, radius: Any, dimension: int) -> Any:
    a, b = 2 * row_norm * target, 2 * row_norm * row_norm * radius
    if dimension == 1:
        return 2 * a if 2 * b <= a else a + b + a * a / (4 * b)
    q = 2 * b / (a + mp.sqrt(a * a + 8 * b * b))
    return 2 * mp.sqrt(1 - q * q) * (a + b * q)


def exact_polygon_delta(budget: Any, scale: Any, diameter: Callable[[Any], Any], p: int) -> Any:
    """The least k·H(S(B/cos(π/k))/s) over polygons; two ends of a segment in one dimension."""
    if p == 1:
        return 2 * exact_curve(budget, diameter(mpf(1)) / scale)
    return min(
        k * exact_curve(budget, diameter(1 / mp.cos(mp.pi / k)) / scale)
        for k in (4, 5, 6, 8, 10, 12, 16)
    )


class TestBudget:
    """What was calibrated in doubles, put back into the exact formula."""

    @settings(max_examples=150)
    @given(epsilon=EPSILON, problem=RIDGE)
    def test_pure_ridge(self, epsilon: float, problem: dict[str, Any]) -> None:
        noise = ridge_objective(epsilon, 0.0, **problem)
        with mp.workdps(80):
            x, y, radius = (mpf(problem[k]) for k in ("row_norm", "target_bound", "radius"))
            diameter = exact_ridge_diameter(x, y, radius, problem["dimension"])
            curvature = exact_curvature(noise, problem, 2)
            spent = diameter / mpf(noise.scale) + mp.log1p(2 * x * x / curvature)
            assert noise.law == "gamma"
            assert 0 < noise.curvature <= curvature
            assert epsilon * (1 - TIGHT) <= spent <= epsilon

    @settings(max_examples=150)
    @given(epsilon=EPSILON, problem=LOGISTIC)
    def test_pure_logistic(self, epsilon: float, problem: dict[str, Any]) -> None:
        noise = logistic_objective(epsilon, 0.0, **problem)
        diameter = logistic_gradient_diameter(
            problem["row_norm"], problem["dimension"], problem["radius"]
        )
        with mp.workdps(80):
            x = mpf(problem["row_norm"])
            curvature = exact_curvature(noise, problem, 1)
            spent = mpf(diameter) / mpf(noise.scale) + mp.log1p(x * x / 4 / curvature)
            assert noise.law == "gamma"
            assert 0 < noise.curvature <= curvature
            assert epsilon * (1 - TIGHT) <= spent <= epsilon

    @settings(max_examples=150)
    @given(epsilon=EPSILON, delta=DELTA, problem=LOGISTIC)
    @example(epsilon=1e-4, delta=1e-60, problem={**PLAIN, "dimension": 10_000, "radius": None})
    @example(epsilon=50.0, delta=0.3, problem={**PLAIN, "radius": 1.0})
    def test_logistic_with_delta(
        self, epsilon: float, delta: float, problem: dict[str, Any]
    ) -> None:
        noise = logistic_objective(epsilon, delta, **problem)
        if noise.law == "gamma":
            assert noise == logistic_objective(epsilon, 0.0, **problem)
            return
        with mp.workdps(80):
            x = mpf(problem["row_norm"])
            bound = x
            if problem["radius"] is not None:
                bound = x / (1 + mp.exp(-x * mpf(problem["radius"])))
            curvature = exact_curvature(noise, problem, 1)
            left = epsilon - mp.log1p(x * x / 4 / curvature)
            mu = bound / mpf(noise.scale)
            spent = exact_curve(left, 2 * mu) + 2 * exact_curve(left, mu)
            assert left > 0
            assert 0 < noise.curvature <= curvature
            assert delta * (1 - TIGHT) <= spent <= delta

    @settings(max_examples=150)
    @given(epsilon=EPSILON, delta=DELTA, problem=RIDGE)
    @example(epsilon=1e-4, delta=1e-60, problem={**UNIT, "dimension": 10_000})
    @example(epsilon=1.0, delta=0.9, problem={**UNIT, "dimension": 10_000})
    @example(epsilon=1.0, delta=0.9, problem={**UNIT, "dimension": 1})
    def test_ridge_with_delta(self, epsilon: float, delta: float, problem: dict[str, Any]) -> None:
        noise = ridge_objective(epsilon, delta, **problem)
        if noise.law == "gamma":
            assert noise == ridge_objective(epsilon, 0.0, **problem)
            return
        with mp.workdps(80):
            x, y, radius = (mpf(problem[k]) for k in ("row_norm", "target_bound", "radius"))
            curvature = exact_curvature(noise, problem, 2)
            left = epsilon - mp.log1p(2 * x * x / curvature)
            p = problem["dimension"]
            spent = exact_polygon_delta(
                left, mpf(noise.scale), lambda s: exact_ridge_diameter(x, y, radius * s, p), p
            )
            assert left > 0
            assert 0 < noise.curvature <= curvature
            assert delta * (1 - TIGHT) <= spent <= delta

    @pytest.mark.parametrize("epsilon", [60.0, 709.0, 1e4])
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_very_large_epsilon(self, epsilon: float, delta: float) -> None:
        """Beyond all use, but no reason to fail."""
        for noise, per_weight, curvature_per_record in (
            (ridge_objective(epsilon, delta, **UNIT), 2, 2),
            (logistic_objective(epsilon, delta, **PLAIN), 1, 0.25),
        ):
            exact = exact_curvature(noise, PLAIN, per_weight)
            assert 0 < noise.curvature <= exact
            assert noise.epsilon_noise + noise.epsilon_curvature <= epsilon
            assert mp.log1p(curvature_per_record / exact) <= noise.epsilon_curvature
            assert noise.scale > 0


class TestPolygon:
    """Ridge with Gaussian noise: the shift of b over the ball lies within k fixed corners."""

    @settings(max_examples=60)
    @given(
        budget=EPSILON,
        delta=spread(1e-60, 0.95),
        radius=spread(1e-3, 1e3),
        p=st.sampled_from([1, 2, 50]),
    )
    def test_costs_delta(self, budget: float, delta: float, radius: float, p: int) -> None:
        scale = _polygon_gaussian_scale(
            budget, delta, lambda s: ridge_gradient_diameter(1.0, 1.0, radius * s, p), p
        )
        with mp.workdps(80):
            spent = exact_polygon_delta(
                mpf(budget),
                mpf(scale),
                lambda s: exact_ridge_diameter(mpf(1), mpf(1), mpf(radius) * s, p),
                p,
            )
            assert delta * (1 - TIGHT) <= spent <= delta

    @pytest.mark.parametrize("k", [4, 5, 6, 8, 10, 12, 16])
    def test_corners_hold_every_shift(self, k: int) -> None:
        """Support functions: no θ of the ball leads beyond the corners, none of them too long."""
        rng = seeded(k)
        radius, p = 1.3, 3
        longest = ridge_gradient_diameter(1.0, 1.0, radius / math.cos(math.pi / k), p)
        reached = 0.0
        for _ in range(200):
            rows = rng.normal(size=(2, p))
            rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
            targets = rng.uniform(-1, 1, 2)

            def shift(theta: Array, rows: Array = rows, targets: Array = targets) -> Array:
                pulls = 2 * (theta @ rows.T - targets)
                return pulls[:, :1] * rows[0] - pulls[:, 1:] * rows[1]

            theta = rng.normal(size=(300, p))
            theta *= radius / np.linalg.norm(theta, axis=1, keepdims=True)
            plane, _ = np.linalg.qr(rows.T)
            turn = 2 * math.pi * np.arange(k) / k
            corners = shift(
                radius
                / math.cos(math.pi / k)
                * np.stack([np.cos(turn), np.sin(turn)], axis=1)
                @ plane.T
            )
            directions = rng.normal(size=(100, p))
            inside = (shift(theta) @ directions.T).max(axis=0)
            allowed = (corners @ directions.T).max(axis=0)
            assert np.all(inside <= allowed + 1e-9)
            assert np.linalg.norm(corners, axis=1).max() <= longest
            reached = max(reached, float(np.max(inside / np.abs(allowed))))
        assert reached > 0.9

    @pytest.mark.parametrize(("budget", "delta"), [(0.3, 0.02), (1.0, 0.1), (1.0, 0.4), (3.0, 0.2)])
    def test_best_shift_after_seeing_the_noise(self, budget: float, delta: float) -> None:
        """δ of an adversary who picks θ, and so the shift, by the noise itself; by simulation."""
        radius = 0.7
        scale = _polygon_gaussian_scale(
            budget, delta, lambda s: ridge_gradient_diameter(1.0, 1.0, radius * s, 2), 2
        )
        unit = seeded(4).normal(size=(20_000, 2))
        turn = np.linspace(0, 2 * math.pi, 49)
        theta = radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)

        def spent(scale: float, angle: float, lean: float) -> tuple[float, float]:
            rows = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
            pulls = 2 * (theta @ rows.T - np.array([1.0, lean]))
            shifts = pulls[:, :1] * rows[0] - pulls[:, 1:] * rows[1]
            losses = unit @ shifts.T / scale + (shifts**2).sum(axis=1) / (2 * scale**2)
            share = -np.expm1(np.minimum(budget - losses.max(axis=1), 0.0))
            return float(share.mean()), 8 * float(share.std()) / math.sqrt(len(share))

        worst = 0.0
        for angle in np.linspace(0, math.pi, 13):
            for lean in (-1.0, 1.0):
                found, error = spent(scale, angle, lean)
                assert found - error <= delta
                less, error = spent(0.4 * scale, angle, lean)
                worst = max(worst, less - error)
        assert worst > delta


def climb(
    score: Callable[[Array], Array], start: Array, caps: Array, rounds: int, kept: int = 50
) -> float:
    """The largest score found: the best columns are moved about at random, again and again."""
    rng = seeded(11)
    points, caps = start, caps[:, None]
    found = score(points)
    for _ in range(rounds):
        best = points[:, np.argsort(found)[-kept:]]
        moved = np.repeat(best, 40, axis=1)
        step = caps * rng.normal(size=moved.shape) * np.exp(-rng.uniform(0, 9, moved.shape))
        moved = np.clip(moved + step * (rng.random(moved.shape) < 0.5), -caps, caps)
        points = np.concatenate([best, moved], axis=1)
        found = score(points)
    return float(found.max())


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
    return _polygon_gaussian_scale(
        epsilon - math.log1p(2 * row_norm**2 / curvature),
        delta,
        lambda s: ridge_gradient_diameter(row_norm, target, radius * s, 1),
        1,
    )


def gaussian_logistic_scale(epsilon: float, delta: float, curvature: float, shape: Any) -> float:
    _, row_norm, radius, _ = shape
    budget = epsilon - math.log1p(row_norm**2 / 4 / curvature)
    return _one_sided_gaussian_scale(budget, delta, logistic_gradient_bound(row_norm, radius))


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


def excess_objective(
    noise_norm_squared: Any, curvature: Any, extra: Any, norm: float, n: int
) -> Any:
    return (noise_norm_squared / (2 * curvature) + extra * norm**2 / 2) / n


class TestSplit:
    def test_known_values(self) -> None:
        noise = ridge_objective(1.0, 0.0, **UNIT)
        assert round(noise.epsilon_curvature, 3) == 0.060
        assert round(noise.extra_regularization, 1) == 12.1
        F = excess_objective(
            30 * noise.scale**2,
            20 + noise.extra_regularization,
            noise.extra_regularization,
            1,
            1000,
        )
        assert round(F, 4) == 0.0203

    def test_the_half_split_is_a_bad_one(self) -> None:
        noise = ridge_objective(1.0, 0.0, **{**UNIT, "n": 100, "regularization": 0, "dimension": 3})
        extra = noise.extra_regularization
        assert round(excess_objective(12 * noise.scale**2, extra, extra, 1, 100), 3) == 0.198
        s, extra = ridge_gradient_diameter(1, 1, 1, 3) / 0.5, 2 / math.expm1(0.5)
        assert round(excess_objective(12 * s**2, extra, extra, 1, 100), 2) == 2.12

    @settings(max_examples=60)
    @given(epsilon=EPSILON, problem=RIDGE)
    def test_no_other_split_is_better(self, epsilon: float, problem: dict[str, Any]) -> None:
        noise = ridge_objective(epsilon, 0.0, **problem)
        n, p, radius = problem["n"], problem["dimension"], problem["radius"]
        norm = radius if problem["norm_guess"] is None else problem["norm_guess"]
        already, needed = 2 * n * problem["regularization"], 2 * problem["row_norm"] ** 2
        diameter = ridge_gradient_diameter(problem["row_norm"], problem["target_bound"], radius, p)
        least = max(already, needed / math.expm1(epsilon))
        curvature = least * np.exp(np.concatenate([[0.0], np.geomspace(1e-6, 80, 4000)]))
        budget = epsilon - np.log1p(needed / curvature)
        curvature, budget = curvature[budget > 0], budget[budget > 0]
        squared = p * (p + 1) * (diameter / budget) ** 2
        best = np.min(excess_objective(squared, curvature, curvature - already, norm, 1))
        mine = excess_objective(
            p * (p + 1) * noise.scale**2, noise.curvature, noise.extra_regularization, norm, 1
        )
        rounding = 1e-12 * noise.curvature * norm**2
        assert mine <= best * 1.001 + rounding
        assert noise.excess == pytest.approx(mine, rel=1e-5, abs=rounding)

    @pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0, 40.0])
    @pytest.mark.parametrize("logistic", [True, False])
    def test_no_other_gaussian_split_is_much_better(
        self, logistic: bool, epsilon: float, delta: float
    ) -> None:
        """Here the search runs on a stand-in for the scale, which costs a few percent at most."""
        problem: dict[str, Any] = {**PLAIN, "dimension": 200, "regularization": 1e-4}
        if not logistic:
            problem |= {"target_bound": 1.0, "radius": 1.0}
        objective: Callable[..., ObjectiveNoise]
        objective, weight = (logistic_objective, 1) if logistic else (ridge_objective, 2)

        def excess(noise: ObjectiveNoise) -> float:
            extra = noise.extra_regularization
            squared = 200 * noise.scale**2 * (201 if noise.law == "gamma" else 1)
            return float(excess_objective(squared, weight * 0.1 + extra, extra, 1, 1))

        noise = objective(epsilon, delta, **problem, norm_guess=1.0)
        others = [
            objective(epsilon, delta, **problem, norm_guess=guess)
            for guess in np.geomspace(0.2, 5, 11)
        ]
        assert noise.law == "gaussian"
        assert excess(noise) <= 1.05 * min(map(excess, others))
        assert noise.excess == pytest.approx(excess(noise), rel=0.1)
        assert noise.excess <= objective(epsilon, 0.0, **problem, norm_guess=1.0).excess

    def test_in_few_dimensions_the_gamma_law_is_cheaper(self) -> None:
        assert ridge_objective(1.0, 1e-6, **{**UNIT, "dimension": 2}).law == "gamma"
        assert ridge_objective(1.0, 1e-6, **{**UNIT, "dimension": 2000}).law == "gaussian"
        assert logistic_objective(1.0, 1e-6, **{**PLAIN, "dimension": 2}).law == "gamma"
        assert logistic_objective(1.0, 1e-6, **{**PLAIN, "dimension": 2000}).law == "gaussian"

    def test_strong_regularization_needs_nothing_more(self) -> None:
        noise = ridge_objective(1.0, 0.0, **{**UNIT, "regularization": 10.0})
        assert noise.extra_regularization == 0
        assert noise.epsilon_curvature == pytest.approx(math.log1p(2 / 20_000))


def solve_ridge(x: Array, y: Array, weight: float, radius: float) -> Array:
    """Minimisers over the ball for stacks of data sets, by bisection on the multiplier."""
    n, p = x.shape[-2:]
    values, vectors = np.linalg.eigh(np.swapaxes(x, -1, -2) @ x + n * weight * np.eye(p))
    pull = np.einsum("kji,kj->ki", vectors, np.einsum("kni,kn->ki", x, y))
    low, high = np.zeros(len(x)), np.linalg.norm(pull, axis=1) / radius + 1e-12
    for _ in range(80):
        middle = (low + high) / 2
        outside = np.linalg.norm(pull / (values + middle[:, None]), axis=1) > radius
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    free = np.linalg.norm(pull / values, axis=1) <= radius
    multiplier = np.where(free, 0.0, high)
    return np.einsum("kij,kj->ki", vectors, pull / (values + multiplier[:, None]))


def solve_logistic(u: Array, weight: float) -> Array:
    """Unconstrained minimisers for stacks of data sets of rows u = y·x, by Newton's method."""
    n, p = u.shape[-2:]
    theta = np.zeros((len(u), p))
    for _ in range(25):
        s = expit(-np.einsum("kni,ki->kn", u, theta))
        gradient = weight * n * theta - np.einsum("kni,kn->ki", u, s)
        hessian = np.einsum("kni,kn,knj->kij", u, s * (1 - s), u) + weight * n * np.eye(p)
        theta = theta - np.linalg.solve(hessian, gradient[..., None])[..., 0]
    assert np.abs(gradient).max() < 1e-9
    return theta


class TestOutputSensitivity:
    def farthest(
        self, solve: Callable[[Array, Array], Array], n: int, p: int, row_norm: float, target: float
    ) -> float:
        """The farthest minimisers of neighbouring data sets; row n + 1 replaces row n."""
        rng = seeded(8)
        size = (n + 1) * (p + 1)
        start = np.clip(rng.uniform(-1.6, 1.6, (size, 3000)), -1, 1)

        def distance(points: Array) -> Array:
            rows = points.T.reshape(-1, n + 1, p + 1)
            x, y = rows[..., :p] * row_norm, rows[..., p] * target
            norms = np.linalg.norm(x, axis=-1, keepdims=True)
            x = x * np.minimum(1.0, row_norm / np.maximum(norms, 1e-300))
            kept = np.arange(n + 1)
            one, other = (solve(x[:, kept != left], y[:, kept != left]) for left in (n, n - 1))
            return np.linalg.norm(one - other, axis=1)

        return climb(distance, start, np.ones(size), rounds=6, kept=20)

    @pytest.mark.parametrize("p", [1, 2])
    @pytest.mark.parametrize(
        ("n", "weight", "radius"), [(1, 0.5, 0.4), (1, 4.0, 9.0), (3, 0.3, 1.0), (3, 5.0, 0.2)]
    )
    def test_ridge_is_never_exceeded(self, p: int, n: int, weight: float, radius: float) -> None:
        found = self.farthest(lambda x, y: solve_ridge(x, y, weight, radius), n, p, 1.0, 1.0)
        claimed = ridge_output_sensitivity(
            n=n, dimension=p, row_norm=1.0, target_bound=1.0, radius=radius, regularization=weight
        )
        assert found <= claimed
        assert found > 0.1 * claimed

    @pytest.mark.parametrize("p", [1, 2])
    @pytest.mark.parametrize(("n", "weight"), [(1, 1.0), (3, 0.1), (5, 0.1), (3, 10.0)])
    def test_logistic_is_never_exceeded(self, p: int, n: int, weight: float) -> None:
        found = self.farthest(lambda x, y: solve_logistic(x, weight), n, p, 1.0, 1.0)
        claimed = logistic_output_sensitivity(n=n, dimension=p, row_norm=1.0, regularization=weight)
        assert found <= claimed
        assert found > 0.3 * claimed

    def test_ridge_is_nearly_reached(self) -> None:
        """One record and a heavy penalty: θ = yx/(x² + λ), from one sign to the other."""
        found = self.farthest(lambda x, y: solve_ridge(x, y, 50.0, 9.0), 1, 1, 1.0, 1.0)
        claimed = ridge_output_sensitivity(
            n=1, dimension=1, row_norm=1, target_bound=1, radius=9, regularization=50.0
        )
        assert 0.97 * claimed < found <= claimed

    def test_logistic_value(self) -> None:
        claimed = logistic_output_sensitivity(n=5, dimension=2, row_norm=1, regularization=0.1)
        assert round(claimed, 2) == 3.01
        assert claimed < 2 / (5 * 0.1)
        reach = math.sqrt(2 * math.log(2) / 0.1)
        diameter = logistic_gradient_diameter(1, 2, reach)
        assert claimed == pytest.approx(diameter / (5 * 0.1), rel=1e-12)

    @given(
        n=st.integers(1, 10**6),
        p=st.sampled_from([1, 2, 100]),
        row_norm=spread(1e-3, 1e3),
        target=spread(1e-3, 1e3),
        radius=spread(1e-3, 1e3),
        weight=spread(1e-6, 1e3),
    )
    def test_formulas(
        self, n: int, p: int, row_norm: float, target: float, radius: float, weight: float
    ) -> None:
        ridge = ridge_output_sensitivity(
            n=n,
            dimension=p,
            row_norm=row_norm,
            target_bound=target,
            radius=radius,
            regularization=weight,
        )
        reach = min(radius, target / math.sqrt(weight))
        diameter = ridge_gradient_diameter(row_norm, target, reach, p)
        assert ridge == pytest.approx(diameter / (2 * n * weight), rel=1e-12)
        naive = 2 * ridge_gradient_bound(row_norm, target, radius) / (2 * n * weight)
        assert ridge < naive * (1 + 1e-12)
        logistic = logistic_output_sensitivity(
            n=n, dimension=p, row_norm=row_norm, regularization=weight, radius=radius
        )
        reach = min(radius, row_norm / weight, math.sqrt(2 * math.log(2) / weight))
        diameter = logistic_gradient_diameter(row_norm, p, reach)
        assert logistic == pytest.approx(diameter / (n * weight), rel=1e-9)
        assert logistic <= 2 * row_norm / (n * weight) * (1 + 1e-12)


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


class TestInputs:
    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            ("epsilon", 0),
            ("epsilon", -1.0),
            ("epsilon", math.nan),
            ("epsilon", math.inf),
            ("delta", 1.0),
            ("delta", -1e-9),
            ("delta", math.nan),
            ("n", 0),
            ("n", 10.0),
            ("dimension", 0),
            ("dimension", True),
            ("row_norm", 0.0),
            ("row_norm", math.inf),
            ("regularization", -1e-9),
            ("regularization", math.nan),
            ("radius", -1.0),
            ("radius", "1"),
        ],
    )
    def test_are_named(self, name: str, wrong: Any) -> None:
        good: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, **UNIT}
        with pytest.raises(InvalidInput, match=name):
            ridge_objective(**{**good, name: wrong})
        del good["target_bound"]
        with pytest.raises(InvalidInput, match=name):
            logistic_objective(**{**good, name: wrong})

    def test_of_one_learner_are_named(self) -> None:
        for name in ("target_bound", "norm_guess"):
            with pytest.raises(InvalidInput, match=name):
                ridge_objective(1.0, 0.0, **{**UNIT, name: -1.0})
        with pytest.raises(InvalidInput, match="norm_guess"):
            logistic_objective(1.0, 0.0, **PLAIN, norm_guess=-1.0)

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [("n", 0), ("dimension", 0), ("row_norm", 0.0), ("regularization", 0.0), ("radius", -1.0)],
    )
    def test_of_sensitivities_are_named(self, name: str, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match=name):
            ridge_output_sensitivity(**{**UNIT, name: wrong})
        with pytest.raises(InvalidInput, match=name):
            logistic_output_sensitivity(**{**PLAIN, "radius": 1.0, name: wrong})
        with pytest.raises(InvalidInput, match="target_bound"):
            ridge_output_sensitivity(**{**UNIT, "target_bound": -1.0})

    def test_numpy_numbers_lose_nothing(self) -> None:
        """Single precision in, double precision inside: nothing is rounded to 24 bits."""
        single, small, epsilon = np.float32(1.1), np.int8(100), np.float32(0.7)
        narrow = {**UNIT, "row_norm": single, "target_bound": single, "radius": single}
        narrow |= {"dimension": small, "n": small, "regularization": np.float32(0.01)}
        narrow |= {"epsilon": epsilon, "delta": np.float32(1e-6)}
        wide = {name: value.item() for name, value in narrow.items()}
        assert ridge_objective(**narrow) == ridge_objective(**wide)
        del narrow["target_bound"], wide["target_bound"]
        assert logistic_objective(**narrow) == logistic_objective(**wide)
        for name in ("epsilon", "delta"):
            del narrow[name], wide[name]
        assert logistic_output_sensitivity(**narrow) == logistic_output_sensitivity(**wide)
        narrow["target_bound"], wide["target_bound"] = single, single.item()
        assert ridge_output_sensitivity(**narrow) == ridge_output_sensitivity(**wide)

    def test_a_ball_needs_no_more_noise_than_none(self) -> None:
        free = logistic_objective(1.0, 0.0, **PLAIN, norm_guess=1.0)
        ball = logistic_objective(1.0, 0.0, **PLAIN, norm_guess=1.0, radius=1.0)
        assert ball.scale < 0.6 * free.scale
        assert logistic_gradient_bound(1.0, 1.0) < logistic_gradient_bound(1.0)
