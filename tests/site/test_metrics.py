import math

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, r2_score, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.site._metrics import (
    auc,
    brier,
    calibration,
    log_loss,
    weighted_auc,
    weighted_calibration,
    weighted_line,
    weighted_mean,
    weighted_r_squared,
)


def predicted(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities that are too mild, with ties."""
    rng = seeded(seed)
    chances = np.round(rng.uniform(0.02, 0.98, rows), 2)
    return rng.random(rows) < expit(0.4 + 1.7 * logit(chances)), chances


@pytest.mark.parametrize("rows", [25, 400])
def test_measures_agree_with_scikit_learn(rows: int) -> None:
    labels, chances = predicted(rows, rows)
    assert auc(labels, chances) == pytest.approx(roc_auc_score(labels, chances), abs=1e-12)
    assert brier(labels, chances) == pytest.approx(brier_score_loss(labels, chances), abs=1e-12)
    assert log_loss(labels, chances) == pytest.approx(sklearn_log_loss(labels, chances), abs=1e-12)
    fitted = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000)
    fitted.fit(logit(chances)[:, None], labels)
    slope, intercept = calibration(labels, chances)
    assert slope == pytest.approx(fitted.coef_[0, 0], abs=1e-5)
    assert intercept == pytest.approx(fitted.intercept_[0], abs=1e-5)
    score = labels - expit(intercept + slope * logit(chances))
    np.testing.assert_allclose([score.sum(), score @ logit(chances)], 0, atol=1e-8)


def test_auc_counts_pairs_and_shares_ties() -> None:
    labels, scores = predicted(60, 3)
    pairs = [
        (s > t) + (s == t) / 2
        for s in scores[labels]
        for t in scores[~labels]
    ]  # fmt: skip
    assert auc(labels, scores) == pytest.approx(np.mean(pairs), abs=1e-12)
    assert auc([-1, 1, 1, -1], [0.0, 0.0, 0.0, 0.0]) == 0.5
    assert auc([0, 0, 1], [-5.0, 2.0, 1e9]) == 1.0


def test_a_certain_mistake_costs_much_but_not_everything() -> None:
    assert log_loss([1, 0], [0.0, 0.0]) == pytest.approx(-math.log(1e-12) / 2)
    assert np.isfinite(calibration([0, 1] * 9 + [1, 0], [0.4, 0.6] * 9 + [0.0, 1.0])).all()


def test_no_finite_slope_is_steep_enough_for_separated_classes() -> None:
    assert calibration([0, 0, 1], [0.1, 0.3, 0.3]).slope == math.inf
    assert calibration([1, 1, 0], [0.1, 0.2, 0.3]).slope == -math.inf
    assert math.isnan(calibration([1, 1, 0], [0.1, 0.2, 0.3]).intercept)
    assert math.isnan(calibration([1, 1, 0], [0.2, 0.2, 0.2]).slope)


def test_newton_comes_back_from_far_predictions() -> None:
    """Steps that are never halved overshoot here and never return."""
    rng = seeded(5669)
    rows = int(rng.integers(4, 400))
    far = np.clip(rng.standard_cauchy(rows) * 10 ** rng.uniform(-3, 0), -27, 27)
    share, doubt = rng.choice([0.01, 0.1, 0.5, 0.9]), rng.random(rows)
    random = doubt < rng.choice([0.01, 0.1, 0.5])
    labels = np.where(random, rng.random(rows) < share, far > np.quantile(far, share))
    odds = logit(expit(far))
    slope, intercept = calibration(labels, expit(far))
    score = labels - expit(intercept + slope * odds)
    np.testing.assert_allclose([score.sum(), score @ odds], 0, atol=1e-8)


def test_counts_are_the_same_as_rows_repeated() -> None:
    labels, chances = predicted(50, 5)
    rng = seeded(6)
    targets, numbers = rng.normal(3, 2, 50), rng.normal(1, 5, 50)
    counts = rng.multinomial(50, np.full(50, 1 / 50), size=20).astype(float)
    areas = weighted_auc(labels, chances, counts)
    slopes, intercepts = weighted_calibration(labels, chances, counts)
    lines = np.transpose(weighted_line(targets, numbers, counts))
    shares = weighted_r_squared(targets, numbers, counts)
    for k, drawn in enumerate(counts.astype(int)):
        rows = np.repeat(np.arange(50), drawn)
        assert areas[k] == pytest.approx(roc_auc_score(labels[rows], chances[rows]), abs=1e-12)
        assert (slopes[k], intercepts[k]) == pytest.approx(
            calibration(labels[rows], chances[rows]), abs=1e-7
        )
        assert lines[k] == pytest.approx(np.polyfit(numbers[rows], targets[rows], 1), abs=1e-9)
        assert shares[k] == pytest.approx(r2_score(targets[rows], numbers[rows]), abs=1e-9)
        assert weighted_mean(targets, counts)[k] == pytest.approx(targets[rows].mean())


def test_what_does_not_exist_in_a_resample_is_no_number() -> None:
    labels, chances = np.array([True, False, False]), np.array([0.5, 0.4, 0.6])
    one_class = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    assert np.isnan(weighted_auc(labels, chances, one_class)).all()
    assert np.isnan(weighted_calibration(labels, chances, one_class)).all()
    assert np.isnan(weighted_mean(chances, np.zeros((1, 3)))).all()
    constant = np.array([[0.0, 3.0, 0.0]])
    assert np.isnan(weighted_line(chances, chances, constant)).all()
    assert np.isnan(weighted_r_squared(chances, chances + 1, constant)).all()


def test_labels_that_cannot_be_judged_by() -> None:
    for judge in (auc, calibration):
        with pytest.raises(InvalidInput, match="both classes"):
            judge([1, 1], [0.2, 0.3])
    with pytest.raises(InvalidInput, match="found 2 for 3"):
        brier([1, 0], [0.2, 0.3, 0.4])
    with pytest.raises(InvalidInput, match="empty"):
        log_loss([], [])
