"""Gaussians restricted to a ball: the law against quadrature, and the envelope.

A right law is refused with probability at most 1e-12 by each distribution test
(tests/statistical.py); all coins are seeded, so that the answers never change.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import ball_envelope, draw_ball
from tests.foundations.sampling.oracle import projected
from tests.statistical import fits, only_fits

TILTED = np.array([[3.0, 1.2], [1.2, 0.9]])


def potential(precision: Any, linear: Any) -> Any:
    return lambda t: ((t @ precision) * t).sum(axis=1) / 2 - t @ np.asarray(linear)


@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("linear", [0.0, 0.8, -3.0, 40.0])
def test_line(linear: float, radius: float) -> None:
    """The mode inside and on the end, cut shallow and deep."""
    precision, c = np.array([[1.7]]), np.array([linear])
    sample = draw_ball(ball_envelope(precision, c, radius), 60_000, seeded(1)).values[:, 0]
    spread = 1 / np.sqrt(1.7)
    middle = linear / 1.7
    law = stats.truncnorm((-radius - middle) / spread, (radius - middle) / spread, middle, spread)
    assert np.abs(sample).max() <= radius
    if linear == 40.0:  # nearly all at the end: look at the distance from it
        assert only_fits(radius - sample, lambda x: law.sf(radius - x), off=0.05)
    else:
        assert only_fits(sample, law.cdf, off=0.1)


@pytest.mark.parametrize("radius", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("linear", [(0.0, 0.0), (0.5, -0.2), (4.0, 6.0)])
def test_plane(linear: Any, radius: float) -> None:
    c = np.array(linear)
    sample = draw_ball(ball_envelope(TILTED, c, radius), 60_000, seeded(2)).values
    assert np.linalg.norm(sample, axis=1).max() <= radius
    refused = 0
    for u in ([1.0, 0.0], [0.0, 1.0], [0.6, 0.8]):
        centre = np.linalg.solve(TILTED, c)
        assert fits(sample @ u, projected(potential(TILTED, c), u, centre, 20.0, radius))
        wrong = projected(potential(1.5 * TILTED, 1.5 * c + 0.5), u, centre, 20.0, radius)
        refused += not fits(sample @ u, wrong)
    assert refused


@pytest.mark.parametrize("wall", [30.0, 1e3, 1e6])
@pytest.mark.parametrize("linear", [0.8, 40.0])
def test_behind_a_wall(linear: float, wall: float) -> None:
    """Against quadrature of the potential with its wall; one of another slope is refused."""
    precision, c, radius = np.array([[1.7]]), np.array([linear]), 0.7
    envelope = ball_envelope(precision, c, radius, wall)
    assert envelope.pull <= wall / (radius * (1 + 2**-10))
    sample = draw_ball(envelope, 60_000, seeded(3)).values[:, 0]
    limit = radius * (1 + 2**-10)

    def cdf(linear: float) -> Any:
        x = np.concatenate(
            [np.linspace(-limit, 0.69, 40_001), np.linspace(0.69, limit, 40_001)[1:]]
        )
        logs = linear * x - 0.85 * x * x - wall * np.maximum(np.abs(x) - radius, 0)
        values = np.exp(logs - logs.max())
        reached = np.cumsum((values[1:] + values[:-1]) * np.diff(x))
        return lambda t: np.interp(t, x[1:], reached / reached[-1])

    assert np.abs(sample).max() <= limit
    assert fits(sample, cdf(linear))
    assert not fits(sample, cdf(1.2 * linear))
    assert not fits(sample, cdf(linear / 1.2))


@pytest.mark.parametrize("p", [10, 30])
@pytest.mark.parametrize("weight", [1e-9, 1.0])
def test_weak_precision_in_many_dimensions(p: int, weight: float) -> None:
    """Of an unrestricted Gaussian less than one draw in 10¹⁰ would fall inside."""
    envelope = ball_envelope(weight * np.eye(p), np.zeros(p), 0.2)
    sample = draw_ball(envelope, 20_000, seeded(p)).values
    lengths = np.linalg.norm(sample, axis=1) / 0.2
    # ‖θ‖^p is uniform on the ball, and the precision too weak to show.
    assert fits(lengths**p, lambda x: x)
    assert not fits(lengths ** (1.3 * p), lambda x: x)
    half = (p - 1) / 2
    turned = (1 + sample[:, 0] / np.linalg.norm(sample, axis=1)) / 2
    assert fits(turned, stats.beta(half, half).cdf)
    assert not fits(turned, stats.beta(1.3 * half, 1.3 * half).cdf)


@pytest.mark.parametrize("p", [10, 30])
def test_round_gaussian_with_its_mode_on_the_sphere(p: int) -> None:
    """Against the conditional law of the length along the linear term, integrated in the plane."""
    c = np.zeros(p)
    c[0] = 60.0
    sample = draw_ball(ball_envelope(5.0 * np.eye(p), c, 1.0), 20_000, seeded(p)).values

    def cdf(pull: float) -> Any:
        # Across, ‖rest‖² ≤ 1 − s² is a chi-squared event.
        s = np.linspace(-1, 1, 40_001)
        logs = pull * s - 2.5 * s * s + stats.chi2(p - 1).logcdf(5.0 * np.maximum(1 - s * s, 1e-12))
        values = np.exp(logs - logs.max())
        return lambda x: np.interp(x, s, np.cumsum(values) / values.sum())

    assert fits(sample[:, 0], cdf(60.0))
    assert not fits(sample[:, 0], cdf(66.0))
    assert not fits(sample[:, 0], cdf(54.0))


class TestEnvelope:
    def random(self, seed: int) -> tuple[Any, Any, float]:
        rng = seeded(seed)
        p = int(rng.integers(1, 12))
        factor = rng.normal(size=(p, p + 2)) * np.exp(rng.normal(size=p))[:, None]
        linear = rng.normal(size=p) * 10.0 ** rng.uniform(-2, 3)
        return factor @ factor.T, linear, 10.0 ** rng.uniform(-4, 4)

    def test_the_proposal_is_as_long_as_the_ball_on_average(self) -> None:
        """The condition of least mass, and the Gaussian that belongs to it."""
        inside = 0
        for seed in range(200):
            precision, linear, radius = self.random(seed)
            envelope = ball_envelope(precision, linear, radius)
            pulled = precision + envelope.pull * np.eye(len(linear))
            covariance = np.linalg.inv(pulled)
            assert envelope.spread @ envelope.spread.T == pytest.approx(covariance, rel=1e-6)
            assert pulled @ envelope.centre == pytest.approx(linear, rel=1e-6)
            length = np.trace(covariance) + envelope.centre @ envelope.centre
            if envelope.pull == 0:
                inside += 1
                assert length <= radius**2 * (1 + 1e-9)
            else:
                assert length == pytest.approx(radius**2, rel=1e-5)
        assert 20 < inside < 180

    @pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
    def test_units_do_not_matter(self, scale: float) -> None:
        one = ball_envelope(TILTED, np.array([2.0, 1.0]), 0.5)
        other = ball_envelope(TILTED / scale**2, np.array([2.0, 1.0]) / scale, 0.5 * scale)
        assert other.pull * scale**2 == pytest.approx(one.pull, rel=1e-6)
        sample = draw_ball(other, 1000, seeded(0)).values / scale
        assert sample == pytest.approx(draw_ball(one, 1000, seeded(0)).values, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"precision": np.diag([1.0, -1.0])}, "precision"),
        ({"precision": np.diag([1.0, 0.0])}, "precision"),
        ({"precision": np.array([[1.0, 0.5], [0.0, 1.0]])}, "precision"),
        ({"precision": np.eye(3)}, "precision"),
        ({"precision": np.full((2, 2), np.nan)}, "precision"),
        ({"linear": np.array([np.nan, 0.0])}, "linear"),
        ({"radius": 0.0}, "radius"),
        ({"radius": -1.0}, "radius"),
        ({"radius": np.inf}, "radius"),
        ({"wall": -1.0}, "wall"),
        ({"least": -1.0}, "least"),
    ],
)
def test_refused(change: dict[str, Any], named: str) -> None:
    right: dict[str, Any] = {"precision": TILTED, "linear": np.zeros(2), "radius": 1.0}
    ball_envelope(**right)
    with pytest.raises(InvalidInput, match=named):
        ball_envelope(**{**right, **change})


def test_sizes() -> None:
    envelope = ball_envelope(TILTED, np.ones(2), 1.0)
    drawn = draw_ball(envelope, 1, seeded(0))
    assert drawn.values.shape == (1, 2)
    assert (drawn.sampler, drawn.total_variation) == ("ball", 0.0)
    one, two = (draw_ball(envelope, 9, seeded(0)).values for _ in range(2))
    assert (one == two).all()
    with pytest.raises(InvalidInput, match="size"):
        draw_ball(envelope, 0, seeded(0))
