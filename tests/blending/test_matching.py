"""Fits under beliefs, against brute force: other minimisers, refits without a row, quadrature."""

from typing import Any

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad
from scipy.optimize import minimize

from sudare.blending._matching import (
    Beliefs,
    Records,
    RowLaw,
    expected_labels,
    fit,
    release_evidence,
    ridges,
)
from sudare.foundations.randomness import seeded

LAW = RowLaw(np.array([0.2, -0.1]), np.array([[0.3, 0.1], [0.1, 0.2]]))


def records(n: int = 30, p: int = 2, noise: float | None = None, seed: int = 0) -> Records:
    rng = seeded(seed)
    rows = rng.normal(size=(n, p)) / np.sqrt(p)
    scores = rows @ np.resize([2.0, -1.0], p)
    if noise is not None:
        return Records(rows, scores / 4 + np.sqrt(noise) * rng.normal(size=n), noise)
    return Records(rows, np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), 1.0, -1.0))


def beliefs(p: int = 2, about: Any = "labels", law: RowLaw = LAW) -> Beliefs:
    rng = seeded(7)
    root = rng.normal(size=(3, p, p))
    precision = 20 * root @ root.transpose(0, 2, 1) + 5 * np.eye(p)
    return Beliefs(rng.normal(size=(3, p)) / 5, precision, about, np.array([0.1, 1.0, 0.5]), law)


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


@pytest.mark.parametrize("about", ["labels", "targets", "coefficients"])
@pytest.mark.parametrize("noise", [None, 0.3])
def test_fits_minimise_loss_and_energy(about: Any, noise: float | None) -> None:
    own, held = records(noise=noise), beliefs(about=about)
    found = fit(own, held)
    for k in range(3):

        def energy(theta: Any, k: int = k) -> float:
            expected = {
                "labels": lambda: expected_labels(theta[None], LAW)[0][0],
                "targets": lambda: LAW.second @ theta,
                "coefficients": lambda: theta,
            }[about]()
            r = held.target[k] - expected
            prior = r @ held.precision[k] @ r + held.penalty[k] * theta @ theta
            return float(prior / 2 + own.losses(own.rows @ theta).sum())

        other = minimize(energy, np.zeros(2), tol=1e-12)
        np.testing.assert_allclose(found.theta[k], other.x, atol=2e-4)
        assert energy(found.theta[k]) <= other.fun + 1e-9


def test_without_a_belief_it_is_ridge_regression() -> None:
    own = records(noise=0.3)
    penalties = np.array([0.1, 10.0])
    found = fit(own, ridges(penalties, LAW))
    for k, penalty in enumerate(penalties):
        gram = own.rows.T @ own.rows / 0.3 + penalty * np.eye(2)
        np.testing.assert_allclose(
            found.theta[k], np.linalg.solve(gram, own.rows.T @ own.targets / 0.3), rtol=1e-9
        )


@pytest.mark.parametrize(("noise", "close"), [(0.3, 1e-12), (None, 0.01)])
def test_left_out_scores_are_those_of_refits(noise: float | None, close: float) -> None:
    """Exact for squared loss, close for logistic; scores of the full fit are not."""
    own, held = records(noise=noise), beliefs(about="labels" if noise is None else "targets")
    found = fit(own, held)
    refitted = np.empty_like(found.left_out)
    for i in range(len(own)):
        kept = np.arange(len(own)) != i
        without = fit(Records(own.rows[kept], own.targets[kept], noise), held)
        refitted[:, i] = without.theta @ own.rows[i]
    assert np.abs(found.left_out - refitted).mean() < close
    assert np.abs(found.theta @ own.rows.T - refitted).mean() > 5 * close


@pytest.mark.parametrize(("noise", "close"), [(0.3, 1e-8), (None, 0.02)])
@pytest.mark.parametrize("about", ["labels", "targets"])
def test_evidence_is_an_integral(about: Any, noise: float | None, close: float) -> None:
    """In one dimension, by quadrature; Laplace's method is exact where all is quadratic."""
    law = RowLaw(np.array([0.1]), np.array([[0.4]]))
    own = records(p=1, noise=noise)
    precision = np.array([[[40.0]], [[4.0]]])
    held = Beliefs(np.array([[0.2], [-0.1]]), precision, about, np.array([0.3, 1.0]), law)
    evidence = fit(own, held).evidence
    for k in range(2):

        def log_prior(t: float, k: int = k) -> float:
            theta = np.array([[t]])
            expected = (
                float(expected_labels(theta, law)[0][0, 0])
                if about == "labels"
                else float(law.second[0, 0]) * t
            )
            r = float(held.target[k, 0]) - expected
            return -(float(precision[k, 0, 0]) * r * r + float(held.penalty[k]) * t * t) / 2

        def joint(t: float, k: int = k) -> float:
            return float(np.exp(log_prior(t, k) - own.losses(own.rows[:, 0] * t).sum()))

        def prior(t: float, k: int = k) -> float:
            return float(np.exp(log_prior(t, k)))

        total = quad(joint, -15, 15, points=[-1, 0, 1, 2], limit=400, epsabs=0.0)[0]
        weight = quad(prior, -15, 15, points=[0], limit=400, epsabs=0.0)[0]
        loose = close if about == "targets" else max(close, 0.15)
        assert evidence[k] == pytest.approx(np.log(total / weight), abs=loose)


def test_release_evidence_is_an_integral() -> None:
    law = RowLaw(np.array([0.0]), np.array([[0.5]]))
    penalties = np.array([0.1, 1.0, 10.0])
    held = Beliefs(np.full((3, 1), 0.4), np.full((3, 1, 1), 30.0), "targets", penalties, law)
    for penalty, found in zip(penalties, release_evidence(held), strict=True):

        def density(t: float, penalty: float = float(penalty)) -> float:
            likelihood = np.exp(-15 * (0.4 - 0.5 * t) ** 2)
            return float(likelihood * np.sqrt(penalty / (2 * np.pi)) * np.exp(-penalty * t * t / 2))

        assert found == pytest.approx(np.log(quad(density, -30, 30, points=[0.8])[0]), abs=1e-6)


def test_blocks_of_rows_do_not_change_a_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(records(), beliefs())
    monkeypatch.setattr("sudare.blending._matching._CELLS", 40)
    parts = fit(records(), beliefs())
    np.testing.assert_allclose(parts.theta, whole.theta, rtol=1e-9)
    np.testing.assert_allclose(parts.left_out, whole.left_out, rtol=1e-8)
    np.testing.assert_allclose(parts.evidence, whole.evidence, rtol=1e-9)


def test_a_belief_far_off_is_still_fitted() -> None:
    """Targets no θ can reach: the minimiser is where the penalty holds it."""
    held = Beliefs(np.array([[5.0, -5.0]]), 1e4 * np.eye(2)[None], "labels", np.array([0.5]), LAW)
    found = fit(records(), held)
    assert np.isfinite(found.theta).all()
    assert np.isfinite(found.evidence).all()
    assert found.evidence[0] < fit(records(), ridges(np.array([0.5]), LAW)).evidence[0]
