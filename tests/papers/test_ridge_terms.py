"""Errors beside the terms of theorem 3."""

import math

import numpy as np
import pytest

from papers import Verdict
from papers.regressions import MIRROR
from papers.ridge_terms import (
    BOUNDS,
    PANELS,
    RADIUS,
    TEMPERATURE,
    P,
    Place,
    _party,
    terms,
)
from sudare.foundations.randomness import seeded
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs() -> None:
    check_figure("ridge-terms", "other organisations, M", "… aggregation")


def test_an_error_above_the_bound_would_be_seen() -> None:
    def broken(panel: str, curve: str, x: float, values: object) -> object:
        return 10.0 / x if curve == MIRROR else values

    assert verdict("ridge-terms", broken) is Verdict.FAILS  # type: ignore[arg-type]


def test_terms_written_out() -> None:
    place = Place(each=300, own=50, others=8, epsilon=0.7)
    bound, recipe = terms(place), BOUNDS.ridge(0.7).recipe(300, P)
    s, kappa, extra = recipe.scale, recipe.curvature, recipe.extra_regularization  # type: ignore[union-attr]
    assert bound.bias == pytest.approx(0.01 * 0.64)
    assert bound.aggregation == pytest.approx(TEMPERATURE * math.log(8) / 51)
    assert bound.privacy == pytest.approx((30 * s**2 / kappa + extra * RADIUS**2) / 600)
    # ε = S/s + log(1 + Λ/κ) but for the seal's share: S follows.
    diameter = s * (0.7 * 0.99 - math.log1p(2 / kappa))
    zeta = 2 * (1.5 + 1.0)
    assert bound.generalisation == pytest.approx(zeta * diameter / kappa, rel=1e-6)


def test_each_panel_varies_one_thing() -> None:
    base = Place()
    for places in PANELS.values():
        assert base in places.values()
        assert len(set(places.values())) == len(places)
    assert {p.each * p.others for p in PANELS["other organisations, M"].values()} == {10_000}


def test_rows_are_uniform_in_the_ball() -> None:
    rows, targets = _party(40_000, np.zeros(P), seeded(1))
    assert np.linalg.norm(rows, axis=1).max() <= 1
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(P) / (P + 2), atol=0.004)
    assert targets.std() == pytest.approx(0.2, rel=0.02)


def test_pooled_rows_have_the_error_of_least_squares() -> None:
    """σ²·tr(Σ·Σ⁻¹)/n = σ²p/n, to first order; the mean over all settings of one draw each."""
    found = results("ridge-terms")
    ratios = [
        found.at(panel, "all rows in one place", x).value
        / (0.04 * P / (place.each * place.others + place.own))
        for panel, places in PANELS.items()
        for x, place in places.items()
        if x in found.places(panel, MIRROR)
    ]
    assert len(ratios) > 20
    assert 0.6 < np.mean(ratios) < 1.6
