"""Made-up consortia: within the study's bounds, of all kinds, and from the study alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.foundations.randomness import seeded
from sudare.site._scenarios import BASE_RATES, draw_rows, draw_scenario, draw_site
from sudare.study import Study, parse_study
from tests.site.clinics import classes, counts, numbers
from tests.study.studies import studies


def drawn(study: Study, seed: int, rows: int) -> Any:
    rng = seeded(seed)
    world = draw_scenario(study, rng)
    return draw_rows(world, draw_site(world, rng), rows, rng)


@settings(max_examples=15)
@given(studies(), st.integers(0, 10**6))
def test_any_study_can_be_made_up(study: Study, seed: int) -> None:
    rows, targets = drawn(study, seed, rows=50)
    assert rows.shape == (50, len(study.features))
    assert np.isfinite(rows).all()
    assert set(np.unique(targets)) <= {-1.0, 1.0}
    again, same = drawn(study, seed, rows=50)
    np.testing.assert_array_equal(again, rows)
    np.testing.assert_array_equal(same, targets)


@pytest.mark.parametrize(
    "study", [classes(), numbers(), counts()], ids=["classes", "num", "counts"]
)
def test_columns_say_something_about_targets_within_their_bounds(study: Study) -> None:
    """How well least squares explains the target, over worlds: from hardly at all to well."""
    explained = []
    for seed in range(40):
        rows, targets = drawn(study, seed, rows=4000)
        assert np.abs(targets).max() <= 1.0
        design = np.column_stack([rows, np.ones(len(rows))])
        left = targets - design @ np.linalg.lstsq(design, targets, rcond=None)[0]
        explained.append(1 - left.var() / targets.var())
    assert min(explained) < 0.05
    assert 0.15 < max(explained) < 0.8


def test_worlds_differ_in_everything_that_nobody_knows() -> None:
    study = parse_study(
        """
        name = "many"
        [columns.ward]
        categories = ["a", "b", "c", "d", "e"]
        [columns.dose]
        low = 0
        high = 40
        [target]
        column = "ill"
        classes = [0, 1]
        [privacy]
        epsilon = 1.0
        delta = 1e-6
        """
    )
    shares, rates, skews, means = [], [], [], []
    for seed in range(60):
        rows, targets = drawn(study, seed, rows=3000)
        wards = np.append(1 - (rows[:, :4] > 0).mean(axis=0).sum(), (rows[:, :4] > 0).mean(axis=0))
        shares.append(wards.min())
        rates.append((targets > 0).mean())
        dose = rows[:, 4] * np.sqrt(5)
        means.append(dose.mean())
        skews.append(((dose - dose.mean()) ** 3).mean() / dose.std() ** 3)
    assert np.quantile(shares, 0.5) < 0.06  # a rare category is the rule
    assert min(shares) < 0.01
    assert BASE_RATES[0] - 0.05 < min(rates) < 0.2
    assert 0.5 < max(rates) < 0.85
    assert np.quantile(skews, 0.1) < -0.3
    assert np.quantile(skews, 0.8) > 0.5
    assert np.std(means) > 0.1


def test_sites_of_one_world_differ_in_who_comes_and_how_often() -> None:
    study, apart, rates = classes(), [], []
    for seed in range(20):
        rng = seeded(seed)
        world = draw_scenario(study, rng)
        two: list[Any] = [draw_rows(world, draw_site(world, rng), 3000, rng) for _ in range(2)]
        means = [block.rows.mean(axis=0) for block in two]
        apart.append(np.abs(means[0] - means[1]).max())
        rates.append(abs(np.mean(two[0].targets > 0) - np.mean(two[1].targets > 0)))
    # Of equal sites, means of 3,000 rows differ by .02 at most.
    assert np.quantile(apart, 0.5) > 0.05
    assert np.quantile(rates, 0.5) > 0.04


def test_values_are_missing_only_where_a_study_allows_it() -> None:
    missing = [feature.name for feature in classes().features].index("pressure missing")
    share = (drawn(classes(), 3, rows=4000).rows[:, missing] > 0).mean()
    assert 0.03 < share < 0.07
