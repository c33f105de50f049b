"""The largest inverse temperature."""

import math

import pytest
from scipy.stats import norm

from papers import Verdict
from papers.gibbs_temperature import (
    COROLLARY,
    GAUSSIAN,
    PRINTED,
    TAIL,
    TRUE,
    Place,
    temperatures,
    true_delta,
)
from tests.papers.smoke import check_figure, verdict


def test_it_runs_and_holds_with_the_correction() -> None:
    check_figure("gibbs-temperature", "failure probability δ", "(ii) is false")
    assert verdict("gibbs-temperature") is Verdict.CORRECTED


def test_were_the_corollary_true_it_would_hold() -> None:
    def true(panel: str, curve: str, x: float, values: object) -> object:
        if curve == TRUE:
            return 0.0
        return 1e-9 if curve == PRINTED else values

    assert verdict("gibbs-temperature", true) is Verdict.HOLDS  # type: ignore[arg-type]


def test_known_values() -> None:
    """β·L/√m at ε = 1 and δ = 1e-5, from an independent computation."""
    found = temperatures(Place())
    unit = math.sqrt(2) / math.sqrt(10)
    assert found[COROLLARY] * unit == pytest.approx(0.10201, abs=1e-5)
    assert found[TAIL] * unit == pytest.approx(0.10203, abs=1e-5)
    assert found[GAUSSIAN] * unit == pytest.approx(0.13403, abs=1e-5)
    assert found[PRINTED] == pytest.approx(math.sqrt(2) * found[COROLLARY])


def test_true_delta_is_that_of_two_normal_laws() -> None:
    place = Place(epsilon=10.0)
    beta = temperatures(place)[COROLLARY]
    mu = 2 * math.sqrt(2) * beta / math.sqrt(10)
    by_hand = norm.cdf(-10 / mu + mu / 2) - math.exp(10) * norm.cdf(-10 / mu - mu / 2)
    assert true_delta(place, beta) == pytest.approx(by_hand, rel=1e-6)
    assert true_delta(place, beta) == pytest.approx(1.68e-5, rel=0.01)
