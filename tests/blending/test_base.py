"""What every blend does: predictions, scikit-learn's conventions, and errors for bad input."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor

from sudare import blending
from sudare.blending._base import Array, Blend, Mixing, OwnRows
from sudare.blending._received import Learners
from sudare.foundations.checks import PrivacyError
from sudare.releases import Contract
from tests.blending.contract import CONTRACTS, check_blend, check_near_the_best
from tests.blending.parties import (
    CLASSES,
    NUMBERS,
    learner,
    rows_and_targets,
    some_learners,
)

BLENDS = [blending.MirrorAveraging, blending.ExponentialWeights]


class Fixed(Blend):
    """A blend of one's own: one linear model, more weight for who comes first."""

    def __init__(self, releases: Any = (), *, contract: Contract | None = None) -> None:
        self.releases = releases
        self.contract = contract

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        weights = np.float64(0.5) ** np.arange(len(learners))
        return weights / weights.sum()

    def _mixing(self) -> Mixing:
        return "scores"


class Sum(Fixed):
    """Outputs with weights of any sign and sum."""

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        return np.float64(-0.5) ** np.arange(len(learners))

    def _mixing(self) -> Mixing:
        return "outputs"


def test_the_list_is_complete() -> None:
    public = [getattr(blending, name) for name in blending.__all__]
    blends = {b for b in public if isinstance(b, type) and issubclass(b, Blend)}
    # The default is made of candidates rather than of learners, and has tests of its own.
    assert blends - {Blend} == {*BLENDS, blending.HedgedBlend}


@pytest.mark.parametrize("blend", [*BLENDS, Fixed, Sum], ids=lambda b: b.__name__)
def test_every_blend_keeps_the_contract(blend: Any) -> None:
    check_blend(blend)


@pytest.mark.parametrize("contract", CONTRACTS, ids=["classes", "numbers"])
@pytest.mark.parametrize("blend", BLENDS, ids=lambda b: b.__name__)
def test_the_good_learners_carry_the_blend(blend: Any, contract: Any) -> None:
    check_near_the_best(blend, contract)


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


@pytest.mark.parametrize("contract", CONTRACTS, ids=["classes", "numbers"])
def test_linear_blends_are_linear_models(contract: Any) -> None:
    table, y, _ = rows_and_targets(contract, 40)
    model = Fixed(some_learners(contract)).fit(table, y)
    scores = (model.predict if contract is NUMBERS else model.decision_function)(table)
    assert table @ model.coef_.ravel() + model.intercept_ == pytest.approx(scores)


def test_no_constant_no_intercept() -> None:
    plain = Contract(features=3, row_norm=1.0, classes=(0, 1))
    table, y, _ = rows_and_targets(plain, 40)
    model = Fixed([learner("A", (1, 2, 3), plain)]).fit(table, y)
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


def test_outputs_are_added_up_and_clipped() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    model = Sum(some_learners(CLASSES)).fit(table, y)
    outputs = np.tanh(CLASSES.rows(table) @ model.components_.T / 2)
    assert model.decision_function(table) == pytest.approx(outputs @ model.weights_)
    expected = np.clip((1 + outputs @ model.weights_) / 2, 0, 1)
    assert model.predict_proba(table)[:, 1] == pytest.approx(expected)


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
