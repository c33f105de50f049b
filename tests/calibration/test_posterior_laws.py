"""The theorems about neighbouring posteriors, on models whose laws are integrated numerically.

Each bound is checked from both sides: no model exceeds it, and a model comes so close to it that a
bound a little smaller would be exceeded.
"""

import math
from typing import Any

import numpy as np
import pytest

from sudare.calibration._posterior import posterior_mu, total_variation_slack
from sudare.foundations.curves import gaussian_delta
from sudare.foundations.randomness import seeded
from tests.calibration.posteriors import GRID, INTEGRATED, Model, laws


def needed_delta(p: Any, q: Any, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("model", INTEGRATED)
def test_no_law_exceeds_the_curve(model: Model) -> None:
    p, q, _ = laws(model)
    mu = posterior_mu(model.temperature, **model.bounds)
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        assert needed_delta(p, q, epsilon) <= gaussian_delta(epsilon, mu) + GRID


@pytest.mark.parametrize("model", [INTEGRATED[1], INTEGRATED[6]])
def test_the_curve_is_attained(model: Model) -> None:
    p, q, _ = laws(model)
    mu = posterior_mu(model.temperature, **model.bounds)
    for epsilon in (0.5, 2.0):
        needed = needed_delta(p, q, epsilon)
        assert needed == pytest.approx(gaussian_delta(epsilon, mu), rel=1e-4)
        assert needed > gaussian_delta(epsilon, 0.999 * mu)


# Theorem 12


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
