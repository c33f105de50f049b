"""Binomial limits against arbitrary-precision roots and exact enumeration: no randomness here."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from sudare.audit._bounds import epsilon_lower, proportion_lower, proportion_upper


def tail_at_least(count: int, total: int, p: mpmath.mpf) -> mpmath.mpf:
    return mpmath.fsum(
        mpmath.binomial(total, k) * p**k * (1 - p) ** (total - k) for k in range(count, total + 1)
    )


@pytest.mark.parametrize(("count", "total"), [(1, 30), (3, 10), (17, 40), (39, 40), (40, 40)])
@pytest.mark.parametrize("error", [0.05, 0.0005])
def test_lower_limit_solves_its_equation(count, total, error):
    with mpmath.workdps(40):
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        for _ in range(60):
            middle = (low + high) / 2
            if tail_at_least(count, total, middle) < error:
                low = middle
            else:
                high = middle
    bound = float(proportion_lower(count, total, error))
    assert bound <= high
    assert bound == pytest.approx(float(low), rel=1e-8)


@pytest.mark.parametrize(("count", "total"), [(0, 30), (3, 10), (17, 40), (39, 40)])
@pytest.mark.parametrize("error", [0.05, 0.0005])
def test_upper_limit_mirrors_the_lower(count, total, error):
    mirrored = 1 - float(proportion_lower(total - count, total, error))
    assert float(proportion_upper(count, total, error)) == pytest.approx(mirrored, rel=1e-8)


def test_nothing_and_everything():
    assert float(proportion_lower(0, 50, 0.01)) == 0.0
    assert float(proportion_upper(50, 50, 0.01)) == 1.0
    assert float(proportion_upper(0, 50, 0.01)) == pytest.approx(1 - 0.01 ** (1 / 50), rel=1e-8)
    assert float(proportion_lower(50, 50, 0.01)) == pytest.approx(0.01 ** (1 / 50), rel=1e-8)


def test_error_is_kept_and_nearly_used():
    """Summed over all outcomes, a limit fails with probability `error` at most, and nearly so."""
    total, error = 60, 0.02
    outcomes = np.arange(total + 1)
    low, high = (f(outcomes, total, error) for f in (proportion_lower, proportion_upper))
    worst_low = worst_high = 0.0
    for p in np.linspace(0.01, 0.99, 197):
        chance = binom.pmf(outcomes, total, p)
        worst_low = max(worst_low, chance[low > p].sum())
        worst_high = max(worst_high, chance[high < p].sum())
    assert 0.8 * error < worst_low <= error
    assert 0.8 * error < worst_high <= error


def test_epsilon_uses_half_of_the_error_on_each_side():
    likely, unlikely, total, delta, error = 700, 200, 1000, 0.01, 0.002
    p = float(proportion_lower(likely, total, 0.001))
    q = float(proportion_upper(unlikely, total, 0.001))
    bound = float(epsilon_lower(likely, unlikely, total, delta=delta, error=error))
    assert bound == pytest.approx(math.log((p - delta) / q), rel=1e-14)
    assert bound < math.log(0.69 / 0.2)


def test_counts_that_show_nothing():
    bounds = epsilon_lower([0, 5, 400], [0, 5, 400], 1000, delta=0.02, error=0.001)
    assert bounds[0] == bounds[1] == -np.inf
    assert -0.5 < bounds[2] < 0
