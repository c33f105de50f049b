"""The own model: weighed penalties, fits left out, and the noise of targets."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sudare.blending._own import (
    PENALTIES,
    noise_variance,
    own_model,
    penalties,
    shapes,
    spreads,
)
from sudare.blending._records import Array, Laws, Records, fit
from sudare.foundations.randomness import seeded


def records(
    n: int = 40,
    length: float = 3.0,
    seed: int = 0,
    noise: float | None = None,
    constant: float = 0.4,
) -> Records:
    """Columns of unlike sizes and places, the last constant if there is one."""
    rng = seeded(seed)
    rows = rng.normal(size=(n, 3)) * [0.5, 0.1, 0.3] + [0.2, -0.4, 0.0]
    if constant:
        rows = np.column_stack([rows, np.full(n, constant)])
    scores = length * (rows[:, :3] - [0.2, -0.4, 0.0]) @ np.array([1.0, -6.0, 0.5]) + 0.7
    if noise is not None:
        return Records(rows, scores / 8 + np.sqrt(noise) * rng.normal(size=n), noise, constant)
    labels = np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    return Records(rows, labels, constant=constant)


@pytest.mark.parametrize("noise", [None, 0.1])
def test_penalties_are_weighed_by_their_loss_left_out_and_by_what_is_usual(
    noise: float | None,
) -> None:
    own = records(noise=noise)
    logs, thetas, scores, evidences = [], [], [], []
    usual = np.exp(-((np.log(PENALTIES / 15) / 1.2) ** 2) / 2)
    for shape in shapes(own):
        fits = fit(own, Laws(np.zeros((12, 4)), shape.precision(penalties(own))))
        logs.append(np.log(usual) - own.losses(fits.left_out).sum(axis=1))
        thetas.append(fits.theta)
        scores.append(fits.left_out)
        evidences.append(usual / usual.sum() / 2 * np.exp(fits.evidence))
    weights = np.exp(np.concatenate(logs))
    weights /= weights.sum()
    found = own_model(own)
    np.testing.assert_allclose(found.theta, weights @ np.concatenate(thetas), rtol=1e-9)
    np.testing.assert_allclose(found.left_out, weights @ np.concatenate(scores), rtol=1e-9)
    assert found.evidence == pytest.approx(np.log(np.sum(evidences)))


@pytest.mark.parametrize(("noise", "level"), [(None, 0.3), (0.1, 4.0)])
def test_shapes_penalise_slopes_in_two_units_and_the_average_score(
    noise: float | None, level: float
) -> None:
    own = records(noise=noise)
    middle = own.rows.mean(axis=0)
    standard, flat = shapes(own)
    theta = np.array([1.0, -2.0, 3.0, 0.5])
    variances = own.rows[:, :3].var(axis=0)
    made_up = (40 * variances + variances.mean()) / 41
    np.testing.assert_allclose(spreads(own), made_up, rtol=1e-12)
    for shape, sizes in ((standard, made_up), (flat, np.full(3, made_up.mean()))):
        np.testing.assert_allclose(theta @ shape.slopes @ theta, sizes @ theta[:3] ** 2)
        np.testing.assert_allclose(theta @ shape.level @ theta, level * (middle @ theta) ** 2)
        np.testing.assert_allclose(
            shape.precision(np.array([7.0]))[0], 7 * shape.slopes + shape.level
        )
    assert not shapes(records(constant=0.0))[0].level.any()


def test_penalties_are_of_the_losss_size() -> None:
    np.testing.assert_allclose(penalties(records(noise=0.1)), PENALTIES / 0.1)
    np.testing.assert_array_equal(penalties(records()), PENALTIES)
    assert (PENALTIES[0], PENALTIES[-1]) == pytest.approx((0.1, 3000))


@pytest.mark.parametrize("noise", [None, 0.1])
def test_where_a_column_starts_and_in_which_unit_changes_little(noise: float | None) -> None:
    """Penalties of columns as they are see their units; standardised ones must win then."""
    own = records(150, noise=noise)
    moved = own.rows.copy()
    moved[:, :3] = (moved[:, :3] - [0.1, 0.3, -0.2]) * [0.05, 3.0, 0.4]
    other = Records(moved, own.targets, noise, own.constant)
    scores = own.rows @ own_model(own).theta, moved @ own_model(other).theta
    assert np.corrcoef(*scores)[0, 1] > 0.99
    assert np.abs(scores[0] - scores[1]).mean() < 0.15 * scores[0].std()


def test_it_is_no_worse_than_cross_validated_regression_as_people_fit_it() -> None:
    """Mean log loss on new rows, for columns in any units: 15 rows, 12 draws."""
    ours, theirs = [], []
    for seed in range(12):
        rng = seeded(seed)
        units = np.exp(rng.uniform(-3, 0, size=3))
        own, new = records(15, seed=seed), records(2000, seed=100 + seed)
        columns, fresh = own.rows[:, :3] * units, new.rows[:, :3] * units
        scaled = Records(np.column_stack([columns, own.rows[:, 3]]), own.targets, constant=0.4)
        scores = np.column_stack([fresh, new.rows[:, 3]]) @ own_model(scaled).theta
        ours.append(np.logaddexp(0, -new.targets * scores).mean())
        model = make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(Cs=np.logspace(-4, 2, 8), cv=3, scoring="neg_log_loss"),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = model.fit(columns, own.targets).decision_function(fresh)
        theirs.append(np.logaddexp(0, -new.targets * scores).mean())
    assert np.mean(ours) < np.mean(theirs)


def test_a_rare_outcome_is_learned_as_rare() -> None:
    """The intercept is free: eleven rows of two hundred."""
    rng = seeded(1)
    rows = np.column_stack([0.2 * rng.normal(size=(200, 2)), np.full(200, 0.1)])
    labels = np.where(np.arange(200) < 11, 1.0, -1.0)
    found = own_model(Records(rows, labels, constant=0.1))
    chance = 1 / (1 + np.exp(-rows @ found.theta))
    assert chance.mean() == pytest.approx(11 / 200, abs=0.01)


def test_a_column_in_which_own_rows_are_alike_has_no_effect() -> None:
    own = records()
    rows = own.rows.copy()
    rows[:, 1] = 0.3
    found = own_model(Records(rows, own.targets, constant=own.constant))
    assert np.isfinite(found.theta).all()
    assert abs(found.theta[1]) < 1


def test_evidence_is_better_than_a_coin_for_labels_that_can_be_foretold() -> None:
    found = own_model(records())
    labels = records().targets
    assert found.evidence > len(labels) * np.log(0.5)
    shuffled = Records(records().rows, seeded(5).permutation(labels), constant=0.4)
    assert own_model(shuffled).evidence < found.evidence


@pytest.mark.parametrize("noise", [0.02, 0.5])
@pytest.mark.parametrize("constant", [0.4, 0.0])
def test_noise_variance_is_that_of_refits_without_a_row(noise: float, constant: float) -> None:
    """With an intercept that is not penalised, and slopes in units of the columns' deviations."""
    own = records(30, noise=noise, constant=constant)
    errors = []
    table = own.rows[:, :3] / np.sqrt(spreads(own))
    if constant:
        table = table - table.mean(axis=0)
    for penalty in PENALTIES:
        squares = []
        for i in range(30):
            kept = np.arange(30) != i
            x, y = table[kept], own.targets[kept]
            ridge, new = penalty * np.eye(3), table[i]
            if constant:
                x, new = np.column_stack([x, np.ones(29)]), np.append(new, 1.0)
                ridge = np.diag([penalty] * 3 + [0.0])
            theta = np.linalg.solve(x.T @ x + ridge, x.T @ y)
            squares.append((own.targets[i] - new @ theta) ** 2)
        errors.append(np.mean(squares))
    found = noise_variance(own.rows, own.targets, has_constant=constant > 0)
    assert found == pytest.approx(min(errors), rel=1e-9)
    many = records(4000, noise=noise)
    found = noise_variance(many.rows, many.targets, has_constant=True)
    assert found == pytest.approx(noise, rel=0.1)


def test_targets_without_noise_are_no_trouble() -> None:
    rows: Array = records().rows
    assert noise_variance(rows, np.zeros(len(rows)), has_constant=True) > 0
