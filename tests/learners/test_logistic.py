"""Private logistic regression: scikit-learn's contract, its limit, labels, its law and audits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from sudare.audit import audit, repeat
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.learners import PrivateLogisticRegression
from sudare.learners import _logistic as logistic
from sudare.learners._recipe import NoiseTarget, Recipe, logistic_recipe
from tests.learners.contract import (
    ObjectiveLaw,
    audit_in_a_plane,
    audit_on_a_line,
    audit_output,
    check_scikit_learn,
    logistic_loss,
    unchecked,
)
from tests.statistical import fits

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(400, 4)) * [1.0, 2.0, 0.5, 3.0]
SIGNS = np.where(TABLE @ [1.0, -0.5, 1.0, 0.2] + 0.5 + RNG.logistic(size=400) > 0, 1, -1)


@pytest.mark.parametrize("mechanism", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_scikit_learns_own_checks(mechanism: str, delta: float) -> None:
    bounds: Any = {"row_norm": 20.0, "radius": 1e3}
    check_scikit_learn(
        PrivateLogisticRegression(1e9, delta=delta, mechanism=mechanism, rng=0, **bounds)
    )


@pytest.mark.parametrize("mechanism", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("radius", [None, "auto", 50.0])
def test_without_noise_it_is_scikit_learns_logistic_regression(
    mechanism: str, delta: float, fit_intercept: bool, radius: Any
) -> None:
    """Fitted to the same problem: shortened rows, the constant as a feature like the others."""
    row_norm, weight = 4.0, 0.01
    norms = np.linalg.norm(TABLE, axis=1)
    assert 50 < (norms > row_norm).sum() < 350
    rows = TABLE * np.minimum(1.0, row_norm / norms)[:, None]
    if fit_intercept:
        rows = np.column_stack([rows, np.full(len(rows), 0.25 * row_norm)])
    peer = LogisticRegression(
        C=1 / (len(rows) * weight), fit_intercept=False, tol=1e-12, max_iter=10_000
    )
    expected = peer.fit(rows, SIGNS).coef_[0]
    errors = []
    for epsilon in (1e2, 1e4, 1e6):
        learner = PrivateLogisticRegression(
            epsilon,
            delta=delta,
            mechanism=mechanism,
            row_norm=row_norm,
            radius=radius,
            regularization=weight,
            fit_intercept=fit_intercept,
            rng=0,
        ).fit(TABLE, SIGNS)
        errors.append(float(np.linalg.norm(learner.sealed_.values - expected)))
        assert learner.coef_.shape == (1, 4)
        assert learner.intercept_.shape == (1,)
        if fit_intercept:
            assert learner.intercept_[0] == learner.sealed_.values[4] * 0.25 * row_norm
    concentrated = mechanism == "output" and delta > 0
    assert errors[0] / errors[1] == pytest.approx(10 if concentrated else 100, rel=0.5)
    assert errors[2] < (5e-3 if concentrated else 1e-5) * np.linalg.norm(expected)


def learner(**changes: Any) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(**({"epsilon": 10.0, "row_norm": 4.0, "rng": 0} | changes))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("no", "yes"),
        (False, True),
        (-1, 1),
        (-7.0, 3.0),
        (0, 1),
        (np.int8(2), np.int8(5)),
        ("\u5426", "\u662f"),
    ],
)
def test_labels_may_be_any_two_values(first: Any, second: Any) -> None:
    labels = np.array([first, second])[(SIGNS > 0).astype(int)]
    fitted = learner().fit(TABLE, labels)
    assert fitted.classes_.tolist() == [first, second]
    assert (fitted.coef_ == learner().fit(TABLE, SIGNS).coef_).all()
    right = fitted.predict(TABLE) == labels
    assert 0.7 < right.mean() < 1.0
    assert fitted.score(TABLE, labels) == right.mean()
    as_objects = learner().fit(TABLE, pd.Series(labels.tolist()))
    assert (as_objects.coef_ == fitted.coef_).all()


def test_labels_may_be_agreed_on_beforehand() -> None:
    """Then one label alone is no error, and which one it is does not show in an error either."""
    same = learner(classes=[-1, 1])
    assert same.fit(TABLE, SIGNS).sealed_ == learner().fit(TABLE, SIGNS).sealed_
    halves = np.where(SIGNS > 0, 0.75, 0.25)
    assert learner(classes=[0.75, 0.25]).fit(TABLE, halves).classes_.tolist() == [0.25, 0.75]
    for only in ("yes", "no"):
        alone = learner(classes=["yes", "no"], epsilon=1e4).fit(TABLE, [only] * len(TABLE))
        assert set(alone.predict(TABLE)) == {only}
    with pytest.raises(InvalidInput, match="only the two labels"):
        learner(classes=["yes", "no"]).fit(TABLE, ["secret"] * len(TABLE))
    with pytest.raises(InvalidInput, match="only the two labels"):
        learner(classes=["yes", "no"]).fit(TABLE, SIGNS)
    for wrong in (["yes"], ["yes", "yes"], ["a", "b", "c"]):
        with pytest.raises(InvalidInput, match="two different labels"):
            learner(classes=wrong).fit(TABLE, SIGNS)


def test_a_small_ball_is_kept() -> None:
    fitted = learner(epsilon=1e6, radius=0.1, regularization=1e-3).fit(TABLE, SIGNS)
    assert np.linalg.norm(fitted.sealed_.values) == pytest.approx(0.1, abs=1e-6)


def test_which_label_comes_first_only_turns_the_sign() -> None:
    one = learner(epsilon=1e6).fit(TABLE, np.where(SIGNS > 0, "b", "a"))
    two = learner(epsilon=1e6).fit(TABLE, np.where(SIGNS > 0, "a", "b"))
    assert one.coef_ == pytest.approx(-two.coef_, abs=1e-3)


def test_probabilities() -> None:
    fitted = learner().fit(TABLE, SIGNS)
    far = np.vstack([TABLE, 1e4 * TABLE])
    proba, logs = fitted.predict_proba(far), fitted.predict_log_proba(far)
    assert proba.shape == (800, 2)
    assert (proba.sum(axis=1) == 1).all()
    assert ((proba >= 0) & (proba <= 1)).all()
    assert np.isfinite(logs).all()
    assert logs.min() < -1000
    kept = proba > 1e-10
    assert logs[kept] == pytest.approx(np.log(proba[kept]), rel=1e-9, abs=1e-15)
    assert (fitted.predict(far) == np.where(fitted.decision_function(far) > 0, 1, -1)).all()


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("radius", "large"),
        ("radius", -1.0),
        ("radius", 1e31),
        ("radius", 0),
        ("mechanism", "gibbs"),
        ("regularization", -1.0),
        ("regularization", "none"),
        ("fit_intercept", "yes"),
        ("epsilon", 0.0),
        ("delta", 1.0),
        ("rng", 0.5),
    ],
)
def test_other_parameters_are_refused_by_name(parameter: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=parameter):
        learner(**{parameter: value}).fit(TABLE, SIGNS)


@pytest.mark.parametrize("radius", ["auto", None, 1e-3, 2.0, 1e12])
@pytest.mark.parametrize("mechanism", ["objective", "output"])
def test_every_radius_ends(radius: Any, mechanism: str) -> None:
    """Separable, constant, empty and single rows, with and without a ball of consequence."""
    for table in (
        np.ones((2, 1)),
        np.zeros((5, 3)),
        np.vstack([np.eye(3), -np.eye(3)]) * 1e6,
        np.full((7, 2), np.finfo(float).max) * np.where(np.arange(7) % 2, 1, -1)[:, None],
    ):
        labels = np.arange(len(table)) % 2
        fitted = learner(radius=radius, mechanism=mechanism).fit(table, labels)
        assert np.isfinite(fitted.coef_).all()
        spread = 60 * np.sqrt(fitted.coef_.size + 1) * fitted.noise_.seal.noise_std
        assert np.linalg.norm(fitted.coef_) <= fitted.noise_.reach + spread


# One record's label changes: the largest step its gradient can take in a small ball.
LINE = np.array([[0.3], [-0.5], [1.0], [1.0], [1.0]])
LINE_SIGNS = np.array([1.0, -1.0, 1.0, 1.0, 1.0])
LINE_OTHERS = np.array([1.0, -1.0, 1.0, 1.0, -1.0])


@pytest.mark.parametrize(
    ("law", "epsilon", "delta", "radius", "weight"),
    [
        ("gamma", 1.0, 0.0, 0.5, 10.0),
        ("gamma", 0.3, 0.0, 0.5, 10.0),
        ("gamma", 4.0, 0.0, 0.5, 10.0),
        ("gaussian", 0.1, 0.005, 0.02, 100.0),
        ("gaussian", 0.5, 0.03, 0.02, 100.0),
    ],
)
def test_exact_audit_on_a_line(
    law: str, epsilon: float, delta: float, radius: float, weight: float
) -> None:
    target = NoiseTarget(epsilon, delta, "objective", 5, 1, 1.0)
    recipe = logistic_recipe(target, radius, weight)
    assert recipe.law == law
    neighbours = logistic_loss(LINE, LINE_SIGNS), logistic_loss(LINE, LINE_OTHERS)
    nominal = audit_on_a_line(*neighbours, recipe)
    assert not nominal.violated
    if law == "gamma":
        assert 0.97 * epsilon < nominal.worst_log_ratio < epsilon
    else:
        assert 0.8 * delta < nominal.delta_at_epsilon
    assert audit_on_a_line(*neighbours, recipe, factor=0.8).violated


def test_exact_audit_in_a_plane() -> None:
    recipe = logistic_recipe(NoiseTarget(1.0, 0.0, "objective", 3, 2, 1.0), 0.02, 1e4)
    table = np.array([[0.0, 0.6], [0.3, 0.3], [1.0, 0.0]])
    neighbours = (
        logistic_loss(table, np.array([1.0, -1.0, 1.0])),
        logistic_loss(table, np.array([1.0, -1.0, -1.0])),
    )
    nominal = audit_in_a_plane(*neighbours, recipe)
    assert not nominal.violated
    assert 0.98 < nominal.worst_log_ratio < 1.0
    assert audit_in_a_plane(*neighbours, recipe, factor=0.8).violated


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_exact_audit_of_output_perturbation(delta: float) -> None:
    """The minimisers are as far apart as they can be when the penalty outweighs the data."""
    weight = 1e3
    recipe = logistic_recipe(NoiseTarget(1.0, delta, "output", 5, 1, 1.0), 0.1, weight)

    def minimiser(signs: Any) -> float:
        x = LINE[:, 0]
        return brentq(
            lambda t: 5 * weight * t - (signs * x * expit(-signs * x * t)).sum(),
            -0.1,
            0.1,
            xtol=1e-300,
            rtol=1e-14,
        )

    minimisers = [minimiser(LINE_SIGNS), minimiser(LINE_OTHERS)]
    nominal = audit_output(minimisers, recipe)
    assert not nominal.violated
    assert audit_output(minimisers, recipe, factor=0.8).violated


def test_fits_follow_the_audited_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was audited is what `fit` does: 2,500 fits against the density above."""
    unchecked(monkeypatch)
    model = PrivateLogisticRegression(
        4.0,
        row_norm=1.0,
        radius=50.0,
        regularization=0.1,
        fit_intercept=False,
        rng=seeded(0),
    )
    sample = np.array([model.fit(LINE, LINE_SIGNS).coef_[0, 0] for _ in range(2500)])
    loss, recipe = logistic_loss(LINE, LINE_SIGNS), model.noise_
    assert fits(sample, ObjectiveLaw(loss, recipe).distribution)
    for factor in (0.6, 1.7):
        assert not fits(sample, ObjectiveLaw(loss, recipe, factor).distribution)
    other = logistic_loss(LINE, -LINE_SIGNS)
    assert not fits(sample, ObjectiveLaw(other, recipe).distribution)


PLANE = np.array([[0.0, 0.5], [0.0, 0.5], [1.0, 0.0]])
PLANE_LABELS = np.array([0, 1, 1]), np.array([0, 1, 0])


def one_fit(epsilon: float) -> Callable[..., Any]:
    def run(labels: Any, rng: Any) -> Any:
        model = PrivateLogisticRegression(
            epsilon, row_norm=1.0, radius=0.5, regularization=10.0, fit_intercept=False, rng=rng
        )
        return model.fit(PLANE, labels).coef_[0]

    return run


def test_black_box_audit_in_a_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found at nominal noise; half of it is refused."""
    unchecked(monkeypatch)
    mechanism = repeat(one_fit(2.0))
    nominal = audit(mechanism, *PLANE_LABELS, epsilon=2.0, runs=1500, rng=1)
    assert not nominal.violated
    assert nominal.epsilon_lower > 0.5

    def half(*numbers: Any) -> Recipe:
        recipe = logistic_recipe(*numbers)
        return replace(recipe, scale=recipe.scale / 2)

    monkeypatch.setattr(logistic, "logistic_recipe", half)
    assert audit(mechanism, *PLANE_LABELS, epsilon=2.0, runs=1500, rng=1).violated
