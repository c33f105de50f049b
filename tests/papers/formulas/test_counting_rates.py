"""The Corollaries as rates: bounds and exact quantiles stay within constant factors of them."""

import math
from collections.abc import Callable
from itertools import product

import pytest
from scipy.stats import binom

from papers.formulas.counting import (
    dense_error_bound,
    dense_error_rate,
    error_rate,
    harmony_error_quantile,
    harmony_error_quantile_rate,
    paper_dense_error_rate,
)
from sudare.calibration._counting import error_bound
from sudare.foundations.checks import InvalidInput
from sudare.foundations.masks import mask_law

EPSILONS = (1e-3, 0.1, 1.0, 3.0, 6.0, 12.0, 30.0)
Rate = Callable[[float, int, int, float], float]


def settings() -> list[tuple[int, int, float]]:
    """Rounds and β over many orders, users from the least allowed upwards."""
    return [
        (math.ceil(factor * rounds * math.log(4 * rounds / beta)), rounds, beta)
        for rounds, beta, factor in product(
            (1, 10, 1000, 10**6), (0.5, 0.05, 1e-9), (2, 100, 10**6)
        )
    ]


def test_error_rate_is_that_of_glance() -> None:
    ratios = [
        error_bound(mask_law(epsilon, 1), users, rounds, beta)
        / error_rate(epsilon, users, rounds, beta)
        for epsilon in EPSILONS
        for users, rounds, beta in settings()
    ]
    assert 0.7 < min(ratios) < max(ratios) < 1.2


def test_error_rate_is_that_of_harmony() -> None:
    """The exact (1 − β/T)-quantile of one round when all bits are one."""
    ratios = []
    for epsilon in EPSILONS:
        p, c = 1 / (1 + math.exp(-epsilon)), math.tanh(epsilon / 2)
        for users, rounds, beta in settings():
            if rounds == 1:  # nobody is silent, so it is Glance
                continue
            count = float(binom.isf(beta / rounds, users, p / rounds))
            off = rounds / users * (count - users * p / rounds) / c
            ratios.append(off / error_rate(epsilon, users, rounds, beta))
    assert 0.3 < min(ratios) < max(ratios) < 3


def test_harmony_does_not_get_better_than_its_quantile_rate() -> None:
    ratios = []
    for epsilon, rounds, factor in product(EPSILONS, (2, 10, 1000), (100, 10_000)):
        users = factor * rounds
        for beta in (1 / (2 * (users + 1) ** 2), 1 / (users + 1) ** 4):
            rate = harmony_error_quantile_rate(epsilon, users, rounds, beta)
            ratios.append(harmony_error_quantile(epsilon, users, rounds, beta) / rate)
    assert 0.3 < min(ratios) < max(ratios) < 1.5
    far = [harmony_error_quantile_rate(e, 10_000, 50, 1e-9) for e in (10.0, 40.0)]
    assert far[0] == pytest.approx(far[1], rel=1e-3)


def test_dense_error_rate_is_that_of_the_bound_and_the_printed_one_is_not() -> None:
    ratios: dict[Rate, list[float]] = {dense_error_rate: [], paper_dense_error_rate: []}
    for epsilon in EPSILONS:
        for users, rounds, beta in settings():
            bound = dense_error_bound(epsilon, users, rounds, beta)
            for rate, found in ratios.items():
                found.append(bound / rate(epsilon, users, rounds, beta))
    assert 0.5 < min(ratios[dense_error_rate]) < max(ratios[dense_error_rate]) < 6
    assert max(ratios[paper_dense_error_rate]) > 10_000


def test_limits_in_epsilon() -> None:
    small, large = (1e-6, 1e-7), (30.0, 31.0)
    for rate in (error_rate, paper_dense_error_rate, dense_error_rate):
        values = [rate(e, 10**6, 10, 0.1) for e in small]
        assert values[1] / values[0] == pytest.approx(10, rel=1e-5)
    steady = [error_rate(e, 10**6, 10, 0.1) for e in large]
    falling = [paper_dense_error_rate(e, 10**6, 10, 0.1) for e in large]
    floor = [dense_error_rate(e, 10**6, 10, 0.1) for e in large]
    assert steady[1] / steady[0] == pytest.approx(1, rel=1e-9)
    assert falling[1] / falling[0] == pytest.approx(math.exp(-0.5), rel=1e-9)
    assert floor[1] / floor[0] == pytest.approx(1, rel=1e-2)


def test_mistakes_are_told() -> None:
    for rate in (error_rate, dense_error_rate, paper_dense_error_rate):
        with pytest.raises(InvalidInput, match="epsilon=0"):
            rate(0, 10, 2, 0.1)
        with pytest.raises(InvalidInput, match="users=0"):
            rate(1.0, 0, 2, 0.1)
        with pytest.raises(InvalidInput, match="beta=1"):
            rate(1.0, 10, 2, 1.0)
    with pytest.raises(InvalidInput, match=r"beta=0\.1 < "):
        harmony_error_quantile_rate(1.0, 10, 2, 0.1)
