"""Draws from log-concave densities on the half-line: the envelope, and the law.

Each law is compared with a distribution function that is known or integrated here, by a test that
refuses a right law with probability at most 1e-12 (tests/statistical.py), and a sample scaled by
three percent (more where the law's width in proportion to its mean asks for it, less where it is
narrow) must be refused. All coins are seeded, so that the answers never change.
"""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, log_ndtr

from sudare.foundations.randomness import seeded
from sudare.foundations.sampling.logconcave import (
    Hull,
    LogConcave,
    _from_below,
    _mode,
    _race,
    _within,
    draw,
    hull,
)
from sudare.foundations.sampling.logistic import SLACK, _Shape
from tests.statistical import fits, only_counts_fit, only_fits

RADIAL = [
    (p, reach, floor, tilt)
    for p in (1, 2, 3, 30, 200)
    for reach in (0.0, 1e-9, 0.05, 1.0, 10.0)
    for floor, tilt in ((0.01, 0.0), (0.5, 1e-12), (0.1, 0.7))
]


def gamma(shape: float, scale: float = 1.0) -> LogConcave:
    return LogConcave(
        lambda x: (shape - 1) * np.log(x) - x / scale, lambda x: (shape - 1) / x - 1 / scale
    )


def tilted_normal(tilt: float, scale: float = 1.0) -> LogConcave:
    """exp(−½(x/scale)² − tilt·x/scale) on the half-line."""
    return LogConcave(
        lambda x: -((x / scale) ** 2) / 2 - tilt * x / scale,
        lambda x: -x / scale**2 - tilt / scale,
    )


def height(envelope: Hull, x: Any) -> Any:
    """Logarithm of the envelope."""
    piece = np.searchsorted(envelope.starts, x, side="right") - 1
    return envelope.heights[piece] + envelope.slopes[piece] * (x - envelope.starts[piece])


def integrated(density: LogConcave, upto: float) -> tuple[Callable[[Any], Any], float]:
    """The distribution function and log of the integral, by Simpson's rule on a fine grid."""
    grid = np.linspace(upto * 1e-9, upto, 400_001)
    logs = density.log_density(grid)
    top = logs.max()
    assert logs[-1] < top - 45  # nothing is left beyond the grid
    values = np.exp(logs - top)
    step = grid[1] - grid[0]
    thirds = step / 3 * (values[:-2:2] + 4 * values[1::2] + values[2::2])
    total = np.cumsum(thirds)
    reached = np.concatenate([[0.0], total / total[-1]])
    return (lambda x: np.interp(x, grid[::2], reached)), float(top + np.log(total[-1]))


def far_out(density: LogConcave, start: float) -> float:
    """A point where the density has fallen by e^-50 from its mode."""
    mode, width = _mode(density, start)
    top, x = density.log_density(np.array([mode]))[0], mode + 8 * width
    while density.log_density(np.array([x]))[0] > top - 50:
        x *= 1.3
    return x


class TestEnvelope:
    @pytest.mark.parametrize("shape", [1, 1.0001, 1.5, 2, 5, 37, 300, 1e4])
    @pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
    def test_gamma_mass(self, shape: float, scale: float) -> None:
        envelope = hull(gamma(shape, scale))
        excess = envelope.log_mass - (gammaln(shape) + shape * math.log(scale))
        assert -1e-9 <= excess < 0.03

    @pytest.mark.parametrize(("p", "reach", "floor", "tilt"), RADIAL)
    def test_radial(self, p: int, reach: float, floor: float, tilt: float) -> None:
        density = _Shape(p, reach, floor, tilt).far()
        envelope = hull(density, math.sqrt(p))
        far = far_out(density, math.sqrt(p))
        rng = seeded(p)
        x = np.concatenate([rng.random(2000) * far, far * np.exp(-30 * rng.random(1000))])
        gap = height(envelope, x) - density.log_density(x)
        assert gap.min() > -1e-9
        _, log_integral = integrated(density, far)
        # The grid leaves out less than 1e-9 of the mass.
        assert -2e-9 < envelope.log_mass - log_integral < 0.1

    @pytest.mark.parametrize(
        "density", [gamma(3.0), gamma(300.0), tilted_normal(0.0), tilted_normal(-3.0)]
    )
    def test_above_at_many_points(self, density: LogConcave) -> None:
        x = seeded(1).random(100_000) * 40.0 + 1e-6
        assert (height(hull(density), x) - density.log_density(x)).min() > -1e-9

    def test_a_point_near_zero_does_not_hide_the_others(self) -> None:
        # These shapes put a tangent point within rounding of zero, where the slope is 1e11.
        for square in (0.36, 1.0, 2.25, 2.2**2, 9.0, 16.0, 36.0):
            for off in np.concatenate([[0.0], np.logspace(-16, -8, 33)]):
                for sign in (-1, 1):
                    shape = 1 + square * 1.001 * (1 + sign * off)
                    envelope = hull(gamma(shape))
                    assert envelope.slopes[-1] < 0
                    assert 0 <= envelope.log_mass - gammaln(shape) < 0.03

    @pytest.mark.parametrize("start", [1e-6, 1.0, 1e6])
    def test_the_start_does_not_matter(self, start: float) -> None:
        envelope = hull(gamma(7.0), start)
        assert envelope.log_mass == pytest.approx(hull(gamma(7.0)).log_mass, abs=1e-7)

    def test_the_mode_at_zero(self) -> None:
        assert hull(tilted_normal(0.0)).log_mass == pytest.approx(
            math.log(math.sqrt(math.pi / 2)), abs=0.03
        )
        assert hull(gamma(1.0)).log_mass == pytest.approx(0.0, abs=1e-12)

    @pytest.mark.parametrize("p", [2, 30, 200])
    def test_slope_is_the_derivative(self, p: int) -> None:
        for reach in (0.0, 1e-12, 1e-9, 0.3, 4.0):
            density = _Shape(p, reach, 0.2, 0.1).far()
            x = np.geomspace(0.01, 50.0, 40)
            step = 1e-5 * x
            numeric = (density.log_density(x + step) - density.log_density(x - step)) / (2 * step)
            assert np.abs(density.slope(x) - numeric).max() < 1e-6 * np.abs(numeric).max()


