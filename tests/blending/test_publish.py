"""What may leave of a blend: exact ε of the choice, and the private combination."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from sudare.blending import _publish as publish
from sudare.blending import publish_choice, publish_combination, receive
from sudare.blending._losses import loss_blocks
from sudare.blending._publish import steps_lost, weight_sensitivity
from sudare.blending.mirror import init, last_weights, mirror_weights, step
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import seeded
from sudare.learners import PrivateLogisticRegression
from sudare.releases import Release
from tests.blending.parties import (
    CLASSES,
    NUMBERS,
    learner,
    moments,
    rows_and_targets,
    some_learners,
    truth,
)
from tests.statistical import only_counts_fit, tally

FULL = 2**20


def log_chances(
    rows: Any, targets: Any, thetas: Any, loss: Any, bound: float, epsilon: float
) -> Any:
    """What the exponential mechanism does with these rows."""
    lost = steps_lost(rows, targets, thetas, loss, bound, 1.0)
    return log_softmax(-epsilon / (2 * FULL) * lost)


@pytest.mark.parametrize(
    ("loss", "bound"), [("zero-one", 1.0), ("logistic", 2.0), ("logistic", 0.3), ("squared", 4.0)]
)
def test_no_two_neighbouring_tables_differ_by_more_than_epsilon(loss: Any, bound: float) -> None:
    """Every table of three rows from a list, and every replacement of its first row."""
    epsilon = 1.3
    values = np.array([[3.0, 1.0], [-3.0, 1.0], [0.5, 1.0]])
    thetas = np.array([[4.0, 0.0], [-4.0, 0.0], [0.0, 4.0], [-1.0, -1.0], [0.3, 0.0]])
    records = [(x, y) for x in values for y in (-1.0, 1.0)]
    chances = {
        table: log_chances(
            np.array([records[i][0] for i in table]),
            np.array([records[i][1] for i in table]),
            thetas,
            loss,
            bound,
            epsilon,
        )
        for table in product(range(len(records)), repeat=3)
    }
    worst = max(
        np.abs(chances[table] - chances[(other, *table[1:])]).max()
        for table in chances
        for other in range(len(records))
    )
    assert worst <= epsilon * (1 + 1e-12)
    assert worst > 0.75 * epsilon


def test_epsilon_is_nearly_used_up() -> None:
    """A learner that is rare anyway, against one that every row but this one favours."""
    epsilon = 1.0
    rows, thetas = np.ones((60, 1)), np.array([[1.0], [-1.0]])
    favoured = np.ones(60)
    favoured[0] = -1.0
    here = log_chances(rows, favoured, thetas, "zero-one", 1.0, epsilon)
    there = log_chances(rows, np.ones(60), thetas, "zero-one", 1.0, epsilon)
    assert 1 - 1e-9 < (here - there)[1] / epsilon <= 1 + 1e-12


def test_losses_are_counted_in_whole_steps_of_the_bound() -> None:
    table, _, signs = rows_and_targets(CLASSES, 90)
    rows, thetas = CLASSES.rows(table), np.array([r.theta for r in some_learners(CLASSES)])
    for loss, bound in (("logistic", 0.7), ("zero-one", 1.0)):
        lost = steps_lost(rows, signs, thetas, loss, bound, 1.0)  # type: ignore[arg-type]
        (block,) = loss_blocks(rows, signs, thetas, loss, 1.0)  # type: ignore[arg-type]
        assert lost / FULL == pytest.approx(np.minimum(block, bound).sum(axis=0) / bound, abs=1e-3)
        assert lost.dtype == np.int64
        one = steps_lost(rows[:1], signs[:1], np.array([[1e6] * 4, [-1e6] * 4]), loss, bound, 1.0)  # type: ignore[arg-type]
        assert sorted(one) == [0, FULL]


def test_the_choice_follows_its_law() -> None:
    table, y, signs = rows_and_targets(CLASSES, 12)
    releases = some_learners(CLASSES, 4)
    thetas = np.array([r.theta for r in releases])
    lost = steps_lost(CLASSES.rows(table), signs, thetas, "zero-one", 1.0, 1.0)
    rng = seeded(1)
    names = {r.coefficients: m for m, r in enumerate(releases)}
    chosen = [
        names[publish_choice(releases, table, y, epsilon=2.0, party="us", rng=rng).coefficients]
        for _ in range(1_500)
    ]
    law = lambda epsilon: softmax(-epsilon / (2 * FULL) * lost)  # noqa: E731
    wrong = [law(0.5), law(6.0), law(2.0)[::-1]]
    assert only_counts_fit(tally(chosen, 4), law(2.0), wrong)


def test_losses_of_ones_own() -> None:
    """Another loss and another bound lead to the same best learner if the budget allows."""
    table, y, _ = rows_and_targets(CLASSES, 100)
    pair = [learner("bold", 2 * truth(CLASSES)), learner("wrong", -0.1 * truth(CLASSES))]
    for changes in ({"loss": "logistic"}, {"loss": "logistic", "loss_bound": 0.5}):
        made = publish_choice(pair, table, y, epsilon=1e3, party="us", rng=0, **changes)
        assert made.coefficients == pair[0].coefficients


def test_a_choice_is_a_release_of_its_own() -> None:
    table, y, _ = rows_and_targets(CLASSES, 40)
    releases: list[Release] = [*some_learners(CLASSES, 3), moments("M")]
    made = publish_choice(releases, table, y, epsilon=0.5, party="Clinic A")
    assert made.event == PureEvent(0.5)
    assert (made.party, made.n, made.contract) == ("Clinic A", 40, CLASSES)
    assert not made.simulated
    known = receive(releases).as_learners()
    (place,) = np.flatnonzero((known.coefficients == made.theta).all(axis=1))
    assert made.noise_std == known.noise_std[place]
    assert receive([made]).dropped == ()
    assert publish_choice(releases, table, y, epsilon=0.5, party="A", rng=1).simulated


@pytest.mark.parametrize("contract", [CLASSES, NUMBERS])
def test_much_budget_chooses_the_best(contract: Any) -> None:
    table, y, _ = rows_and_targets(contract, 200)
    releases = some_learners(contract, 6)[::-1]
    made = publish_choice(releases, table, y, epsilon=1e6, party="us", rng=0)
    scores = contract.rows(table) @ np.array([r.theta for r in releases]).T
    numbers = contract.targets(y)[:, None]
    losses = (
        (np.sign(scores) != numbers)
        if contract is CLASSES
        else (np.clip(scores, -2, 2) - numbers) ** 2
    )
    assert made.coefficients == releases[int(np.argmin(losses.sum(axis=0)))].coefficients


@pytest.mark.parametrize("contract", [CLASSES, NUMBERS])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_combination_is_a_private_fit_in_the_span_of_the_learners(
    contract: Any, delta: float
) -> None:
    table, y, _ = rows_and_targets(contract, 4_000)
    new, new_y, _ = rows_and_targets(contract, 2_000, seed=3)
    pair = [learner("A", (1.0, 0, 0, 0.3), contract), learner("B", (0, -0.5, 0.25, 0), contract)]
    made = publish_combination(pair, table, y, epsilon=5.0, delta=delta, party="us", rng=2)
    assert made.event == PureEvent(5.0)  # in two dimensions Gamma noise is the cheaper one
    assert made.contract == contract
    basis = np.array([r.theta for r in pair])
    weights, rest, _, _ = np.linalg.lstsq(basis.T, made.theta)
    assert rest == pytest.approx([0], abs=1e-20)
    assert (weights > 0.3).all()
    assert receive([made]).dropped == ()
    assert np.linalg.norm(made.theta) <= made.radius + made.slack
    again = publish_combination([made], table, y, epsilon=5.0, party="us", rng=2)
    direction = made.theta / np.linalg.norm(made.theta)
    assert again.theta / np.linalg.norm(again.theta) == pytest.approx(direction)
    scores = contract.rows(new) @ made.theta
    told = contract.targets(new_y)
    best = contract.rows(new) @ basis.T
    if contract is CLASSES:
        alone = (np.sign(best) == told[:, None]).mean(axis=0).max()
        assert (np.sign(scores) == told).mean() > alone
    else:
        assert ((scores - told) ** 2).mean() < ((best - told[:, None]) ** 2).mean(axis=0).min()


def test_features_of_a_combination_stay_within_the_stated_norm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """‖U·x‖ ≤ ‖U‖·row norm, attained; so no feature row is ever clipped."""
    seen: dict[str, Any] = {}

    class Spy(PrivateLogisticRegression):
        def fit(self, X: Any, y: Any, **unsupported: Any) -> Any:
            seen.update(rows=X, bound=self.row_norm)
            return super().fit(X, y)

    monkeypatch.setattr(publish, "PrivateLogisticRegression", Spy)
    releases = some_learners(CLASSES, 5)
    directions = np.array([r.theta / np.linalg.norm(r.theta) for r in releases])
    _, _, right = np.linalg.svd(directions)
    longest = right[0] / right[0][-1] * 0.25
    table = np.vstack([longest[:3], rows_and_targets(CLASSES, 30)[0]])
    y = ["yes", "no"] * 15 + ["no"]
    publish_combination(releases, table, y, epsilon=1.0, party="us", rng=0)
    norms = np.linalg.norm(seen["rows"], axis=1)
    assert norms.max() <= seen["bound"]
    assert seen["bound"] <= np.sqrt(5) * CLASSES.full_norm * (1 + 1e-6)


def test_noise_of_a_combination_is_about_the_stated_size() -> None:
    table, y, _ = rows_and_targets(NUMBERS, 200)
    releases = some_learners(NUMBERS, 3)
    made = [
        publish_combination(releases, table, y, epsilon=3.0, delta=1e-5, party="us", rng=s)
        for s in range(60)
    ]
    spread = np.std([m.theta for m in made], axis=0).max()
    assert spread / 3 < made[0].noise_std < 3 * spread


def test_one_row_can_move_weights_by_the_stated_amount() -> None:
    """2·tanh(H/2τ): not exceeded in a search, attained, and the same for ten times the rows."""
    loss_bound, tau = 1.0, 0.7
    limit = weight_sensitivity(loss_bound, tau)
    rng = seeded(1)
    worst = 0.0
    for _ in range(1_000):
        learners = int(rng.integers(2, 5))
        start = rng.random((2, learners)) * 3
        pair = (rng.random((2, learners)) < 0.5) * loss_bound
        weights = [last_weights(step(init(learners), np.vstack([start, row]), tau)) for row in pair]
        worst = max(worst, float(np.abs(weights[0] - weights[1]).sum()))
    assert worst <= limit + 1e-12
    for n in (2, 20):
        even = np.full((n, 2), 0.3)
        ends = [
            last_weights(step(init(2), np.vstack([even, [row]]), tau)) for row in ((0, 1), (1, 0))
        ]
        assert np.abs(ends[0] - ends[1]).sum() == pytest.approx(limit)
    averaged = [
        mirror_weights(step(init(2), np.vstack([[row], np.full((500, 2), 0.3)]), tau))
        for row in ((0, 1), (1, 0))
    ]
    assert np.abs(averaged[0] - averaged[1]).sum() > 0.99 * limit


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 > 0"),
        ({"loss": "squared"}, "another loss than 'squared' for classification"),
        ({"loss": "hinge"}, "one of 'squared', 'logistic', 'zero-one'"),
        ({"loss_bound": -1.0}, "loss_bound=-1.0 > 0"),
        ({"party": ""}, "printable name"),
        ({"X": np.zeros((3, 3))}, "as many targets as rows"),
        ({"X": np.full((20, 3), np.nan)}, "NaN"),
        ({"X": np.zeros((20, 2))}, "3 columns"),
        ({"releases": []}, "at least one release"),
        ({"releases": [learner("X", (80, 0, 0, 0))]}, "at least one usable release: X: "),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    usual: dict[str, Any] = {
        "releases": some_learners(CLASSES),
        "X": table,
        "y": y,
        "epsilon": 1.0,
        "party": "us",
    }
    with pytest.raises(InvalidInput, match=message):
        publish_choice(**(usual | changes))
    if "loss" not in changes and "loss_bound" not in changes:
        with pytest.raises(InvalidInput, match=message):
            publish_combination(**(usual | changes))


def test_learners_that_say_nothing_cannot_be_combined() -> None:
    table, y, _ = rows_and_targets(CLASSES, 20)
    with pytest.raises(InvalidInput, match="not zero everywhere"):
        publish_combination([learner("A", np.zeros(4))], table, y, epsilon=1.0, party="us")
