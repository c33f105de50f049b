import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.metrics import mean_absolute_error

from sudare.foundations.randomness import seeded
from sudare.site._measures import (
    WORDS,
    Estimate,
    estimate,
    of_classes,
    of_numbers,
    resampled,
)


def test_every_measure_has_its_words() -> None:
    second = np.array([True, False, True, False])
    chances = np.array([0.9, 0.2, 0.4, 0.6])
    once = np.ones((1, 4))
    told = of_classes(second, chances, chances > 0.5)(once) | of_numbers(chances, chances)(once)
    assert told.keys() == WORDS.keys()


def test_the_bootstrap_of_a_mean_is_scipys() -> None:
    """Ends of 4,000 resamples differ by less than 0.15 widths but for a chance of about 1e-4."""
    rng = seeded(1)
    truth, told = rng.normal(5, 2, 120), rng.normal(5, 2, 120)
    measure = of_numbers(truth, told)
    drawn = resampled(measure, 120, 4000, seeded(2))["mae"]
    ours = estimate(measure(np.ones((1, 120)))["mae"], drawn, 0.9)
    assert ours.value == pytest.approx(mean_absolute_error(truth, told))
    peer = bootstrap(
        (abs(truth - told),), np.mean, n_resamples=4000, confidence_level=0.9,
        method="percentile", rng=3,
    ).confidence_interval  # fmt: skip
    assert (ours.low, ours.high) == pytest.approx(peer, abs=0.15 * (peer.high - peer.low))


def test_a_measure_that_resamples_lack_has_no_interval() -> None:
    draws = np.array([np.nan] * 3 + list(range(97)), dtype=float)
    assert estimate(np.array([50.0]), draws, 0.95) == Estimate(50.0, None, None)
    assert estimate(np.array([50.0]), draws, 0.9) == Estimate(50.0, 4.0, 92.0)
    draws[:3] = np.inf
    assert estimate(np.array([np.inf]), draws, 0.95) == Estimate(None, 2.0, None)
