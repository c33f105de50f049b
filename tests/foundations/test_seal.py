"""The seal: exact privacy of what it releases, by enumeration, and what it does to numbers.

Enumeration: the ideal output stands anywhere on the grid's cell, two runs compute floats that are
displaced by up to r each, and both are rounded by the seal itself. What leaves is then one of two
discrete laws that differ by a whole number of steps, compared exactly.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from sudare.foundations import exact
from sudare.foundations.checks import InvalidInput
from sudare.foundations.gaussian import concentrated_rho, gaussian_mu, lattice_log_ratio
from sudare.foundations.privacy import (
    ConcentratedEvent,
    NearGaussianEvent,
    Neighbours,
    PureEvent,
    account,
)
from sudare.foundations.randomness import Generator, secure, seeded
from sudare.foundations.seal import Seal, Sealed, lattice_event, lattice_steps, plan_seal
from tests.statistical import fits, only_fits

Floats = NDArray[np.float64]
Steps = set[tuple[int, ...]]


class Silent:
    """A sampler that adds nothing: it shows the whole numbers that noise would be added to."""

    def __init__(self, scale: float) -> None:
        pass

    def add_noise(self, steps: list[int]) -> list[int]:
        return steps


@pytest.fixture
def rounded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seal, Floats], tuple[int, ...]]:
    """The seal's own rounding, without its noise."""
    rng = secure()

    def steps(seal: Seal, values: Floats) -> tuple[int, ...]:
        with monkeypatch.context() as patch:
            patch.setattr(exact, "laplace", Silent)
            patch.setattr(exact, "gaussian", Silent)
            return seal.apply(values, rng).steps

    return steps


def differences(
    seal: Seal, rounded: Callable[[Seal, Floats], tuple[int, ...]], directions: Floats
) -> Steps:
    """All differences, in steps, between two admissible displaced outputs of one ideal output.

    Ideal outputs stand all over a cell and right beside its edges; displacements have the full
    length r, or a part of it, or none. With a sensitivity, the second run's ideal output is that
    much farther along.
    """
    grid = math.ldexp(1.0, seal.grid_exponent)
    places = np.concatenate([np.linspace(0, 1, 9)[:-1], [0.5 - 1e-9, 0.5 + 1e-9, 0.01, 0.51, 0.49]])
    d = seal.dimension
    moves = np.concatenate([np.zeros((1, d)), seal.displacement * directions])
    found: Steps = set()
    for place in itertools.product(places, repeat=d):
        ideal = grid * np.array(place)
        first = {rounded(seal, ideal + move) for move in moves}
        second = first
        if seal.sensitivity > 0:
            second = {
                rounded(seal, ideal + seal.sensitivity * far + move)
                for far in directions
                for move in moves
            }
        found |= {
            tuple(b - a for a, b in zip(one, other, strict=True))
            for one in first
            for other in second
        }
    return found


LINE = np.array([[1.0], [-1.0], [0.6], [-0.3]])
TURN = 2 * np.pi * np.arange(16) / 16
PLANE = np.stack([np.cos(TURN), np.sin(TURN)], axis=1)
DIRECTIONS = {1: LINE, 2: PLANE}

TIGHT = {1: 1.51, 2: 1.01 * math.sqrt(2)}
"""Displacements, in steps, at which rounding makes the most of them."""


def worst_loss(steps: Steps, scale: float) -> float:
    """The largest log-ratio of discrete Laplace laws moved by these steps: |k|₁/scale, exactly."""
    return max(sum(map(abs, step)) for step in steps) / scale


def worst_delta(steps: Steps, scale: float, epsilon: float) -> float:
    """The largest hockey-stick divergence of discrete Gaussian laws moved by these steps.

    Summed over a box outside of which there is less than 1e-30 of either law.
    """
    reach = math.ceil(12 * scale) + max(abs(k) for step in steps for k in step)
    k = np.arange(-reach, reach + 1)
    whole = np.exp(-(k**2) / (2 * scale**2)).sum()
    worst = 0.0
    for step in {tuple(sorted(map(abs, step))) for step in steps}:
        mine = theirs = np.ones(())
        for moved in step:
            mine = np.multiply.outer(mine, np.exp(-(k**2) / (2 * scale**2)) / whole)
            theirs = np.multiply.outer(theirs, np.exp(-((k - moved) ** 2) / (2 * scale**2)) / whole)
        worst = max(worst, float(np.maximum(mine - math.exp(epsilon) * theirs, 0).sum()))
    return worst


