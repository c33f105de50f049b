"""Slopes of rows at hand, by simulation, and of sums beyond computing.

Five slopes of 300 draws: the share that holds has a standard error below 0.006 where the level is
.95; the bounds are four of them or more away, and seeds are fixed.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.estimation import NoisySums
from sudare.foundations.randomness import seeded
from sudare.site._slopes import Slopes, line_through, own_slopes, slopes_of_sums
from tests.estimation.test_lines import CLASSES, amounts, drawn, labels, skewed, truth

Array = NDArray[np.float64]


def held(found: list[Slopes], theta: Array, factor: float = 1.0) -> float:
    """Share of the intervals told, the constant's left out, that hold."""
    away = np.array([abs(each.values - theta)[:-1] for each in found])
    halves = factor * np.array([each.halves[:-1] for each in found])
    told = np.isfinite(away)
    assert told.mean() > 0.99
    return float((away[told] <= halves[told]).mean())


@pytest.mark.parametrize("draw", [labels, amounts])
def test_intervals_of_own_rows_hold_as_often_as_they_say(draw) -> None:
    theta, _ = truth(draw)
    rng, found = seeded(3), []
    for _ in range(300):
        rows = skewed(80, rng)
        found.append(own_slopes(rows, draw(rows, rng))[0])
    assert 0.925 < held(found, theta) < 0.98
    assert held(found, theta, 0.7) < 0.9


def test_sums_that_noise_hides_or_that_cannot_be_computed_with_tell_nothing() -> None:
    rng = seeded(5)
    gram, cross, _ = drawn(labels, rng)
    sums = NoisySums(CLASSES.contract, 60, cross / 60, gram / 60, None, 9.0)
    told = slopes_of_sums(sums, CLASSES, 1.0)
    assert np.isnan(told.values[:-1]).all()
    broken = NoisySums(CLASSES.contract, 60, cross, np.full((6, 6), np.nan), None, 9.0)
    assert np.isnan(slopes_of_sums(broken, CLASSES, 1.0).halves).all()


def test_what_own_rows_do_not_settle_is_not_told() -> None:
    rng = seeded(6)
    rows = skewed(50, rng)
    rows[:, 2] = 0.0  # nobody
    rows[:, 4] = rows[:, 3]  # one and the same
    y = labels(rows, rng)
    found, _ = own_slopes(rows, y)
    np.testing.assert_array_equal(np.isnan(found.values), [False, False, True, True, True, False])
    np.testing.assert_array_equal(np.isnan(line_through(rows, y)), np.isnan(found.values))
    np.testing.assert_allclose(line_through(rows, y)[0], found.values[0])
    few, scatter = own_slopes(rows[:3], y[:3])
    assert np.isnan(few.values).all()
    assert 0 < scatter <= 1
