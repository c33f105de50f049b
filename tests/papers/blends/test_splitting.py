"""Data splitting and mixing."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from papers.blends import SplitMixing, UniformAverage
from papers.blends.splitting import _classes, _numbers
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.blending.parties import CLASSES, NUMBERS, learner, rows_and_targets, some_learners, truth


def test_scales_of_classes_are_penalised_maximum_likelihood() -> None:
    rng = seeded(1)
    scores = rng.normal(size=(30, 4)) * [0.1, 1, 5, 30]
    signs = np.where(rng.random(30) < 1 / (1 + np.exp(-scores[:, 1])), 1.0, -1.0)
    scale, _ = _classes(scores, signs, scores, signs)
    for m in range(4):
        z = signs * scores[:, m]
        weight = (z**2).mean() / 4

        def cost(a: float, z: Any = z, weight: float = weight) -> float:
            return float(np.logaddexp(0, -a * z).sum() + weight / 2 * (a - 1) ** 2)

        assert scale[m] == pytest.approx(minimize_scalar(cost).x, abs=1e-4)


def test_evidence_of_classes_is_the_log_likelihood_of_the_other_half() -> None:
    rng = seeded(2)
    scores, new = rng.normal(size=(20, 3)), rng.normal(size=(15, 3))
    signs, new_signs = np.sign(rng.normal(size=20)), np.sign(rng.normal(size=15))
    scale, evidence = _classes(scores, signs, new, new_signs)
    expected = -np.logaddexp(0, -new_signs[:, None] * new * scale).sum(axis=0)
    assert evidence == pytest.approx(expected)


def test_numbers_are_scaled_and_weighed_by_their_normal_likelihood() -> None:
    rng = seeded(3)
    scores, new = rng.normal(size=(20, 3)) / 4, rng.normal(size=(15, 3)) / 4
    y, new_y = 2 * scores[:, 0] + 0.01 * rng.normal(size=20), 2 * new[:, 0]
    scale, evidence = _numbers(scores, y, new, new_y, 5.0)
    weight = (scores**2).mean(axis=0)
    expected = (scores.T @ y + weight) / ((scores**2).sum(axis=0) + weight)
    assert scale == pytest.approx(expected)
    assert scale[0] == pytest.approx(2, rel=0.05)
    assert np.argmax(evidence) == 0
    variance = (((y[:, None] - scale * scores) ** 2).sum(axis=0) + 25 / 20) / 21
    error = new_y[:, None] - scale * new
    known = (-(error**2) / (2 * variance) - np.log(variance) / 2).sum(axis=0)
    assert evidence == pytest.approx(known)


@pytest.mark.parametrize("contract", [CLASSES, NUMBERS])
def test_learners_of_the_wrong_length_are_put_right(contract: Any) -> None:
    table, y, _ = rows_and_targets(contract, 200)
    new, new_y, _ = rows_and_targets(contract, 2_000, seed=5)
    wrong = learner("A", 0.02 * truth(contract), contract)
    model = SplitMixing([wrong]).fit(table, y)
    plain = UniformAverage([wrong]).fit(table, y)
    if contract is CLASSES:
        chance = np.log(model.predict_proba(new)[np.arange(2_000), (new_y == "yes") * 1]).mean()
        before = np.log(plain.predict_proba(new)[np.arange(2_000), (new_y == "yes") * 1]).mean()
        assert chance > before + 0.05
    else:
        assert model.score(new, new_y) > plain.score(new, new_y) + 0.3


def test_weights_and_seeds() -> None:
    table, y, _ = rows_and_targets(CLASSES, 30)
    releases = some_learners(CLASSES)
    one = SplitMixing(releases, splits=3).fit(table, y)
    assert one.weights_.shape == (15,)
    assert one.weights_.sum() == pytest.approx(1)
    assert one.weights_.reshape(3, 5).sum(axis=1) == pytest.approx([1 / 3] * 3)
    assert one.parties_ == tuple(f"party {m}" for m in range(5)) * 3
    assert (SplitMixing(releases, splits=3).fit(table, y).weights_ == one.weights_).all()
    assert (SplitMixing(releases, splits=3, rng=1).fit(table, y).weights_ != one.weights_).any()


def test_bad_input() -> None:
    table, y, _ = rows_and_targets(CLASSES, 30)
    with pytest.raises(InvalidInput, match="splits=0 >= 1"):
        SplitMixing(some_learners(CLASSES), splits=0).fit(table, y)
    with pytest.raises(InvalidInput, match="at least two rows"):
        SplitMixing(some_learners(CLASSES)).fit(table[:1], y[:1])
