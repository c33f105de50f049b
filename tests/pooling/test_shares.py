"""Shares of noise: a sum of discrete Gaussians against its exact law, and what it costs.

The exact law is a convolution in 50 digits, at scales so small that it is visibly not a discrete
Gaussian. Draws are OpenDP's and cannot be repeated: see `tests/statistical.py` for the rate.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.foundations.gaussian import lattice_log_ratio
from sudare.foundations.seal import FINE
from sudare.pooling import NoiseShares
from sudare.pooling._shares import convolution_log_ratio, share_loudness, shares_event
from tests.exact_losses import mp, mpf
from tests.statistical import only_counts_fit, tally
from tests.support.strategies import spread

Law = dict[int, Any]


def discrete_gaussian(variance: Any, reach: int) -> Law:
    weights = {k: mp.exp(-(mpf(k) ** 2) / (2 * variance)) for k in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


def convolved(one: Law, other: Law, reach: int) -> Law:
    return {
        x: mp.fsum(mass * other[x - k] for k, mass in one.items() if x - k in other)
        for x in range(-reach, reach + 1)
    }


@cache
def law_of_sum(scale: float, shares: int) -> tuple[tuple[int, Any], ...]:
    """The exact law of a sum of shares, within 12 of its standard deviations (and one more)."""
    reach = math.ceil(12 * scale * math.sqrt(shares)) + 1
    share = discrete_gaussian(mpf(scale) ** 2, math.ceil(24 * scale) + 2)
    law = share
    for _ in range(shares - 1):
        law = convolved(law, share, 2 * reach)
    return tuple((x, law[x]) for x in range(-reach, reach + 1))


class TestSumOfShares:
    @pytest.mark.parametrize("scale", [0.5, 0.7, 1.0, 2.0])
    @pytest.mark.parametrize("shares", [2, 3, 5])
    def test_exact_convolution_is_within_the_stated_ratio(self, scale: float, shares: int) -> None:
        stated = convolution_log_ratio(scale, shares)
        ideal = discrete_gaussian(shares * mpf(scale) ** 2, 100)
        inside = 8 * scale * math.sqrt(shares)
        found = max(
            abs(mp.log(mass / ideal[x])) for x, mass in law_of_sum(scale, shares) if abs(x) < inside
        )
        assert found <= stated
        # Of two shares a statement three times smaller is false; further ones only smooth.
        assert shares > 2 or found > stated / 3

    @pytest.mark.parametrize("scale", [0.5, 1.0])
    def test_one_share_is_exact(self, scale: float) -> None:
        assert convolution_log_ratio(scale, 1) <= 5e-324

    @given(scale=spread(0.5, 3), shares=st.integers(1, 40))
    @settings(max_examples=40)
    def test_is_rounded_up(self, scale: float, shares: int) -> None:
        exact = mpf(0)
        for k in range(1, shares):
            v = mpf(scale) ** 2 * k / (k + 1)
            eta = mp.fsum(mp.exp(-2 * mp.pi**2 * v * j * j) for j in range(1, 6))
            exact += mp.log((1 + 2 * eta) / (1 - 2 * eta))
        stated = mpf(convolution_log_ratio(scale, shares))
        assert exact <= stated <= exact * (1 + mpf(10) ** -4) + mpf(5e-324)

    def test_is_nothing_on_the_lattice_of_a_session(self) -> None:
        """A share is thousands of steps wide: the ratio is far below the smallest double."""
        assert convolution_log_ratio(FINE * 0.1, 10_000) <= 5e-324

    @pytest.mark.parametrize(("scale", "shares"), [(0.7, 3), (1.3, 2)])
    def test_real_draws(self, scale: float, shares: int) -> None:
        """Accepted under the exact law, and under none whose scale is a tenth off."""
        noise = NoiseShares(20_000, -3, hidden=2.0, loudness=scale / 2)
        drawn = np.sum([noise.add_to([7] * noise.entries) for _ in range(shares)], axis=0)
        middle = 6

        def cells(one: float) -> Any:
            found = dict(law_of_sum(one, shares))
            ends = [np.clip(x, -middle, middle) + middle for x in found]
            law = np.bincount(ends, [float(mass) for mass in found.values()])
            return law / law.sum()

        counts = tally(drawn - 7 * shares + middle, 2 * middle + 1)
        assert only_counts_fit(counts, cells(scale), [cells(0.9 * scale), cells(1.1 * scale)])


class TestNoise:
    def test_scale_is_in_steps_and_deviation_in_units(self) -> None:
        noise = NoiseShares(10, -4, hidden=8000.0, loudness=3.0)
        assert noise.scale == pytest.approx(24_000, rel=1e-12)
        assert noise.scale >= 24_000
        assert noise.noise_std(1) == pytest.approx(1500)
        assert noise.noise_std(9) == pytest.approx(4500)

    def test_shares_are_drawn_afresh(self) -> None:
        noise = NoiseShares(10, -4, hidden=8000.0, loudness=3.0)
        assert noise.add_to([0] * 10) != noise.add_to([0] * 10)

    @given(mu=spread(0.01, 10), honest=st.integers(1, 500), alone=st.none() | spread(0.01, 10))
    def test_loud_enough_for_both(self, mu: float, honest: int, alone: float | None) -> None:
        loudness = share_loudness(mu, honest, alone)
        assert 1 / (mp.sqrt(honest) * mpf(loudness)) <= mpf(mu)
        if alone is not None:
            assert 1 / mpf(loudness) <= mpf(alone)
        needed = max(1 / (mu * math.sqrt(honest)), 1 / alone if alone else 0.0)
        assert loudness == pytest.approx(needed, rel=1e-12)


class TestPrice:
    @pytest.mark.parametrize(("entries", "honest"), [(1, 1), (9, 3), (500, 100)])
    @pytest.mark.parametrize("loudness", [0.3, 5.0])
    def test_against_fifty_digits(self, entries: int, honest: int, loudness: float) -> None:
        failure = 1e-18
        event = shares_event(entries, loudness, honest, failure)
        mu = 1 / (mp.sqrt(honest) * mpf(loudness))
        assert mu <= mpf(event.mu) <= mu * (1 + mpf(10) ** -12)
        # The noise of all honest ones, in steps, when as little as possible is hidden.
        scale = mp.sqrt(honest * entries) * FINE * mpf(loudness)
        reach = mp.sqrt(entries) + mp.sqrt(2 * mp.log(1 / mpf(failure)))
        ratio = (reach + mp.sqrt(entries) / (2 * scale)) ** 2 / (24 * scale**2) + 2 * mpf(failure)
        assert ratio <= mpf(event.log_ratio) <= ratio * (1 + mpf(10) ** -9)
        assert event.failure >= failure

    def test_counts_what_the_lattice_and_the_shares_cost(self) -> None:
        """With shares so narrow that their sum is visibly no discrete Gaussian."""
        loudness = 0.6 / (FINE * math.sqrt(2))
        event = shares_event(2, loudness, 9, 1e-9)
        lattice = lattice_log_ratio(2, 3 * 0.6 * (1 + 1e-9), -math.log(1e-9))
        assert event.log_ratio >= lattice + 2 * convolution_log_ratio(0.6 * (1 + 1e-9), 9)
        assert event.log_ratio > 1.05 * lattice
