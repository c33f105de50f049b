"""How linear models predict."""

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.learners import PrivateLogisticRegression, PrivateRidge


def test_scores_probabilities_and_labels_agree() -> None:
    rng = seeded(0)
    table = rng.normal(size=(300, 2))
    labels = np.where(table[:, 0] > 0, "yes", "no")
    model = PrivateLogisticRegression(50.0, row_norm=3.0, rng=0).fit(table, labels)
    scores = table @ model.coef_[0] + model.intercept_[0]
    assert model.decision_function(table) == pytest.approx(scores)
    assert model.predict_proba(table)[:, 1] == pytest.approx(1 / (1 + np.exp(-scores)))
    assert model.predict_log_proba(table) == pytest.approx(np.log(model.predict_proba(table)))
    assert (model.predict(table) == np.where(scores > 0, "yes", "no")).all()
    assert list(model.classes_) == ["no", "yes"]


def test_far_out_probabilities_do_not_underflow() -> None:
    model = PrivateLogisticRegression(1e6, row_norm=1.0, rng=0)
    model.fit([[-1.0], [1.0]] * 50, [0, 1] * 50)
    far = model.predict_log_proba([[1e6]])[0]
    assert np.isfinite(far).all()
    assert far[0] < -1e5


def test_rows_are_not_shortened_when_predicting() -> None:
    rng = seeded(1)
    table = rng.uniform(-0.5, 0.5, size=(200, 2))
    model = PrivateRidge(1e6, row_norm=1.0, target_bound=2.0, radius=5.0, rng=0)
    model.fit(table, table.sum(axis=1))
    one, ten = model.predict([[0.1, 0.1], [10.0, 10.0]])
    assert ten - model.intercept_ == pytest.approx(100 * (one - model.intercept_))


def test_nothing_is_predicted_before_fit() -> None:
    for model in (PrivateRidge(), PrivateLogisticRegression()):
        with pytest.raises(NotFittedError):
            model.predict([[1.0]])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, 1], "Only binary classification is supported"),
        ([1, 1, 1, 1], "two classes"),
        ([0.1, 0.2, 0.3, 0.4], "Unknown label type"),
    ],
)
def test_labels_must_be_two_values(labels: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message) as problem:
        PrivateLogisticRegression(row_norm=1.0).fit(np.eye(4), labels)
    assert "0.1" not in str(problem.value)


def test_a_users_mistake_is_an_input_error() -> None:
    with pytest.raises(InvalidInput):
        PrivateLogisticRegression(row_norm=1.0).fit(np.eye(3), [0, 1, 2])


def test_labels_agreed_on_beforehand_may_all_be_the_same() -> None:
    table = seeded(2).normal(size=(40, 2))
    model = PrivateLogisticRegression(5.0, row_norm=1.0, classes=["well", "ill"], rng=0)
    model.fit(table, ["well"] * 40)
    assert list(model.classes_) == ["ill", "well"]
    assert (model.predict(np.zeros((1, 2))) == "well").all()
    with pytest.raises(InvalidInput, match="only the two labels"):
        model.fit(table, ["well"] * 39 + ["unknown"])
    with pytest.raises(InvalidInput, match="two different labels"):
        model.set_params(classes=["well"]).fit(table, ["well"] * 40)


def test_a_huge_row_counts_by_its_direction_alone() -> None:
    table = seeded(3).normal(size=(20, 2))
    labels = [0, 1] * 10
    fits = []
    for size in (1e5, 1e119, 1e308):
        table[0] = [size, -size / 2]
        fits.append(PrivateLogisticRegression(1.0, row_norm=1.0, rng=0).fit(table, labels).coef_)
    assert fits[0] == pytest.approx(fits[1], abs=1e-6)
    assert fits[0] == pytest.approx(fits[2], abs=1e-6)


def test_a_problem_that_doubles_cannot_resolve_is_refused_before_any_row_is_read() -> None:
    far: dict[str, Any] = {
        "row_norm": 1.7e18,
        "mechanism": "output",
        "regularization": 1e-7,
        "rng": 0,
    }
    with pytest.raises(InvalidInput, match="larger regularization"):
        PrivateLogisticRegression(140.0, **far).fit(np.eye(4), [0, 1, 0, 1])
    PrivateLogisticRegression(140.0, **far | {"regularization": "auto"}).fit(
        np.eye(4), [0, 1, 0, 1]
    )
