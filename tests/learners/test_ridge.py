"""Private ridge regression: scikit-learn's contract, its limit, its law and its audits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sudare.audit import audit, repeat
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.learners import PrivateRidge
from sudare.learners import _ridge as ridge
from sudare.learners._recipe import NoiseTarget, Recipe, ridge_recipe
from tests.learners.contract import (
    ObjectiveLaw,
    audit_in_a_plane,
    audit_on_a_line,
    audit_output,
    check_scikit_learn,
    squared_loss,
    unchecked,
)
from tests.statistical import fits

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(400, 4)) * [1.0, 2.0, 0.5, 3.0]
TARGET = TABLE @ [0.5, -0.25, 1.0, 0.1] + 1.5 + RNG.normal(size=400)


@pytest.mark.parametrize("mechanism", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_scikit_learns_own_checks(mechanism: str, delta: float) -> None:
    bounds: Any = {"row_norm": 6.0, "target_bound": 5.0, "radius": 5.0}
    check_scikit_learn(PrivateRidge(1e7, delta=delta, mechanism=mechanism, rng=0, **bounds))


@pytest.mark.parametrize("mechanism", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_it_is_scikit_learns_ridge(
    mechanism: str, delta: float, fit_intercept: bool
) -> None:
    """Fitted to the same problem: shortened rows, clipped targets, the constant as a feature."""
    row_norm, bound, weight = 4.0, 3.0, 0.05
    norms = np.linalg.norm(TABLE, axis=1)
    assert 50 < (norms > row_norm).sum() < 350
    assert (np.abs(TARGET) > bound).sum() > 20
    rows = TABLE * np.minimum(1.0, row_norm / norms)[:, None]
    if fit_intercept:
        rows = np.column_stack([rows, np.full(len(rows), 0.25 * row_norm)])
    peer = Ridge(alpha=len(rows) * weight, fit_intercept=False)
    expected = peer.fit(rows, np.clip(TARGET, -bound, bound)).coef_
    errors = []
    for epsilon in (1e2, 1e4, 1e6):
        learner = PrivateRidge(
            epsilon,
            delta=delta,
            mechanism=mechanism,
            row_norm=row_norm,
            target_bound=bound,
            radius=5.0,
            regularization=weight,
            fit_intercept=fit_intercept,
            rng=0,
        ).fit(TABLE, TARGET)
        errors.append(float(np.linalg.norm(learner.sealed_.values - expected)))
        assert learner.coef_ == pytest.approx(learner.sealed_.values[:4])
        if fit_intercept:
            assert learner.intercept_ == learner.sealed_.values[4] * 0.25 * row_norm
    # The same coins each time: noise of the order of 1/ε, or of 1/√ε if it is concentrated.
    concentrated = mechanism == "output" and delta > 0
    assert errors[0] / errors[1] == pytest.approx(10 if concentrated else 100, rel=0.5)
    assert errors[2] < (5e-3 if concentrated else 1e-5) * np.linalg.norm(expected)


def test_a_small_ball_is_kept() -> None:
    learner = PrivateRidge(
        1e6, row_norm=4.0, target_bound=3.0, radius=0.1, regularization=0.01, rng=0
    ).fit(TABLE, TARGET)
    assert np.linalg.norm(learner.sealed_.values) == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize("name", ["row_norm", "target_bound", "radius"])
def test_a_missing_bound_is_named_and_explained(name: str) -> None:
    bounds: dict[str, Any] = {"row_norm": 1.0, "target_bound": 1.0, "radius": 1.0}
    reasons = {"row_norm": "row", "target_bound": "clipped", "radius": "norm of the coefficients"}
    with pytest.raises(InvalidInput, match=f"Expected {name}: .*{reasons[name]}") as problem:
        PrivateRidge(1.0, **bounds | {name: None}).fit(TABLE, TARGET)
    assert "without looking at the data" in str(problem.value)
    for value in (-1.0, 0.0, np.nan, np.inf, "1", 1e31):
        with pytest.raises(InvalidInput, match=name):
            PrivateRidge(1.0, **bounds | {name: value}).fit(TABLE, TARGET)


def test_targets_beyond_their_bound_count_as_the_bound() -> None:
    learner = PrivateRidge(2.0, row_norm=4.0, target_bound=1.0, radius=2.0, rng=3)
    wild = TARGET.copy()
    wild[np.abs(wild) > 1] *= 1e300
    clipped = np.clip(TARGET, -1, 1)
    assert learner.fit(TABLE, wild).sealed_ == learner.fit(TABLE, clipped).sealed_
    assert learner.fit(TABLE, wild / 1e300).sealed_ != learner.fit(TABLE, clipped).sealed_


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("mechanism", "gibbs"),
        ("regularization", -1.0),
        ("regularization", "none"),
        ("fit_intercept", 1),
        ("rng", -1),
        ("rng", np.random.RandomState(0)),
        ("delta", -1e-9),
        ("epsilon", np.inf),
    ],
)
def test_other_parameters_are_refused_by_name(parameter: str, value: Any) -> None:
    learner = PrivateRidge(1.0, row_norm=1.0, target_bound=1.0, radius=1.0)
    with pytest.raises(InvalidInput, match=parameter):
        learner.set_params(**{parameter: value}).fit(TABLE, TARGET)


def test_output_perturbation_needs_a_penalty() -> None:
    learner = PrivateRidge(
        1.0, mechanism="output", row_norm=1.0, target_bound=1.0, radius=1.0, regularization=0.0
    )
    with pytest.raises(InvalidInput, match="regularization"):
        learner.fit(TABLE, TARGET)
    learner.set_params(mechanism="objective", rng=0).fit(TABLE, TARGET)


# One record's target changes sign: the largest step its gradient can take.
LINE = np.array([[0.3], [-0.5], [1.0], [1.0], [1.0]])
LINE_TARGETS = np.array([0.2, 0.1, 1.0, 1.0, 1.0])
LINE_OTHERS = np.array([0.2, 0.1, 1.0, 1.0, -1.0])


def on_a_line(epsilon: float, delta: float, radius: float, weight: float) -> Recipe:
    return ridge_recipe(NoiseTarget(epsilon, delta, "objective", 5, 1, 1.0), 1.0, radius, weight)


@pytest.mark.parametrize(
    ("law", "epsilon", "delta", "radius", "weight"),
    [
        ("gamma", 1.0, 0.0, 0.05, 10.0),
        ("gamma", 0.3, 0.0, 0.02, 10.0),
        ("gamma", 4.0, 0.0, 0.05, 1.0),
        ("gamma", 0.1, 0.005, 0.02, 100.0),
        ("gaussian", 0.1, 0.0075, 0.02, 100.0),
    ],
)
def test_exact_audit_on_a_line(
    law: str, epsilon: float, delta: float, radius: float, weight: float
) -> None:
    recipe = on_a_line(epsilon, delta, radius, weight)
    assert recipe.law == law
    neighbours = squared_loss(LINE, LINE_TARGETS), squared_loss(LINE, LINE_OTHERS)
    nominal = audit_on_a_line(*neighbours, recipe)
    assert not nominal.violated
    if law == "gamma":
        assert 0.95 * epsilon < nominal.worst_log_ratio < epsilon
    assert audit_on_a_line(*neighbours, recipe, factor=0.8).violated


def test_exact_audit_in_a_plane() -> None:
    recipe = ridge_recipe(NoiseTarget(1.0, 0.0, "objective", 3, 2, 1.0), 1.0, 0.02, 1e4)
    table = np.array([[0.0, 0.6], [0.3, 0.3], [1.0, 0.0]])
    neighbours = (
        squared_loss(table, np.array([0.5, -0.2, 1.0])),
        squared_loss(table, np.array([0.5, -0.2, -1.0])),
    )
    nominal = audit_in_a_plane(*neighbours, recipe)
    assert not nominal.violated
    assert 0.98 < nominal.worst_log_ratio < 1.0
    assert audit_in_a_plane(*neighbours, recipe, factor=0.8).violated


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_exact_audit_of_output_perturbation(delta: float) -> None:
    """The minimisers are as far apart as they can be when the penalty outweighs the data."""
    weight = 1e3
    recipe = ridge_recipe(NoiseTarget(1.0, delta, "output", 5, 1, 1.0), 1.0, 1.0, weight)
    squares = float((LINE**2).sum()) + 5 * weight
    minimisers = [float(LINE[:, 0] @ y) / squares for y in (LINE_TARGETS, LINE_OTHERS)]
    nominal = audit_output(minimisers, recipe)
    assert not nominal.violated
    assert audit_output(minimisers, recipe, factor=0.8).violated


def test_fits_follow_the_audited_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was audited is what `fit` does: 2,500 fits against the density above."""
    unchecked(monkeypatch)
    learner = PrivateRidge(
        1.0,
        row_norm=1.0,
        target_bound=1.0,
        radius=4.0,
        regularization=1.0,
        fit_intercept=False,
        rng=seeded(0),
    )
    sample = np.array([learner.fit(LINE, LINE_TARGETS).coef_[0] for _ in range(2500)])
    loss, recipe = squared_loss(LINE, LINE_TARGETS), learner.noise_
    assert fits(sample, ObjectiveLaw(loss, recipe).distribution)
    for factor in (0.6, 1.7):
        assert not fits(sample, ObjectiveLaw(loss, recipe, factor).distribution)
    other = squared_loss(LINE, LINE_OTHERS)
    assert not fits(sample, ObjectiveLaw(other, recipe).distribution)


PLANE = np.array([[0.0, 0.5], [1.0, 0.0]])
PLANE_TARGETS = np.array([0.5, 1.0]), np.array([0.5, -1.0])


def one_fit(epsilon: float) -> Callable[..., Any]:
    def run(target: Any, rng: Any) -> Any:
        learner = PrivateRidge(
            epsilon,
            row_norm=1.0,
            target_bound=1.0,
            radius=0.1,
            regularization=10.0,
            fit_intercept=False,
            rng=rng,
        )
        return learner.fit(PLANE, target).coef_

    return run


def test_black_box_audit_in_a_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found at nominal noise; half of it is refused."""
    unchecked(monkeypatch)
    mechanism = repeat(one_fit(2.0))
    nominal = audit(mechanism, *PLANE_TARGETS, epsilon=2.0, runs=1500, rng=1)
    assert not nominal.violated
    assert nominal.epsilon_lower > 0.5

    def half(*numbers: Any) -> Recipe:
        recipe = ridge_recipe(*numbers)
        return replace(recipe, scale=recipe.scale / 2)

    monkeypatch.setattr(ridge, "ridge_recipe", half)
    assert audit(mechanism, *PLANE_TARGETS, epsilon=2.0, runs=1500, rng=1).violated
