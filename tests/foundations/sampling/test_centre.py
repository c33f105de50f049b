"""Centre and pull: what the certificate takes for granted of them, for every kind of table."""

import math
from typing import Any

import numpy as np
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import LogisticPosterior, settle
from sudare.foundations.sampling.centre import CLOSE


def problems() -> Any:
    rng = seeded(0)
    for seed in range(60):
        n, p = int(rng.integers(1, 80)), int(rng.integers(1, 9))
        rows = rng.normal(size=(n, p)) * np.exp(rng.normal(size=p))
        if seed % 3 == 0:
            rows = np.abs(rows)  # separable: the mode is far out
        if seed % 4 == 0:
            rows[0] *= 50
        if seed % 7 == 0:
            rows *= 0.0
        beta, m = 10.0 ** rng.uniform(-2, 3), 10.0 ** rng.uniform(-3, 2)
        radius = 10.0 ** rng.uniform(-2, 1.5)
        longest = float(np.linalg.norm(rows, axis=1).max())
        # As steep as `certify_logistic` makes it.
        wall = 1.01 * (0.27847 * beta * n / radius + (p - 1 + 65536) / radius)
        yield LogisticPosterior(rows, beta, m, radius, wall), longest


def test_what_is_taken_for_granted() -> None:
    pulled = 0
    for target, longest in problems():
        p = target.rows.shape[1]
        for start in (None, np.full(p, target.radius / math.sqrt(p))):
            centre, pull = settle(target, start)
            norm = float(np.linalg.norm(centre))
            assert norm <= target.radius * (1 + 1e-12)
            assert 0 <= pull <= target.wall / target.limit
            assert pull / 2 * (target.radius**2 - norm**2) <= 2 * p * (1 + 1e-9)
            hessian, _ = target.hessian(centre)
            hessian += pull * np.eye(p)
            gradient = target.gradient(centre) + pull * centre
            assert gradient @ np.linalg.solve(hessian, gradient) <= (CLOSE / 3.9) ** 2
            pulled += pull > 0
        assert longest >= 0
    assert 20 < pulled < 100


def test_without_a_ball_it_is_the_mode() -> None:
    rows = seeded(1).normal(size=(200, 4)) + 0.3
    target = LogisticPosterior(rows, 1.0, 0.5)
    centre, pull = settle(target)
    assert pull == 0.0
    assert np.linalg.norm(target.gradient(centre)) < 0.1
    assert np.linalg.norm(target.gradient(np.zeros(4))) > 10


def test_hessian_is_the_gradient_s_derivative() -> None:
    target = LogisticPosterior(seeded(2).normal(size=(9000, 3)), 0.7, 0.2, linear=np.ones(3))
    theta = np.array([0.3, -0.2, 0.1])
    hessian, weights = target.hessian(theta)
    assert weights.shape == (9000,)
    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        numeric = (target.gradient(theta + step) - target.gradient(theta - step)) / 2e-5
        assert hessian[k] == pytest.approx(numeric, rel=1e-6)


@pytest.mark.parametrize("start", [[np.nan, 0.0], np.zeros(3), np.zeros((1, 2))])
def test_refused_start(start: Any) -> None:
    with pytest.raises(InvalidInput, match="start"):
        settle(LogisticPosterior(np.ones((3, 2)), 1.0, 1.0), start)
