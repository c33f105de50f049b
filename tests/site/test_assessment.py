import numpy as np
import pytest
from scipy.stats import binomtest

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


@pytest.mark.parametrize(("hits", "rows"), [(0, 10), (3, 17), (40, 40)])
def test_wilson_interval(hits: int, rows: int) -> None:
    told = binomtest(hits, rows).proportion_ci(method="wilson")
    assert _wilson(hits / rows, rows) == pytest.approx((told.low, told.high), abs=1e-12)
