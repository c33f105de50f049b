"""Sensitivities of sessions against explicit vectors, a second maximisation and 50 digits."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from sudare.calibration import (
    SESSION_WEIGHT,
    _sessions,
    logistic_gradient_diameter,
    poisson_session_sensitivity,
    session_sensitivity,
)
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded
from tests.support.strategies import spread

Array = NDArray[np.float64]

TIGHT = 2.0**-9
"""The certified value is at most a factor 1 + 2⁻¹⁰ above a pair; the rest is for the search."""
NORMS = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0]
KNOWN = {
    4.71: [1.39, 1.46, 1.50, 1.55, 1.66, 1.77, 1.89],
    2.0: [1.00, 1.16, 1.31, 1.44, 1.62, 1.77, 1.89],
}
"""Largest distances found by another search, to two digits, at `NORMS`."""
CASES = [(t, k) for k in (0.0, 2.0, SESSION_WEIGHT) for t in NORMS]
CASES += [(0.3, 3.0), (30.0, SESSION_WEIGHT), (2.0, 6.9), (15.0, 6.9), (40.0, 7.5), (3.0, 20.0)]


def session_vector(residual: Array, curvature: Array, rows: Array, weight: float) -> Array:
    """What a row adds to a session, coordinate by coordinate."""
    k, m = np.triu_indices(rows.shape[-1])
    halves = np.where(k == m, 1 / math.sqrt(2), 1.0)
    hessian = curvature[..., None] * rows[..., k] * rows[..., m] * halves
    return np.concatenate([residual[..., None] * rows, weight * hessian], axis=-1)


def logistic_vector(rows: Array, t: float, weight: float) -> Array:
    """θ₀ is as long as stated and points nowhere in particular."""
    theta = np.arange(1.0, rows.shape[-1] + 1)
    residual = expit(-rows @ (theta * (t / np.linalg.norm(theta))))
    return session_vector(residual, residual * (1 - residual), rows, weight)


def into_ball(points: Array) -> Array:
    return points / np.maximum(1.0, np.linalg.norm(points, axis=-1, keepdims=True))


def apart(pairs: Array, t: float, weight: float) -> Array:
    """Distances of pairs of rows, (…, 2, p), drawn into the unit ball."""
    first, second = np.moveaxis(logistic_vector(into_ball(pairs), t, weight), -2, 0)
    return np.asarray(np.linalg.norm(first - second, axis=-1))


def random_pairs(count: int, dimension: int, t: float, seed: int) -> Array:
    """Rows of every length and direction; half of them with slopes of a few units at most."""
    rng = seeded(seed)
    pairs = rng.normal(size=(count, 2, dimension)) * np.exp(rng.uniform(-1, 3, (count, 2, 1)))
    theta = np.arange(1.0, dimension + 1)
    theta /= np.linalg.norm(theta)
    across = into_ball(pairs) - (into_ball(pairs) @ theta)[..., None] * theta
    slope = rng.uniform(-10, 10, (count, 2, 1)) / max(t, 10.0)
    return np.where(rng.random((count, 1, 1)) < 0.5, pairs, 3 * across + slope * theta)


def attained(t: float, weight: float, dimension: int) -> float:
    """The widest pair that a search finds: many random pairs, the best of them improved."""
    pairs = random_pairs(20_000, dimension, t, seed=7)
    best = pairs[np.argsort(apart(pairs, t, weight))[-200::25]]

    def objective(flat: Array) -> float:
        return -float(apart(flat.reshape(2, dimension), t, weight))

    return max(-float(minimize(objective, start.ravel()).fun) for start in best)


class TestLogistic:
    @pytest.mark.parametrize(("t", "weight"), CASES)
    def test_is_what_a_search_attains(self, t: float, weight: float) -> None:
        certified = session_sensitivity(t, weight)
        found = attained(t, weight, dimension=3)
        assert found <= certified
        assert found >= certified * (1 - TIGHT)
        assert found > 0.97 * certified  # so that a claim 3 % lower is refuted

    @pytest.mark.parametrize(("t", "weight"), [(1.0, SESSION_WEIGHT), (5.0, 2.0)])
    def test_more_features_reach_no_farther(self, t: float, weight: float) -> None:
        certified = session_sensitivity(t, weight)
        assert certified * (1 - TIGHT) <= attained(t, weight, dimension=4) <= certified
        assert attained(t, weight, dimension=2) <= certified

    @pytest.mark.parametrize("weight", KNOWN)
    def test_known_values(self, weight: float) -> None:
        for t, known in zip(NORMS, KNOWN[weight], strict=True):
            assert known - 0.005 <= session_sensitivity(t, weight) <= (known + 0.005) * (1 + TIGHT)

    @settings(max_examples=60)
    @given(
        t=st.one_of(st.just(0.0), spread(1e-3, 1e5)),
        weight=st.one_of(st.just(0.0), spread(1e-2, 100)),
        dimension=st.integers(1, 6),
        seed=st.integers(0, 2**32),
    )
    def test_no_pair_is_farther_apart(
        self, t: float, weight: float, dimension: int, seed: int
    ) -> None:
        pairs = random_pairs(2_000, dimension, t, seed)
        assert apart(pairs, t, weight).max() <= session_sensitivity(t, weight)

    @given(weight=spread(1e-3, 1e6))
    def test_without_coefficients(self, weight: float) -> None:
        """Every residual is one half, and only the angle between the rows is left."""
        with mp.workdps(50):
            k = mpf(weight)
            exact = mp.sqrt(mpf(1) / 2 + k * k / 16 + 1 / (k * k)) if k > 2 else mpf(1)
        assert exact <= mpf(session_sensitivity(0.0, weight)) <= exact * (1 + TIGHT)

    @given(t=spread(1e-9, 1e9))
    def test_without_a_hessian_it_is_the_gradients_diameter(self, t: float) -> None:
        """Two proofs by different boxes; each is within a factor 1 + 2⁻¹⁰ of the truth."""
        ratio = session_sensitivity(t, 0.0) / logistic_gradient_diameter(1.0, 3, t)
        assert 1 - TIGHT <= ratio <= 1 + TIGHT

    @given(
        t=spread(1e-3, 1e4),
        weight=spread(1e-2, 100),
        longer=st.floats(1, 10),
        heavier=st.floats(1, 3),
    )
    @settings(max_examples=40)
    def test_grows_with_both(self, t: float, weight: float, longer: float, heavier: float) -> None:
        least = session_sensitivity(t, weight) / (1 + 2.0**-10)
        assert session_sensitivity(t * longer, weight) >= least * (1 - 1e-12)
        assert session_sensitivity(t, weight * heavier) >= least * (1 - 1e-12)

    @given(t=spread(1e-3, 1e300), share=st.floats(0, 1))
    @settings(max_examples=40)
    def test_is_never_above_two_up_to_the_weight(self, t: float, share: float) -> None:
        assert session_sensitivity(t, share * SESSION_WEIGHT) <= 2.0

    def test_limits(self) -> None:
        assert session_sensitivity(1e6, SESSION_WEIGHT) == 2.0
        assert session_sensitivity(5e-324, 0.0) == pytest.approx(1.0, rel=1e-12)
        longest = session_sensitivity(1.7976931348623157e308, 6.9)
        assert longest == pytest.approx(2.0, rel=TIGHT)
        assert longest == pytest.approx(session_sensitivity(1e9, 6.9), rel=TIGHT)


class TestWeight:
    def test_to_fifty_digits(self) -> None:
        """k² = 2φ⁵ is the least 2(1+r)/(r²(1−r)), so ‖v‖ ≤ 1; and no more than that is claimed."""
        with mp.workdps(50):
            golden = (1 + mp.sqrt(5)) / 2
            exact = mp.sqrt(2 * golden**5)
            assert exact * (1 - mpf(10) ** -12) <= mpf(SESSION_WEIGHT) < exact

            def room(r: Any) -> Any:
                return 2 * (1 + r) / (r * r * (1 - r))

            assert abs(room(1 / golden) - 2 * golden**5) < mpf(10) ** -47
            assert abs(mp.diff(room, 1 / golden)) < mpf(10) ** -20
            for i in range(1, 1000):
                assert room(mpf(i) / 1000) >= 2 * golden**5

    def test_is_the_largest_that_keeps_every_vector_short(self) -> None:
        r = np.append(np.linspace(0.0, 1.0, 100_001), (math.sqrt(5) - 1) / 2)
        rows = np.eye(3)[np.zeros(len(r), dtype=int)]
        for weight, short in [(SESSION_WEIGHT, True), (1.0001 * SESSION_WEIGHT, False)]:
            longest = np.linalg.norm(session_vector(r, r * (1 - r), rows, weight), axis=1).max()
            assert (longest <= 1 + 1e-12) == short


class TestSubdivision:
    @pytest.mark.parametrize("side", [0.5, 0.05, 0.002])
    @pytest.mark.parametrize(("t", "weight"), [(0.7, 2.0), (3.0, SESSION_WEIGHT), (20.0, 9.0)])
    def test_a_box_bounds_every_pair_in_it(self, t: float, weight: float, side: float) -> None:
        """With explicit vectors, of lengths and angles of their own; small boxes are tight."""
        rng = seeded(5)
        low = rng.uniform(-1, 1 - side, (200, 2))
        bound = _sessions._box_bound(t, weight, low, low + side)
        cosine = low[:, None] + side * np.round(rng.uniform(-0.2, 1.2, (200, 2_000, 2)), 1).clip(
            0, 1
        )
        around = np.where(
            rng.random((200, 2_000)) < 0.3, np.pi, rng.uniform(0, np.pi, (200, 2_000))
        )
        sine = np.sqrt((1 - cosine) * (1 + cosine))
        first = np.stack([cosine[..., 0], sine[..., 0], 0 * around], axis=-1)
        second = [cosine[..., 1], sine[..., 1] * np.cos(around), sine[..., 1] * np.sin(around)]
        ends = []
        for rows in (first, np.stack(second, axis=-1)):
            residual = expit(t * rows[..., 0])
            ends.append(session_vector(residual, residual * (1 - residual), rows, weight))
        squares = np.sum((ends[0] - ends[1]) ** 2, axis=-1).max(axis=1)
        assert np.all(squares <= bound * (1 + 1e-12))
        if side < 0.01:
            assert np.max(squares / bound) > 0.97

    def test_stopped_early_it_is_looser_and_holds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        full = _sessions._widest_pair(5.0, 5.0)
        monkeypatch.setattr(_sessions, "_MOST_BOXES", 100)
        stopped = _sessions._widest_pair.__wrapped__(5.0, 5.0)
        assert full < stopped < 2 * full


class TestPoisson:
    @settings(max_examples=60)
    @given(
        largest=spread(0.5, 100),
        t=st.one_of(st.just(0.0), spread(1e-2, 5)),
        cut=spread(0.1, 1000),
        weight=st.one_of(st.just(0.0), spread(1e-2, 100)),
        dimension=st.integers(1, 4),
    )
    def test_no_pair_is_farther_apart(
        self, largest: float, t: float, cut: float, weight: float, dimension: int
    ) -> None:
        rng = seeded(3)
        rows = into_ball(random_pairs(2_000, dimension, t, seed=4))
        theta = np.arange(1.0, dimension + 1)
        mean = np.minimum(np.exp(rows @ (theta * (t / np.linalg.norm(theta)))), cut)
        counts = largest * rng.uniform(-0.5, 1.5, mean.shape).clip(0, 1)
        vectors = session_vector(counts - mean, mean, rows, weight)
        found = np.linalg.norm(vectors[:, 0] - vectors[:, 1], axis=1).max()
        certified = poisson_session_sensitivity(largest, cut, weight)
        assert found <= certified
        residual, curvature = max(largest, cut), cut
        simple = 2 * math.sqrt(residual**2 + weight**2 * curvature**2 / 2)
        assert certified <= simple * (1 + 1e-12)

    @pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 1.5, 3.0, 30.0])
    def test_residual_and_curvature_alone_allow_no_less(self, weight: float) -> None:
        """Pairs within R and W that are as far apart, to a thousandth."""
        residual, curvature = 1.3, 0.9
        angle = np.linspace(0, np.pi, 2_001)
        rows = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        full = np.full(len(angle), 1.0)
        first = session_vector(residual * full, curvature * full, rows[:1], weight)
        found = 0.0
        for share in (0.0, 0.5, 1.0):
            second = session_vector(residual * full, share * curvature * full, rows, weight)
            found = max(found, float(np.linalg.norm(first - second, axis=1).max()))
        certified = _sessions._glm_sensitivity(residual, curvature, weight)
        assert certified * (1 - 1e-3) <= found <= certified

    @given(largest=spread(1e-3, 1e6), mean=spread(1e-6, 1e9), weight=spread(1e-6, 1e6))
    def test_is_rounded_up_and_hardly(self, largest: float, mean: float, weight: float) -> None:
        with mp.workdps(80):
            curvature = mpf(mean)
            residual = max(mpf(largest), curvature)
            b = mpf(weight) * curvature / mp.sqrt(2)
            exact = 4 * residual**2 + b**2
            if residual**2 < 2 * b**2:
                exact = max(exact, 2 * residual**2 + 2 * b**2 + residual**4 / (2 * b**2))
            exact = mp.sqrt(exact)
            claimed = mpf(poisson_session_sensitivity(largest, mean, weight))
            assert exact <= claimed <= exact * (1 + mpf(10) ** -9)

    def test_without_a_hessian_it_is_twice_the_residual(self) -> None:
        assert poisson_session_sensitivity(7, 1.0, 0) == pytest.approx(14.0, rel=1e-12)
        assert poisson_session_sensitivity(2, 30.0, 0) == pytest.approx(60.0, rel=1e-12)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, "1", None, True])
def test_bad_numbers_are_named(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="theta_norm"):
        session_sensitivity(wrong, 1.0)
    with pytest.raises(InvalidInput, match="weight"):
        session_sensitivity(1.0, wrong)
    with pytest.raises(InvalidInput, match="largest_count"):
        poisson_session_sensitivity(wrong, 1.0, 1.0)
    with pytest.raises(InvalidInput, match="largest_mean"):
        poisson_session_sensitivity(1.0, wrong, 1.0)
    with pytest.raises(InvalidInput, match="weight"):
        poisson_session_sensitivity(1.0, 1.0, wrong)
