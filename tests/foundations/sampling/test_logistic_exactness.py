"""Exact draws in ten dimensions against a long, independent No-U-Turn run.

241 mean features are compared, each by a ratio that is about a t variable with 99 degrees of
freedom. One exceeds LIMIT = 6.5 with probability 3.4e-9, so with fresh coins a right sampler would
be refused with a probability of about 1e-6 at most (union bound); the coins here are seeded. The
same comparison refuses an inverse temperature that is a tenth off, in either direction.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import LogisticPosterior, draw_radial, radial_envelope, settle
from tests.foundations.sampling.nuts import moments_and_projections, nuts, worst_gap

DIMENSION = 10
LIMIT = 6.5
DRAWS = 10_000
features = moments_and_projections(DIMENSION, 7)


def correlated_rows() -> Any:
    rng = seeded(31)
    rows = rng.standard_normal((150, DIMENSION)) @ rng.standard_normal((DIMENSION, DIMENSION)) / 5
    return rows + 0.25


TARGET = LogisticPosterior(correlated_rows(), 1.5, 4.0)


class Frame:
    """The mode and the square root of the Hessian there: standard units for every law here."""

    def __init__(self, target: LogisticPosterior) -> None:
        centre = np.zeros(DIMENSION)
        for _ in range(30):
            share = 1 / (1 + np.exp(target.rows @ centre))
            gradient = target.curvature * centre - target.temperature * share @ target.rows
            weights = target.temperature * share * (1 - share)
            hessian = (target.rows.T * weights) @ target.rows
            hessian += target.curvature * np.eye(DIMENSION)
            centre = centre - np.linalg.solve(hessian, gradient)
        self.centre = centre
        self.root = np.linalg.cholesky(hessian)
        self.back = np.linalg.inv(self.root)

    def standard(self, thetas: Any) -> Any:
        return (thetas - self.centre) @ self.root


FRAME = Frame(TARGET)


def potential(x: Any) -> tuple[float, Any]:
    """U and its gradient in standard units, written out here once more."""
    theta = FRAME.centre + x @ FRAME.back
    odds = np.exp(-(TARGET.rows @ theta))
    value = TARGET.temperature * float(np.log1p(odds).sum())
    value += TARGET.curvature / 2 * float(theta @ theta)
    slope = TARGET.curvature * theta - TARGET.temperature * (odds / (1 + odds)) @ TARGET.rows
    return value, FRAME.back @ slope


@pytest.fixture(scope="module")
def chain() -> Any:
    return nuts(potential, np.zeros(DIMENSION), 0.9, 12_100, seeded(1))[100:]


@cache
def exact(factor: float, shift: float = 0.0, seed: int = 2) -> Any:
    target = TARGET._replace(temperature=factor * TARGET.temperature)
    centre = Frame(target).centre + shift * FRAME.back.sum(axis=0)
    return FRAME.standard(
        draw_radial(radial_envelope(target, centre, DRAWS), DRAWS, seeded(seed)).values
    )


def exact_in_ball(factor: float, radius: float) -> Any:
    target = TARGET._replace(temperature=factor * TARGET.temperature, radius=radius)
    centre, pull = settle(target)
    envelope = radial_envelope(target, centre, DRAWS, pull)
    return FRAME.standard(draw_radial(envelope, DRAWS, seeded(8)).values)


class TestReference:
    """The judge is judged first: on a law known in closed form."""

    def test_standard_normal(self) -> None:
        scales = np.linspace(0.5, 2.0, DIMENSION)
        chain = nuts(
            lambda x: (float(((x / scales) ** 2).sum()) / 2, x / scales**2),
            np.zeros(DIMENSION),
            0.4,
            5_000,
            seeded(5),
        )
        sample = seeded(6).standard_normal((DRAWS, DIMENSION))
        assert worst_gap(sample, chain / scales, features) < LIMIT
        for factor in (1 / 1.05, 1.05):
            assert worst_gap(factor * sample, chain / scales, features) > LIMIT

    def test_a_shifted_and_a_skewed_law_are_refused(self, chain: Any) -> None:
        sample = exact(1.0)
        moved = sample + 0.06
        assert worst_gap(moved, chain, features) > LIMIT
        # What the exact sampler must not return: the Gaussian it is close to.
        normal = seeded(3).standard_normal((DRAWS, DIMENSION))
        assert worst_gap(normal, chain, features) > LIMIT


class TestTenDimensions:
    def test_exact_draws_are_accepted(self, chain: Any) -> None:
        assert worst_gap(exact(1.0), chain, features) < LIMIT

    def test_shifted_expansion_point_changes_nothing(self, chain: Any) -> None:
        assert worst_gap(exact(1.0, shift=0.06, seed=4), chain, features) < LIMIT

    @pytest.mark.parametrize("factor", [1 / 1.1, 1.1])
    def test_temperature_a_tenth_off_is_refused(self, chain: Any, factor: float) -> None:
        assert worst_gap(exact(factor), chain, features) > LIMIT


@pytest.mark.parametrize(("radius", "share", "off"), [(2.8, 0.45, 1.1), (2.5, 0.13, 1.3)])
class TestBallInTenDimensions:
    """What a chain visits of a ball has the law restricted to it; the smaller lacks the mode."""

    @pytest.fixture
    def inside(self, chain: Any, radius: float, share: float) -> Any:
        thetas = FRAME.centre + chain @ FRAME.back
        kept = chain[np.linalg.norm(thetas, axis=1) <= radius]
        assert len(kept) / len(chain) == pytest.approx(share, rel=0.15)
        return kept

    def test_exact_draws_are_accepted(self, inside: Any, radius: float, off: float) -> None:
        assert worst_gap(exact_in_ball(1.0, radius), inside, features) < LIMIT
        for factor in (1 / off, off):
            assert worst_gap(exact_in_ball(factor, radius), inside, features) > LIMIT

    def test_whole_posterior_is_refused(self, inside: Any, radius: float, off: float) -> None:
        assert worst_gap(exact(1.0), inside, features) > LIMIT
