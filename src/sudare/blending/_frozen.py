"""A finished model as a scikit-learn estimator: it predicts, and fitting it changes nothing."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if


class Predictor(Protocol):
    """Something that predicts for a file or frame."""

    def predict(self, data: Any) -> NDArray[Any]: ...

    def predict_proba(self, data: Any) -> NDArray[np.float64]: ...


def _classifies(estimator: "FrozenModel") -> bool:
    return estimator.classes is not None


class FrozenModel(BaseEstimator):
    """Wraps a predictor for pipelines, scoring and inspection.

    Args:
        model: What predicts, for frames with the columns it knows.
        classes: The two labels of a classifier; None for a regressor.
    """

    def __init__(self, model: Predictor, classes: Sequence[Any] | None = None) -> None:
        self.model = model
        self.classes = classes

    @property
    def classes_(self) -> NDArray[Any]:
        if self.classes is None:
            raise AttributeError("a regressor has no classes")
        return np.array(self.classes)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing: the model is finished."""
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class, or the predicted number, of each row."""
        return self.model.predict(X)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of both classes."""
        return self.model.predict_proba(X)

    def score(self, X: Any, y: Any) -> float:
        """Share of right predictions, or R²."""
        measure = accuracy_score if _classifies(self) else r2_score
        return float(measure(y, self.predict(X)))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        if _classifies(self):
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
            tags.classifier_tags.multi_class = False
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags
