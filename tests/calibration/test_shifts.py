"""δ for shifts that depend on the noise, against integrals in the plane and many digits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.integrate import dblquad

from sudare.calibration._shifts import disc_delta, segment_delta
from sudare.foundations.curves import gaussian_delta
from sudare.foundations.randomness import seeded
from tests.calibration.oracles import exact_disc_delta, exact_segment_delta
from tests.support.strategies import spread

EPSILON = spread(1e-3, 40)


def disc(epsilon: float, distance: float, radius: float) -> float:
    return float(disc_delta(epsilon, np.array([distance]), np.array([radius]))[0])


class TestDisc:
    @pytest.mark.parametrize(
        ("epsilon", "distance", "radius"),
        [(1, 0.2, 0.1), (1, 0.5, 0.3), (0.3, 0.1, 0.5), (2, 2, 0.5), (0.05, 0.1, 0.9), (3, 1, 1.5)],
    )
    def test_is_the_integral_in_the_plane(
        self, epsilon: float, distance: float, radius: float
    ) -> None:
        def density(length: float, turn: float) -> float:
            along = length * distance * math.cos(turn)
            mine = math.exp(-(length**2 - 2 * along + distance**2) / 2)
            return (
                length / math.pi * max(0.0, mine - math.exp(epsilon - (length + radius) ** 2 / 2))
            )

        exact, _ = dblquad(density, 0, math.pi, 0, 14, epsabs=1e-11, epsrel=1e-6)
        assert exact * (1 - 1e-4) <= disc(epsilon, distance, radius) <= exact * 1.01

    def test_is_what_the_best_shift_attains(self) -> None:
        """For each of many draws the best point of the rim is taken; within 6 standard errors."""
        epsilon, distance, radius = 1.0, 0.6, 0.4
        noise = seeded(3).normal(size=(200_000, 2))
        turn = np.linspace(0, 2 * math.pi, 121)
        points = np.stack([distance + radius * np.cos(turn), radius * np.sin(turn)], axis=1)
        best = np.full(len(noise), -np.inf)
        for point in points:
            best = np.maximum(best, noise @ point + point @ point / 2)
        share = -np.expm1(np.minimum(epsilon - best, 0.0))
        error = 6 * float(share.std()) / math.sqrt(len(share))
        assert abs(float(share.mean()) - disc(epsilon, distance, radius)) <= error

    @settings(max_examples=40)
    @given(epsilon=EPSILON, distance=spread(1e-3, 5), radius=spread(1e-3, 5))
    def test_is_rounded_up_and_hardly(self, epsilon: float, distance: float, radius: float) -> None:
        claimed = disc(epsilon, distance, radius)
        with mp.workdps(30):
            exact = exact_disc_delta(mpf(epsilon), distance, radius)
            if exact < mpf(10) ** -60:
                assert claimed >= exact
                return
            assert exact <= claimed <= exact * (1 + mpf("0.02"))

    def test_a_point_is_the_gaussian_curve(self) -> None:
        for epsilon, distance in [(0.2, 0.1), (1.0, 0.3), (5.0, 1.7)]:
            curve = gaussian_delta(epsilon, distance)
            assert curve <= disc(epsilon, distance, 0.0) <= 1.01 * curve

    @given(
        epsilon=EPSILON,
        distance=spread(1e-3, 5),
        radius=spread(1e-3, 5),
        larger=st.floats(1.05, 3),
    )
    def test_grows_with_the_disc_and_falls_with_epsilon(
        self, epsilon: float, distance: float, radius: float, larger: float
    ) -> None:
        here = disc(epsilon, distance, radius)
        assert disc(epsilon, distance * larger, radius) >= here * 0.99
        assert disc(epsilon, distance, radius * larger) >= here * 0.99
        assert disc(epsilon * larger, distance, radius) <= here
        assert disc(epsilon, distance, radius) >= gaussian_delta(epsilon, distance + radius) * 0.999


class TestSegment:
    @settings(max_examples=60)
    @given(epsilon=EPSILON, distance=spread(1e-2, 4), share=spread(1e-4, 0.5))
    def test_is_rounded_up(self, epsilon: float, distance: float, share: float) -> None:
        claimed = segment_delta(epsilon, distance, share * distance)
        if claimed < 1e-60:
            return
        with mp.workdps(20):
            assert exact_segment_delta(mpf(epsilon), mpf(distance), share * distance) <= claimed

    @pytest.mark.parametrize(("epsilon", "distance"), [(0.1, 0.03), (1.0, 0.27), (5.0, 1.1)])
    def test_hardly(self, epsilon: float, distance: float) -> None:
        """Short segments, as those of the logistic loss, cost little more than the integral."""
        claimed = segment_delta(epsilon, distance, 0.1 * distance)
        with mp.workdps(20):
            exact = exact_segment_delta(mpf(epsilon), mpf(distance), 0.1 * distance)
        assert claimed <= 1.02 * exact
        assert claimed < 2 * gaussian_delta(epsilon, math.hypot(distance, 0.1 * distance))

    def test_is_no_less_than_its_best_end(self) -> None:
        """For each of many draws the better end is taken; within 6 standard errors."""
        epsilon, distance, half = 1.0, 0.9, 0.3
        noise = seeded(5).normal(size=(400_000, 2))
        best = noise[:, 0] * distance + np.abs(noise[:, 1]) * half + (distance**2 + half**2) / 2
        share = -np.expm1(np.minimum(epsilon - best, 0.0))
        error = 6 * float(share.std()) / math.sqrt(len(share))
        claimed = segment_delta(epsilon, distance, half)
        assert float(share.mean()) - error <= claimed <= 1.1 * float(share.mean()) + error

    def test_a_point_is_the_gaussian_curve(self) -> None:
        assert segment_delta(1.0, 0.3, 0.0) == gaussian_delta(1.0, 0.3)
        assert segment_delta(1.0, 0.3, 1e-12) == pytest.approx(gaussian_delta(1.0, 0.3), rel=1e-6)
