"""What false reports do to a count, and what assigned rounds and counting once are worth."""

import numpy as np
import pytest

from sudare.counting import Survey, open_office
from sudare.counting._simulation import Simulation, simulate
from sudare.counting.signals import constant

USERS, ROUNDS, LIARS = 10_000, 50, 100
SURVEY = Survey(name="attacked", rounds=ROUNDS, epsilon=1.0)


@pytest.fixture(scope="module")
def honest() -> Simulation:
    shares, users = constant(ROUNDS), USERS - LIARS
    return simulate(SURVEY, shares, users, runs=200, rng=1, blocks=True)


def moved(told: Simulation, false_ones: np.ndarray) -> np.ndarray:
    """How far reports that always say one move the estimate of each round, on average."""
    n, y = told.reporters, told.ones
    shift = (y + false_ones) / (n + false_ones) - y / n
    return shift.mean(axis=0) / SURVEY.attenuation


def test_rounds_must_be_assigned(honest: Simulation) -> None:
    """One user in a hundred lies: a third off in a round of their choice, else a hundredth."""
    chosen = moved(honest, np.where(np.arange(ROUNDS) == 7, LIARS, 0))
    office = open_office(SURVEY, bytes(32))
    cells = office.cells(np.arange(LIARS), np.zeros(LIARS, np.int64))
    assigned = moved(honest, np.bincount(cells, minlength=ROUNDS))
    assert chosen[7] == pytest.approx(0.36, abs=0.01)
    assert chosen.sum() == pytest.approx(chosen[7])
    assert assigned == pytest.approx(np.full(ROUNDS, 0.0107), abs=0.002)


def test_a_report_must_count_once(honest: Simulation) -> None:
    first = np.arange(ROUNDS) == 0
    replayed, once = (moved(honest, np.where(first, times, 0))[0] for times in (200, 1))
    assert replayed == pytest.approx(0.54, abs=0.01)
    assert once == pytest.approx(0.0055, abs=0.001)


def test_one_false_report_moves_no_more_than_is_said(honest: Simulation) -> None:
    """(p/(p − q) − share)/n, where the share is that of the reports without it."""
    n, y = honest.reporters, honest.ones
    c = SURVEY.attenuation
    limit = ((1 + c) / (2 * c) - honest.raw) / (n + 1)
    shift = ((y + 1) / (n + 1) - y / n) / c
    assert shift == pytest.approx(limit)
