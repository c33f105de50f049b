"""Logistic regression by a posterior draw."""

import numpy as np
import pytest
from scipy.special import expit

from papers import Verdict
from papers.consortia import Party
from papers.formulas.posterior import tail_inverse_temperature
from papers.gibbs_logistic import GIBBS, MADE_UP, PAPER, PLAIN, TUMOURS, paper_draw
from sudare.foundations.randomness import seeded
from sudare.releases import Contract
from tests.papers.smoke import check_figure, results, verdict


def test_it_runs() -> None:
    check_figure("gibbs-logistic", "398 rows, 30 columns", "theorem 8 (paper)")


def test_a_draw_that_does_not_improve_would_be_seen() -> None:
    def world(rise: float, advantage: float) -> Verdict:
        def told(panel: str, curve: str, x: float, values: object) -> float:
            return 0.7 + rise * (x > 1) + advantage * (curve == GIBBS)

        return verdict("gibbs-logistic", told)

    assert world(0.1, 0.01) is Verdict.HOLDS
    assert world(0.0, 0.01) is Verdict.CORRECTED
    assert world(0.0, -0.01) is Verdict.FAILS


def test_weak_privacy_costs_little() -> None:
    for panel in (MADE_UP, TUMOURS):
        plain = results("gibbs-logistic").at(panel, PLAIN, 10.0).value
        for curve in (GIBBS, PAPER):
            assert results("gibbs-logistic").at(panel, curve, 10.0).value > plain - 0.08


def test_draws_have_the_law_of_the_posterior() -> None:
    """One column and no intercept: the mean over draws beside quadrature."""
    rng = seeded(3)
    rows = rng.uniform(-1, 1, size=(40, 1))
    labels = (rng.random(40) < expit(3 * rows[:, 0])).astype(int)
    contract = Contract(features=1, row_norm=1.0, constant=0.0, classes=(0, 1))
    draws = [paper_draw(Party(rows, labels), contract, 8.0, 0.01, rng)[0] for _ in range(300)]
    beta = tail_inverse_temperature(8.0, 1e-5, gradient_diameter=2.0, prior_curvature=0.4)
    grid = np.linspace(-15, 15, 6_001)
    signed = rows[:, 0] * (2 * labels - 1)
    potential = beta * np.logaddexp(0, -np.outer(grid, signed)).sum(axis=1) + 0.2 * grid**2
    weights = np.exp(-(potential - potential.min()))
    weights /= weights.sum()
    mean = weights @ grid
    spread = np.sqrt(weights @ (grid - mean) ** 2)
    assert abs(np.mean(draws) - mean) < 5 * spread / np.sqrt(300)
    assert np.std(draws) == pytest.approx(spread, rel=0.2)