class TestDraws:
    @pytest.mark.parametrize(
        ("shape", "off"), [(1.0, 0.03), (1.5, 0.03), (5.0, 0.02), (300.0, 0.003)]
    )
    @pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
    def test_gamma(self, shape: float, off: float, scale: float) -> None:
        sample = draw(hull(gamma(shape, scale)), 200_000, seeded(int(shape)))
        assert only_fits(sample, stats.gamma(shape, scale=scale).cdf, off)

    @pytest.mark.parametrize("tilt", [0.0, 0.5, 3.0, -2.0])
    def test_half_of_a_normal(self, tilt: float) -> None:
        sample = draw(hull(tilted_normal(tilt, 2.0)), 200_000, seeded(3))
        base = log_ndtr(-tilt)
        assert only_fits(sample, lambda x: -np.expm1(log_ndtr(-(x / 2.0 + tilt)) - base))

    @pytest.mark.parametrize(
        ("p", "reach", "floor", "tilt", "off"),
        [
            (1, 0.0, 0.01, 0.0, 0.03),
            (1, 1.0, 0.01, 0.0, 0.03),
            (1, 10.0, 0.05, 0.5, 0.03),
            (2, 0.5, 0.5, 0.0, 0.03),
            (10, 0.1, 0.1, 0.3, 0.01),
            (30, 10.0, 0.01, 0.0, 0.01),
            (200, 0.02, 0.01, 0.0, 0.003),
            (200, 10.0, 0.001, 0.7, 0.003),
        ],
    )
    def test_radial(self, p: int, reach: float, floor: float, tilt: float, off: float) -> None:
        density = _Shape(p, reach, floor, tilt).far()
        cdf, _ = integrated(density, far_out(density, math.sqrt(p)))
        sample = draw(hull(density, math.sqrt(p)), 150_000, seeded(p))
        assert only_fits(sample, cdf, off)

    @pytest.mark.parametrize("p", [1, 2, 10, 30])
    @pytest.mark.parametrize("stretch", [0.9, 0.5, 0.1])
    def test_two_parts(self, p: int, stretch: float) -> None:
        """Not log-concave where they meet."""
        shape = _Shape(p, 0.7, 0.2, 0.01, stretch)
        envelope = shape.hull(math.inf)
        density = LogConcave(shape.log_density, shape.far().slope)
        far = far_out(shape.far(), math.sqrt(p))
        cdf, log_integral = integrated(density, far)
        assert -2e-9 < envelope.log_mass - log_integral < 0.1
        sample = draw(envelope, 60_000, seeded(p))
        assert only_fits(sample, cdf, 0.05)

    @pytest.mark.parametrize("upto", [1e-7, 0.02, 0.5, 2.0, 3.5, 30.0])
    @pytest.mark.parametrize("p", [1, 5])
    def test_up_to_an_end(self, p: int, upto: float) -> None:
        density = gamma(float(p))
        envelope = hull(density, 1.0, upto)
        whole = stats.gamma(float(p)).cdf(upto)
        # Far from the mode one tangent has to do.
        assert -1e-9 <= envelope.log_mass - gammaln(p) - math.log(whole) < 0.25
        sample = draw(envelope, 60_000, seeded(p))
        assert sample.max() <= upto
        law = stats.gamma(float(p))
        assert only_fits(sample, lambda x: law.cdf(np.minimum(x, upto)) / whole, off=0.06)

    def test_small_masses_are_met_too(self) -> None:
        """Pieces of one part in 10⁴ are chosen so often, and the order does not matter."""
        masses = np.array([1e-4, 1.0, 3e-4, 0.0, 0.5])
        counts = np.bincount(_race(masses, 400_000, seeded(1)), minlength=5)
        assert counts[3] == 0
        assert only_counts_fit(counts, masses / masses.sum(), [masses[::-1] / masses.sum()])

    def test_another_density_is_refused(self) -> None:
        sample = draw(hull(gamma(5.0)), 100_000, seeded(0))
        assert fits(sample, stats.gamma(5.0).cdf)
        assert not fits(sample, stats.gamma(5.5, scale=5.0 / 5.5).cdf)

    @pytest.mark.parametrize("slope", [-2000.0, -3.0, -1e-12, 0.0, 1e-12, 3.0, 2000.0])
    def test_within_a_piece(self, slope: float) -> None:
        """Steep pieces too: e^2000 is no float."""
        x = _within(np.full(50_000, slope), np.ones(50_000), seeded(0))
        assert ((x >= 0) & (x <= 1)).all()
        if abs(slope) < 1e-9:
            assert only_fits(x, lambda t: np.clip(t, 0, 1))
            return
        depth, rate = (1 - x if slope > 0 else x), abs(slope)
        assert only_fits(depth, lambda t: np.expm1(-rate * t) / np.expm1(-rate), off=0.05)

    @pytest.mark.parametrize("slope", [0.1, 3.0, 30.0])
    def test_from_below(self, slope: float) -> None:
        """The same law as from above, with digits near zero."""
        x = _from_below(np.full(60_000, slope), np.full(60_000, 2.0), seeded(1))
        assert only_fits(2.0 - x, lambda t: np.expm1(-slope * t) / np.expm1(-slope * 2.0), off=0.06)

    def test_small_values_have_all_their_digits(self) -> None:
        """Of x^1·e^{-x} near zero: their last bits are not those of a grid."""
        sample = draw(hull(gamma(2.0)), 200_000, seeded(2))
        small = sample[sample < 0.01]
        assert len(small) > 5
        assert (small != np.round(small * 2.0**53) / 2.0**53).mean() > 0.8

    def test_sizes(self) -> None:
        envelope = hull(gamma(3.0))
        assert [draw(envelope, size, seeded(0)).shape for size in (0, 1, 2, 1000)] == [
            (0,),
            (1,),
            (2,),
            (1000,),
        ]
        assert (draw(envelope, 1000, seeded(5)) == draw(envelope, 1000, seeded(5))).all()


def test_the_oracle_itself() -> None:
    """Simpson's rule against mpmath, for the hardest of the radial laws."""
    density = _Shape(3, 10.0, 0.01, 0.05).far()
    far = far_out(density, 1.7)
    cdf, log_integral = integrated(density, far)

    def value(x: Any) -> Any:
        psi = (mpmath.exp(-10 * x) + 10 * x - 1) / (10 * x) ** 2
        growth = x**2 * (psi + (mpmath.mpf(1) / 2 - psi) * 0.01) * (1 - SLACK) - 0.05 * x
        return x**2 * mpmath.exp(-growth)

    with mpmath.workdps(30):
        pieces = [1e-9, 5, 20, 40, 80, far]
        whole = mpmath.quad(value, pieces)
        assert log_integral == pytest.approx(float(mpmath.log(whole)), abs=1e-9)
        half = float(mpmath.quad(value, [1e-9, 5, 15]) / whole)
        assert float(cdf(15.0)) == pytest.approx(half, abs=1e-7)
