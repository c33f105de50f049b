"""Minimising over the simplex: projection and certified gap."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from papers.blends.simplex import minimise_on_simplex, onto_simplex
from sudare.foundations.randomness import seeded

minimise: Any = optimize.minimize  # its types know fewer ways to call it than it does


@given(st.integers(1, 60), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e6]))
def test_projection_meets_its_optimality_conditions(size: int, seed: int, scale: float) -> None:
    """v − w is constant where w > 0 and smaller elsewhere."""
    vector = seeded(seed).normal(size=size) * scale
    point = onto_simplex(vector)
    assert (point >= 0).all()
    assert point.sum() == pytest.approx(1)
    pull = vector - point
    inside = point > 1e-12
    assert np.ptp(pull[inside]) <= 1e-9 * max(1.0, scale)
    assert (pull[~inside] <= pull[inside].max() + 1e-9 * max(1.0, scale)).all()


def test_projection_of_the_huge() -> None:
    assert onto_simplex(np.array([1e20, 3.0, 1e20])).tolist() == [0.5, 0, 0.5]
    assert onto_simplex(np.array([-1e300, 1e300])).tolist() == [0, 1]


def test_without_an_end_the_best_so_far_is_returned() -> None:
    """A gap below zero is never met."""
    centre = np.array([0.2, 0.3, 0.5])

    def steep(w):
        return float(((w - centre) ** 4).sum()), 4 * (w - centre) ** 3

    assert minimise_on_simplex(steep, 3, gap=-1.0, most_steps=500) == pytest.approx(
        centre, abs=0.01
    )


def test_points_of_the_simplex_stay() -> None:
    weights = seeded(1).dirichlet(np.ones(7))
    assert onto_simplex(weights) == pytest.approx(weights, abs=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_least_squares_on_the_simplex(seed: int) -> None:
    rng = seeded(seed)
    table, y = rng.normal(size=(30, 6)), rng.normal(size=30)

    def square(w):
        error = table @ w - y
        return float(error @ error) / 30, 2 * error @ table / 30

    got = minimise_on_simplex(square, 6)
    known = minimise(
        lambda w: square(w)[0],
        np.full(6, 1 / 6),
        jac=lambda w: square(w)[1],
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert square(got)[0] <= known.fun + 1e-8
    assert got == pytest.approx(known.x, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_likelihood_of_a_mixture_against_expectation_maximisation(seed: int) -> None:
    likelihood = seeded(seed).beta(0.5, 0.5, size=(40, 5)) + 1e-9

    def loss(w):
        mixed = likelihood @ w
        return -float(np.log(mixed).mean()), -((1 / mixed) @ likelihood) / 40

    got = minimise_on_simplex(loss, 5)
    weights = np.full(5, 0.2)
    for _ in range(20_000):
        weights *= (likelihood / (likelihood @ weights)[:, None]).mean(axis=0)
    assert loss(got)[0] <= loss(weights)[0] + 1e-8
    _, slope = loss(got)
    assert slope @ got - slope.min() <= 1e-8


def test_a_steep_corner_is_reached() -> None:
    def line(w):
        return float(w @ [1.0, 1e6]), np.array([1.0, 1e6])

    assert minimise_on_simplex(line, 2).tolist() == [1, 0]
    assert minimise_on_simplex(line, 2, gap=0.0).tolist() == [1, 0]
    assert minimise_on_simplex(lambda w: (0.0, np.zeros(1)), 1).tolist() == [1]
