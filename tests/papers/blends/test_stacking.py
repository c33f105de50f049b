"""Stacks against optimality conditions and brute force."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from papers.blends import ConvexStack, DantzigStack, LassoStack, RidgeStack, SelectionStack
from sudare.foundations.checks import InvalidInput
from tests.blending.parties import CLASSES, NUMBERS, learner, rows_and_targets, some_learners

CONTRACTS = pytest.mark.parametrize("contract", [CLASSES, NUMBERS], ids=["classes", "numbers"])

minimise: Any = optimize.minimize  # its types know fewer ways to call it than it does


def features(contract: Any, model: Any, table: Any) -> Any:
    """Outputs over the target's bound, one column a learner."""
    scores = contract.rows(table) @ model.components_.T
    return np.tanh(scores / 2) if contract is CLASSES else np.clip(scores, -2, 2) / 2


def scaled(contract: Any, model: Any, table: Any, numbers: Any) -> tuple[Any, Any, Any]:
    """Columns of mean square 1, targets, and weights for these columns."""
    F = features(contract, model, table)
    sizes = np.sqrt((F**2).mean(axis=0))
    return F / sizes, numbers / (contract.target_bound or 1.0), model.weights_ * sizes


@CONTRACTS
def test_convex_stack_is_the_best_mixture(contract: Any) -> None:
    table, y, numbers = rows_and_targets(contract, 60)
    model = ConvexStack(some_learners(contract, 6)).fit(table, y)
    F = features(contract, model, table)

    def loss(w: Any) -> float:
        if contract is CLASSES:
            return -float(np.log((1 + numbers * (F @ w)) / 2).mean())
        return float(((F @ w - numbers / 2) ** 2).mean())

    assert (model.weights_ >= 0).all()
    assert model.weights_.sum() == pytest.approx(1)
    for corner in np.eye(6):
        for share in (1e-3, 0.1, 1.0):
            moved = (1 - share) * model.weights_ + share * corner
            assert loss(moved) >= loss(model.weights_) - 1e-8


def test_convex_stack_survives_a_row_that_nobody_allows_for() -> None:
    sure = [learner(name, (0, 0, 0, 1e4), radius=1e5) for name in "AB"]
    model = ConvexStack(sure).fit(np.zeros((3, 3)), ["yes", "no", "yes"])
    assert model.weights_.sum() == pytest.approx(1)


@pytest.mark.parametrize("penalty", [0.1, 3.0])
@pytest.mark.parametrize("number", [3, 12])
def test_ridge_stack_of_classes_is_penalised_logistic_regression(
    penalty: float, number: int
) -> None:
    table, y, signs = rows_and_targets(CLASSES, 40)
    model = RidgeStack(some_learners(CLASSES, number), penalty=penalty).fit(table, y)
    scores = CLASSES.rows(table) @ model.components_.T
    wrong = 1 / (1 + np.exp(signs * (scores @ model.weights_)))
    gradient = penalty * model.weights_ - (signs * wrong) @ scores
    assert np.abs(gradient).max() < 1e-3
    found = minimise(
        lambda b: np.logaddexp(0, -signs * (scores @ b)).sum() + penalty / 2 * b @ b,
        np.zeros(number),
        jac=lambda b: penalty * b - (signs / (1 + np.exp(signs * (scores @ b)))) @ scores,
        tol=1e-10,
    )
    assert model.weights_ == pytest.approx(found.x, abs=1e-4)


def test_ridge_stack_of_numbers_solves_its_normal_equations() -> None:
    table, y, _ = rows_and_targets(NUMBERS, 40)
    model = RidgeStack(some_learners(NUMBERS, 6), penalty=0.7).fit(table, y)
    scores = NUMBERS.rows(table) @ model.components_.T / 2
    expected = np.linalg.solve(scores.T @ scores + 0.7 * np.eye(6), scores.T @ (y / 2))
    assert model.weights_ == pytest.approx(expected)


@CONTRACTS
@pytest.mark.parametrize(
    "blend", [ConvexStack, RidgeStack, SelectionStack, LassoStack, DantzigStack]
)
def test_scores_of_any_size_are_no_trouble(blend: Any, contract: Any) -> None:
    """Equal ones, huge ones and tiny ones; the suite takes a warning for an error."""
    table, y, _ = rows_and_targets(contract, 12)
    for sizes in ((1e15, 1e15, 1.0), (1e28, 1e28, 1e-28), (1e-200, 1e28, 0.0)):
        given = [
            learner(f"party {k}", size * np.array([1.0, 2.0, -1.0, 0.5]), contract, radius=1e30)
            for k, size in enumerate(sizes)
        ]
        model = blend(given).fit(table, y)
        assert np.isfinite(model.weights_).all()
        assert np.isfinite(model.score(table, y))


def test_ridge_stack_needs_both_classes_and_the_others_do_not() -> None:
    table = rows_and_targets(CLASSES, 20)[0]
    labels = ["yes"] * 20
    with pytest.raises(InvalidInput, match="both classes, found one class only"):
        RidgeStack(some_learners(CLASSES)).fit(table, labels)
    for blend in (ConvexStack, SelectionStack, LassoStack, DantzigStack):
        model = blend(some_learners(CLASSES)).fit(table, labels)
        assert np.isfinite(model.predict_proba(table)).all()


@CONTRACTS
@pytest.mark.parametrize("penalty", [0.02, 0.2, "auto"])
def test_lasso_meets_its_optimality_conditions(contract: Any, penalty: Any) -> None:
    """Correlations with the rest: r·sign(b) where b ≠ 0, at most r elsewhere."""
    table, y, numbers = rows_and_targets(contract, 60)
    model = LassoStack(some_learners(contract, 10), penalty=penalty).fit(table, y)
    F, target, b = scaled(contract, model, table, numbers)
    level = universal(F, target) if penalty == "auto" else penalty
    rest = F.T @ (target - F @ b) / 60
    used = np.abs(b) > 1e-9
    assert rest[used] == pytest.approx(level * np.sign(b[used]), abs=1e-6)
    assert (np.abs(rest) <= level + 1e-6).all()
    assert 0 < used.sum() < 10


def universal(F: Any, target: Any) -> float:
    errors = [((target - f * (f @ target) / (f @ f)) ** 2).mean() for f in F.T]
    n, learners = F.shape
    return float(np.sqrt(min(errors) * 2 * np.log(2 * learners) / n))


@CONTRACTS
@pytest.mark.parametrize("penalty", [0.05, 0.3, "auto"])
def test_dantzig_selector_against_lasso_and_random_feasible_points(
    contract: Any, penalty: Any
) -> None:
    """Feasible, and never longer than any other feasible point; lasso at the same r is one."""
    table, y, numbers = rows_and_targets(contract, 60)
    releases = some_learners(contract, 8)
    model = DantzigStack(releases, penalty=penalty).fit(table, y)
    F, target, b = scaled(contract, model, table, numbers)
    level = universal(F, target) if penalty == "auto" else penalty
    assert np.abs(F.T @ (target - F @ b) / 60).max() <= level + 1e-7
    lasso = LassoStack(releases, penalty=penalty).fit(table, y)
    _, _, other = scaled(contract, lasso, table, numbers)
    assert np.abs(b).sum() <= np.abs(other).sum() + 1e-6
    # Its dual certificate: Σ|b| = max{uᵀF'y/n − r‖u‖₁ : ‖F'F u/n‖∞ ≤ 1}.
    gram, cross = F.T @ F / 60, F.T @ target / 60
    best = dual(gram, cross, level)
    assert np.abs(b).sum() == pytest.approx(best, abs=1e-6)


def dual(gram: Any, cross: Any, level: float) -> float:
    """The greatest value of the dual problem, by another solver."""
    size = len(cross)
    found = minimise(
        lambda uv: level * uv.sum() - (uv[:size] - uv[size:]) @ cross,
        np.zeros(2 * size),
        jac=lambda uv: level - np.concatenate([cross, -cross]),
        bounds=[(0, None)] * (2 * size),
        constraints=[
            {
                "type": "ineq",
                "fun": lambda uv, s=sign: 1 - s * (gram @ (uv[:size] - uv[size:])),
                "jac": lambda uv, s=sign: -s * np.hstack([gram, -gram]),
            }
            for sign in (1, -1)
        ],
        method="SLSQP",
        options={"maxiter": 2_000, "ftol": 1e-13},
    )
    return -float(found.fun)


def bic(F: Any, target: Any, chosen: Any) -> float:
    n = len(target)
    rest = target - F[:, chosen] @ np.linalg.lstsq(F[:, chosen], target)[0] if chosen else target
    return float(n * np.log((rest**2).mean()) + len(chosen) * np.log(n))


@CONTRACTS
@pytest.mark.parametrize("seed", range(4))
def test_selection_takes_the_steps_that_brute_force_would(contract: Any, seed: int) -> None:
    table, y, numbers = rows_and_targets(contract, 50, seed)
    model = SelectionStack(some_learners(contract, 7, seed)).fit(table, y)
    F, target, b = scaled(contract, model, table, numbers)
    chosen: list[int] = []
    while True:
        options = [[*chosen, m] for m in range(7) if m not in chosen]
        best = min(options, key=lambda c: bic(F, target, c))
        if bic(F, target, best) >= bic(F, target, chosen):
            break
        chosen = best
    assert set(np.flatnonzero(b)) == set(chosen)
    assert b[chosen] == pytest.approx(np.linalg.lstsq(F[:, chosen], target)[0], rel=1e-6)
    # Greedy, and rarely much worse than the best of all subsets.
    subsets = [list(c) for k in range(8) for c in combinations(range(7), k)]
    assert bic(F, target, chosen) <= min(bic(F, target, c) for c in subsets) + 2 * np.log(50)


def test_selection_may_take_nobody() -> None:
    """A learner that says nothing, and one that says the same for both classes."""
    table = rows_and_targets(CLASSES, 20)[0]
    silent = [learner("A", np.zeros(4)), learner("B", (0, 0, 0, 0.01))]
    model = SelectionStack(silent).fit(table, ["yes", "no"] * 10)
    assert model.weights_.tolist() == [0, 0]
    assert model.predict_proba(table)[:, 1].tolist() == [0.5] * 20


@CONTRACTS
@pytest.mark.parametrize("blend", [SelectionStack, LassoStack, DantzigStack, RidgeStack])
def test_twins_and_more_learners_than_rows(blend: Any, contract: Any) -> None:
    table, y, _ = rows_and_targets(contract, 12)
    releases = some_learners(contract, 15)
    twins = [
        learner(f"twin {m}", r.coefficients, contract, radius=90) for m, r in enumerate(releases)
    ]
    model = blend([*releases, *twins]).fit(table, y)
    assert np.isfinite(model.predict(table) if contract is NUMBERS else model.weights_).all()


@pytest.mark.parametrize(
    ("blend", "penalty", "message"),
    [
        (RidgeStack, 0.0, "penalty=0.0 > 0"),
        (LassoStack, -1.0, "penalty=-1.0 > 0"),
        (DantzigStack, "much", "one of 'auto'"),
    ],
)
def test_bad_penalties(blend: Any, penalty: Any, message: str) -> None:
    table, y, _ = rows_and_targets(CLASSES, 12)
    with pytest.raises(InvalidInput, match=message):
        blend(some_learners(CLASSES), penalty=penalty).fit(table, y)
