"""Regression noise against 80-digit arithmetic, exact one-dimensional audits and brute force."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from sudare.calibration.gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_diameter,
)
from sudare.calibration.regression import (
    ObjectiveNoise,
    _polygon_gaussian_scale,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_objective,
    ridge_output_sensitivity,
)
from sudare.checks import InvalidInput
from sudare.randomness import seeded
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
