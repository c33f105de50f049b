"""Organisations that see a part of the range."""

import numpy as np
import pytest

from papers import Verdict, regressions
from papers.regressions import MIRROR, OWN, POOLED
from papers.ridge_narrow import (
    BOUNDS,
    INTERCEPT,
    OVERALL,
    PLACES,
    SLOPE,
    SUMMED,
    _party,
    summed,
)
from sudare.foundations.randomness import seeded
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs() -> None:
    check_figure("ridge-narrow", "own rows", "moments added up")


def test_the_claim_and_the_correction_can_fail() -> None:
    def world(mirror: float, moments: float) -> Verdict:
        errors = {MIRROR: mirror, SUMMED: moments, POOLED: 1e-5}

        def told(panel: str, curve: str, x: float, values: object) -> float:
            return errors.get(curve, 0.1 if panel == OVERALL or x > 0 else 1e-4)

        return verdict("ridge-narrow", told)

    assert world(0.001, 0.1) is Verdict.HOLDS
    assert world(0.1, 0.001) is Verdict.CORRECTED
    assert world(0.1, 0.1) is Verdict.FAILS


def test_rows_stay_in_their_interval() -> None:
    x, y = _party(1_000, -1.0, 0.2, seeded(1))
    assert x.min() >= -1
    assert x.max() <= -0.6
    assert np.abs(y - INTERCEPT - SLOPE * x[:, 0]).mean() < 0.2


def test_added_moments_are_least_squares_when_there_is_no_noise() -> None:
    rng = seeded(2)
    own, others = _party(50, -1.0, 0.2, rng), [_party(200, s, 0.2, rng) for s in (-0.5, 0.6)]
    moments = regressions.publish(others, 10_000.0, BOUNDS, rng).moments
    x = np.concatenate([own.rows, *(party.rows for party in others)])[:, 0]
    y = np.clip(np.concatenate([own.targets, *(party.targets for party in others)]), -1.5, 1.5)
    slope, intercept = np.polyfit(x, y, 1)
    assert summed(own, moments) == pytest.approx(intercept + slope * PLACES, abs=0.002)


def test_wide_intervals_need_no_help() -> None:
    found = results("ridge-narrow")
    assert found.at(OVERALL, OWN, 1.0).value < 0.1 * found.at(OVERALL, OWN, 0.05).value
