"""Exact audits of calibrated objective perturbation in the plane, accepted and rejected.

The search is that of `benchmarks/tightness.py`: records, θ and other records that tell most.
"""

from typing import Any

import pytest

from benchmarks.attacks import Plane, logistic_plane, ridge_plane
from sudare.calibration._regression import ObjectiveNoise, logistic_objective, ridge_objective
from sudare.foundations.curves import gaussian_delta

ROW_NORM, TARGET = 1.7, 0.6


def case(
    name: str, epsilon: float, delta: float, reach: float, weight: float
) -> tuple[Plane, ObjectiveNoise]:
    """The law that was asked for: Gaussian noise is cheaper only in many dimensions."""
    public: dict[str, Any] = {
        "n": 1000,
        "dimension": 2 if delta == 0 else 10_000,
        "row_norm": ROW_NORM,
        "radius": reach / ROW_NORM,
        "regularization": weight,
    }
    if name == "ridge":
        plane = ridge_plane(ROW_NORM, TARGET, reach / ROW_NORM)
        return plane, ridge_objective(epsilon, delta, **public, target_bound=TARGET)
    return logistic_plane(ROW_NORM, reach / ROW_NORM), logistic_objective(epsilon, delta, **public)


@pytest.mark.parametrize("name", ["ridge", "logistic"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize(("reach", "weight"), [(1.0, 0.0), (8.0, 0.0), (8.0, 0.01), (30.0, 1e-4)])
def test_pure(name: str, epsilon: float, reach: float, weight: float) -> None:
    """Nearly all of ε is used up, it is never exceeded, and a fifth less noise is refused."""
    plane, noise = case(name, epsilon, 0.0, reach, weight)
    assert noise.law == "gamma"
    found = plane.loss(noise.scale, noise.curvature, rounds=4)
    assert 0.93 * epsilon <= found <= epsilon
    assert plane.loss(0.8 * noise.scale, noise.curvature, rounds=4) > epsilon


@pytest.mark.parametrize("name", ["ridge", "logistic"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("reach", [1.0, 8.0, 30.0])
def test_gaussian(name: str, epsilon: float, reach: float) -> None:
    """With so many other records that θ hardly moves, the two laws are a Gaussian pair."""
    delta = 1e-6
    plane, noise = case(name, epsilon, delta, reach, 0.01)
    assert noise.law == "gaussian"
    distance = plane.distance(rounds=4)
    assert gaussian_delta(epsilon, distance / noise.scale) <= delta
    assert gaussian_delta(epsilon, distance / (0.8 * noise.scale)) > delta
