"""The oracle inequality: it holds at the stated temperature and fails well below it.

Two learners and rows drawn from a finite list, so that every expectation is a finite sum: no
simulation error. "Needed" is the τ for which the price τ·log 2/(n + 1) would be met exactly.
"""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from sudare.blending._losses import theory_temperature
from sudare.blending.mirror import init, mirror_weights, step


def needed(
    temperature: float, errors: Any, chances: Any, n: int, loss: str, include_prior: bool = True
) -> float:
    """(E risk of the average − least risk)·(n + 1)/log 2, over all sequences of n rows."""
    losses = errors**2 if loss == "squared" else -np.log(errors)
    mixed = np.square if loss == "squared" else lambda p: -np.log(p)
    used = np.flatnonzero(np.asarray(chances) > 0)
    excess = 0.0
    least = (chances @ losses).min()
    for rows in product(used, repeat=n):
        state = step(init(2), losses[list(rows)], temperature)
        weights = mirror_weights(state, include_prior)
        risk = chances @ mixed(errors @ weights)
        excess += float(np.prod(chances[list(rows)])) * (risk - least)
    return excess * (n + 1) / math.log(2)


def opposed(s: float) -> Any:
    """|f_m − f| ≤ 1 for both learners, whichever is better on the row."""
    return np.array([[1 - s, 1.0], [1.0, 1 - s]])


@pytest.mark.parametrize("s", [0.05, 0.2, 0.4, 1.0, 2.0])
@pytest.mark.parametrize("chance", [0.0, 0.1, 0.35])
def test_squared_loss_at_the_stated_temperature(s: float, chance: float) -> None:
    """No noise and errors up to L = 1: τ = 2L²."""
    assert needed(2.0, opposed(s), np.array([1 - chance, chance]), 7, "squared") <= 2.0


@pytest.mark.parametrize(("n", "s"), [(50, 0.118), (200, 0.04), (1000, 0.0089)])
def test_squared_loss_nearly_needs_that_temperature(n: int, s: float) -> None:
    always = np.array([1.0, 0.0])
    assert 1.95 < needed(2.0, opposed(s), always, n, "squared") <= 2.0


@pytest.mark.parametrize(("n", "s"), [(10, 0.25), (50, 0.135), (200, 0.118)])
def test_squared_loss_at_half_the_temperature_breaks_its_promise(n: int, s: float) -> None:
    always = np.array([1.0, 0.0])
    assert needed(1.0, opposed(s), always, n, "squared") > 1.002


def test_squared_loss_at_a_quarter_breaks_it_on_random_rows() -> None:
    chances = np.array([0.7, 0.3])
    assert needed(0.5, opposed(0.4), chances, 10, "squared") > 0.6


def test_clipped_predictions_meet_the_bounded_temperature() -> None:
    """Targets and predictions at ±Y: errors of up to 2Y, τ = 8Y²."""
    tau = theory_temperature("squared", bound=0.5, learners=2, rows=7)
    assert tau == 2.0
    for s, chance in product((0.1, 0.5, 1.0), (0.0, 0.2)):
        assert needed(tau, opposed(s), np.array([1 - chance, chance]), 7, "squared") <= tau


def test_mixed_probabilities_at_temperature_one_and_below() -> None:
    """Rows for which the learners' probabilities of the truth are p and q, or q and p."""
    worst = {1.0: 0.0, 0.5: 0.0}
    for tau in worst:
        for p, q, chance in product((0.999, 0.9, 0.5), (0.8, 0.3, 1e-3, 1e-9), (0.0, 0.2)):
            chances = np.array([1 - chance, chance])
            n = 100 if chance == 0 else 7
            found = needed(tau, np.array([[p, q], [q, p]]), chances, n, "logistic")
            worst[tau] = max(worst[tau], found)
    assert 0.5 < worst[1.0] <= 1.0
    assert worst[0.5] > 0.5


def test_the_uniform_start_is_worth_its_row() -> None:
    """Averaging over t = 1, …, n keeps the promise only with its extra term."""
    always, n = np.array([1.0, 0.0]), 30
    errors = opposed(0.5)
    printed = needed(2.0, errors, always, n, "squared", include_prior=False) * math.log(2) / (n + 1)
    least, uniform = 0.25, 0.75**2
    assert printed <= (2.0 * math.log(2) + least - uniform) / n
