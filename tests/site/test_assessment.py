import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import brier_score_loss, log_loss, r2_score, roc_auc_score

from sudare.foundations.randomness import seeded
from sudare.site._assessment import HeldOut, _wilson, assess_classes, assess_numbers, hold_out


def test_every_row_is_predicted_by_models_that_never_saw_it() -> None:
    rows = np.arange(23.0)[:, None]
    targets = np.where(np.arange(23) % 2, 1.0, -1.0)

    def predict(train, train_targets, test):
        assert not set(train[:, 0]) & set(test[:, 0])
        assert len(train) + len(test) == 23
        np.testing.assert_array_equal(train_targets, np.where(train[:, 0] % 2, 1.0, -1.0))
        return test[:, 0]

    held = hold_out(rows, targets, predict, lambda *parts: -predict(*parts))
    np.testing.assert_array_equal(held.own, np.arange(23.0))
    np.testing.assert_array_equal(held.blend, -np.arange(23.0))


def test_a_better_blend_is_seen_and_an_equal_one_is_not() -> None:
    rng = seeded(1)
    targets = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    good = np.where(rng.random(400) < 0.9, targets, -targets) * 0.4 + 0.5
    poor = np.where(rng.random(400) < 0.6, targets, -targets) * 0.4 + 0.5
    better = assess_classes(HeldOut(poor, good, targets))
    assert better.gain.low > 0
    assert better.own.value == pytest.approx(((poor > 0.5) == (targets > 0)).mean())
    assert better.log_loss_gain is not None
    assert better.log_loss_gain.low > 0
    right = np.where(targets > 0, good, 1 - good)
    same = assess_classes(HeldOut(np.full(400, 0.5), good, targets))
    assert same.log_loss_gain is not None
    assert same.log_loss_gain.value == pytest.approx(np.log(2) + np.log(right).mean())
    assert assess_classes(HeldOut(good, good, targets)).gain.value == 0
    assert assess_classes(HeldOut(good, poor, targets)).gain.high < 0


def test_calibration_bins_hold_all_rows_in_order() -> None:
    rng = seeded(2)
    chances = rng.random(1000)
    targets = np.where(rng.random(1000) < chances, 1.0, -1.0)
    bins = assess_classes(HeldOut(chances, chances, targets)).calibration
    assert sum(b.rows for b in bins) == 1000
    assert [b.predicted for b in bins] == sorted(b.predicted for b in bins)
    # Eight intervals of 95 %; four misses have probability 4e-4, and the seed is fixed.
    assert sum(not b.low <= b.predicted <= b.high for b in bins) < 4


def test_squared_error_is_told_against_the_variance() -> None:
    targets = np.linspace(-1, 1, 50)
    found = assess_numbers(HeldOut(np.zeros(50), targets, targets))
    assert found.own.value == pytest.approx(1.0)
    assert found.blend.value == 0
    assert found.gain.low > 0


def test_both_models_are_measured_on_all_held_out_rows() -> None:
    rng = seeded(3)
    targets = np.where(rng.random(300) < 0.4, 1.0, -1.0)
    own, blend = rng.random(300), np.clip(rng.normal(0.4 + 0.2 * targets, 0.15), 0.01, 0.99)
    found = assess_classes(HeldOut(own, blend, targets))
    told = {each.name: each for each in found.compared}
    assert found.folds == 5
    assert told["auc"].own.value == pytest.approx(roc_auc_score(targets, own))
    assert told["auc"].blend.value == pytest.approx(roc_auc_score(targets, blend))
    assert told["brier"].blend.value == pytest.approx(brier_score_loss(targets > 0, blend))
    assert told["log_loss"].own.value == pytest.approx(log_loss(targets > 0, own))
    assert told["share_correct"].blend.value == pytest.approx(found.blend.value)
    for each in (told["auc"].blend, told["calibration_slope"].blend):
        assert each.low < each.value < each.high  # type: ignore[operator]


def test_numbers_are_measured_in_their_own_units() -> None:
    rng = seeded(4)
    days = rng.uniform(0, 30, 200)
    own, blend = days + rng.normal(0, 4, 200), days + rng.normal(1, 2, 200)
    told = {each.name: each for each in assess_numbers(HeldOut(own, blend, days)).compared}
    assert told["rmse"].own.value == pytest.approx(np.sqrt(((own - days) ** 2).mean()))
    assert told["mae"].blend.value == pytest.approx(abs(blend - days).mean())
    assert told["r_squared"].blend.value == pytest.approx(r2_score(days, blend))


@pytest.mark.parametrize(("hits", "rows"), [(0, 10), (3, 17), (40, 40)])
def test_wilson_interval(hits: int, rows: int) -> None:
    told = binomtest(hits, rows).proportion_ci(method="wilson")
    assert _wilson(hits / rows, rows) == pytest.approx((told.low, told.high), abs=1e-12)
