"""Prices and bounds against their formulas, fifty digits and simulation."""

import math
from typing import Any

import numpy as np
import pytest

from sudare.blending._losses import theory_temperature
from sudare.blending._theory import holdout_interval, oracle_price, privacy_cost
from sudare.foundations.checks import InvalidInput
from sudare.foundations.mechanisms import gamma_noise, gaussian_noise
from sudare.foundations.randomness import seeded


def test_price_of_the_oracle() -> None:
    assert oracle_price("squared", 8.0, learners=10, rows=199) == pytest.approx(0.0921034037)
    assert oracle_price("logistic", 1.0, learners=1, rows=7) == 0
    tau = theory_temperature("zero-one", bound=1.0, learners=10, rows=199)
    price = oracle_price("zero-one", tau, learners=10, rows=199)
    assert price == pytest.approx(math.sqrt(math.log(10) / 400))
    assert price == pytest.approx(2 * tau * math.log(10) / 200)
    for off in (0.9, 1.1):
        assert oracle_price("zero-one", off * tau, learners=10, rows=199) > price


def test_the_bounded_price_holds_and_half_of_it_does_not() -> None:
    """A learner drawn by the averaged weights, on rows that are pure chance for all learners."""
    rng, n, learners = seeded(0), 60, 12
    tau = theory_temperature("zero-one", bound=1.0, learners=learners, rows=n)
    # All but one learner are wrong with probability ½, that one a little less often.
    gap = 1.2 * math.sqrt(math.log(learners) / n)
    risks = np.full(learners, 0.5)
    risks[0] -= gap
    losses = (rng.random((2_000, n, learners)) < risks) * 1.0
    energy = np.cumsum(losses, axis=1) / tau
    energy = np.concatenate([np.zeros((2_000, 1, learners)), energy], axis=1)
    weights = np.exp(energy.min(axis=2, keepdims=True) - energy)
    weights /= weights.sum(axis=2, keepdims=True)
    excess = float((weights.mean(axis=1) @ risks).mean() - risks[0])
    price = oracle_price("zero-one", tau, learners=learners, rows=n)
    assert 0.5 * price < excess <= price


@pytest.mark.parametrize("law", ["gamma", "gaussian"])
def test_privacy_cost_bounds_what_noise_costs(law: Any) -> None:
    """A quadratic objective: the exact expected excess is half the bound where κ is all of it."""
    p, scale, kappa, n = 3, 2.0, 5.0, 40
    rng = seeded(1)
    if law == "gamma":
        b = gamma_noise(scale, p, rng, runs=20_000)
    else:
        b = gaussian_noise(scale, (20_000, p), rng)
    # J(θ) = (κ/2)‖θ‖²: the minimiser of J + b·θ is −b/κ, its excess ‖b‖²/(2κ).
    excess = ((b / kappa) ** 2).sum(axis=1).mean() * kappa / 2 / n
    cost = privacy_cost(
        law=law, scale=scale, curvature=kappa, extra_curvature=0.0, radius=1.0, dimension=p, n=n
    )
    assert cost == pytest.approx(excess, rel=0.05)
    extra = privacy_cost(
        law=law, scale=scale, curvature=kappa, extra_curvature=2.0, radius=3.0, dimension=p, n=n
    )
    assert extra - cost == pytest.approx(2 * 9 / (2 * n))


@pytest.mark.parametrize("rate", [0.02, 0.5])
def test_holdout_interval_covers(rate: float) -> None:
    rng, covered = seeded(3), 0
    for _ in range(500):
        low, high = holdout_interval((rng.random(300) < rate) * 1.0, alpha=0.1)
        covered += low <= rate <= high
    assert covered >= 450
    low, high = holdout_interval((rng.random(100_000) < rate) * 1.0)
    assert high - low < 0.02


def test_holdout_interval_formula() -> None:
    values = np.array([0.0, 0.25, 1.0, 0.5] * 50)
    low, high = holdout_interval(values, 0.05)
    rate = math.log(80)
    width = math.sqrt(2 * values.var(ddof=1) * rate / 200) + 7 * rate / (3 * 199)
    assert (low, high) == pytest.approx((values.mean() - width, values.mean() + width))
    assert holdout_interval([0.0, 0.0])[0] == 0
    assert holdout_interval([1.0, 1.0])[1] == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: oracle_price("hinge", 1.0, learners=2, rows=2), "one of"),  # type: ignore[arg-type]
        (lambda: oracle_price("squared", 0.0, learners=2, rows=2), "temperature=0.0 > 0"),
        (lambda: holdout_interval([0.5]), "at least two losses"),
        (lambda: holdout_interval([0.5, 1.5]), r"all in \[0, 1\]"),
        (lambda: holdout_interval([0.5, np.nan]), "NaN"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()
