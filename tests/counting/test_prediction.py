"""Computed errors against simulated ones, against exact small cases and against normal theory."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sudare.counting._prediction import count_variance, predict_error
from sudare.counting._simulation import simulate
from sudare.counting._survey import Survey
from sudare.foundations.checks import InvalidInput


def survey(method: str, epsilon: float, rounds: int = 50, **more: Any) -> Survey:
    return Survey(name="t", rounds=rounds, epsilon=epsilon, method=method, **more)  # type: ignore[arg-type]


CASES: list[tuple[str, float, float, int, int, dict[str, int]]] = [
    *((m, e, s, 10_000, 50, {}) for m, e, s in product(
        ("glance", "harmony", "harmony-signed", "rappor"), (1.0, 6.0), (0.5, 0.9995))),
    ("glance", 4.0, 0.1, 300, 50, {}),  # rounds without reports
    ("glance", 2.0, 0.25, 40, 4, {}),
    ("glance", 4.0, 0.0, 500, 5, {}),
    ("glance", 0.01, 0.5, 200, 3, {}),
    ("glance", 3.0, 0.3, 1_000, 1, {}),
    ("rappor", 8.0, 0.3, 500, 2, {}),  # a handful of flips
    ("masks", 2.0, 0.9, 10_000, 50, {"slots": 2}),
    ("masks", 8.0, 0.5, 10_000, 50, {"slots": 10}),
    ("masks", 8.0, 0.9995, 10_000, 50, {"slots": 3}),
    ("masks", 5.0, 0.5, 2_000, 12, {"slots": 9}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "epsilon", "share", "users", "rounds", "more"), CASES)
def test_prediction_is_what_simulation_finds(
    method: str, epsilon: float, share: float, users: int, rounds: int, more: dict[str, int]
) -> None:
    way = survey(method, epsilon, rounds, **more)
    runs = 300 if more else 1_500
    told = simulate(way, np.full(rounds, share), users, runs=runs, rng=1)
    predicted = predict_error(way, users, share)
    assert predicted == pytest.approx(told.mean_error, rel=0.02, abs=4 * told.standard_error)
    # The test can tell a tenth.
    assert 0.1 * predicted > 4 * told.standard_error


def test_tree_is_predicted_a_little_too_high() -> None:
    way = survey("tree", 1.0, 256, changes=1)
    told = simulate(way, np.full(256, 0.5), 20_000, runs=40, rng=1)
    assert 1.0 < predict_error(way, 20_000) / told.mean_error < 1.2


@pytest.mark.parametrize(("rounds", "changes", "gain"), [(64, 8, 0.08), (64, 1, 0.0)])
def test_fewer_flips_for_long_stretches(rounds: int, changes: int, gain: float) -> None:
    before, after = (
        survey("tree", 1.0, rounds, changes=changes, **more)
        for more in ({}, {"flips": "stretches"})
    )
    error = predict_error(after, 20_000)
    assert error <= predict_error(before, 20_000) * (1 - gain)
    told = simulate(after, np.full(rounds, 0.5), 20_000, runs=40, rng=1)
    assert 1.0 < error / told.mean_error < 1.2


def test_many_users_are_normal() -> None:
    """With many users E max of T normal deviations, with the finite-population variance."""
    way, users, rounds = survey("masks", 6.0, 20, slots=4), 10**7, 20
    n = users * 4 / rounds
    std = math.sqrt(count_variance(way.attenuation, 0.3, n, users)) / (n * way.attenuation)
    most, _ = quad(lambda z: 1 - (2 * norm.cdf(z) - 1) ** rounds, 0, 10)
    assert predict_error(way, users, 0.3) == pytest.approx(std * most, rel=0.003)


def test_variance_of_different_users() -> None:
    assert count_variance(1.0, 0.3, 50, 50) == 0.0
    assert count_variance(1.0, 0.3, 10, 50) == pytest.approx(10 * 0.21 * 40 / 49)
    assert count_variance(0.5, 0.5, 10, 10**9) == pytest.approx(10 * 0.25, rel=1e-6)


def test_worst_shares() -> None:
    for method, worst in (("glance", 0.5), ("rappor", 0.5), ("harmony", 1.0)):
        way = survey(method, 3.0)
        assert predict_error(way, 5_000) == predict_error(way, 5_000, worst)
        assert all(
            predict_error(way, 5_000, s) <= 1.001 * predict_error(way, 5_000)
            for s in (0.0, 0.3, 0.5, 0.9, 1.0)
        )


def test_limits() -> None:
    assert predict_error(survey("glance", 40.0, 1), 100, 0.5) < 1e-12
    assert predict_error(survey("glance", 40.0, 50), 3, 0.0) == pytest.approx(1.0, abs=0.01)
    tiny = predict_error(survey("glance", 1e-6), 10_000)
    assert tiny == pytest.approx(1e5 * predict_error(survey("glance", 0.1), 10_000), rel=0.01)


def test_mistakes_are_told() -> None:
    with pytest.raises(InvalidInput, match="users=0 >= 1"):
        predict_error(survey("glance", 1.0), 0)
    with pytest.raises(InvalidInput, match="share=2"):
        predict_error(survey("glance", 1.0), 5, 2.0)
