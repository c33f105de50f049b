"""Divergences and tails of neighbouring posteriors whose laws are integrated numerically.

Each bound is checked from both sides: no model exceeds it, and a model comes so close to it that a
bound a little smaller would be exceeded.
"""

import math

import pytest

from papers.formulas.posterior import deviation_tail, posterior_divergence, posterior_tail
from tests.calibration.posteriors import GRID, INTEGRATED, Model, laws


@pytest.mark.parametrize("model", INTEGRATED)
def test_no_law_exceeds_a_bound(model: Model) -> None:
    p, _, ratio = laws(model)
    divergence = float(p @ ratio)
    assert divergence <= posterior_divergence(model.temperature, **model.bounds) + GRID
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        tail = float(p[ratio > epsilon].sum())
        assert tail <= posterior_tail(epsilon, model.temperature, **model.bounds) + GRID
        beyond = float(p[ratio > divergence + epsilon].sum())
        assert beyond <= deviation_tail(epsilon, model.temperature, **model.bounds) + GRID


@pytest.mark.parametrize("model", [INTEGRATED[1], INTEGRATED[6]])
def test_the_divergence_is_attained(model: Model) -> None:
    p, _, ratio = laws(model)
    bound = posterior_divergence(model.temperature, **model.bounds)
    assert p @ ratio == pytest.approx(bound, rel=1e-5)


def test_exponent_of_the_tail_cannot_be_halved() -> None:
    """At six standard deviations the tail is within a polynomial factor of the bound."""
    model = INTEGRATED[1]
    p, _, ratio = laws(model)
    divergence = posterior_divergence(model.temperature, **model.bounds)
    epsilon = divergence + 6 * math.sqrt(2 * divergence)
    bound = posterior_tail(epsilon, model.temperature, **model.bounds)
    tail = float(p[ratio > epsilon].sum())
    assert 0.05 * bound < tail < bound
    assert tail > bound**1.2
