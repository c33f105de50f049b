"""Gradient diameters against brute force, 80-digit arithmetic and a second proof by subdivision."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.special import expit

from sudare.calibration import _gradients as gradients
from sudare.calibration._gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_bound,
    ridge_gradient_diameter,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.support.strategies import spread

Array = NDArray[np.float64]
Gradient = Callable[[Array, Array, Array], Array]
"""(θ, x, y) to ∇ℓ(θ; x, y), over any leading axes."""

LOGISTIC_EXCESS = 2.0**-11


def ridge_gradient(theta: Array, x: Array, y: Array) -> Array:
    return 2 * (np.sum(theta * x, axis=-1) - y)[..., None] * x


def logistic_gradient(theta: Array, x: Array, y: Array) -> Array:
    y = np.where(y < 0, -1.0, 1.0)
    return -(y * expit(-y * np.sum(theta * x, axis=-1)))[..., None] * x


def into_ball(points: Array, radius: float) -> Array:
    norms = np.linalg.norm(points, axis=-1, keepdims=True)
    return points * np.minimum(1.0, radius / np.maximum(norms, 1e-300))


def widest(
    gradient: Gradient, dimension: int, row_norm: float, target_bound: float, radius: float
) -> float:
    """Brute force: the largest ‖∇ℓ(θ; d) − ∇ℓ(θ; d')‖ found, over everything admissible at once.

    Random points, from well inside to far outside their balls and projected; then the best are
    moved about at random, over all scales, again and again.
    """
    rng = seeded(20)
    p = dimension

    def distance(unit: Array) -> Array:
        theta = into_ball(radius * unit[:, :p], radius)
        rows = [into_ball(row_norm * unit[:, k * p : (k + 1) * p], row_norm) for k in (1, 2)]
        ends = [target_bound * np.clip(unit[:, 3 * p + k], -1, 1) for k in (0, 1)]
        first, second = (gradient(theta, x, y) for x, y in zip(rows, ends, strict=True))
        return np.asarray(np.linalg.norm(first - second, axis=1))

    points = rng.normal(size=(50_000, 3 * p + 2))
    points *= np.exp(rng.uniform(-3, 3, points.shape))
    found = distance(points)
    for _ in range(20):
        best = points[np.argsort(found)[-40:]]
        moved = np.repeat(best, 75, axis=0)
        moved += rng.normal(size=moved.shape) * np.exp(rng.uniform(-10, 0, (len(moved), 1)))
        points = np.concatenate([best, moved])
        found = distance(points)
    return float(found.max())


def exact_ridge_diameter(row_norm: float, target: float, radius: float, dimension: int) -> Any:
    with mp.workdps(80):
        x = mpf(row_norm)
        a, b = 2 * x * mpf(target), 2 * x * x * mpf(radius)
        if a == b == 0:
            return mpf(0)
        if dimension == 1:
            return 2 * a if 2 * b <= a else a + b + a * a / (4 * b)
        q = 2 * b / (a + mp.sqrt(a * a + 8 * b * b))
        return 2 * mp.sqrt(1 - q * q) * (a + b * q)


class TestRidge:
    @pytest.mark.parametrize("dimension", [1, 2, 3])
    @pytest.mark.parametrize(
        ("row_norm", "target_bound", "radius"),
        [(1, 1, 0), (1, 1, 0.3), (1, 1, 0.6), (2, 1, 1), (0.5, 3, 20), (1, 0, 1)],
    )
    def test_is_what_brute_force_finds(
        self, dimension: int, row_norm: float, target_bound: float, radius: float
    ) -> None:
        claimed = ridge_gradient_diameter(row_norm, target_bound, radius, dimension)
        found = widest(ridge_gradient, dimension, row_norm, target_bound, radius)
        assert found <= claimed
        assert found >= claimed * (1 - 1e-6)

    @given(
        row_norm=spread(1e-6, 1e6),
        target=st.one_of(st.just(0.0), spread(1e-6, 1e6)),
        radius=st.one_of(st.just(0.0), spread(1e-6, 1e6)),
        dimension=st.sampled_from([1, 2, 10_000]),
    )
    def test_is_rounded_up_and_hardly(
        self, row_norm: float, target: float, radius: float, dimension: int
    ) -> None:
        claimed = mpf(ridge_gradient_diameter(row_norm, target, radius, dimension))
        exact = exact_ridge_diameter(row_norm, target, radius, dimension)
        assert exact <= claimed <= exact * (1 + mpf(10) ** -9)

    @given(row_norm=spread(1e-6, 1e6), target=spread(1e-6, 1e6), radius=spread(1e-6, 1e6))
    def test_bound_is_rounded_up_and_hardly(
        self, row_norm: float, target: float, radius: float
    ) -> None:
        claimed = mpf(ridge_gradient_bound(row_norm, target, radius))
        with mp.workdps(80):
            exact = 2 * mpf(row_norm) * (mpf(target) + mpf(radius) * mpf(row_norm))
        assert exact <= claimed <= exact * (1 + mpf(10) ** -9)

    @pytest.mark.parametrize(
        ("radius", "ratio"), [(0.5, 0.73), (1.0, 0.65), (2.0, 0.59), (10.0, 0.52)]
    )
    def test_is_about_half_of_twice_the_bound(self, radius: float, ratio: float) -> None:
        share = ridge_gradient_diameter(1, 1, radius, 2) / (2 * ridge_gradient_bound(1, 1, radius))
        assert round(share, 2) == ratio

    @given(
        row_norm=spread(1e-3, 1e3),
        target=spread(1e-3, 1e3),
        radius=spread(1e-3, 1e3),
        dimension=st.sampled_from([1, 2]),
        power=st.integers(-20, 20),
    )
    def test_follows_the_units(
        self, row_norm: float, target: float, radius: float, dimension: int, power: int
    ) -> None:
        """Rows in other units change θ the other way; targets in other units change θ too."""
        c = 2.0**power
        plain = ridge_gradient_diameter(row_norm, target, radius, dimension)
        rows = ridge_gradient_diameter(row_norm * c, target, radius / c, dimension)
        targets = ridge_gradient_diameter(row_norm, target * c, radius * c, dimension)
        assert rows == pytest.approx(plain * c, rel=1e-15)
        assert targets == pytest.approx(plain * c, rel=1e-15)


def mirror(t: float) -> float:
    """2·max sin α·σ(t cos α), by a grid fine enough to be right to 1e-9."""
    angle = np.linspace(0, np.pi / 2, 200_001)
    return float(2 * np.max(np.sin(angle) * expit(t * np.cos(angle))))


class TestLogistic:
    @pytest.mark.parametrize("dimension", [1, 2, 3])
    @pytest.mark.parametrize("t", [0.0, 0.4, 1.2, 2.0, 4.0, 6.0, 30.0])
    def test_is_what_brute_force_finds(self, dimension: int, t: float) -> None:
        row_norm = 1.7
        claimed = logistic_gradient_diameter(row_norm, dimension, t / row_norm)
        found = widest(logistic_gradient, dimension, row_norm, 1.0, t / row_norm)
        assert found <= claimed
        assert found >= claimed * (1 - LOGISTIC_EXCESS)

    @pytest.mark.parametrize(("t", "known"), [(1, 1.10), (2, 1.27), (4, 1.53), (8, 1.77)])
    def test_known_values(self, t: float, known: float) -> None:
        assert round(logistic_gradient_diameter(1.0, 2, t), 2) == known

    @given(t=spread(1e-9, 1e9))
    def test_is_the_mirror_pair(self, t: float) -> None:
        claimed = logistic_gradient_diameter(1.0, 5, t)
        assert mirror(t) * (1 - 1e-9) <= claimed <= min(2.0, mirror(t) * (1 + LOGISTIC_EXCESS))

    def test_limits(self) -> None:
        """Without a slope every gradient is half a row; on a very large ball it may be a whole."""
        assert logistic_gradient_diameter(3.0, 2, 0.0) == pytest.approx(3.0, rel=LOGISTIC_EXCESS)
        assert logistic_gradient_diameter(3.0, 2, 1e-300) == pytest.approx(3, rel=LOGISTIC_EXCESS)
        assert logistic_gradient_diameter(3.0, 2, 1e9) == 6.0
        assert logistic_gradient_diameter(3.0, 2) == 6.0
        assert logistic_gradient_diameter(3.0, 1, 0.0) == pytest.approx(3.0, rel=1e-12)
        assert logistic_gradient_diameter(3.0, 1, 1e-9) == pytest.approx(3.0, rel=1e-12)
        assert logistic_gradient_diameter(3.0, 1, 1e9) == pytest.approx(3 * 1.051633991545322)
        assert logistic_gradient_bound(3.0, 0.0) == pytest.approx(1.5, rel=1e-12)
        assert logistic_gradient_bound(3.0, 1e9) == logistic_gradient_bound(3.0) == 3.0

    @pytest.mark.parametrize("row_norm", [0.3, 1.0, 1.7])
    def test_one_dimension_without_a_ball(self, row_norm: float) -> None:
        """Every θ, both rows and both labels: nothing comes near 2X, and the claim is reached."""
        claimed = logistic_gradient_diameter(row_norm, 1)
        theta = np.concatenate([np.geomspace(1e-6, 1e9, 2000), np.linspace(0, 20, 4001)]) / row_norm
        theta = np.concatenate([theta, -theta])[:, None]
        rows = np.concatenate([np.geomspace(1e-12, 1, 1500), np.linspace(0, 1, 1501)]) * row_norm
        signed = np.concatenate([rows, -rows])  # label times row
        gradients = -signed * expit(-signed * theta)
        apart = np.ptp(gradients, axis=1)
        assert apart.max() <= claimed
        assert apart.max() >= claimed * (1 - 1e-5)
        assert apart.max() < 1.06 * row_norm
        assert claimed == logistic_gradient_diameter(row_norm, 1, 1e9)

    def test_one_dimension_without_a_ball_to_fifty_digits(self) -> None:
        """The widest pair at u, maximised over u: rounded up, and hardly."""
        with mp.workdps(50):
            v = mp.findroot(lambda v: 1 + mp.exp(v) - v * mp.exp(v), 1.3)
            w = v / (1 + mp.exp(v))

            def apart(u: Any) -> Any:
                return 1 / (1 + mp.exp(-u)) + w / u

            widest_at = mp.findroot(lambda u: mp.diff(apart, u), 4)
            exact = 3 * apart(widest_at)
            claimed = mpf(logistic_gradient_diameter(3.0, 1))
            assert exact <= claimed <= exact * (1 + mpf(10) ** -11)

    @given(t=spread(1e-3, 1e4), larger=st.floats(1, 10), dimension=st.sampled_from([1, 2]))
    def test_never_falls_as_the_ball_grows(self, t: float, larger: float, dimension: int) -> None:
        small = logistic_gradient_diameter(1.0, dimension, t)
        assert logistic_gradient_diameter(1.0, dimension, t * larger) >= small * (1 - 1e-12)

    @given(row_norm=spread(1e-6, 1e6), t=spread(1e-3, 30))
    def test_bound_is_rounded_up_and_hardly(self, row_norm: float, t: float) -> None:
        radius = t / row_norm
        with mp.workdps(80):
            exact = mpf(row_norm) / (1 + mp.exp(-mpf(row_norm) * mpf(radius)))
        claimed = mpf(logistic_gradient_bound(row_norm, radius))
        assert exact <= claimed <= exact * (1 + mpf(10) ** -9)

    @given(
        row_norm=spread(1e-3, 1e3),
        t=spread(1e-2, 1e3),
        dimension=st.sampled_from([1, 2]),
        power=st.integers(-20, 20),
    )
    def test_follows_the_units(self, row_norm: float, t: float, dimension: int, power: int) -> None:
        c = 2.0**power
        plain = logistic_gradient_diameter(row_norm, dimension, t / row_norm)
        scaled = logistic_gradient_diameter(row_norm * c, dimension, t / row_norm / c)
        assert scaled == pytest.approx(plain * c, rel=1e-15)


class TestSubdivision:
    @pytest.mark.parametrize("t", [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 30.0, 100.0])
    def test_refuses_what_is_not_true(self, t: float, monkeypatch: pytest.MonkeyPatch) -> None:
        # Less patience than in earnest: enough for the proof, sooner done with the rest.
        monkeypatch.setattr(gradients, "_MOST_BOXES", 100_000)
        assert gradients._no_wider_pair(t, mirror(t) * (1 + 2.0**-12))
        assert not gradients._no_wider_pair(t, mirror(t) * 0.999)

    @pytest.mark.parametrize("t", [0.05, 0.2, 1.0, 4.0, 30.0])
    def test_a_second_proof_covers_every_smaller_slope(self, t: float) -> None:
        claim = logistic_gradient_diameter(1.0, 2, t)
        assert gradients._no_wider_pair(t, claim)
        assert not gradients._no_wider_pair(t, claim * 0.999)

    def test_unproved_means_twice_the_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gradients, "_no_wider_pair", lambda t, claim: False)
        gradients._unit_logistic_diameter.cache_clear()
        try:
            assert logistic_gradient_diameter(1.0, 2, 1.0) == 2.0
        finally:
            gradients._unit_logistic_diameter.cache_clear()

    def test_gives_up_in_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With too few boxes to finish, a true claim is not believed either."""
        monkeypatch.setattr(gradients, "_MOST_BOXES", 20)
        assert not gradients._no_wider_pair(1.0, mirror(1.0) * (1 + 2.0**-12))


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "1", None, True])
def test_bad_numbers_are_named(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="row_norm"):
        ridge_gradient_diameter(wrong, 1, 1, 2)
    with pytest.raises(InvalidInput, match="row_norm"):
        ridge_gradient_bound(wrong, 1, 1)
    with pytest.raises(InvalidInput, match="row_norm"):
        logistic_gradient_diameter(wrong, 2, 1)
    with pytest.raises(InvalidInput, match="row_norm"):
        logistic_gradient_bound(wrong, 1)
    with pytest.raises(InvalidInput, match="dimension"):
        logistic_gradient_diameter(1, wrong, 1)
    with pytest.raises(InvalidInput, match="dimension"):
        ridge_gradient_diameter(1, 1, 1, wrong)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, "1", True])
def test_bad_bounds_are_named(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="radius"):
        ridge_gradient_diameter(1, 1, wrong, 2)
    with pytest.raises(InvalidInput, match="radius"):
        logistic_gradient_diameter(1, 2, wrong)
    with pytest.raises(InvalidInput, match="radius"):
        logistic_gradient_bound(1, wrong)
    with pytest.raises(InvalidInput, match="target_bound"):
        ridge_gradient_diameter(1, wrong, 1, 2)
    with pytest.raises(InvalidInput, match="target_bound"):
        ridge_gradient_bound(1, wrong, 1)


def test_numpy_numbers_lose_nothing() -> None:
    """Single precision in, double precision inside: nothing is rounded to 24 bits."""
    x: Any = np.float32(1.1)
    y: Any = np.float32(1.3)
    radius: Any = np.float32(0.7)
    wide = x.item(), y.item(), radius.item()
    assert ridge_gradient_bound(x, y, radius) == ridge_gradient_bound(*wide)
    for p in (1, 2):
        assert ridge_gradient_diameter(x, y, radius, p) == ridge_gradient_diameter(*wide, p)
        claimed = logistic_gradient_diameter(x.item(), p, radius.item())
        assert logistic_gradient_diameter(x, p, radius) == claimed
    assert logistic_gradient_bound(x, radius) == logistic_gradient_bound(x.item(), radius.item())
