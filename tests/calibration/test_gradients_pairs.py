"""Distance and curvature of logistic records at the same θ, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from sudare.calibration._gradients import (
    logistic_gradient_diameter,
    logistic_gradient_pairs,
)
from sudare.foundations.randomness import seeded
from tests.calibration.problems import Array
from tests.support.strategies import spread

DIMENSIONS = st.sampled_from([1, 2, 10_000])


def found(p: int, row_norm: float, radius: float, count: int) -> tuple[Array, Array]:
    """Curvature of the first record and distance, of many θ and pairs of rows of every kind."""
    rng = seeded(12)
    theta = rng.normal(size=(count, p))
    theta *= radius / np.linalg.norm(theta, axis=1, keepdims=True)
    theta *= np.where(rng.random((count, 1)) < 0.7, 1.0, rng.random((count, 1)))
    rows = rng.normal(size=(2, count, p))
    # Most rows are close to the side of θ, where slopes are small, and stand on opposite sides.
    tilt = rng.normal(size=(2, count, 1)) * np.exp(rng.uniform(-5, 0, (2, count, 1)))
    aside = rows[0] - np.sum(rows[0] * theta, axis=1, keepdims=True) * theta / np.maximum(
        np.sum(theta**2, axis=1, keepdims=True), 1e-300
    )
    sided = np.stack([aside, -aside]) / np.linalg.norm(aside, axis=1, keepdims=True)
    sided = sided + tilt * theta / np.maximum(np.linalg.norm(theta, axis=1, keepdims=True), 1e-300)
    rows = np.where(rng.random((1, count, 1)) < 0.7, sided, rows)
    rows *= row_norm / np.linalg.norm(rows, axis=2, keepdims=True)
    rows *= np.where(rng.random((2, count, 1)) < 0.7, 1.0, rng.random((2, count, 1)))
    slopes = np.sum(rows * theta, axis=2)
    shifts = expit(slopes)[:, :, None] * rows
    curvature = expit(slopes[0]) * expit(-slopes[0]) * np.sum(rows[0] ** 2, axis=1)
    return curvature, np.linalg.norm(shifts[0] - shifts[1], axis=1)


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 2.0, 4.0, 8.0, 30.0, 500.0, 1e5, 1e7])
def test_every_pair_of_records_is_covered(p: int, t: float) -> None:
    """No pair is both more curved and farther apart than every entry; some come close."""
    row_norm = 1.7
    pairs = logistic_gradient_pairs(row_norm, p, t / row_norm)
    curvature, distance = found(p, row_norm, t / row_norm, 200_000)
    # Entries fall in curvature and rise in distance: the last one curved enough reaches farthest.
    enough = np.searchsorted(-pairs.curvature, -curvature, side="right") - 1
    assert enough.min() >= 0
    reach = pairs.distance[enough]
    assert np.all(distance <= reach)
    assert np.max(distance / reach) > 0.99


@given(row_norm=spread(1e-3, 1e3), t=spread(1e-3, 1e9), dimension=DIMENSIONS)
def test_lies_within_the_two_largest(row_norm: float, t: float, dimension: int) -> None:
    for radius in (t / row_norm, None):
        pairs = logistic_gradient_pairs(row_norm, dimension, radius)
        diameter = logistic_gradient_diameter(row_norm, dimension, radius)
        assert pairs.curvature[0] == pytest.approx(row_norm**2 / 4, rel=1e-12)
        assert pairs.curvature[0] >= row_norm**2 / 4
        assert np.all(np.diff(pairs.curvature) <= 0)
        assert np.all(np.diff(pairs.distance) > 0)
        assert diameter * (1 - 2.0**-11) <= pairs.distance[-1] <= diameter


def test_without_a_ball_a_pair_is_one_step_of_the_grid_apart_at_most() -> None:
    """σ and 1 are the lengths of opposite gradients; σ is read from the curvature σ(1 − σ)·X²."""
    row_norm = 1.7
    pairs = logistic_gradient_pairs(row_norm, 3)
    sigma = (1 + np.sqrt(1 - 4 * np.minimum(pairs.curvature / row_norm**2, 0.25))) / 2
    spare = pairs.distance / row_norm - (1 + sigma)
    assert len(spare) == 1024
    assert spare.min() > 0
    assert spare.max() == pytest.approx(1 / 2048, rel=1e-6)


@given(row_norm=spread(1e-3, 1e3), t=spread(1e-2, 1e4), power=st.integers(-20, 20))
def test_follows_the_units(row_norm: float, t: float, power: int) -> None:
    c = 2.0**power
    plain = logistic_gradient_pairs(row_norm, 2, t / row_norm)
    scaled = logistic_gradient_pairs(row_norm * c, 2, t / row_norm / c)
    assert scaled.curvature == pytest.approx(plain.curvature * c * c, rel=1e-12)
    assert scaled.distance == pytest.approx(plain.distance * c, rel=1e-12)


@settings(max_examples=30)
@given(t=spread(1e-2, 1e5), larger=st.floats(1.01, 10), level=st.floats(0.01, 1.0))
def test_a_larger_ball_reaches_farther(t: float, larger: float, level: float) -> None:
    """At every curvature, but for what the proof may add; and no ball reaches beyond none."""

    def reach(radius: float | None) -> float:
        pairs = logistic_gradient_pairs(1.0, 2, radius)
        return float(pairs.distance[pairs.curvature >= level / 4][-1])

    assert reach(t) <= reach(t * larger) * (1 + 2.0**-9)
    assert reach(t) <= reach(None) * (1 + 2.0**-9)


def test_in_doubt_a_gradient_has_half_its_length() -> None:
    """Without a ball: where curvature is largest, no pair is farther apart than 3X/2."""
    pairs = logistic_gradient_pairs(2.0, 5)
    assert pairs.distance[0] == pytest.approx(3.0, rel=1e-3)
    assert pairs.distance[-1] == 4.0
