"""Draws from smooth, strongly convex potentials: the exact sampler and the certified one.

A right law is refused with probability at most 1e-12 by each distribution test
(tests/statistical.py), the proximal sampler's after allowing for the distance it states. All coins
are seeded, so that the answers never change.
"""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from sudare.foundations.sampling import (
    Potential,
    draw_proximal,
    draw_simple,
    generic,
    proximal_steps,
)
from tests.foundations.sampling.oracle import projected
from tests.statistical import FALSE_ALARM, fits, rate_at_most


def soft(p: int, steep: float = 3.0) -> Potential:
    """Σ ½x² + steep·log cosh(x − ½): curvature between 1 and 1 + steep, no symmetry."""

    def value(x: Any) -> Any:
        shifted = x - 0.5
        cosh = np.logaddexp(shifted, -shifted)
        return (x * x / 2 + steep * cosh).sum(axis=-1) + 0.3 * x[..., 0]

    def gradient(x: Any) -> Any:
        return x + steep * np.tanh(x - 0.5) + 0.3 * np.eye(p)[0]

    return Potential(value, gradient, 1.0, 1.0 + steep)


def distance(sample: Any, cdf: Any) -> float:
    """The largest gap between the two distribution functions."""
    x = np.sort(sample)
    expected, n = cdf(x), len(x)
    return float(
        max((np.arange(1, n + 1) / n - expected).max(), (expected - np.arange(n) / n).max())
    )


def within(sample: Any, cdf: Any, total_variation: float) -> bool:
    """Whether the sample's law can be that near: the gap less what chance can do (Massart 1990)."""
    chance = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(sample)))
    return distance(sample, cdf) <= total_variation + chance


class TestSimple:
    @pytest.mark.parametrize("centre", [0.0, 0.35, -0.4, 0.8])
    def test_line(self, centre: float) -> None:
        sample = draw_simple(soft(1), np.array([centre]), 60_000, seeded(1)).values[:, 0]
        for steep in (2.5, 3.0, 3.6):
            cdf = projected(soft(1, steep).value, [1.0], [0.0], 9.0)
            assert fits(sample, cdf) == (steep == 3.0)

    @pytest.mark.parametrize("centre", [(0.3, 0.4), (0.0, 0.6)])
    def test_plane(self, centre: Any) -> None:
        sample = draw_simple(soft(2), np.array(centre), 60_000, seeded(1)).values
        for u in ([1.0, 0.0], [0.0, 1.0], [0.6, -0.8]):
            right = projected(soft(2).value, u, np.zeros(2), 9.0)
            assert fits(sample @ u, right)
            assert not fits(1.05 * sample @ u + 0.02, right)

    @pytest.mark.parametrize("p", [1, 2, 4])
    def test_keeps_as_many_as_it_states(self, p: int) -> None:
        """Counts the points whose potential is asked for."""
        asked = 0
        base = soft(p)

        def value(x: Any) -> Any:
            nonlocal asked
            asked += len(x)
            return base.value(x)

        centre = np.full(p, 0.6)
        draw_simple(base._replace(value=value), centre, 4000, seeded(2))
        m, big = 1.0, 4.0
        g = float(np.linalg.norm(base.gradient(centre)))
        stated = (m / big) ** (p / 2) * math.exp(-(g**2) / 2 * (1 / m - 1 / big))
        # The last batch may be cut short, by at most 4096 points.
        assert rate_at_most(4000, asked - 1 - 4096) > stated
        assert stated > 0.002

    def test_sizes(self) -> None:
        drawn = draw_simple(soft(2), np.zeros(2), 1, seeded(0))
        assert drawn.values.shape == (1, 2)
        assert (drawn.sampler, drawn.total_variation) == ("simple", 0.0)
        with pytest.raises(InvalidInput, match="size"):
            draw_simple(soft(2), np.zeros(2), 0, seeded(0))