class TestExactPrivacy:
    @pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
    @pytest.mark.parametrize("steps", [1.0, 1.3, None, 1.99])
    @pytest.mark.parametrize("d", [1, 2])
    def test_pure(self, d: int, steps: float | None, epsilon: float, rounded: Any) -> None:
        displacement = 0.25 * (TIGHT[d] if steps is None else steps * math.sqrt(d))
        seal = plan_seal(dimension=d, epsilon=epsilon, displacement=displacement)
        assert seal.grid_exponent == -2
        assert isinstance(seal.event, PureEvent)
        found = differences(seal, rounded, DIRECTIONS[d])
        assert worst_loss(found, seal.noise_scale) <= seal.event.epsilon <= epsilon

    @pytest.mark.parametrize("d", [1, 2])
    def test_pure_with_less_noise_is_refused(self, d: int, rounded: Any) -> None:
        seal = plan_seal(dimension=d, epsilon=1.0, displacement=0.25 * TIGHT[d])
        found = differences(seal, rounded, DIRECTIONS[d])
        assert worst_loss(found, seal.noise_scale) > 0.98
        assert worst_loss(found, 0.8 * seal.noise_scale) > 1.2

    def test_a_distance_in_the_plane_is_longer_step_by_step(self, rounded: Any) -> None:
        """Noise for 2R in each coordinate, as if L2 were L1, would not be enough."""
        seal = plan_seal(dimension=2, epsilon=1.0, displacement=0.25 * TIGHT[2])
        found = differences(seal, rounded, PLANE)
        hidden = 2 * (TIGHT[2] + math.sqrt(2) / 2)
        assert max(math.hypot(*step) for step in found) <= hidden
        assert worst_loss(found, hidden / 1.0) > 1.3
        assert seal.noise_scale == pytest.approx(math.sqrt(2) * hidden)

    @pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-3), (3.0, 1e-9)])
    @pytest.mark.parametrize("steps", [1.0, None, 1.99])
    @pytest.mark.parametrize("d", [1, 2])
    def test_approximate(
        self, d: int, steps: float | None, epsilon: float, delta: float, rounded: Any
    ) -> None:
        displacement = 0.25 * (TIGHT[d] if steps is None else steps * math.sqrt(d))
        seal = plan_seal(dimension=d, epsilon=epsilon, delta=delta, displacement=displacement)
        found = differences(seal, rounded, DIRECTIONS[d])
        assert worst_delta(found, seal.noise_scale, epsilon) <= delta

    @pytest.mark.parametrize("d", [1, 2])
    def test_approximate_with_less_noise_is_refused(self, d: int, rounded: Any) -> None:
        seal = plan_seal(dimension=d, epsilon=1.0, delta=1e-6, displacement=0.25 * TIGHT[d])
        found = differences(seal, rounded, DIRECTIONS[d])
        assert worst_delta(found, 0.8 * seal.noise_scale, 1.0) > 1e-6

    @pytest.mark.parametrize("delta", [0.0, 1e-4])
    @pytest.mark.parametrize(("displacement", "sensitivity"), [(0.3, 0.8), (0.0, 3.0)])
    def test_output_perturbation(
        self, displacement: float, sensitivity: float, delta: float, rounded: Any
    ) -> None:
        seal = plan_seal(
            dimension=1,
            epsilon=1.0,
            delta=delta,
            displacement=displacement,
            sensitivity=sensitivity,
        )
        found = differences(seal, rounded, LINE)
        if delta == 0:
            assert 0.9 < worst_loss(found, seal.noise_scale) <= 1.0
            assert worst_loss(found, 0.8 * seal.noise_scale) > 1.0
        else:
            assert worst_delta(found, seal.noise_scale, 1.0) <= delta
            assert worst_delta(found, 0.8 * seal.noise_scale, 1.0) > delta

    @settings(max_examples=60)
    @given(
        seed=st.integers(0, 10**6),
        d=st.sampled_from([1, 2, 3, 17]),
        displacement=st.floats(-30, 30).map(math.exp),
        sensitivity=st.one_of(st.just(0.0), st.floats(-30, 30).map(math.exp)),
    )
    def test_no_two_runs_are_farther_apart_than_what_is_hidden(
        self, seed: int, d: int, displacement: float, sensitivity: float
    ) -> None:
        """Random ideal outputs and displacements, in any number of dimensions."""
        seal = plan_seal(
            dimension=d, epsilon=1.0, displacement=displacement, sensitivity=sensitivity
        )
        rng = seeded(seed)
        grid = math.ldexp(1.0, seal.grid_exponent)
        hidden = seal.noise_scale / math.sqrt(d)

        def ball(radius: float) -> Floats:
            vector = rng.normal(size=d)
            return np.asarray(radius * vector / np.linalg.norm(vector))

        for _ in range(20):
            ideal = rng.uniform(-1e3, 1e3, d) * grid
            one = np.rint((ideal + ball(displacement)) / grid)
            other = np.rint((ideal + ball(sensitivity) + ball(displacement)) / grid)
            assert np.linalg.norm(one - other) <= hidden


