"""The judges of blending: consortia, simulated releases, and private gradient descent."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks.consortia import Consortium, learners, moments
from benchmarks.consortia.gradients import gradient_descent
from benchmarks.consortia.information import worth
from benchmarks.consortia.real import studies
from benchmarks.consortia.synthetic import SCENARIOS, Scenario, synthetic
from sudare.learners import MomentsClassifier
from sudare.releases import MomentsRelease


def consortia() -> list[Consortium]:
    return [
        *(synthetic(scenario, 3, 0) for scenario in SCENARIOS),
        *(study.deal(0) for study in studies()),
    ]


@pytest.mark.parametrize("consortium", consortia(), ids=lambda c: c.name)
def test_rows_are_within_the_contract(consortium: Consortium) -> None:
    for X, y in [(consortium.test_X, consortium.test_y), *consortium.others, consortium.pooled()]:
        assert X.shape == (len(y), consortium.contract.features)
        assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
        consortium.contract.targets(y)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_gives_the_same_rows(scenario: Scenario) -> None:
    one, again, another = (synthetic(scenario, 3, seed) for seed in (5, 5, 6))
    assert np.array_equal(one.test_X, again.test_X)
    assert not np.array_equal(one.test_X, another.test_X)


def test_simulated_moments_are_what_the_learner_releases() -> None:
    whole = synthetic("iid", 3, 0)
    X, y = whole.others[0]
    small = replace(whole, others=[(X, y)], tampering=None)

    def both(epsilon: float) -> tuple[MomentsRelease, MomentsRelease]:
        learner = MomentsClassifier(epsilon, delta=1e-5, row_norm=1.0, classes=(0, 1), rng=0)
        released = learner.fit(X, y).release(party="organisation 1")
        assert isinstance(released, MomentsRelease)
        return moments(small, epsilon, 0)[0], released

    simulated, released = both(1.0)
    assert simulated.contract == released.contract
    assert (simulated.n, simulated.event) == (released.n, released.event)
    assert simulated.noise_std == released.noise_std
    draws = np.array([moments(small, 1.0, seed)[0].gram for seed in range(400)])
    spread = draws.std(axis=0, ddof=1) / released.noise_std
    on_diagonal = np.equal(*np.triu_indices(4))
    # Standard deviations of 400 draws are off by 4 % or so.
    assert np.allclose(spread, np.where(on_diagonal, np.sqrt(2), 1), rtol=0.15)

    simulated, released = both(1e9)
    assert np.allclose(simulated.cross, released.cross, atol=0.02)
    assert np.allclose(simulated.gram, released.gram, atol=0.02)


def test_hostile_organisations_tamper_with_their_releases() -> None:
    honest, flipped = synthetic("iid", 3, 0), synthetic("flipped", 3, 0)
    assert (honest.factors() == 1).all()
    assert (flipped.factors() == -1).sum() == 20
    truthful = replace(flipped, tampering=None)
    for publish in (moments, learners):
        for said, meant, factor in zip(
            publish(flipped, 1.0, 0), publish(truthful, 1.0, 0), flipped.factors(), strict=True
        ):
            name = "cross" if publish is moments else "coefficients"
            assert np.allclose(getattr(said, name), factor * np.array(getattr(meant, name)))


def test_gradient_descent_without_noise_nears_the_pooled_fit() -> None:
    consortium = synthetic("iid", 3, 0)
    rows = consortium.contract.rows(consortium.test_X)
    pooled = LogisticRegression(C=1e3).fit(*consortium.pooled())
    best = pooled.score(consortium.test_X, consortium.test_y)

    def share_correct(epsilon: float) -> float:
        theta = gradient_descent(consortium, epsilon, 0, 16.0)
        return float(np.mean((rows @ theta > 0) == consortium.test_y))

    assert share_correct(1e9) > best - 0.01
    assert share_correct(0.01) < best - 0.05


def test_releases_are_worth_more_with_less_noise() -> None:
    consortium = synthetic("iid", 3, 0)
    shares = [worth(consortium, epsilon) for epsilon in (0.01, 0.1, 1.0, 10.0, 1e9)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.05
    assert 0.95 < shares[-1] < 1
