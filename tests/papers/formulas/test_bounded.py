"""Pure guarantees of bounded losses, against every pair of tables on small finite spaces."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from papers.formulas.bounded import (
    exponential_epsilon,
    exponential_inverse_temperature,
    likelihood_difference_range,
    lipschitz_difference_range,
)
from papers.formulas.posterior import (
    paper_bounded_likelihood_epsilon,
    paper_exponential_inverse_temperature,
    paper_lipschitz_likelihood_epsilon,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.support.strategies import spread

repeatable = settings(derandomize=True, deadline=None, max_examples=100)


def attained(beta: float, losses: Any, prior: Any, pairs: Any) -> float:
    """The largest log-ratio over tables D, D' in `pairs`; losses[x] is a row over Θ."""
    worst = 0.0
    for first, second in pairs:
        laws = []
        for table in (first, second):
            logs = np.log(prior) - beta * losses[list(table)].sum(axis=0)
            laws.append(logs - np.logaddexp.reduce(logs))
        worst = max(worst, float(np.abs(laws[0] - laws[1]).max()))
    return worst


def replaced(records: int, n: int) -> Any:
    """All pairs of tables of n rows that differ in one."""
    for table in itertools.product(range(records), repeat=n):
        for row, other in itertools.product(range(n), range(records)):
            yield table, (*table[:row], other, *table[row + 1 :])


def removed(records: int, n: int) -> Any:
    """All pairs of a table of n rows and the same without its last row."""
    return ((table, table[:-1]) for table in itertools.product(range(records), repeat=n))


@pytest.mark.parametrize("seed", range(8))
def test_no_table_exceeds_the_range(seed: int) -> None:
    rng = seeded(seed)
    losses, prior = rng.uniform(-1, 3, (3, 4)), rng.dirichlet(np.full(4, 0.3))
    differences = losses[:, None] - losses[None]
    spread_of_all = float((differences.max(axis=2) - differences.min(axis=2)).max())
    for beta in (0.1, 1.0, 4.0):
        found = attained(beta, losses, prior, replaced(3, 3))
        assert found <= exponential_epsilon(beta, difference_range=spread_of_all) + 1e-12
        loose = likelihood_difference_range(-losses.max(), -losses.min())
        assert spread_of_all <= loose
        assert beta * loose <= paper_bounded_likelihood_epsilon(
            beta, bound=float(np.abs(losses).max())
        )


def test_the_range_is_attained_in_the_limit() -> None:
    """Two points, two records, a prior that sits almost wholly on the second point."""
    losses = np.array([[0.0, 1.0], [1.0, 0.0]])
    prior = np.array([1e-9, 1 - 1e-9])
    epsilon = exponential_epsilon(1.0, difference_range=likelihood_difference_range(-1.0, 0.0))
    assert epsilon == pytest.approx(2.0, rel=1e-12)
    found = attained(1.0, losses, prior, replaced(2, 2))
    assert 0.999 * epsilon < found <= epsilon
    assert attained(1.01, losses, prior, replaced(2, 2)) > epsilon


def test_adding_a_row_of_bounded_loss_costs_half() -> None:
    losses, prior = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1e-9, 1 - 1e-9])
    assert 0.999 < attained(1.0, losses, prior, removed(2, 3)) <= 1.0
    assert exponential_inverse_temperature(1.0, difference_range=1.0) == pytest.approx(1.0)
    assert paper_exponential_inverse_temperature(1.0, sensitivity=1.0) == 0.5


def test_bounded_likelihood_needs_the_spread_only() -> None:
    """Bernoulli probabilities in [0.1, 0.9] at β = 1: the Bayes posterior itself."""
    grid = np.linspace(0.1, 0.9, 9)
    losses = -np.log(np.array([grid, 1 - grid]))
    epsilon = exponential_epsilon(
        1.0, difference_range=likelihood_difference_range(math.log(0.1), math.log(0.9))
    )
    assert epsilon == pytest.approx(4 * math.log(3), rel=1e-12)
    assert paper_bounded_likelihood_epsilon(1.0, bound=math.log(10)) > 2 * epsilon
    ends = np.array([1e-6, *[1e-12] * 7, 1.0])
    found = attained(1.0, losses, ends / ends.sum(), replaced(2, 3))
    assert 0.999 * epsilon < found <= epsilon


def test_lipschitz_in_the_data() -> None:
    """Losses |θ − x| with x in [0, 1]: 1-Lipschitz in x, neighbours at most 1 apart."""
    records, thetas = np.linspace(0, 1, 4), np.linspace(-1, 2, 7)
    losses = np.abs(thetas - records[:, None])
    prior = np.full(7, 1e-9)
    prior[-1] = 1.0
    epsilon = exponential_epsilon(2.0, difference_range=lipschitz_difference_range(1.0, 1.0))
    assert 0.99 * epsilon < attained(2.0, losses, prior / prior.sum(), replaced(4, 3)) <= epsilon
    # As printed, R is half the diameter of the space of all tables: 3 rows are up to 3 apart.
    assert paper_lipschitz_likelihood_epsilon(2.0, lipschitz=1.0, radius=1.5) > 2.9 * epsilon


@repeatable
@given(spread(1e-6, 50), spread(1e-12, 1e12))
def test_calibrating_and_accounting_agree(epsilon: float, difference_range: float) -> None:
    beta = exponential_inverse_temperature(epsilon, difference_range=difference_range)
    spent = exponential_epsilon(beta, difference_range=difference_range)
    assert epsilon * (1 - 1e-9) <= spent <= epsilon
    with mp.workdps(50):
        assert mpf(beta) * mpf(difference_range) <= spent


@repeatable
@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ranges_are_rounded_up(lowest: float, width: float) -> None:
    highest = lowest + width
    with mp.workdps(50):
        exact = 2 * (mpf(highest) - mpf(lowest))
        assert exact <= likelihood_difference_range(lowest, highest) <= exact * (1 + 1e-9) + 1e-300
        exact = 2 * mpf(abs(lowest)) * mpf(width)
        found = lipschitz_difference_range(abs(lowest), width)
        assert exact <= found <= exact * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: exponential_epsilon(0, difference_range=1), "inverse_temperature"),
        (lambda: exponential_epsilon(1, difference_range=-1), "difference_range"),
        (lambda: exponential_inverse_temperature(0, difference_range=1), "epsilon"),
        (lambda: exponential_inverse_temperature(1, difference_range=0), "difference_range"),
        (lambda: exponential_inverse_temperature(1e-300, difference_range=1e300), "temperature"),
        (lambda: likelihood_difference_range(1.0, 0.0), "lowest"),
        (lambda: likelihood_difference_range(-math.inf, 0.0), "lowest"),
        (lambda: lipschitz_difference_range(-1.0, 1.0), "lipschitz"),
        (lambda: paper_exponential_inverse_temperature(1, sensitivity=0), "sensitivity"),
        (lambda: paper_bounded_likelihood_epsilon(1, bound=-1), "bound"),
        (lambda: paper_lipschitz_likelihood_epsilon(1, lipschitz=1, radius=-1), "radius"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        call()
