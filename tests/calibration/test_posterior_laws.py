"""The theorems about neighbouring posteriors, on models whose laws are integrated numerically.

Each bound is checked from both sides: no model exceeds it, and a model comes so close to it that a
bound a little smaller would be exceeded.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from sudare.calibration.posterior import (
    deviation_tail,
    posterior_divergence,
    posterior_mu,
    posterior_tail,
    total_variation_slack,
)
from sudare.curves import gaussian_delta
from sudare.randomness import seeded


class Model(NamedTuple):
    """Losses on an interval, the two rows that differ, and the numbers that bound them."""

    loss: Callable[[Any, float], Any]
    common: tuple[float, ...]
    differing: tuple[float, float]
    interval: tuple[float, float]
    temperature: float
    bounds: dict[str, Any]


def far_apart(distance: float, temperature: float, interval: tuple[float, float]) -> Model:
    """√(1 + (θ − x)²), 1-Lipschitz, with a row that moves from far left to far right."""
    return Model(
        lambda theta, x: np.sqrt(1 + (theta - x) ** 2),
        (),
        (-distance, distance),
        interval,
        temperature,
        {"gradient_diameter": 2.0, "prior_curvature": 1.5},
    )


def logistic(temperature: float, interval: tuple[float, float]) -> Model:
    return Model(
        lambda theta, x: np.logaddexp(0.0, -theta * x),
        (1.0, 0.3, -1.0),
        (-1.0, 1.0),
        interval,
        temperature,
        # In one dimension two gradients are at most σ(t) + 0.278/t ≤ 1.052 apart.
        {"gradient_diameter": 1.052, "prior_curvature": 0.2},
    )


def normal_mean(temperature: float, interval: tuple[float, float]) -> Model:
    return Model(
        lambda theta, x: (theta - x) ** 2 / 2,
        (0.5, -0.2, 1.0),
        (-1.0, 1.0),
        interval,
        temperature,
        {"gradient_diameter": 2.0, "prior_curvature": 1.0, "loss_curvature": 1.0, "n": 4},
    )


LINE = (-40.0, 40.0)
GRID = 1e-7  # what the cells of the grid can hide
MODELS = [
    far_apart(1e4, 0.5, LINE),
    far_apart(1e4, 1.5, LINE),
    far_apart(3.0, 0.7, (-1.0, 2.5)),
    logistic(0.3, LINE),
    logistic(2.0, (-0.5, 4.0)),
    normal_mean(0.4, LINE),
    normal_mean(3.0, LINE),
    normal_mean(3.0, (0.2, 1.0)),
]


def laws(model: Model) -> tuple[Any, Any, Any]:
    """Cell masses and log-ratio on a fine grid (the prior is normal with the stated curvature)."""
    theta = np.linspace(*model.interval, 400_001)
    logs = []
    for row in model.differing:
        rows = (*model.common, row)
        data = sum(model.loss(theta, x) - model.loss(np.zeros(1), x) for x in rows)
        value = -model.temperature * data - model.bounds["prior_curvature"] / 2 * theta**2
        top = value.max()
        logs.append(value - top - math.log(float(np.exp(value - top).sum())))
    return np.exp(logs[0]), np.exp(logs[1]), logs[0] - logs[1]


@pytest.mark.parametrize("model", MODELS)
def test_no_law_exceeds_a_bound(model: Model) -> None:
    p, q, ratio = laws(model)
    divergence = float(p @ ratio)
    assert divergence <= posterior_divergence(model.temperature, **model.bounds) + GRID
    mu = posterior_mu(model.temperature, **model.bounds)
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        tail = float(p[ratio > epsilon].sum())
        assert tail <= posterior_tail(epsilon, model.temperature, **model.bounds) + GRID
        beyond = float(p[ratio > divergence + epsilon].sum())
        assert beyond <= deviation_tail(epsilon, model.temperature, **model.bounds) + GRID
        needed = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
        assert needed <= gaussian_delta(epsilon, mu) + GRID


@pytest.mark.parametrize("model", [MODELS[1], MODELS[6]])
def test_divergence_and_curve_are_attained(model: Model) -> None:
    p, q, ratio = laws(model)
    assert p @ ratio == pytest.approx(
        posterior_divergence(model.temperature, **model.bounds), rel=1e-5
    )
    mu = posterior_mu(model.temperature, **model.bounds)
    for epsilon in (0.5, 2.0):
        needed = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
        assert needed == pytest.approx(gaussian_delta(epsilon, mu), rel=1e-4)
        assert needed > gaussian_delta(epsilon, 0.999 * mu)


def test_exponent_of_the_tail_cannot_be_halved() -> None:
    """At six standard deviations the tail is within a polynomial factor of the bound."""
    model = MODELS[1]
    p, _, ratio = laws(model)
    divergence = posterior_divergence(model.temperature, **model.bounds)
    epsilon = divergence + 6 * math.sqrt(2 * divergence)
    bound = posterior_tail(epsilon, model.temperature, **model.bounds)
    tail = float(p[ratio > epsilon].sum())
    assert 0.05 * bound < tail < bound
    assert tail > bound**1.2


# Theorem 12


def needed_delta(p: Any, q: Any, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def nearby(law: Any, distance: float, rng: Any) -> Any:
    """A law within this total variation."""
    other = rng.dirichlet(np.full(len(law), 0.4))
    gap = np.abs(law - other).sum() / 2
    return law + (other - law) * min(1.0, distance / gap)


@pytest.mark.parametrize("seed", range(20))
def test_approximate_samples_cost_no_more_than_their_slack(seed: int) -> None:
    rng = seeded(seed)
    p, q = rng.dirichlet(np.ones(5), 2)
    for epsilon, delta in ((0.1, 0.05), (1.0, 1e-3), (3.0, 0.2)):
        exact = needed_delta(p, q, epsilon)
        slack = total_variation_slack(epsilon, delta)
        found = needed_delta(nearby(p, slack, rng), nearby(q, slack, rng), epsilon)
        assert found <= exact + delta + 1e-15


def test_slack_of_theorem_12_cannot_be_larger() -> None:
    epsilon, delta = 1.0, 1e-3
    p, q = np.array([0.4, 0.3, 0.3]), np.array([0.1, 0.45, 0.45])
    move = np.array([1.0, -0.5, -0.5])
    for factor, kept in ((1.0, True), (1.01, False)):
        shift = factor * total_variation_slack(epsilon, delta) * move
        extra = needed_delta(p + shift, q - shift, epsilon) - needed_delta(p, q, epsilon)
        assert (extra <= delta) is kept
