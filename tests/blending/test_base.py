"""What every blend does: predictions, scikit-learn's conventions, and errors for bad input."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sudare import blending
from sudare.blending.base import Blend
from sudare.checks import InvalidInput, PrivacyError
from sudare.releases import Contract
from tests.blending.parties import (
    CLASSES,
    NUMBERS,
    learner,
    moments,
    rows_and_targets,
    some_learners,
)

BLENDS = [
    blending.MirrorAveraging,
    blending.ExponentialWeights,
    blending.UniformAverage,
    blending.PrecisionAverage,
    blending.BestLearner,
    blending.ConvexStack,
    blending.RidgeStack,
    blending.SelectionStack,
    blending.LassoStack,
    blending.DantzigStack,
    blending.SplitMixing,
]
CONTRACTS = pytest.mark.parametrize("contract", [CLASSES, NUMBERS], ids=["classes", "numbers"])
EVERY = pytest.mark.parametrize("blend", BLENDS, ids=lambda b: b.__name__)


def test_the_list_is_complete() -> None:
    public = [getattr(blending, name) for name in blending.__all__]
    blends = {b for b in public if isinstance(b, type) and issubclass(b, Blend)}
    # The default is made of candidates rather than of learners, and has tests of its own.
    assert blends == {*BLENDS, blending.HedgedBlend}


@EVERY
@CONTRACTS
def test_scikit_learn_knows_what_it_is(blend: Any, contract: Any) -> None:
    table, y, _ = rows_and_targets(contract, 60)
    model = blend([*some_learners(contract), moments("M", contract)])
    assert is_classifier(model) == (contract is CLASSES)
    assert is_regressor(model) == (contract is NUMBERS)
    with pytest.raises(NotFittedError):
        model.predict(table)
    assert set(clone(model).get_params()) == set(model.get_params())
    assert model.fit(table, y) is model
    assert model.n_features_in_ == 3
    assert np.isfinite(cross_val_score(model, table, y, cv=3)).all()
    pipe = make_pipeline(FunctionTransformer(), clone(model)).fit(table, y)
    assert (pipe.predict(table) == model.predict(table)).all()
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(table) == model.predict(table)).all()
    assert (clone(model).fit(table, y).weights_ == model.weights_).all()


@EVERY
@CONTRACTS
def test_the_good_learners_carry_the_blend(blend: Any, contract: Any) -> None:
    """Far better than the worst learner, and nearly as good as the best."""
    table, y, _ = rows_and_targets(contract, 300)
    new, new_y, _ = rows_and_targets(contract, 2_000, seed=9)
    releases = some_learners(contract, 4)
    alone = [blending.UniformAverage([r]).fit(table, y).score(new, new_y) for r in releases]
    model = blend(releases).fit(table, y)
    assert model.score(new, new_y) > min(alone)
    if blend not in (blending.UniformAverage, blending.PrecisionAverage):
        assert model.score(new, new_y) > max(alone) - (0.03 if contract is CLASSES else 0.3)
    assert len(model.parties_) == len(model.weights_) == len(model.components_)


@EVERY
def test_probabilities_and_decisions_agree(blend: Any) -> None:
    table, y, _ = rows_and_targets(CLASSES, 80)
    model = blend(some_learners(CLASSES)).fit(table, y)
    proba, scores = model.predict_proba(table), model.decision_function(table)
    assert proba.sum(axis=1) == pytest.approx(np.ones(80))
    assert ((proba >= 0) & (proba <= 1)).all()
    assert ((proba[:, 1] > 0.5) == (scores > 0)).all()
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.predict(table) == np.where(scores > 0, "yes", "no")).all()
    assert model.score(table, y) == np.mean(model.predict(table) == y)


@EVERY
def test_regressions_have_no_probabilities(blend: Any) -> None:
    model = blend(some_learners(NUMBERS))
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "decision_function")


def test_mixtures_mix_probabilities_and_clipped_predictions() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    model = blending.MirrorAveraging(some_learners(CLASSES)).fit(table, y)
    each = 1 / (1 + np.exp(-CLASSES.rows(table) @ model.components_.T))
    assert model.predict_proba(table)[:, 1] == pytest.approx(each @ model.weights_)
    _, numbers, _ = rows_and_targets(NUMBERS, 40)
    lines = blending.MirrorAveraging(some_learners(NUMBERS)).fit(table, numbers)
    each = np.clip(NUMBERS.rows(table) @ lines.components_.T, -2, 2)
    assert lines.predict(table) == pytest.approx(each @ lines.weights_)
    assert np.abs(lines.predict(table)).max() <= 2


def test_certain_learners_keep_their_small_probabilities() -> None:
    sure = [
        learner("A", (0, 0, 0, 160.0), radius=200.0),
        learner("B", (0, 0, 0, 200.0), radius=200.0),
    ]
    table = np.zeros((1, 3))
    model = blending.MirrorAveraging(sure).fit(table, ["yes"])
    assert model.predict_proba(table)[0, 0] == pytest.approx(np.exp(-40) / 2, rel=1e-3)
    assert model.decision_function(table)[0] == pytest.approx(40 + np.log(2), rel=1e-3)


@pytest.mark.parametrize("blend", [blending.UniformAverage, blending.RidgeStack])
@CONTRACTS
def test_linear_blends_are_linear_models(blend: Any, contract: Any) -> None:
    table, y, _ = rows_and_targets(contract, 40)
    model = blend(some_learners(contract)).fit(table, y)
    scores = (model.predict if contract is NUMBERS else model.decision_function)(table)
    assert table @ model.coef_.ravel() + model.intercept_ == pytest.approx(scores)


def test_no_constant_no_intercept() -> None:
    plain = Contract(features=3, row_norm=1.0, classes=(0, 1))
    table, y, _ = rows_and_targets(plain, 40)
    model = blending.UniformAverage([learner("A", (1, 2, 3), plain)]).fit(table, y)
    assert model.intercept_.tolist() == [0]
    assert model.coef_.tolist() == [[1, 2, 3]]
    assert table @ [1, 2, 3] == pytest.approx(model.decision_function(table))


def test_mixtures_of_regressions_have_coefficients_and_mixtures_of_classifiers_do_not() -> None:
    table, y, _ = rows_and_targets(NUMBERS, 40)
    small = [learner("A", (0.1, 0.2, 0, 0.5), NUMBERS), learner("B", (0.3, 0.1, -0.1, 0), NUMBERS)]
    model = blending.MirrorAveraging(small).fit(table, y)
    assert table @ model.coef_ + model.intercept_ == pytest.approx(model.predict(table))
    labels = rows_and_targets(CLASSES, 40)[1]
    votes = blending.MirrorAveraging(some_learners(CLASSES)).fit(table, labels)
    assert not hasattr(votes, "coef_")
    assert not hasattr(votes, "intercept_")


def test_votes_count_signs() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    model = blending.MirrorAveraging(some_learners(CLASSES), loss="zero-one").fit(table, y)
    signs = np.where(CLASSES.rows(table) @ model.components_.T > 0, 1, -1)
    assert model.decision_function(table) == pytest.approx(signs @ model.weights_)
    assert model.predict_proba(table)[:, 1] == pytest.approx((1 + signs @ model.weights_) / 2)


def test_rows_are_seen_as_the_contract_sees_them() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    model = blending.MirrorAveraging(some_learners(CLASSES))
    short = table / np.linalg.norm(table, axis=1, keepdims=True)
    usual = model.fit(short, y).predict_proba(short)
    long = clone(model).fit(1000 * short, y).predict_proba(50 * short)
    assert long == pytest.approx(usual, rel=1e-9)


def test_blends_stay_inside() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    model = blending.MirrorAveraging(some_learners(CLASSES)).fit(table, y)
    with pytest.raises(PrivacyError, match="without noise, so nothing of it may leave"):
        model.release("Clinic A")


@EVERY
def test_bad_input(blend: Any) -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    releases = some_learners(CLASSES)
    hole = table.copy()
    hole[3, 1] = np.nan
    wrong = [learner("X", (80, 0, 0, 0)), learner("Z", (90, 0, 0, 0))]
    for given, X, labels, message in (
        ([], table, y, "at least one release, or a contract"),
        (wrong, table, y, "at least one usable release: X: coefficients 80 long.*; Z: "),
        (releases, table[:, :2], y, "Expected 3 columns as in the contract, found 2"),
        (releases, hole, y, "contains NaN"),
        (releases, table[:0], y[:0], "0 sample"),
        (releases, table, y[:5], "inconsistent numbers of samples"),
        (releases, table, np.where(y == "no", "nein", y), "only the two labels of the contract"),
        ([*releases, learner("B", np.ones(4), NUMBERS)], table, y, "under one contract"),
    ):
        with pytest.raises(ValueError, match=message):
            blend(given).fit(X, labels)
    with pytest.raises(InvalidInput, match="at least one usable release: none was given"):
        blend([], contract=CLASSES).fit(table, y)


def test_predicting_checks_rows_too() -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    model = blending.MirrorAveraging(some_learners(CLASSES)).fit(table, y)
    with pytest.raises(ValueError, match="2 features"):
        model.predict(table[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 3), np.nan))


def test_without_releases_it_is_neither_classifier_nor_regressor() -> None:
    model = blending.MirrorAveraging()
    assert not is_classifier(model)
    assert not is_regressor(model)
    assert is_classifier(blending.MirrorAveraging([], contract=CLASSES))


def test_the_base_itself_cannot_be_fitted() -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    bare = Blend()
    bare.releases, bare.contract = some_learners(CLASSES), None
    with pytest.raises(NotImplementedError):
        bare.fit(table, y)
