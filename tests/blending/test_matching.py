"""Coefficients behind moments, against brute force: quadrature and another minimiser."""

from typing import Any

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad
from scipy.optimize import minimize

from sudare.blending._matching import RowLaw, expected_labels, matched
from sudare.foundations.randomness import seeded

LAW = RowLaw(np.array([0.2, -0.1]), np.array([[0.3, 0.1], [0.1, 0.2]]))


def test_expected_labels_are_integrals_over_normal_rows() -> None:
    """Against two-dimensional quadrature, which knows nothing of Stein's identity."""
    nodes, weights = hermegauss(120)
    weights = weights / weights.sum()
    root = np.linalg.cholesky(LAW.spread)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    chance = np.outer(weights, weights).ravel()
    rows = LAW.mean + grid @ root.T
    thetas = np.array([[0.0, 0.0], [1.0, -2.0], [2.5, 2.0]])
    expected, slope = expected_labels(thetas, LAW)
    for theta, mean, steepness in zip(thetas, expected, slope, strict=True):
        t = np.tanh(rows @ theta / 2)
        np.testing.assert_allclose(mean, (chance * t) @ rows, atol=2e-4)
        curved = chance * (1 - t * t) / 2
        np.testing.assert_allclose(steepness, rows.T @ (curved[:, None] * rows), atol=2e-4)


@pytest.mark.parametrize("labels", [True, False])
def test_matches_minimise_their_energy(labels: bool) -> None:
    rng = seeded(7)
    root = rng.normal(size=(3, 2, 2))
    precisions = 40 * root @ root.transpose(0, 2, 1) + 5 * np.eye(2)
    targets = rng.normal(size=(3, 2)) / 5
    priors = np.array([0.1, 1.0, 0.5])[:, None, None] * np.array([[2.0, 0.3], [0.3, 0.7]])
    found = matched(targets, precisions, priors, LAW, labels)
    for k in range(3):

        def energy(theta: Any, k: int = k) -> float:
            expected = expected_labels(theta[None], LAW)[0][0] if labels else LAW.second @ theta
            r = targets[k] - expected
            return float(r @ precisions[k] @ r + theta @ priors[k] @ theta) / 2

        other = minimize(energy, np.zeros(2), tol=1e-12)
        np.testing.assert_allclose(found.laws.mean[k], other.x, atol=2e-5)
        slope = expected_labels(found.laws.mean[[k]], LAW)[1][0] if labels else LAW.second
        np.testing.assert_allclose(found.slopes[k], slope, rtol=1e-9)
        curvature = slope.T @ precisions[k] @ slope + priors[k]
        np.testing.assert_allclose(found.laws.precision[k], curvature, rtol=1e-9)


def test_evidence_is_an_integral() -> None:
    law = RowLaw(np.array([0.0]), np.array([[0.5]]))
    penalties = np.array([0.1, 1.0, 10.0])
    found = matched(
        np.full((3, 1), 0.4), np.full((3, 1, 1), 30.0), penalties[:, None, None], law, False
    )
    for penalty, evidence in zip(penalties, found.evidence, strict=True):

        def density(t: float, penalty: float = float(penalty)) -> float:
            likelihood = np.exp(-15 * (0.4 - 0.5 * t) ** 2)
            return float(likelihood * np.sqrt(penalty / (2 * np.pi)) * np.exp(-penalty * t * t / 2))

        assert evidence == pytest.approx(np.log(quad(density, -30, 30, points=[0.8])[0]), abs=1e-6)


def test_a_target_far_off_is_still_matched() -> None:
    """Targets no θ can reach: the match is where the prior holds it."""
    far = matched(np.array([[5.0, -5.0]]), 1e4 * np.eye(2)[None], np.eye(2)[None] / 2, LAW, True)
    assert np.isfinite(far.laws.mean).all()
    assert far.laws.mean[0, 0] > 1 > -1 > far.laws.mean[0, 1]
