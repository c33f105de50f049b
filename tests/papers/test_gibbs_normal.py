"""The normal mean: δ asked for, δ spent."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from papers import Verdict
from papers.gibbs_normal import EXACT, PRINTED, TAIL, temperatures, true_delta
from tests.papers.smoke import check_figure, verdict


def test_it_runs_and_holds_with_the_correction() -> None:
    check_figure("gibbs-normal", "δ asked for", "equation 32")
    assert verdict("gibbs-normal") is Verdict.CORRECTED


def test_spending_more_than_asked_for_would_be_seen() -> None:
    def spent(panel: str, curve: str, x: float, values: object) -> object:
        return 1.1 * x if curve == EXACT and x < 1 else values

    assert verdict("gibbs-normal", spent) is Verdict.FAILS  # type: ignore[arg-type]


def test_known_temperatures() -> None:
    found = temperatures(100, 1e-5)
    assert found[TAIL] == pytest.approx(1.0509, abs=1e-4)
    assert found[EXACT] == pytest.approx(1.8062, abs=1e-4)
    assert PRINTED not in temperatures(10, 1e-5)


def test_true_delta_by_integration() -> None:
    """The hockey-stick of two normal posteriors, on a grid."""
    beta, n = 1.8, 100
    variance = 1 / (n * beta + 1)
    shift = 2 * beta * variance
    grid, step = np.linspace(-1, 1, 400_001, retstep=True)
    p, q = (norm.pdf(grid, m, math.sqrt(variance)) for m in (shift / 2, -shift / 2))
    by_hand = np.maximum(p - math.e * q, 0).sum() * step
    assert true_delta(beta, n) == pytest.approx(by_hand, rel=1e-4)
