"""Private logistic regression.

Guarantee. For replace-one neighbours with n public, the coefficients are

    mechanism="objective", delta=0    ε-DP: the exact minimiser over a ball of the perturbed
                                      objective (Chaudhuri, Monteleoni and Sarwate 2011, with the
                                      constants and the proof of docs/theory/objective.md), sealed
    mechanism="objective", delta>0    (ε, δ)-DP, Gaussian b
    mechanism="output", delta=0       ε-DP: Gamma-norm noise on the minimiser, and the seal
    mechanism="output", delta>0       ρ-zCDP, hence (ε, δ)-DP: exact discrete Gaussian noise

The intercept is a regularised constant feature whose norm counts; an unpenalised one leaks the
class counts: `sudare audit logistic-free-intercept`. The two labels are part of the public
contract: which values they take is not protected.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from sudare import checks
from sudare.learners.base import PrivateLearner, refuse_weights
from sudare.learners.recipe import logistic_recipe
from sudare.learners.solvers import Array, logistic_in_ball
from sudare.randomness import Generator


class PrivateLogisticRegression(ClassifierMixin, PrivateLearner):
    """A two-class linear classifier whose coefficients may be published.

    Minimises (1/n)Σlog(1 + e^{−yθ·x}) + (λ/2)‖θ‖² with noise.

    Args:
        epsilon: Privacy budget of the release.
        delta: Probability with which ε may fail; zero gives pure ε-DP.
        mechanism: "objective" (usually better) or "output".
        row_norm: Public bound on a row's Euclidean norm; longer rows are shortened to it.
        radius: Public bound on the norm of the coefficients. "auto" allows log-odds of ±8, more
            when rows are plentiful; None sets no bound of consequence. A smaller ball needs less
            noise.
        regularization: λ, or "auto" for as much as the noise calls for.
        fit_intercept: Add a constant feature (0.25·row_norm), regularised like the others.
        count_clipped: Also learn `n_clipped_`, how many rows met their bound. That count is not
            private: for the owner's eyes only.
        rng: None for secure randomness; a number or a generator simulates, and the result is
            marked as no release.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        mechanism: str = "objective",
        row_norm: float | None = None,
        radius: float | str | None = "auto",
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        count_clipped: bool = False,
        rng: Generator | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.radius = radius
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.count_clipped = count_clipped
        self.rng = rng

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Self:
        """Learn from rows and two-valued labels; spends `plan()`."""
        self.plan()
        refuse_weights(unsupported)
        self._check_bounds(
            row_norm="how long a row may be (Euclidean norm); longer rows are shortened"
        )
        if isinstance(self.radius, str):
            checks.one_of(("auto",), radius=self.radius)
        elif self.radius is not None:
            checks.positive(radius=self.radius)
        table, labels = self._table(X, y)
        signs = self._signs(labels)
        rows = self._rows(table)
        recipe = logistic_recipe(
            self._target(table),
            "auto" if isinstance(self.radius, str) else self.radius,
            None if self.regularization == "auto" else float(self.regularization),
        )
        theta = self._learn(
            lambda noise: logistic_in_ball(rows, signs, noise, recipe.tolerance), recipe
        )
        coefficients, intercept = self._split(theta)
        self.coef_, self.intercept_ = coefficients[None, :], np.array([intercept])
        self._count_clipped(rows, 0)
        return self

    def _signs(self, labels: NDArray[Any]) -> Array:
        check_classification_targets(labels)
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if kind != "binary":
            # The wording is scikit-learn's contract for classifiers of two classes.
            raise checks.InvalidInput(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        if len(self.classes_) < 2:
            raise checks.InvalidInput("Expected two classes in y, found one class")
        return np.where(codes == 1, 1.0, -1.0)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class; rows are taken as they are, not shortened."""
        check_is_fitted(self)
        table = validate_data(self, X, dtype=np.float64, reset=False)
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
