"""The own model: weighed penalties, fits left out, and the noise of targets."""

import numpy as np
import pytest

from sudare.blending._matching import Records, RowLaw, fit, ridges
from sudare.blending._own import noise_variance, own_model, penalties
from sudare.foundations.randomness import seeded


def records(n: int = 40, length: float = 3.0, seed: int = 0, noise: float | None = None) -> Records:
    rng = seeded(seed)
    rows = rng.normal(size=(n, 4)) / 2
    scores = rows @ np.array([1.0, -1.0, 0.5, 0.0]) * length
    if noise is not None:
        return Records(rows, scores + np.sqrt(noise) * rng.normal(size=n), noise)
    return Records(rows, np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), 1.0, -1.0))


@pytest.mark.parametrize("noise", [None, 0.1])
def test_penalties_are_weighed_by_their_loss_left_out(noise: float | None) -> None:
    own = records(noise=noise)
    fits = fit(own, ridges(penalties(own), RowLaw(np.zeros(4), np.eye(4))))
    likelihoods = np.exp(-own.losses(fits.left_out).sum(axis=1))
    weights = likelihoods / likelihoods.sum()
    assert len(weights) == len(penalties(own)) > 10
    found = own_model(own)
    np.testing.assert_allclose(found.theta, weights @ fits.theta, rtol=1e-9)
    np.testing.assert_allclose(found.left_out, weights @ fits.left_out, rtol=1e-9)


def test_strong_signals_are_penalised_less() -> None:
    weak, strong = (own_model(records(400, length)) for length in (0.1, 6.0))
    assert np.argmax(weak.evidence) > np.argmax(strong.evidence)
    assert np.linalg.norm(weak.theta) < 1
    np.testing.assert_allclose(strong.theta, [6.0, -6.0, 3.0, 0.0], atol=1.5)


def test_evidence_is_better_than_a_coin_for_labels_that_can_be_foretold() -> None:
    found = own_model(records())
    labels = records().targets
    assert found.evidence.max() > len(labels) * np.log(0.5)
    shuffled = Records(records().rows, seeded(5).permutation(labels))
    assert own_model(shuffled).evidence.max() < found.evidence.max()


def test_evidence_beside_a_penalty_is_never_below_the_mean() -> None:
    found = own_model(records())
    mean = np.log(np.mean(np.exp(found.evidence)))
    assert found.evidence.min() < mean < found.evidence.max()
    for penalty, evidence in zip(found.penalties, found.evidence, strict=True):
        assert found.evidence_beside(float(penalty)) == pytest.approx(max(evidence, mean))


@pytest.mark.parametrize("noise", [0.02, 0.5])
def test_noise_variance_is_that_of_refits_without_a_row(noise: float) -> None:
    own = records(30, noise=noise)
    errors = []
    for penalty in 4 * np.geomspace(0.001, 10.0, 17):
        squares = []
        for i in range(30):
            kept = np.arange(30) != i
            x, y = own.rows[kept], own.targets[kept]
            theta = np.linalg.solve(x.T @ x + penalty * np.eye(4), x.T @ y)
            squares.append((own.targets[i] - own.rows[i] @ theta) ** 2)
        errors.append(np.mean(squares))
    assert noise_variance(own.rows, own.targets) == pytest.approx(min(errors), rel=1e-9)
    many = records(4000, noise=noise)
    assert noise_variance(many.rows, many.targets) == pytest.approx(noise, rel=0.1)


def test_targets_without_noise_are_no_trouble() -> None:
    rows = records().rows
    assert noise_variance(rows, np.zeros(len(rows))) > 0
