"""Counting and choosing events, against plain loops. Seeds are fixed."""

import numpy as np
import pytest

from sudare.audit import _bounds as bounds
from sudare.audit._events import Event, Tally
from sudare.audit._statistics import Statistic
from sudare.foundations.randomness import seeded

FIRST_COLUMN = Statistic(lambda x: x[:, 0], lambda t, upper: f"{'>=' if upper else '<'} {t:g}")


def test_an_event_counts_its_tail():
    outputs = np.array([[1.0], [2.0], [2.0], [3.0], [np.nan]])
    assert Event(FIRST_COLUMN, 2.0, True, 0).count(outputs) == 3
    assert Event(FIRST_COLUMN, 2.0, False, 0).count(outputs) == 1
    assert Event(FIRST_COLUMN, 2.0, False, 0).words == "< 2"


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_best_event_is_the_best_of_all_by_brute_force(delta):
    """With few distinct outputs all tails are candidates, so a loop over them knows the answer."""
    rng = seeded(0)
    fit = rng.poisson(3.0, size=(500, 1)).astype(float), rng.poisson(4, size=(500, 1)).astype(float)
    first, second = rng.poisson(3.0, size=4000), rng.poisson(4.0, size=4000)
    tally = Tally(*fit)
    for block in np.array_split(np.arange(4000), 7):
        tally.add(first[block, None].astype(float), 0)
        tally.add(second[block, None].astype(float), 1)
    event = tally.best(delta=delta, error=0.001)
    counts = [event.count(x[:, None].astype(float)) for x in (first, second)]
    reached = bounds.epsilon_lower(
        counts[event.likely], counts[1 - event.likely], 4000, delta=delta, error=0.001
    )
    best = max(
        float(
            bounds.epsilon_lower(inside(p).sum(), inside(q).sum(), 4000, delta=delta, error=0.001)
        )
        for p, q in ((first, second), (second, first))
        for t in range(15)
        for inside in (lambda x, t=t: x >= t, lambda x, t=t: x < t, lambda x, t=t: x == t)
    )
    assert best > 0.3
    assert reached >= best - 0.011 * abs(best)


def test_a_rare_event_does_not_win_by_luck():
    """One draw in 2,000 is unique to the first input; a ratio of counts would fall for it."""
    rng = seeded(1)
    first, second = rng.normal(size=(2, 2000, 1))
    first[0] = 50.0
    tally = Tally(first, second)
    tally.add(first, 0)
    tally.add(second, 1)
    event = tally.best(delta=0.0, error=0.001)
    assert event.count(first) > 100


def test_direction_is_learnt():
    rng = seeded(2)
    first, second = rng.random((2000, 1)) < 0.2, rng.random((2000, 1)) < 0.7
    tally = Tally(first.astype(float), second.astype(float))
    tally.add(first.astype(float), 0)
    tally.add(second.astype(float), 1)
    event = tally.best(delta=0.0, error=0.001)
    assert event.likely == 1
    assert event.words in {"output 1 equals 1", "output 1 differs from 0"}
