"""What all blends share: releases and own rows in, weights over learners out, and how to predict.

A blend reads its own organisation's rows without noise and stays inside: nothing it learns may be
published (`publish_choice` and `publish_combination` make what may). Rows are seen as the contract
sees them, at `fit` and at `predict`: too long ones are shortened, and the constant feature is
appended.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sudare.blending._losses import RowSource, block_rows
from sudare.blending._received import Learners, Received, receive
from sudare.foundations import checks
from sudare.learners import read_rows
from sudare.releases import Contract, Release, Task

Array = NDArray[np.float64]
Mixing = Literal["scores", "predictions", "outputs", "votes"]
"""What the weights multiply.

    scores        θ·x: the blend is one linear model
    predictions   probabilities, or scores clipped to the target's bound; weights on the simplex
    outputs       the same (probabilities as 2p − 1), with weights of any sign and sum
    votes         signs of the scores
"""


class OwnRows:
    """A table as the contract sees it, made row by row where it is needed: no copy of the whole."""

    def __init__(self, contract: Contract, table: Array) -> None:
        if table.shape[1] != contract.features:
            contract.rows(table[:1])  # its words for it
        self._contract, self._table = contract, table

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, part: slice, /) -> Array:
        return self._contract.rows(self._table[part])


def _classifies(blend: "Blend") -> bool:
    return blend._task() == "classification"


def _is_linear(blend: "Blend") -> bool:
    return blend._mixing() == "scores"


class Blend(BaseEstimator):
    """Base of all blends; not for use on its own.

    A classifier or a regressor according to the contract of its releases. After `fit`:
    `received_` (what was kept and what was dropped, with reasons), `parties_`, `components_` (the
    learners' coefficients, one row each) and `weights_` (one number each).
    """

    releases: Sequence[Release]
    contract: Contract | None

    received_: Received
    parties_: tuple[str, ...]
    components_: Array
    weights_: Array
    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the weights from own rows and targets."""
        learners, rows, targets = self._begin(X, y)
        self._keep(learners.parties, learners.coefficients, self._weigh(learners, rows, targets))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class, or the predicted target, of each row."""
        contract, rows = self._rows(X)
        if contract.task == "classification":
            second = self._evidence(contract, rows) > 0
            likelier: NDArray[Any] = self.classes_[second.astype(int)]
            return likelier
        return self._combined(contract, rows)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Above zero where the second class is likelier; log-odds if probabilities are mixed."""
        return self._evidence(*self._rows(X))

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the first and of the second class."""
        contract, rows = self._rows(X)
        if self._mixing() == "predictions":
            return self._probabilities(rows)
        if self._mixing() == "scores":
            second = expit(self._combined(contract, rows))
        else:
            second = np.clip((1 + self._combined(contract, rows)) / 2, 0.0, 1.0)
        return np.column_stack([1 - second, second])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, or R² of a regression."""
        measure: Callable[[Any, Any], float]
        measure = accuracy_score if _classifies(self) else r2_score
        return float(measure(y, self.predict(X)))

    def release(self, party: str) -> NoReturn:
        """A blend stays inside: it was fitted to own rows without noise."""
        raise checks.PrivacyError(
            f"A {type(self).__name__} is fitted to your own rows without noise, so nothing of it "
            "may leave. publish_choice and publish_combination make private releases"
        )

    @property
    def coef_(self) -> Array:
        """Coefficients, of a blend that is one linear model or that mixes regressions.

        A mixture of clipped predictions has these where no learner's prediction is clipped.
        """
        d = self._linear_contract().features
        coefficients: Array = (self.weights_ @ self.components_)[:d]
        return coefficients[None] if _classifies(self) else coefficients

    @property
    def intercept_(self) -> Any:
        """Intercept, wherever there is `coef_`."""
        contract = self._linear_contract()
        value = 0.0
        if contract.constant > 0:
            value = float(self.weights_ @ self.components_[:, -1]) * contract.constant
        return np.array([value]) if _classifies(self) else value

    def _linear_contract(self) -> Contract:
        if not hasattr(self, "received_") or (_classifies(self) and not _is_linear(self)):
            raise AttributeError(f"This {type(self).__name__} is not a linear model")
        return self.received_.contract

    def _weigh(self, learners: Learners, rows: OwnRows, targets: Array) -> Array:
        raise NotImplementedError

    def _mixing(self) -> Mixing:
        return "predictions"

    def _begin(self, X: Any, y: Any) -> tuple[Learners, OwnRows, Array]:
        """Received learners, own rows and own targets, all checked."""
        received = receive(self.releases, self.contract)
        learners = received.as_learners()
        if not len(learners):
            reasons = "; ".join(str(one) for one in received.dropped) or "none was given"
            raise checks.InvalidInput(f"Expected at least one usable release: {reasons}")
        contract = received.contract
        table, target = read_rows(self, X, y, order="C")
        rows, targets = OwnRows(contract, table), contract.targets(target)
        self.received_ = received
        if contract.classes is not None:
            self.classes_ = np.array(contract.classes)
        return learners, rows, targets

    def _keep(self, parties: tuple[str, ...], components: Array, weights: Array) -> None:
        self.parties_, self.components_, self.weights_ = parties, components, weights

    def _rows(self, X: Any) -> tuple[Contract, OwnRows]:
        check_is_fitted(self)
        contract = self.received_.contract
        return contract, OwnRows(contract, read_rows(self, X, reset=False))

    def _evidence(self, contract: Contract, rows: OwnRows) -> Array:
        if self._mixing() != "predictions":
            return self._combined(contract, rows)
        with np.errstate(divide="ignore"):
            logarithms: Array = np.log(self._probabilities(rows))
        return logarithms[:, 1] - logarithms[:, 0]

    def _combined(self, contract: Contract, rows: OwnRows) -> Array:
        """Σ weight·(score, output or vote)."""
        combined = np.empty(len(rows))
        if self._mixing() == "scores":
            for part, scores in score_blocks(rows, (self.weights_ @ self.components_)[None]):
                combined[part] = scores[:, 0]
            return combined
        for part, scores in score_blocks(rows, self.components_):
            outputs = votes(scores) if self._mixing() == "votes" else bounded(scores, contract)
            combined[part] = outputs @ self.weights_
        return combined

    def _probabilities(self, rows: OwnRows) -> Array:
        """Of both classes, each summed by itself: the small one keeps its digits."""
        mixed = np.empty((len(rows), 2))
        for part, scores in score_blocks(rows, self.components_):
            mixed[part, 1] = expit(scores) @ self.weights_
            mixed[part, 0] = expit(np.negative(scores, out=scores)) @ self.weights_
        mixed /= mixed.sum(axis=1, keepdims=True)
        return mixed

    def _task(self) -> Task | None:
        """By what is known: the fit, the contract, or the first release."""
        if hasattr(self, "received_"):
            return self.received_.contract.task
        if isinstance(self.contract, Contract):
            return self.contract.task
        try:
            return self.releases[0].contract.task
        except (TypeError, LookupError, AttributeError):
            return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        match self._task():
            case "classification":
                tags.estimator_type = "classifier"
                tags.classifier_tags = ClassifierTags(multi_class=False)
            case "regression":
                tags.estimator_type = "regressor"
                tags.regressor_tags = RegressorTags()
        return tags


def score_blocks(rows: RowSource, coefficients: Array) -> Iterator[tuple[slice, Array]]:
    """Scores of all learners, some rows at a time."""
    size = block_rows(len(coefficients))
    for start in range(0, len(rows), size):
        yield slice(start, start + size), rows[start : start + size] @ coefficients.T


def bounded(scores: Array, contract: Contract) -> Array:
    """Outputs within the target's bound, in place: clipped scores, or 2·P(second class) − 1."""
    if contract.target_bound is not None:
        return np.clip(scores, -contract.target_bound, contract.target_bound, out=scores)
    expit(scores, out=scores)
    scores *= 2.0
    scores -= 1.0
    return scores


def votes(scores: Array) -> Array:
    """+1 where the score is positive, −1 elsewhere, in place."""
    np.greater(scores, 0.0, out=scores)
    scores *= 2.0
    scores -= 1.0
    return scores
