"""Losses against their definitions, block by block, and the temperatures that theory asks for."""

import math

import mpmath
import numpy as np
import pytest

from sudare.blending._losses import LOSSES, block_rows, loss_blocks, theory_temperature, to_losses
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded

SCORES = [-1e6, -800.0, -40.0, -1.5, -1e-9, 0.0, 1e-9, 0.3, 2.0, 37.0, 750.0, 1e6]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_logistic_loss_against_fifty_digits(sign: float) -> None:
    got = np.array([SCORES])
    to_losses(got, np.array([[sign]]), "logistic", 1.0, np.empty_like(got))
    with mpmath.workdps(50):
        exact = [float(mpmath.log1p(mpmath.exp(-sign * mpmath.mpf(s)))) for s in SCORES]
    assert got[0] == pytest.approx(exact, rel=1e-15, abs=3e-16)


def test_squared_loss_clips_predictions() -> None:
    got = np.array([[-5.0, -1.0, 0.5, 2.0, 7.0]])
    to_losses(got, np.array([[0.5]]), "squared", 2.0, np.empty_like(got))
    assert got.tolist() == [[6.25, 2.25, 0.0, 2.25, 2.25]]


def test_zero_one_loss_counts_what_predict_would_get_wrong() -> None:
    """A score of exactly zero predicts the first class."""
    got = np.array([[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])
    to_losses(got, np.array([[1.0], [-1.0]]), "zero-one", 1.0, np.empty_like(got))
    assert got.tolist() == [[1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "learners"), [(1, 1), (70, 3), (10_000, 2), (40, 5_000)])
def test_blocks_are_the_whole_cut_in_pieces(loss: str, n: int, learners: int) -> None:
    rng = seeded(n)
    rows, theta = rng.normal(size=(n, 4)), rng.normal(size=(learners, 4))
    targets = np.sign(rng.normal(size=n))
    whole = rows @ theta.T
    to_losses(whole, targets[:, None], loss, 1.0, np.empty_like(whole))  # type: ignore[arg-type]
    blocks = [b.copy() for b in loss_blocks(rows, targets, theta, loss, 1.0)]  # type: ignore[arg-type]
    assert max(map(len, blocks)) <= block_rows(learners)
    assert np.allclose(np.vstack(blocks), whole, rtol=1e-12, atol=1e-14)


def test_temperatures() -> None:
    assert theory_temperature("squared", bound=3.0, learners=9, rows=5) == 72
    assert theory_temperature("logistic", bound=3.0, learners=9, rows=5) == 1
    expected = math.sqrt(51 / (8 * math.log(9)))
    assert theory_temperature("zero-one", bound=1.0, learners=9, rows=50) == pytest.approx(expected)
    assert math.isfinite(theory_temperature("zero-one", bound=1.0, learners=1, rows=50))
    with pytest.raises(InvalidInput, match="one of 'squared', 'logistic', 'zero-one'"):
        theory_temperature("hinge", bound=1.0, learners=1, rows=5)  # type: ignore[arg-type]


def criterion(loss: str, temperature: float, seed: int) -> float:
    """The largest E_λ exp(−(ℓ_m − ℓ_λ)/τ) found; the condition is that it never exceeds one.

    For a fixed row this is log-convexity itself; both laws below are attained by two learners.
    """
    rng = seeded(seed)
    weights = rng.dirichlet(np.ones(2) * 0.5, size=200_000)
    if loss == "squared":
        f, y = rng.uniform(-1, 1, size=(200_000, 2)), rng.choice([-1.0, 1.0], size=200_000)
        near = rng.random(200_000) < 0.5
        f[near] = -y[near, None] * (1 - 0.1 * rng.random((near.sum(), 2)))
        losses = (y[:, None] - f) ** 2
        mixed = (y - (weights * f).sum(axis=1)) ** 2
    else:
        p = rng.beta(0.3, 0.3, size=(200_000, 2)) * (1 - 2e-9) + 1e-9
        losses, mixed = -np.log(p), -np.log((weights * p).sum(axis=1))
    return float((weights * np.exp(-(losses - mixed[:, None]) / temperature)).sum(axis=1).max())


@pytest.mark.parametrize(("loss", "seed"), [("squared", 1), ("logistic", 2)])
def test_temperatures_are_the_least_that_meet_the_condition(loss: str, seed: int) -> None:
    tau = theory_temperature(loss, bound=1.0, learners=2, rows=1)  # type: ignore[arg-type]
    assert criterion(loss, tau, seed) <= 1 + 1e-12
    assert criterion(loss, 0.9 * tau, seed) > 1 + 1e-5
