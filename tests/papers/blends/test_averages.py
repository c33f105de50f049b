"""Averages by public numbers, and the best single learner."""

import numpy as np
import pytest

from papers.blends import BestLearner, PrecisionAverage, UniformAverage
from tests.blending.parties import CLASSES, NUMBERS, learner, rows_and_targets, some_learners


def test_uniform() -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    model = UniformAverage(some_learners(CLASSES)).fit(table, y)
    assert model.weights_.tolist() == [0.2] * 5
    assert model.coef_[0] == pytest.approx(model.components_.mean(axis=0)[:3])


def test_own_rows_have_no_say_in_averages() -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    releases = some_learners(CLASSES)
    for kind in (UniformAverage, PrecisionAverage):
        one, other = kind(releases).fit(table, y), kind(releases).fit(-table[:3], y[:3])
        assert (one.weights_ == other.weights_).all()


def test_precision() -> None:
    """1/variance, where noise rules and where sampling does."""
    table, y, _ = rows_and_targets(NUMBERS, 20)
    noisy = [
        learner("A", np.ones(4), NUMBERS, n=10**9, noise_std=0.5),
        learner("B", np.ones(4), NUMBERS, n=10**9, noise_std=1.0),
    ]
    assert PrecisionAverage(noisy).fit(table, y).weights_ == pytest.approx([0.8, 0.2])
    small = [
        learner("A", np.ones(4), NUMBERS, n=300, noise_std=1e-9),
        learner("B", np.ones(4), NUMBERS, n=100, noise_std=1e-9),
    ]
    assert PrecisionAverage(small).fit(table, y).weights_ == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("contract", [CLASSES, NUMBERS])
def test_best_single_learner(contract) -> None:
    table, y, numbers = rows_and_targets(contract, 50)
    releases = some_learners(contract, 8)[::-1]
    model = BestLearner(releases).fit(table, y)
    scores = contract.rows(table) @ model.components_.T
    if contract is CLASSES:
        losses = np.log1p(np.exp(-numbers[:, None] * scores))
    else:
        losses = (np.clip(scores, -2, 2) - numbers[:, None]) ** 2
    expected = np.eye(8)[np.argmin(losses.mean(axis=0))]
    assert model.weights_.tolist() == expected.tolist()
    assert model.weights_[-1] == 1 or contract is CLASSES
    again = BestLearner([learner("first", np.ones(4), contract), *releases]).fit(table, y)
    assert again.weights_[1:].tolist() == expected.tolist()


def test_the_first_of_equals_is_best() -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    twins = [learner(name, np.ones(4)) for name in "AB"]
    assert BestLearner(twins).fit(table, y).weights_.tolist() == [1, 0]
