"""Fits under normal laws, against brute force: minimisers, refits without a row, quadrature."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

from sudare.blending import _records
from sudare.blending._records import Laws, Records, fit
from sudare.foundations.randomness import seeded

NOISE = pytest.mark.parametrize("noise", [None, 0.3], ids=["labels", "targets"])


def records(n: int = 30, p: int = 2, noise: float | None = None, seed: int = 0) -> Records:
    rng = seeded(seed)
    rows = rng.normal(size=(n, p)) / np.sqrt(p)
    scores = rows @ np.resize([2.0, -1.0], p)
    if noise is not None:
        return Records(rows, scores / 4 + np.sqrt(noise) * rng.normal(size=n), noise)
    return Records(rows, np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), 1.0, -1.0))


def laws(p: int = 2, sharp: float = 1.0) -> Laws:
    rng = seeded(7)
    root = rng.normal(size=(3, p, p))
    precision = sharp * (3 * root @ root.transpose(0, 2, 1) + 0.5 * np.eye(p))
    return Laws(rng.normal(size=(3, p)), precision)


def energy_of(own: Records, held: Laws, k: int) -> Any:
    def energy(theta: Any) -> float:
        off = theta - held.mean[k]
        return float(off @ held.precision[k] @ off / 2 + own.losses(own.rows @ theta).sum())

    return energy


@NOISE
def test_fits_minimise_loss_and_energy(noise: float | None) -> None:
    own, held = records(noise=noise), laws()
    found = fit(own, held)
    for k in range(3):
        energy = energy_of(own, held, k)
        other = minimize(energy, np.zeros(2), tol=1e-12)
        np.testing.assert_allclose(found.theta[k], other.x, atol=2e-5)
        assert energy(found.theta[k]) <= other.fun + 1e-9


@pytest.mark.parametrize(("noise", "close"), [(0.3, 1e-12), (None, 0.02)])
def test_left_out_scores_are_those_of_refits(noise: float | None, close: float) -> None:
    """Exact for squared loss, close for logistic; scores of the full fit are not."""
    own, held = records(noise=noise), laws()
    found = fit(own, held)
    refitted = np.empty_like(found.left_out)
    for i in range(len(own)):
        kept = np.arange(len(own)) != i
        without = fit(Records(own.rows[kept], own.targets[kept], noise), held)
        refitted[:, i] = without.theta @ own.rows[i]
    assert np.abs(found.left_out - refitted).mean() < close
    assert np.abs(found.theta @ own.rows.T - refitted).mean() > 3 * close


@pytest.mark.parametrize(("noise", "close"), [(0.3, 1e-8), (None, 0.02)])
def test_evidence_is_an_integral(noise: float | None, close: float) -> None:
    """In one dimension, by quadrature; Laplace's method is exact where all is quadratic."""
    own = records(p=1, noise=noise)
    held = Laws(np.array([[0.2], [-1.0]]), np.array([[[4.0]], [[0.7]]]))
    evidence = fit(own, held).evidence
    for k in range(2):
        precision, mean = float(held.precision[k, 0, 0]), float(held.mean[k, 0])

        def joint(t: float, precision: float = precision, mean: float = mean) -> float:
            prior = np.sqrt(precision / (2 * np.pi)) * np.exp(-precision * (t - mean) ** 2 / 2)
            return float(prior * np.exp(-own.losses(own.rows[:, 0] * t).sum()))

        total = quad(joint, -15, 15, points=[-1, 0, 1, 2], limit=400, epsabs=0.0)[0]
        assert evidence[k] == pytest.approx(np.log(total), abs=close)


@NOISE
@pytest.mark.parametrize(("sharp", "close"), [(1.0, 0.06), (300.0, 0.3)])
def test_many_rows_share_one_curvature(
    monkeypatch: pytest.MonkeyPatch, noise: float | None, sharp: float, close: float
) -> None:
    """The short way gives about what the long one does: exactly so for squared loss; and laws that
    are far off stay far off."""
    own, held = records(4000, p=4, noise=noise), laws(4, sharp)
    short = fit(own, held)
    monkeypatch.setattr(_records, "MANY", 10**9)
    whole = fit(own, held)
    error = close if noise is None else 1e-9
    np.testing.assert_allclose(short.theta, whole.theta, atol=error)
    np.testing.assert_allclose(short.left_out, whole.left_out, atol=error if error > 0.01 else 6e-3)
    np.testing.assert_allclose(short.evidence, whole.evidence, rtol=error / 10)
    assert np.argsort(short.evidence).tolist() == np.argsort(whole.evidence).tolist()


def test_how_many_rows_are_many() -> None:
    """Few rows for each coefficient are never many: there the curvature differs from law to law."""
    assert (_records.MANY, _records.MANY_EACH) == (2000, 40)


def test_blocks_of_rows_do_not_change_a_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(records(), laws())
    monkeypatch.setattr(_records, "_CELLS", 40)
    parts = fit(records(), laws())
    np.testing.assert_allclose(parts.theta, whole.theta, rtol=1e-9)
    np.testing.assert_allclose(parts.left_out, whole.left_out, rtol=1e-8)
    np.testing.assert_allclose(parts.evidence, whole.evidence, rtol=1e-9)