class TestAccount:
    @settings(max_examples=60)
    @given(
        d=st.sampled_from([1, 2, 100, 10_000]),
        epsilon=st.floats(math.log(1e-4), math.log(50)).map(math.exp),
        delta=st.one_of(st.just(0.0), st.floats(math.log(1e-60), math.log(0.3)).map(math.exp)),
        displacement=st.floats(-40, 40).map(math.exp),
        sensitivity=st.one_of(st.just(0.0), st.floats(-40, 40).map(math.exp)),
    )
    def test_costs_no_more_than_asked(
        self, d: int, epsilon: float, delta: float, displacement: float, sensitivity: float
    ) -> None:
        seal = plan_seal(
            dimension=d,
            epsilon=epsilon,
            delta=delta,
            displacement=displacement,
            sensitivity=sensitivity,
        )
        spent = account([seal.event], delta).epsilon()
        assert epsilon * (1 - 1e-6) <= spent <= epsilon
        # And what the event says is what the noise gives, for everything that is hidden.
        grid = math.ldexp(1.0, seal.grid_exponent)
        hidden = (sensitivity + 2 * displacement) / grid + math.sqrt(d)
        if isinstance(seal.event, PureEvent):
            assert math.sqrt(d) * hidden / seal.noise_scale <= seal.event.epsilon
        elif isinstance(seal.event, NearGaussianEvent):
            near = seal.event
            assert hidden / seal.noise_scale <= near.mu
            surprise = -math.log(near.failure)
            assert lattice_log_ratio(d, seal.noise_scale, surprise) <= near.log_ratio
        else:
            assert isinstance(seal.event, ConcentratedEvent)
            assert (hidden / seal.noise_scale) ** 2 / 2 <= seal.event.rho

    def test_takes_the_circumstances_of_what_it_seals(self) -> None:
        sealed = PureEvent(epsilon=1.0, neighbours=Neighbours.ADD_REMOVE, unit="patient")
        for delta in (0.0, 1e-6):
            seal = plan_seal(
                dimension=2, epsilon=0.1, delta=delta, displacement=1e-6, sealing=sealed
            )
            assert (seal.event.neighbours, seal.event.unit) == (sealed.neighbours, "patient")
            together = account([sealed, seal.event], delta)
            assert together.unit == "patient"
            assert together.epsilon() <= 1.1 * (1 + 1e-6)

    @pytest.mark.parametrize("d", [1, 5, 100])
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.01, 1e-12)])
    def test_output_perturbation_is_nearly_ideal(
        self, d: int, epsilon: float, delta: float
    ) -> None:
        seal = plan_seal(dimension=d, epsilon=epsilon, delta=delta, sensitivity=0.3)
        ideal = 0.3 / gaussian_mu(epsilon, delta)
        assert ideal <= seal.noise_std <= 1.002 * ideal
        # What zCDP alone would ask for, and OpenDP states, is 4 to 10 % more.
        assert seal.noise_std < 0.97 * 0.3 / math.sqrt(2 * concentrated_rho(epsilon, delta))

    @pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-300), (300.0, 1e-6)])
    def test_where_the_lattice_is_too_coarse_zcdp_speaks(
        self, epsilon: float, delta: float
    ) -> None:
        seal = plan_seal(dimension=2, epsilon=epsilon, delta=delta, sensitivity=0.3)
        assert isinstance(seal.event, ConcentratedEvent)
        assert account([seal.event], delta).epsilon() <= epsilon * (1 + 1e-9)
        least = seal.sensitivity / math.sqrt(2 * concentrated_rho(epsilon, delta))
        assert (
            least <= seal.noise_std <= 1.002 * least
        )  # ρ is above ½ in one case, below in the other

    def test_what_can_be_hidden_has_limits(self) -> None:
        for exponent in (900, -1000):
            assert lattice_steps(1, 0.0, 2.0**exponent)[0] == exponent
        for exponent in (901, -1001):
            with pytest.raises(InvalidInput, match="within 1e±270"):
                lattice_steps(1, 0.0, 2.0**exponent)

    def test_the_price_is_known_before_the_size(self) -> None:
        events = {
            plan_seal(dimension=d, epsilon=1.0, delta=1e-6, sensitivity=s, displacement=r).event
            for d, s, r in [(1, 3.0, 0.0), (40, 0.1, 1e-9), (7, 2.0, 50.0)]
        }
        assert events == {lattice_event(1.0, 1e-6)}

    def test_noise_is_proportional_to_what_is_hidden(self) -> None:
        for delta in (0.0, 1e-6):
            small, large = (
                plan_seal(dimension=3, epsilon=1.0, delta=delta, displacement=r)
                for r in (1e-9, 2.0**30 * 1e-9)
            )
            assert large.noise_std == pytest.approx(2.0**30 * small.noise_std, rel=1e-12)
            assert large.noise_scale == small.noise_scale
            assert large.grid_exponent == small.grid_exponent + 30


