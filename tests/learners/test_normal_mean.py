"""The private mean of normal rows: its law, its guarantee at the limit, and scikit-learn."""

import math
from typing import Any

import mpmath
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from scipy import stats
from sklearn.base import clone

from sudare.audit import audit_exact
from sudare.calibration import gaussian_mu, normal_mean_inverse_temperature
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import ApproximateEvent, NearGaussianEvent, account
from sudare.foundations.randomness import seeded
from sudare.learners import PrivateNormalMean
from sudare.learners._normal_mean import normal_mean_recipe
from tests.learners.contract import check_scikit_learn
from tests.statistical import only_fits

ROWS = seeded(0).normal(0.3, 0.5, size=(200, 2))


def learner(**changes: Any) -> PrivateNormalMean:
    plain: dict[str, Any] = {"bound": 2.0, "noise_std": 0.5, "prior_std": 1.0, "rng": 0}
    return PrivateNormalMean(**(plain | changes))


def test_scikit_learns_own_checks() -> None:
    check_scikit_learn(learner(epsilon=100.0, bound=20.0))


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_law(columns: int) -> None:
    """Around the tempered posterior's mean, with its deviation; a tenth off is refused."""
    table = np.resize(ROWS, (60, columns))
    norms = np.linalg.norm(table, axis=1)
    rows = table * np.minimum(1.0, 1.0 / norms)[:, None]
    assert (norms > 1).any()
    model = learner(bound=1.0, epsilon=3.0, rng=seeded(1))
    draws = np.array([model.fit(table).mean_ for _ in range(900)])
    beta, v = model.noise_.temperature, model.posterior_std_**2
    assert v == pytest.approx(1 / (60 * beta / 0.25 + 1.0), rel=1e-9)
    centred = (draws - beta * v / 0.25 * rows.sum(axis=0)) / math.sqrt(v)
    assert only_fits(centred.ravel() + 4.0, stats.norm(4.0).cdf, off=0.15)
    assert only_fits((centred**2).sum(axis=1), stats.chi2(columns).cdf, off=0.6)


@pytest.mark.parametrize("n", [1, 40, 100_000])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (9.0, 1e-9)])
def test_a_replaced_row_moves_the_mean_as_far_as_the_budget_allows(
    n: int, epsilon: float, delta: float
) -> None:
    """The mean moves by 2·bound·weight: μ deviations, but for what the seal adds to μ."""
    recipe = normal_mean_recipe(n, 3, epsilon, delta, 2.0, 0.5, 1.5)
    with mpmath.workdps(40):
        moved = 4 * mpmath.mpf(recipe.weight) / mpmath.mpf(recipe.posterior_std)
        assert moved < gaussian_mu(epsilon, delta)
        assert isinstance(recipe.event, NearGaussianEvent)
        assert isinstance(recipe.seal.event, NearGaussianEvent)
        assert mpmath.sqrt(moved**2 + recipe.seal.event.mu**2) <= recipe.event.mu
    assert account([recipe.event], delta).epsilon() <= epsilon * (1 + 1e-9)
    assert moved > 0.995 * gaussian_mu(epsilon, delta)
    limit = normal_mean_inverse_temperature(
        epsilon, delta, n=n, bound=2.0, noise_std=0.5, prior_std=1.5
    )
    assert 0.99 * limit < recipe.temperature < limit


def test_exact_audit() -> None:
    """Two rows at opposite ends of the bound: nearly all of δ is used; a fifth more β is caught."""
    epsilon, delta = 1.0, 1e-5
    recipe = normal_mean_recipe(50, 1, epsilon, delta, 1.0, 1.0, 2.0)

    def found(factor: float) -> Any:
        variance = 1 / (50 * recipe.temperature * factor + 0.25)
        shift = 2 * recipe.temperature * factor * variance
        laws = [stats.norm(mean, math.sqrt(variance)) for mean in (0.0, shift)]
        side = 14 * math.sqrt(variance)
        return audit_exact(
            laws[0].logpdf, laws[1].logpdf, epsilon=epsilon, delta=delta, domain=((-side, side),)
        )

    nominal = found(1.0)
    assert not nominal.violated
    assert nominal.delta_at_epsilon > 0.8 * delta
    assert found(1.2).violated


def test_guarantee_and_what_survives() -> None:
    model = learner(epsilon=2.0, delta=1e-5)
    assert model.plan() == ApproximateEvent(2.0, 1e-5)
    planned = model.plan_for(*ROWS.shape)
    assert model.fit(ROWS) is model
    assert model.event_ == planned
    assert model.guarantee_.epsilon() == pytest.approx(2.0, rel=1e-5)
    assert model.guarantee_ == account([planned], 1e-5)
    assert (model.mean_ == model.sealed_.values).all()
    assert model.sealed_.simulated
    assert not learner(rng=None).fit(ROWS).sealed_.simulated
    assert model.noise_.seal.noise_std < 1e-4 * model.posterior_std_
    assert model.n_features_in_ == 2
    assert clone(model).get_params() == model.get_params()


def test_more_rows_and_more_budget_come_nearer() -> None:
    stds = [normal_mean_recipe(n, 1, 1.0, 1e-5, 1.0, 0.5, 1.0).posterior_std for n in (10, 1000)]
    assert stds[0] > 20 * stds[1]
    exact = np.clip(ROWS[:, :1], -2, 2).mean()
    near = learner(epsilon=1e6).fit(ROWS[:, :1])
    assert near.mean_[0] == pytest.approx(exact, abs=0.01)
    # With hardly any budget it is a draw from the prior.
    alone = learner(epsilon=1e-6).fit(ROWS)
    assert alone.posterior_std_ == pytest.approx(1.0, rel=1e-3)


def test_long_rows_count_by_their_direction() -> None:
    table = ROWS.copy()
    table[0] = [1.2, 1.6]
    same = learner().fit(table).mean_
    for length in (10.0, 1e160, 1e300):
        table[0] = [0.6 * length, 0.8 * length]
        assert learner().fit(table).mean_ == pytest.approx(same, abs=1e-9)
    names = pd.DataFrame(ROWS, columns=["a", "b"])
    assert learner().fit(names).feature_names_in_.tolist() == ["a", "b"]


def test_far_draws_are_brought_back() -> None:
    """Nothing is drawn beyond the reach that the seal's displacement rests on."""
    recipe = normal_mean_recipe(5, 2, 1.0, 1e-5, 1.0, 0.5, 1.0)
    assert recipe.reach >= 1 + recipe.posterior_std * (math.sqrt(2) + 12)
    assert stats.chi2(2).logsf((math.sqrt(2) + 12) ** 2) < -64
    assert recipe.seal.displacement > 2.0**-45 * recipe.reach


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"bound": None}, r"bound: how long a row may be.*without looking at the data"),
        ({"noise_std": None}, "noise_std: how far"),
        ({"prior_std": None}, "prior_std: how far"),
        ({"bound": -1.0}, "bound"),
        ({"noise_std": 1e40}, "noise_std"),
        ({"prior_std": 0.0}, "prior_std"),
        ({"rng": 0.5}, "rng"),
    ],
)
def test_refused_parameters(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        learner(**change).fit(ROWS)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.full((3, 2), np.nan), "NaN"),
        (np.full((3, 2), np.inf), "infinity"),
        (np.zeros(3), "Reshape your data"),
        (np.zeros((0, 2)), "0 sample"),
        (np.full((3, 2), "text"), "text"),
    ],
)
def test_refused_data(table: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        learner().fit(table)
    with pytest.raises(InvalidInput, match="no sample_weight"):
        learner().fit(ROWS, sample_weight=np.ones(200))
