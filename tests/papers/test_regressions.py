"""The pipeline behind the ridge figures."""

import numpy as np
import pytest

from papers import regressions
from papers.regressions import Bounds, Party
from sudare.foundations.privacy import NearGaussianEvent, PureEvent
from sudare.foundations.randomness import seeded
from sudare.learners import PrivateRidge

BETA = np.array([0.5, -0.4])
BOUNDS = Bounds(1.5, 1.0, 8.0, 0.001, intercept=False)


def party(n: int, seed: int) -> Party:
    rng = seeded(seed)
    rows = rng.uniform(-0.7, 0.7, size=(n, 2))
    return Party(rows, rows @ BETA + 0.1 * rng.standard_normal(n))


def test_releases_are_what_the_paper_and_sudare_say() -> None:
    learners, moments = regressions.publish([party(50, 1)], 2.0, BOUNDS, seeded(2))
    assert learners[0].event == PureEvent(2.0)
    assert isinstance(moments[0].event, NearGaussianEvent)
    assert learners[0].contract == moments[0].contract
    assert learners[0].simulated
    assert moments[0].simulated


def test_bounds_become_the_learner() -> None:
    ridge = BOUNDS.ridge(0.5)
    assert isinstance(ridge, PrivateRidge)
    assert (ridge.epsilon, ridge.delta, ridge.mechanism) == (0.5, 0.0, "objective")
    assert (ridge.radius, ridge.target_bound, ridge.regularization) == (1.0, 1.5, 0.001)
    assert ridge.fit_intercept is False


def test_without_noise_all_find_the_line_and_with_much_mirror_does_not() -> None:
    own, others = party(200, 3), [party(500, seed) for seed in range(4, 9)]
    errors = {}
    for epsilon in (0.02, 1000.0):
        published = regressions.publish(others, epsilon, BOUNDS, seeded(10))
        models = regressions.models(own, others, published, BOUNDS)
        assert set(models) == set(regressions.STYLE)
        errors[epsilon] = {
            name: float(np.linalg.norm(model.coef_ - BETA)) for name, model in models.items()
        }
    assert max(errors[1000.0].values()) < 0.05
    assert errors[0.02][regressions.MIRROR] > 0.1
    assert errors[0.02][regressions.HEDGED] < 0.05


def test_mirror_averaging_is_as_printed() -> None:
    others = [party(50, seed) for seed in (4, 5)]
    published = regressions.publish(others, 2.0, BOUNDS, seeded(1))
    mirror = regressions.models(party(30, 3), others, published, BOUNDS)[regressions.MIRROR]
    assert mirror.include_prior is False
    assert mirror.temperature_ == 8.0
    # Equation (10), written out.
    own = party(30, 3)
    losses = (own.targets[:, None] - own.rows @ mirror.components_.T) ** 2
    energies = np.cumsum(losses, axis=0) / 8.0
    weights = np.exp(-energies) / np.exp(-energies).sum(axis=1, keepdims=True)
    assert mirror.weights_ == pytest.approx(weights.mean(axis=0), rel=1e-6)
