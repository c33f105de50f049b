"""How linear models predict: shared by every learner that ends in coefficients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from sudare.foundations import checks
from sudare.learners._base import read_rows
from sudare.learners._solvers import Array


class Straight(RegressorMixin):
    """Predicts θ·x + intercept."""

    coef_: Array
    intercept_: float

    def _keep(self, coefficients: Array, intercept: float) -> None:
        self.coef_, self.intercept_ = coefficients, intercept

    def predict(self, X: Any) -> Array:
        """Predicted targets; rows are taken as they are, not shortened."""
        check_is_fitted(self)
        table = read_rows(self, X, reset=False)
        prediction: Array = table @ self.coef_ + self.intercept_
        return prediction


class TwoClasses(ClassifierMixin):
    """Predicts one of two labels by the sign of θ·x + intercept."""

    coef_: Array
    intercept_: Array
    classes: Sequence[Any] | None
    classes_: NDArray[Any]

    def _signs(self, labels: NDArray[Any]) -> Array:
        """−1 for the first label, +1 for the second."""
        if self.classes is not None:
            return self._public_signs(labels)
        try:
            self.classes_ = np.unique(labels)
            if len(self.classes_) == 2:
                return np.where(labels == self.classes_[1], 1.0, -1.0)
            check_classification_targets(labels)
            kind = type_of_target(labels, input_name="y")
        except TypeError:
            raise checks.InvalidInput(
                "Expected labels of one type, all numbers or all text"
            ) from None
        if kind != "binary":
            # The wording is scikit-learn's contract for classifiers of two classes.
            raise checks.InvalidInput(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        raise checks.InvalidInput(
            "Expected two classes in y, found one class; name both in `classes` if that can be"
        )

    def _public_signs(self, labels: NDArray[Any]) -> Array:
        self.classes_ = np.unique(np.asarray(self.classes))
        if len(self.classes_) != 2:
            raise checks.InvalidInput("Expected classes to be two different labels")
        second = labels == self.classes_[1]
        if not (second | (labels == self.classes_[0])).all():
            raise checks.InvalidInput("Expected y to hold only the two labels in `classes`")
        return np.where(second, 1.0, -1.0)

    def _keep(self, coefficients: Array, intercept: float) -> None:
        self.coef_, self.intercept_ = coefficients[None, :], np.array([intercept])

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class; rows are taken as they are, not shortened."""
        check_is_fitted(self)
        table = read_rows(self, X, reset=False)
        scores: Array = table @ self.coef_[0] + self.intercept_[0]
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class of each row."""
        second = self.decision_function(X) > 0
        likelier: NDArray[Any] = self.classes_[second.astype(int)]
        return likelier

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the first and of the second class."""
        second = expit(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`, without underflow."""
        scores = self.decision_function(X)
        logarithms: Array = -np.column_stack([np.logaddexp(0, scores), np.logaddexp(0, -scores)])
        return logarithms

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
