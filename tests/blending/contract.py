"""What every blend of learners must do: predictions, scikit-learn's conventions, refusals."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sudare.blending import MirrorAveraging
from sudare.foundations.checks import InvalidInput
from tests.blending.parties import (
    CLASSES,
    NUMBERS,
    learner,
    moments,
    rows_and_targets,
    some_learners,
)

CONTRACTS = (CLASSES, NUMBERS)


def check_blend(blend: Any) -> None:
    """All checks below that hold for every blend, whether it looks at own rows or not."""
    for contract in CONTRACTS:
        check_conventions(blend, contract)
        check_beats_the_worst(blend, contract)
    check_probabilities(blend)
    check_regressions(blend)
    check_bad_input(blend)


def check_conventions(blend: Any, contract: Any) -> None:
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


def check_beats_the_worst(blend: Any, contract: Any) -> None:
    blended, alone = scores_beside(blend, contract)
    assert blended > min(alone)


def check_near_the_best(blend: Any, contract: Any) -> None:
    """For blends that look at own rows: the good learners carry them."""
    blended, alone = scores_beside(blend, contract)
    assert blended > max(alone) - (0.03 if contract is CLASSES else 0.3)


def scores_beside(blend: Any, contract: Any) -> tuple[float, list[float]]:
    """The blend's score on new rows, and that of each learner by itself."""
    table, y, _ = rows_and_targets(contract, 300)
    new, new_y, _ = rows_and_targets(contract, 2_000, seed=9)
    releases = some_learners(contract, 4)
    alone = [MirrorAveraging([r]).fit(table, y).score(new, new_y) for r in releases]
    model = blend(releases).fit(table, y)
    assert len(model.parties_) == len(model.weights_) == len(model.components_)
    return model.score(new, new_y), alone


def check_probabilities(blend: Any) -> None:
    table, y, _ = rows_and_targets(CLASSES, 80)
    model = blend(some_learners(CLASSES)).fit(table, y)
    proba, scores = model.predict_proba(table), model.decision_function(table)
    assert proba.sum(axis=1) == pytest.approx(np.ones(80))
    assert ((proba >= 0) & (proba <= 1)).all()
    assert ((proba[:, 1] > 0.5) == (scores > 0)).all()
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.predict(table) == np.where(scores > 0, "yes", "no")).all()
    assert model.score(table, y) == np.mean(model.predict(table) == y)


def check_regressions(blend: Any) -> None:
    model = blend(some_learners(NUMBERS))
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "decision_function")


def check_bad_input(blend: Any) -> None:
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