SOURCES = pytest.mark.parametrize("source", [lambda: seeded(1), secure], ids=["seeded", "secure"])


class TestApply:
    @SOURCES
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_law(self, source: Callable[[], Generator], delta: float) -> None:
        """Many coordinates at once: noise of the scale that the seal states, in steps."""
        seal = plan_seal(dimension=20_000, epsilon=1.0, delta=delta, displacement=1.0)
        sealed = seal.apply(np.zeros(20_000), source())
        law = (stats.laplace if delta == 0 else stats.norm)(scale=seal.noise_scale)
        assert only_fits(np.array(sealed.steps) + 0.5, law.cdf, off=0.4)
        assert not fits(np.array(sealed.steps), stats.cauchy(scale=seal.noise_scale).cdf)
        spread = np.std(sealed.values)
        assert seal.noise_std == pytest.approx(spread, rel=0.2)

    @SOURCES
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_values_are_on_the_grid(self, source: Callable[[], Generator], delta: float) -> None:
        seal = plan_seal(dimension=4, epsilon=1.0, delta=delta, displacement=3e-7)
        values = np.array([1.0, -2.5, 1e-9, 123.456])
        sealed = seal.apply(values, source())
        grid = math.ldexp(1.0, seal.grid_exponent)
        assert sealed.values.tolist() == [step * grid for step in sealed.steps]
        assert (sealed.values / grid).tolist() == [float(step) for step in sealed.steps]
        assert all(type(step) is int for step in sealed.steps)
        assert np.abs(sealed.values - values).max() < 60 * seal.noise_std

    @pytest.mark.parametrize("exponent", [-1000, -20, 0, 900])
    def test_values_are_exact(self, exponent: int) -> None:
        steps = (2**52 + 1, -(2**53) + 1, 0, 7)
        values = Sealed(steps, exponent, simulated=False).values
        assert [math.ldexp(v, -exponent) for v in values] == list(steps)
        assert [float(v).as_integer_ratio() for v in values] == [
            math.ldexp(step, exponent).as_integer_ratio() for step in steps
        ]

    def test_rounds_to_the_nearest_step(self, rounded: Any) -> None:
        seal = plan_seal(dimension=3, epsilon=1.0, displacement=2.0**0.5 * 3**0.5)
        assert seal.grid_exponent == 0
        assert rounded(seal, np.array([0.51, -3.51, -0.49])) == (1, -4, 0)

    def test_far_values_are_clipped(self, rounded: Any) -> None:
        """Whatever comes in, something of the same kind goes out, and no warning tells of it."""
        for displacement in (1e-200, 1.0, 1e200):
            seal = plan_seal(dimension=4, epsilon=1.0, displacement=displacement)
            far = np.array([1.7e308, -1.7e308, 5e-324, 0.0])
            steps = rounded(seal, far)
            assert all(abs(step) <= 2**52 for step in steps)
            assert steps[2:] == (0, 0)
            if displacement < 1e200:
                assert steps[:2] == (2**52, -(2**52))
            for rng in (seeded(0), secure()):
                noisy = seal.apply(far, rng).steps
                moved = np.subtract(noisy, steps)
                assert np.abs(moved).max() < 100 * seal.noise_scale

    def test_seeded_is_marked_and_repeatable(self) -> None:
        for delta in (0.0, 1e-6):
            seal = plan_seal(dimension=5, epsilon=0.1, delta=delta, displacement=1.0)
            first = seal.apply(np.zeros(5), seeded(3))
            assert first.simulated
            assert first == seal.apply(np.zeros(5), seeded(3))
            real = seal.apply(np.zeros(5), secure())
            assert not real.simulated
            assert real.steps != seal.apply(np.zeros(5), secure()).steps

    def test_many_dimensions(self) -> None:
        for delta in (0.0, 1e-60):
            seal = plan_seal(dimension=10_000, epsilon=1e-4, delta=delta, displacement=1e-9)
            sealed = seal.apply(np.ones(10_000), secure())
            assert sealed.values.shape == (10_000,)
            assert 0.9 < np.std(sealed.values) / seal.noise_std < 1.1

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([1.0], "2 values"),
            ([1.0, 2.0, 3.0], "2 values"),
            ([1.0, math.nan], "values"),
            ([1.0, -math.inf], "values"),
            ([[1.0, 2.0]], "values"),
            (1.0, "values"),
            ([], "values"),
            (["a", "b"], "values"),
        ],
        ids=str,
    )
    def test_bad_values(self, values: Any, message: str) -> None:
        seal = plan_seal(dimension=2, epsilon=1.0, displacement=1.0)
        for rng in (seeded(0), secure()):
            with pytest.raises(InvalidInput, match=message):
                seal.apply(values, rng)

    def test_kinds_of_numbers(self) -> None:
        seal = plan_seal(dimension=2, epsilon=1.0, displacement=1.0)
        expected = seal.apply(np.array([3.0, 1.0]), seeded(0))
        for values in ([3, True], np.array([3, 1], dtype=np.float32), (3.0, 1)):
            assert seal.apply(values, seeded(0)) == expected


