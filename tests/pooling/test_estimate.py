"""Newton steps on noisy sums: against the maximum of the likelihood, and against simulation."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from sudare.foundations.randomness import seeded
from sudare.pooling._estimate import newton_step

Array = NDArray[np.float64]
TRUTH = np.array([2.0, -1.0, 0.5])


def rows(n: int, seed: int) -> tuple[Array, Array]:
    rng = seeded(seed)
    table = rng.standard_normal((n, 3))
    table /= np.maximum(1.0, np.linalg.norm(table, axis=1, keepdims=True))
    signs = np.where(rng.random(n) < expit(table @ TRUTH), 1.0, -1.0)
    return table, signs


def sums(table: Array, signs: Array, theta: Array) -> tuple[Array, Array]:
    wrong = expit(-signs * (table @ theta))
    return (signs * wrong) @ table, (table * (wrong * (1 - wrong))[:, None]).T @ table


def test_without_noise_steps_lead_to_the_maximum() -> None:
    table, signs = rows(5000, seed=0)
    theta = np.zeros(3)
    for _ in range(8):
        theta, covariance = newton_step(theta, *sums(table, signs, theta), 1e-9, 1e-9)
    score, hessian = sums(table, signs, theta)
    # The wide prior pulls a little: θ/B² is all that is left of the score.
    assert score == pytest.approx(theta / 100, abs=1e-4)
    assert covariance == pytest.approx(np.linalg.inv(hessian + np.eye(3) / 100), rel=1e-6)
    assert np.all(np.abs(theta - TRUTH) < 5 * np.sqrt(np.diag(covariance)))


def test_the_spread_is_what_it_says() -> None:
    """1,500 simulations with fixed seeds: errors in units of the stated covariance.

    Their squared length has mean 3 if it is right. It is a little wide: what is not known of θ is
    counted beside a step that is too long already. With the noise of the Hessian left out it would
    be too narrow.
    """
    noise_std, hessian_noise_std = 12.0, 15.0
    start = np.array([1.0, 0.0, 0.0])
    table, _ = rows(4000, seed=1)
    rng = seeded(2)
    told: list[float] = []
    too_sure: list[float] = []
    for _ in range(1500):
        signs = np.where(rng.random(len(table)) < expit(table @ TRUTH), 1.0, -1.0)
        score, hessian = sums(table, signs, start)
        # The curve's third order is the step's own, known error: taken out here.
        ideal, _ = sums(table, signs, TRUTH)
        score = ideal + hessian @ (TRUTH - start)
        score = score + noise_std * rng.standard_normal(3)
        noise = hessian_noise_std * rng.standard_normal((3, 3))
        noise = (noise + noise.T) / np.sqrt(2)
        for found, known in ((told, hessian_noise_std), (too_sure, 1e-9)):
            theta, covariance = newton_step(start, score, hessian + noise, noise_std, known)
            error = theta - TRUTH
            found.append(float(error @ np.linalg.solve(covariance, error)))
    assert 2.3 < np.mean(told) < 3.1
    assert np.mean(too_sure) > 3.5


def test_sums_that_no_rows_can_have_do_no_harm() -> None:
    """A hostile organisation can make them anything; what comes out is finite and short."""
    rng = seeded(3)
    for size in (1.0, 1e6, 1e15):
        noise = size * rng.standard_normal((3, 3))
        theta, covariance = newton_step(
            np.zeros(3), size * rng.standard_normal(3), noise + noise.T, 1.0, 0.2
        )
        assert np.all(np.isfinite(theta))
        assert np.all(np.isfinite(covariance))
        assert np.all(np.diag(covariance) > 0)


def test_all_noise_says_nothing() -> None:
    theta, covariance = newton_step(np.ones(3), np.ones(3), np.eye(3), 1e9, 1e9)
    assert np.abs(theta).max() < 1e-3
    assert covariance == pytest.approx(100 * np.eye(3), rel=1e-3)
