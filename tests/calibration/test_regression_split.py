"""How ε is split between noise and curvature, and how far an output can move."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from sudare.calibration._gradients import (
    logistic_gradient_diameter,
    ridge_gradient_bound,
    ridge_gradient_diameter,
)
from sudare.calibration._regression import (
    ObjectiveNoise,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_objective,
    ridge_output_sensitivity,
)
from sudare.foundations.randomness import seeded
from tests.calibration.problems import EPSILON, PLAIN, RIDGE, UNIT, Array, climb
from tests.support.strategies import spread


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
