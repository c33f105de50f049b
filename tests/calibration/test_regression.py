"""Regression noise against 80-digit arithmetic, exact one-dimensional audits and brute force."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.special import expit

from sudare.calibration._gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_diameter,
)
from sudare.calibration._regression import (
    ObjectiveNoise,
    _logistic_gaussian_scale,
    _ridge_gaussian_scale,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_objective,
    ridge_output_sensitivity,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.randomness import seeded
from tests.calibration.oracles import (
    exact_curve,
    worst_logistic_delta,
    worst_logistic_loss,
    worst_ridge_delta,
)
from tests.calibration.problems import (
    DELTA,
    EPSILON,
    LOGISTIC,
    PLAIN,
    RIDGE,
    TIGHT,
    UNIT,
    Array,
)
from tests.support.strategies import spread


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


PROVED = 3 * 2.0**-12
"""What the subdivisions behind the logistic distances may add."""


def found_by_simulation(unit: Array, shifts: Array, budget: float) -> tuple[float, float]:
    """δ of the best shift for each draw of the noise, and eight standard errors."""
    losses = unit @ shifts.T + (shifts**2).sum(axis=1) / 2
    share = -np.expm1(np.minimum(budget - losses.max(axis=1), 0.0))
    return float(share.mean()), 8 * float(share.std()) / math.sqrt(len(share))


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

    @settings(max_examples=100)
    @given(epsilon=EPSILON, problem=LOGISTIC)
    def test_pure_logistic(self, epsilon: float, problem: dict[str, Any]) -> None:
        noise = logistic_objective(epsilon, 0.0, **problem)
        with mp.workdps(80):
            x = mpf(problem["row_norm"])
            curvature = exact_curvature(noise, problem, 1)
            if problem["dimension"] == 1:
                diameter = logistic_gradient_diameter(problem["row_norm"], 1, problem["radius"])
                spent = mpf(diameter) / mpf(noise.scale) + mp.log1p(x * x / 4 / curvature)
            else:
                spent = worst_logistic_loss(x, problem["radius"], noise.scale, curvature)
            assert noise.law == "gamma"
            assert 0 < noise.curvature <= curvature
            assert epsilon * (1 - PROVED) <= spent <= epsilon

    @settings(max_examples=100)
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
            p = problem["dimension"]
            diameter = logistic_gradient_diameter(problem["row_norm"], p, problem["radius"])
            curvature = exact_curvature(noise, problem, 1)
            left = epsilon - mp.log1p(x * x / 4 / curvature)
            assert left > 0
            assert 0 < noise.curvature <= curvature
        with mp.workdps(20):
            assert worst_logistic_delta(left, noise.scale, bound, diameter, p) <= delta
            assert worst_logistic_delta(left, 0.99 * noise.scale, bound, diameter, p) > delta

    @settings(max_examples=25)
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
            bounds = [problem[k] for k in ("row_norm", "target_bound", "radius", "dimension")]
            curvature = exact_curvature(noise, problem, 2)
            left = epsilon - mp.log1p(2 * mpf(bounds[0]) ** 2 / curvature)
            assert left > 0
            assert 0 < noise.curvature <= curvature
        with mp.workdps(20):
            assert worst_ridge_delta(left, noise.scale, *bounds) <= delta
            assert worst_ridge_delta(left, 0.97 * noise.scale, *bounds) > delta

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


class TestGaussianRidge:
    """The shift of b over the ball, for any two records, lies in one of the discs."""

    @settings(max_examples=25)
    @given(
        budget=EPSILON,
        delta=spread(1e-60, 0.95),
        row_norm=spread(0.1, 10),
        radius=spread(1e-3, 1e3),
        p=st.sampled_from([1, 2, 50]),
    )
    def test_costs_delta(
        self, budget: float, delta: float, row_norm: float, radius: float, p: int
    ) -> None:
        bounds = (row_norm, 0.7, radius, p)
        scale = _ridge_gaussian_scale(budget, delta, *bounds)
        with mp.workdps(20):
            assert worst_ridge_delta(budget, scale, *bounds) <= delta
            assert worst_ridge_delta(budget, 0.97 * scale, *bounds) > delta

    @settings(max_examples=60)
    @given(
        budget=EPSILON,
        delta=spread(1e-60, 0.95),
        radius=spread(1e-3, 1e3),
    )
    def test_needs_less_than_corners_of_a_polygon(
        self, budget: float, delta: float, radius: float
    ) -> None:
        """The bound of a polygon around the disc, k corners at the cost of the farthest each."""
        polygon = min(
            ridge_gradient_diameter(1.3, 0.7, radius / math.cos(math.pi / k), 2)
            / gaussian_mu(budget, delta / k)
            for k in (4, 5, 6, 8, 10, 12, 16)
        )
        assert _ridge_gaussian_scale(budget, delta, 1.3, 0.7, radius, 2) < polygon

    @pytest.mark.parametrize("radius", [0.05, 0.4, 1.3, 20.0])
    def test_every_shift_is_in_a_disc(self, radius: float) -> None:
        rng = seeded(7)
        p, row_norm, target = 3, 1.7, 0.6
        a, b = 2 * row_norm * target, 2 * row_norm**2 * radius
        tilts = np.linspace(0, math.pi / 4, 20_001)
        centres, radii = 2 * a * np.cos(tilts), b * np.sin(2 * tilts)
        nearest = math.inf
        for _ in range(4000):
            rows = rng.normal(size=(2, p))
            lengths = np.where(rng.random(2) < 0.5, 1.0, rng.random(2))
            rows *= (row_norm * lengths / np.linalg.norm(rows, axis=1))[:, None]
            targets = target * np.where(rng.random(2) < 0.5, rng.choice([-1, 1], 2), rng.random(2))
            centre = np.linalg.norm(2 * targets @ (rows * [[-1], [1]]))
            affine = 2 * (np.outer(rows[0], rows[0]) - np.outer(rows[1], rows[1]))
            size = radius * np.linalg.norm(affine, 2)
            # Some disc of the family has its centre and its rim no nearer.
            slack = np.minimum(centres - centre, radii - size).max()
            nearest = min(nearest, float(slack))
            assert slack >= -1e-4 * (a + b)
        assert nearest <= 0.1 * (a + b)

    @pytest.mark.parametrize(("budget", "delta"), [(0.3, 0.02), (1.0, 0.1), (1.0, 0.4), (3.0, 0.2)])
    def test_best_shift_after_seeing_the_noise(self, budget: float, delta: float) -> None:
        """δ of an adversary who picks θ, and so the shift, by the noise itself; by simulation."""
        row_norm, target, radius = 1.4, 0.8, 0.5
        scale = _ridge_gaussian_scale(budget, delta, row_norm, target, radius, 2)
        unit = seeded(4).normal(size=(20_000, 2))
        turn = np.linspace(0, 2 * math.pi, 49)
        theta = radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)

        def spent(scale: float, angle: float, lean: float) -> tuple[float, float]:
            rows = row_norm * np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
            pulls = 2 * (theta @ rows.T - target * np.array([1.0, lean]))
            shifts = pulls[:, :1] * rows[0] - pulls[:, 1:] * rows[1]
            return found_by_simulation(unit, shifts / scale, budget)

        worst = 0.0
        for angle in np.linspace(0, math.pi, 25):
            for lean in (-1.0, 1.0):
                found, error = spent(scale, angle, lean)
                assert found - error <= delta
                less, error = spent(0.8 * scale, angle, lean)
                worst = max(worst, less - error)
        assert worst > delta


class TestGaussianLogistic:
    """The shift of b lies in a rhombus with its far corner cut off at the diameter."""

    @pytest.mark.parametrize("t", [0.0, 0.5, 1.0, 2.0, 5.0, 8.0, 40.0])
    def test_corners_hold_every_shift(self, t: float) -> None:
        """Support functions: no θ of the ball and no rows lead beyond the corners."""
        rng = seeded(8)
        row_norm, p = 1.7, 3
        radius = t / row_norm
        most = logistic_gradient_bound(row_norm, radius)
        far = logistic_gradient_diameter(row_norm, p, radius)
        widest = 2 * most * (1 - min(1.0, far / (2 * most)) ** (2 / 3)) ** 1.5
        reached = 0.0
        for _ in range(300):
            rows = rng.normal(size=(2, p))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            lengths = row_norm * np.where(rng.random(2) < 0.7, 1.0, rng.random(2))
            theta = rng.normal(size=(400, p)) @ (rows.T @ rows + 0.1 * np.eye(p))
            theta *= radius / np.linalg.norm(theta, axis=1, keepdims=True)
            theta *= rng.random((400, 1)) ** 0.2
            pulls = lengths * expit(theta @ rows.T * lengths)
            shifts = pulls[:, :1] * rows[0] - pulls[:, 1:] * rows[1]
            middle = (rows[0] - rows[1]) / np.linalg.norm(rows[0] - rows[1])
            aside = (rows[0] + rows[1]) / np.linalg.norm(rows[0] + rows[1])
            corners = np.array(
                [
                    0 * middle,
                    most * rows[0],
                    -most * rows[1],
                    far * middle + widest * aside,
                    far * middle - widest * aside,
                ]
            )
            directions = rng.normal(size=(100, p))
            inside = (shifts @ directions.T).max(axis=0)
            allowed = (corners @ directions.T).max(axis=0)
            assert np.all(inside <= allowed + 1e-9)
            reached = max(reached, float(np.max(inside[allowed > 0.1] / allowed[allowed > 0.1])))
        assert reached > 0.8

    @settings(max_examples=60)
    @given(budget=EPSILON, delta=spread(1e-60, 0.95), t=spread(1e-3, 1e3))
    def test_needs_no_more_than_the_whole_rhombus(
        self, budget: float, delta: float, t: float
    ) -> None:
        most, far = (
            logistic_gradient_bound(1.7, t / 1.7),
            logistic_gradient_diameter(1.7, 2, t / 1.7),
        )
        scale = _logistic_gaussian_scale(budget, delta, most, far, False)
        with mp.workdps(20):
            whole = [exact_curve(mpf(budget), k * most / mpf(scale) * 1.001) for k in (1, 2)]
            assert whole[1] + 2 * whole[0] >= delta * (1 - TIGHT)

    @pytest.mark.parametrize(("budget", "delta"), [(0.3, 0.02), (1.0, 0.1), (3.0, 0.2)])
    @pytest.mark.parametrize("t", [1.0, 3.0, 8.0])
    def test_best_shift_after_seeing_the_noise(self, budget: float, delta: float, t: float) -> None:
        row_norm = 1.7
        radius = t / row_norm
        most = logistic_gradient_bound(row_norm, radius)
        far = logistic_gradient_diameter(row_norm, 2, radius)
        scale = _logistic_gaussian_scale(budget, delta, most, far, False)
        unit = seeded(5).normal(size=(20_000, 2))
        turn = np.linspace(0, 2 * math.pi, 49)
        theta = radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)

        def spent(scale: float, angle: float) -> tuple[float, float]:
            rows = row_norm * np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
            pulls = expit(theta @ rows.T)
            shifts = pulls[:, :1] * rows[0] - pulls[:, 1:] * rows[1]
            return found_by_simulation(unit, shifts / scale, budget)

        worst = 0.0
        for angle in np.linspace(0, math.pi, 25):
            found, error = spent(scale, angle)
            assert found - error <= delta
            less, error = spent(0.8 * scale, angle)
            worst = max(worst, less - error)
        assert worst > delta


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