class TestPlan:
    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            ("dimension", 0),
            ("dimension", 1.5),
            ("epsilon", 0.0),
            ("epsilon", math.nan),
            ("delta", 1.0),
            ("delta", -0.1),
            ("displacement", -1.0),
            ("displacement", math.inf),
            ("sensitivity", -1.0),
            ("sensitivity", math.nan),
        ],
    )
    def test_bad_numbers_are_named(self, name: str, wrong: Any) -> None:
        good: dict[str, Any] = {"dimension": 2, "epsilon": 1.0, "displacement": 1.0}
        with pytest.raises(InvalidInput, match=name):
            plan_seal(**{**good, name: wrong})

    def test_nothing_to_hide(self) -> None:
        with pytest.raises(InvalidInput, match=r"displacement.*sensitivity"):
            plan_seal(dimension=2, epsilon=1.0)

    @pytest.mark.parametrize("displacement", [5e-324, 1e-305, 1e300])
    def test_out_of_range(self, displacement: float) -> None:
        with pytest.raises(InvalidInput, match="displacement"):
            plan_seal(dimension=2, epsilon=1.0, displacement=displacement)

    def test_numpy_numbers_lose_nothing(self) -> None:
        single = np.float32(0.1)
        narrow = plan_seal(
            dimension=np.int8(100),  # type: ignore[arg-type]
            epsilon=single,  # type: ignore[arg-type]
            delta=single,  # type: ignore[arg-type]
            displacement=single,  # type: ignore[arg-type]
            sensitivity=single,  # type: ignore[arg-type]
        )
        wide = float(single)
        assert narrow == plan_seal(
            dimension=100, epsilon=wide, delta=wide, displacement=wide, sensitivity=wide
        )

    def test_the_grid_is_public(self) -> None:
        """It follows from the plan alone, and a seal is a value."""
        one, two = (plan_seal(dimension=3, epsilon=1.0, displacement=1e-3) for _ in range(2))
        assert one == two
        assert hash(one) == hash(two)
        grid = math.ldexp(1.0, one.grid_exponent)
        assert grid <= 1e-3 / math.sqrt(3) < 2 * grid


def test_a_seal_by_itself_counts_failures_at_its_own_epsilon() -> None:
    alone = lattice_event(0.5, 1e-6)
    assert alone == lattice_event(0.5, 1e-6, whole_epsilon=0.5)
    assert alone != lattice_event(0.5, 1e-6, whole_epsilon=1.0)