class TestProximal:
    @pytest.mark.parametrize("p", [1, 7, 100])
    @pytest.mark.parametrize("gradient_norm", [0.0, 0.3, 50.0])
    @pytest.mark.parametrize("total_variation", [0.3, 0.01, 1e-9])
    def test_steps(self, p: int, gradient_norm: float, total_variation: float) -> None:
        for m, big in ((1.0, 1.0), (1.0, 4.0), (1e-3, 50.0)):
            steps = proximal_steps(
                Potential(soft(1).value, soft(1).gradient, m, big),
                p,
                gradient_norm,
                total_variation,
            )
            with mpmath.workdps(40):
                m_, big_ = mpmath.mpf(m), mpmath.mpf(big)
                divergence = p * mpmath.log(big_ / m_) / 2
                divergence += mpmath.mpf(gradient_norm) ** 2 / 2 * (1 / m_ - 1 / big_)

                def far(k: int, d: Any = divergence, eta: Any = 1 / (big_ * p), m: Any = m_) -> Any:
                    return mpmath.sqrt(d / 2) / (1 + m * eta) ** k

                assert far(steps) <= total_variation
                # No more than rounding asks for: a part in 10⁹, and one.
                assert steps == 0 or far(steps - 2 - steps // 10**8) > total_variation

    @pytest.mark.parametrize("p", [1, 2])
    def test_law(self, p: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Within the stated distance; a tenth of the steps from afar is not."""
        potential, centre, rng = soft(p), np.full(p, 30.0), seeded(p)

        def sample(size: int) -> Any:
            return np.array(
                [draw_proximal(potential, centre, rng, 0.01).values[0] for _ in range(size)]
            )

        whole = sample(150)
        steps = proximal_steps(
            potential, p, float(np.linalg.norm(potential.gradient(centre))), 0.01
        )
        monkeypatch.setattr(generic, "proximal_steps", lambda *_: steps // 10)
        tenth = sample(150)
        for k in range(p):
            cdf = projected(potential.value, np.eye(p)[k], np.zeros(p), 9.0)
            assert within(whole[:, k], cdf, 0.01)
            assert not within(whole[:, k] + 1.0, cdf, 0.01)
            assert not within(tenth[:, k], cdf, 0.01)

    def test_progress(self) -> None:
        seen: list[tuple[int, int]] = []
        potential = soft(2)
        norm = float(np.linalg.norm(potential.gradient(np.zeros(2))))
        steps = proximal_steps(potential, 2, norm, 0.1)
        drawn = draw_proximal(
            potential, np.zeros(2), seeded(0), 0.1, lambda done, of: seen.append((done, of))
        )
        assert drawn.values.shape == (1, 2)
        assert (drawn.sampler, drawn.total_variation) == ("proximal", 0.1)
        assert steps > 3
        assert seen == [(k + 1, steps) for k in range(steps)]
        again = draw_proximal(potential, np.zeros(2), seeded(0), 0.1)
        assert (drawn.values == again.values).all()


@pytest.mark.parametrize(
    ("m", "big", "named"),
    [
        (2.0, 1.0, "smoothness"),
        (0.0, 1.0, "strong_convexity"),
        (-1.0, 1.0, "strong_convexity"),
        (1.0, math.inf, "smoothness"),
    ],
)
def test_refused_bounds(m: float, big: float, named: str) -> None:
    wrong = soft(2)._replace(strong_convexity=m, smoothness=big)
    for run in (
        lambda: draw_simple(wrong, np.zeros(2), 1, seeded(0)),
        lambda: draw_proximal(wrong, np.zeros(2), seeded(0), 0.1),
        lambda: proximal_steps(wrong, 2, 0.0, 0.1),
    ):
        with pytest.raises(InvalidInput, match=named):
            run()


@pytest.mark.parametrize("total_variation", [0.0, 1.0, -0.1])
def test_refused_distance(total_variation: float) -> None:
    with pytest.raises(InvalidInput, match="total_variation"):
        draw_proximal(soft(1), np.zeros(1), seeded(0), total_variation)


@pytest.mark.parametrize("centre", [[np.nan], [[0.0]], []])
def test_refused_centre(centre: Any) -> None:
    for run in (
        lambda: draw_simple(soft(1), centre, 1, seeded(0)),
        lambda: draw_proximal(soft(1), centre, seeded(0), 0.1),
    ):
        with pytest.raises(InvalidInput, match="centre"):
            run()
