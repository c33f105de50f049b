from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

from sudare.blending._frozen import FrozenModel


class Threshold:
    """Predicts from the first column."""

    def predict(self, data: Any) -> Any:
        return np.where(np.asarray(data)[:, 0] > 0, "yes", "no")

    def predict_proba(self, data: Any) -> Any:
        second = 1 / (1 + np.exp(-np.asarray(data)[:, 0]))
        return np.column_stack([1 - second, second])


def test_a_finished_classifier_works_in_scikit_learn() -> None:
    rows = np.array([[1.0, 5.0], [-1.0, 2.0], [2.0, 0.0], [-3.0, 1.0]] * 5)
    labels = np.where(rows[:, 0] > 0, "yes", "no")
    model = FrozenModel(Threshold(), ("no", "yes"))
    check_is_fitted(model)
    assert is_classifier(model)
    assert model.fit(rows, labels) is model
    assert model.score(rows, labels) == 1.0
    assert clone(model).classes_.tolist() == ["no", "yes"]
    assert cross_val_score(model, rows, labels, cv=2, scoring="roc_auc").tolist() == [1.0, 1.0]
    importance = permutation_importance(model, rows, labels, random_state=0).importances_mean
    assert importance[0] > 0 == importance[1]


def test_a_regressor_has_neither_classes_nor_probabilities() -> None:
    class Mean:
        def predict(self, data: Any) -> Any:
            return np.asarray(data).mean(axis=1)

        def predict_proba(self, data: Any) -> Any:
            raise AssertionError

    model = FrozenModel(Mean())
    rows = np.arange(12.0).reshape(4, 3)
    assert is_regressor(model)
    assert model.score(rows, rows.mean(axis=1)) == 1.0
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="regressor"):
        _ = model.classes_
