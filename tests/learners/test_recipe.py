"""Recipes: what they promise adds up, in 60 digits, and no data is asked.

The formulas below are written down again from the theorems (objective perturbation: Chaudhuri,
Monteleoni and Sarwate 2011, Kifer, Smith and Thakurta 2012; concentrated privacy: Canonne, Kamath
and Steinke 2020) and share no code with the calibration.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma

from sudare.foundations.checks import InvalidInput
from sudare.foundations.mechanisms import draw_error
from sudare.foundations.privacy import (
    ApproximateEvent,
    ConcentratedEvent,
    NearGaussianEvent,
    PureEvent,
    account,
)
from sudare.foundations.seal import lattice_event
from sudare.learners import PrivateLogisticRegression, PrivateRidge
from sudare.learners import _recipe as recipe
from sudare.learners._recipe import NoiseTarget, Recipe, event_of, logistic_recipe, ridge_recipe
from tests.calibration.oracles import (
    exact_curve,
    worst_logistic_delta,
    worst_logistic_loss,
    worst_ridge_delta,
)

mp = mpmath.mp.clone()
mp.dps = 60


def ridge_diameter(x: Any, y: Any, radius: Any, p: int) -> Any:
    """Widest gap between two records' gradients of the squared loss."""
    a, b = 2 * mp.mpf(x) * mp.mpf(y), 2 * mp.mpf(x) ** 2 * mp.mpf(radius)
    if p == 1:
        return 2 * a if b <= a / 2 else a + b + a * a / (4 * b)
    q = 2 * b / (a + mp.sqrt(a * a + 8 * b * b))
    return 2 * mp.sqrt(1 - q * q) * (a + b * q)


def sigmoid(t: Any) -> Any:
    return 1 / (1 + mp.exp(-t))


def logistic_diameter(x: Any, radius: Any, p: int) -> Any:
    """Widest gap between two records' gradients of the logistic loss."""
    x = mp.mpf(x)
    if radius is None and p > 1:
        return 2 * x
    t = mp.inf if radius is None else x * mp.mpf(radius)
    if p == 1:
        # A full row against a shortened one of the other sign, or of the other label.
        w = mp.lambertw(mp.exp(-1)).real
        best = mp.mpf(1)
        for u in (min(t, 9), mp.mpf("4.0316225881255853")):
            if 1 + w < u <= t:
                best = max(best, sigmoid(u) + w / u)
        return x * best
    low, high = mp.mpf(0), mp.pi / 2
    for _ in range(80):  # golden section: any angle gives a lower bound of the maximum
        one, two = high - (high - low) * mp.mpf("0.618"), low + (high - low) * mp.mpf("0.618")
        if mp.sin(one) * sigmoid(t * mp.cos(one)) < mp.sin(two) * sigmoid(t * mp.cos(two)):
            low = one
        else:
            high = two
    return 2 * x * mp.sin(low) * sigmoid(t * mp.cos(low))


def concentrated_delta(rho: Any, epsilon: Any) -> Any:
    """Any order gives a valid bound; the orders tried are spread around a good one."""

    def bound(excess: Any) -> Any:
        order = 1 + excess
        return mp.exp(excess * (order * rho - epsilon)) / excess * (1 - 1 / order) ** order

    middle = mp.log(max(epsilon / (2 * rho), mp.mpf("1e-3")))
    low, high = middle - 8, middle + 8
    for _ in range(45):
        one, two = high - (high - low) * mp.mpf("0.618"), low + (high - low) * mp.mpf("0.618")
        if mp.log(bound(mp.exp(one))) < mp.log(bound(mp.exp(two))):
            high = two
        else:
            low = one
    return bound(mp.exp((low + high) / 2))


def hidden_steps(made: Recipe) -> Any:
    """L2 distance of what two runs seal, in steps of the grid."""
    grid = mp.mpf(2) ** made.seal.grid_exponent
    half = mp.mpf(made.seal.displacement) / grid + mp.sqrt(made.target.dimension) / 2
    return mp.mpf(made.seal.sensitivity) / grid + 2 * half


def lattice_delta(made: Recipe, epsilon: Any, delta: Any) -> Any:
    """δ of the seal's discrete Gaussian noise: as zCDP, or as rounded Gaussian noise nearby."""
    d, scale = made.target.dimension, mp.mpf(made.seal.noise_scale)
    mu = hidden_steps(made) / scale
    found = concentrated_delta(mu**2 / 2, epsilon)
    failure = delta * mp.mpf(2) ** -30 / (1 + mp.exp(epsilon))
    reach = mp.sqrt(d) + mp.sqrt(-2 * mp.log(failure)) + mp.sqrt(d) / (2 * scale)
    kappa = reach**2 / (24 * scale**2) + 3 * d * mp.exp(-2 * (mp.pi * scale) ** 2) + 2 * failure
    if epsilon > 2 * kappa:
        near = mp.exp(kappa) * exact_curve(epsilon - 2 * kappa, mu)
        found = min(found, near + (1 + mp.exp(epsilon)) * failure)
    return found


def displacement(made: Recipe) -> Any:
    """Solver, rounding and float draws, added up again."""
    t = made.tolerance
    n, p, u = t.n, t.dimension, mp.mpf(2) ** -53
    zeta, kappa, radius = mp.mpf(t.gradient_bound), mp.mpf(t.curvature), mp.mpf(t.radius)
    depth = min(n, 512) + mp.mpf(n) / 512 + p * (mp.sqrt(p) + mp.mpf(t.score_bound)) + 16
    relative = 4 * u * depth * n * zeta / (kappa * radius) + 4 * u * (p * mp.sqrt(p) + 16)
    moved = 2 * relative * radius + 2 * mp.mpf(draw_error(p)) * (n * zeta / kappa + radius)
    if made.target.mechanism == "output" and made.law == "gamma":
        moved += 4 * mp.mpf(draw_error(p)) * mp.mpf(made.reach)
    return moved


class Spent:
    """ε and δ of a recipe, from its numbers and the theorems."""

    def __init__(self, made: Recipe, loss: "Loss") -> None:
        self.made, self.loss = made, loss
        self.epsilon, self.delta = mp.mpf(made.target.epsilon), mp.mpf(made.target.delta)

    def within(self) -> bool:
        made = self.made
        assert displacement(made) <= made.seal.displacement
        if made.target.mechanism == "output":
            return self._output()
        return self._objective()

    def _seal(self) -> tuple[Any, Any]:
        """(ε, δ) of the seal: all of its δ share, or pure."""
        made = self.made
        steps, scale = hidden_steps(made), mp.mpf(made.seal.noise_scale)
        if isinstance(made.seal.event, PureEvent):
            return mp.sqrt(made.target.dimension) * steps / scale, mp.mpf(0)
        share = self.epsilon / 100
        return share, lattice_delta(made, share, self.delta / 100)

    def _objective(self) -> bool:
        made = self.made
        seal_epsilon, seal_delta = self._seal()
        bend = mp.log1p(self.loss.curvature / mp.mpf(made.curvature))
        left = self.epsilon - seal_epsilon - bend
        if made.law == "gamma":
            self.total = self.loss.pure(made.scale, made.curvature) + seal_epsilon
            return bool(self.total <= self.epsilon and seal_delta <= self.delta)
        noise_delta = self.loss.gaussian(left, mp.mpf(made.scale))
        self.total = noise_delta + seal_delta
        return bool(self.total <= self.delta)

    def _output(self) -> bool:
        made = self.made
        sensitivity = self.loss.output_sensitivity(mp.mpf(made.regularization))
        if made.law == "gamma":
            self.total = sensitivity / mp.mpf(made.scale) + self._seal()[0]
            return bool(self.total <= self.epsilon)
        assert made.seal.sensitivity >= sensitivity
        self.total = lattice_delta(made, self.epsilon, self.delta)
        return bool(self.total <= self.delta)


class Loss:
    """What the theorems need to know of a loss."""

    def __init__(self, target: NoiseTarget) -> None:
        self.n, self.p, self.x = target.n, target.dimension, mp.mpf(target.row_norm)

    curvature: Any

    def pure(self, scale: float, curvature: float) -> Any:
        """ε of noise and curvature together."""
        raise NotImplementedError

    def gaussian(self, epsilon: Any, scale: Any) -> Any:
        raise NotImplementedError

    def output_sensitivity(self, weight: Any) -> Any:
        raise NotImplementedError


class Squared(Loss):
    def __init__(self, target: NoiseTarget, y: float, radius: float) -> None:
        super().__init__(target)
        self.y, self.radius = mp.mpf(y), mp.mpf(radius)
        self.curvature = 2 * self.x**2

    def pure(self, scale: float, curvature: float) -> Any:
        diameter = ridge_diameter(self.x, self.y, self.radius, self.p)
        return diameter / mp.mpf(scale) + mp.log1p(self.curvature / mp.mpf(curvature))

    def gaussian(self, epsilon: Any, scale: Any) -> Any:
        """The shifts lie in a disc: the largest of their costs."""
        if epsilon <= 0:
            return mp.mpf(1)
        with mpmath.mp.workdps(20):
            return worst_ridge_delta(epsilon, scale, self.x, self.y, self.radius, self.p)

    def output_sensitivity(self, weight: Any) -> Any:
        reach = min(self.radius, self.y / mp.sqrt(weight))
        return ridge_diameter(self.x, self.y, reach, self.p) / (2 * self.n * weight)


class Logistic(Loss):
    def __init__(self, target: NoiseTarget, radius: float | None) -> None:
        super().__init__(target)
        self.radius = None if radius is None else mp.mpf(radius)
        self.curvature = self.x**2 / 4

    def pure(self, scale: float, curvature: float) -> Any:
        """Distance and curvature at the same θ; in one dimension the largest of each."""
        if self.p == 1:
            bend = mp.log1p(self.curvature / mp.mpf(curvature))
            return logistic_diameter(self.x, self.radius, 1) / mp.mpf(scale) + bend
        with mpmath.mp.workdps(30):
            return worst_logistic_loss(self.x, self.radius, scale, curvature)

    def gaussian(self, epsilon: Any, scale: Any) -> Any:
        """Gradients lie between 0 and a fixed vector: a rhombus, its far corner cut off."""
        if epsilon <= 0:
            return mp.mpf(1)
        most = self.x if self.radius is None else self.x * sigmoid(self.x * self.radius)
        diameter = logistic_diameter(self.x, self.radius, self.p)
        with mpmath.mp.workdps(20):
            return worst_logistic_delta(epsilon, scale, most, diameter, self.p)

    def output_sensitivity(self, weight: Any) -> Any:
        reach = min(self.x / weight, mp.sqrt(2 * mp.log(2) / weight))
        reach = reach if self.radius is None else min(reach, self.radius)
        return logistic_diameter(self.x, reach, self.p) / (self.n * weight)


def assert_penalty_was_too_small(reason: str, weight: float | None) -> None:
    """The one reason there is within these ranges, and none for a penalty that was chosen."""
    assert "larger regularization" in reason
    assert weight is not None
    assert weight < 1e-2


def power(low: float, high: float) -> Any:
    return st.floats(low, high).map(lambda x: 10.0**x)


@st.composite
def targets(draw: st.DrawFn) -> NoiseTarget:
    return NoiseTarget(
        epsilon=draw(power(-3, 3)),
        delta=draw(st.one_of(st.just(0.0), power(-12, -1))),
        mechanism=draw(st.sampled_from(["objective", "output"])),
        n=int(draw(power(0, 6))),
        dimension=int(draw(st.one_of(power(0, 1), power(0, 3)))),
        row_norm=draw(st.one_of(st.just(1.0), power(-3, 3))),
    )


weights = st.one_of(st.none(), power(-6, 2))


@settings(max_examples=120)
@given(targets(), power(-3, 3), power(-3, 3), weights)
def test_ridge_never_spends_more_than_its_target(
    target: NoiseTarget, y: float, radius: float, weight: float | None
) -> None:
    made = recipe_or_reason(lambda: ridge_recipe(target, y, radius, weight))
    if isinstance(made, str):
        assert_penalty_was_too_small(made, weight)
        return
    assert Spent(made, Squared(target, y, radius)).within()
    assert made.tolerance.gradient_bound >= 2 * target.row_norm * (y + radius * target.row_norm)
    assert (made.tolerance.n, made.tolerance.dimension) == (target.n, target.dimension)
    given_curvature = 2 * target.n * made.regularization
    assert made.curvature <= given_curvature + made.extra_regularization


@settings(max_examples=120)
@given(targets(), st.one_of(st.none(), st.just("auto"), power(-3, 3)), weights)
def test_logistic_regression_never_spends_more_than_its_target(
    target: NoiseTarget, radius: Any, weight: float | None
) -> None:
    made = recipe_or_reason(lambda: logistic_recipe(target, radius, weight))
    if isinstance(made, str):
        assert_penalty_was_too_small(made, weight)
        return
    ball = made.tolerance.radius
    assert Spent(made, Logistic(target, None if radius is None else ball)).within()
    assert made.tolerance.gradient_bound >= target.row_norm * float(sigmoid(ball * target.row_norm))
    assert made.tolerance.score_bound >= ball * target.row_norm * (1 - 1e-12)
    assert made.curvature <= target.n * made.regularization + made.extra_regularization


EXAMPLE = NoiseTarget(1.0, 0.0, "objective", 1000, 6, 1.0)


def example(mechanism: Any, delta: float, dimension: int, **changes: Any) -> tuple[Recipe, Loss]:
    target = replace(EXAMPLE, mechanism=mechanism, delta=delta, dimension=dimension, **changes)
    return ridge_recipe(target, 1.0, 1.0, 0.01), Squared(target, 1.0, 1.0)


@pytest.mark.parametrize(
    ("mechanism", "delta", "dimension", "law"),
    [
        ("objective", 0.0, 6, "gamma"),
        ("objective", 1e-5, 2, "gamma"),
        ("objective", 1e-5, 60, "gaussian"),
        ("output", 0.0, 6, "gamma"),
    ],
)
def test_less_noise_or_curvature_would_exceed_the_target(
    mechanism: str, delta: float, dimension: int, law: str
) -> None:
    """The other arm: the sums above refuse a recipe that is a little too generous."""
    made, loss = example(mechanism, delta, dimension)
    assert made.law == law
    assert Spent(made, loss).within()
    assert not Spent(replace(made, scale=made.scale * 0.98), loss).within()
    if mechanism == "objective":
        flatter = made.tolerance._replace(curvature=made.curvature * 0.5)
        # A flatter objective moves farther as well: that arm is about the first sum alone.
        seal = replace(made.seal, displacement=2 * made.seal.displacement)
        seal = replace(seal, noise_scale=2 * seal.noise_scale)
        assert not Spent(replace(made, tolerance=flatter, seal=seal), loss).within()
    weaker = replace(made.seal, noise_scale=made.seal.noise_scale * 0.3)
    assert not Spent(replace(made, seal=weaker), loss).within()


def test_discrete_noise_that_is_too_small_would_exceed_the_target() -> None:
    made, loss = example("output", 1e-5, 6)
    assert made.scale == made.seal.noise_std
    assert Spent(made, loss).within()
    weaker = replace(made.seal, noise_scale=made.seal.noise_scale * 0.99)
    assert not Spent(replace(made, seal=weaker), loss).within()
    assert made.seal.event == made.event == lattice_event(1.0, 1e-5)


@pytest.mark.parametrize("mechanism", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 1e3])
def test_the_event_says_what_the_target_asked(mechanism: str, delta: float, epsilon: float) -> None:
    event = event_of(mechanism, epsilon, delta)
    kinds = {
        ("objective", False): PureEvent,
        ("output", False): PureEvent,
        ("objective", True): ApproximateEvent,
        ("output", True): NearGaussianEvent if epsilon <= 200 else ConcentratedEvent,
    }
    assert type(event).__name__ == kinds[mechanism, delta > 0].__name__
    assert account([event], delta).epsilon() <= epsilon * (1 + 1e-9)
    assert account([event], delta).epsilon() >= epsilon * (1 - 1e-6)


def test_a_recipe_is_a_function_of_public_numbers() -> None:
    """Its arguments are numbers and words; and the same ones give the same recipe, from memory."""
    for function in (ridge_recipe, logistic_recipe):
        text = str(inspect.signature(function))
        assert "Any" not in text
        assert "Array" not in text
    assert all(
        field.type in {float, int, recipe.Mechanism}
        for field in NoiseTarget.__dataclass_fields__.values()
    )
    one = ridge_recipe(EXAMPLE, 1.0, 2.0, None)
    assert ridge_recipe(replace(EXAMPLE), 1.0, 2.0, None) is one
    assert logistic_recipe(EXAMPLE, "auto", None) is logistic_recipe(replace(EXAMPLE), "auto", None)
    ridge_recipe.cache_clear()
    again = ridge_recipe(EXAMPLE, 1.0, 2.0, None)
    assert again is not one
    assert again == one


@pytest.mark.parametrize("mechanism", ["objective", "output"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_automatic_choices_do_not_look_at_the_data(mechanism: str, delta: float) -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(30, 4)), np.zeros((30, 4)), 1e6 * rng.normal(size=(30, 4)) + 5]
    labels = [np.arange(30) % 2, np.arange(30) == 3, np.array(["a", "b"])[np.arange(30) // 15]]
    common: dict[str, Any] = {"delta": delta, "mechanism": mechanism, "row_norm": 2.0, "rng": 0}
    ridge = PrivateRidge(0.7, target_bound=1.0, radius=3.0, **common)
    seen = {ridge.fit(table, table[:, 0] * 9).noise_ for table in tables}
    assert len(seen) == 1
    logistic = PrivateLogisticRegression(0.7, **common)
    cases = zip(tables, labels, strict=True)
    seen = {logistic.fit(table, label).noise_ for table, label in cases}
    assert len(seen) == 1
    (only,) = seen
    assert logistic.fit(tables[0][:29], labels[0][:29]).noise_ != only


def test_automatic_ball_and_penalty_follow_the_public_numbers() -> None:
    few, many = (logistic_recipe(replace(EXAMPLE, n=n), "auto", None) for n in (100, 10**6))
    assert few.tolerance.radius == recipe.STEEPEST
    assert many.tolerance.radius > few.tolerance.radius
    given_one = logistic_recipe(EXAMPLE, 3.0, 0.5)
    assert (given_one.regularization, given_one.tolerance.radius) == (0.5, 3.0)
    free = logistic_recipe(EXAMPLE, None, None)
    # All but e^-40 of the noise leaves the minimiser inside, whatever the rows: without noise it is
    # no farther than log 2 a row allows, and b moves it by ‖b‖/κ at most.
    still = math.sqrt(2 * EXAMPLE.n * math.log(2) / free.curvature)
    room = (free.tolerance.radius - still) * free.curvature / free.scale
    assert gamma.logsf(room, EXAMPLE.dimension) <= -40
    assert gamma.logsf(room / 2, EXAMPLE.dimension) > -40
    for made in (few, many, free):
        assert made.tolerance.relative < 2.0**-23


@settings(max_examples=60)
@given(
    power(-9, 12),
    st.one_of(st.just(0.0), power(-300, -1), st.just(0.999)),
    st.sampled_from(["objective", "output"]),
    power(0, 12).map(int),
    power(0, 4).map(int),
    power(-30, 30),
    power(-30, 30),
    power(-30, 30),
    st.one_of(st.none(), st.just(0.0), power(-30, 30)),
)
def test_extreme_numbers_give_a_recipe_or_a_reason(
    epsilon: float,
    delta: float,
    mechanism: Any,
    n: int,
    dimension: int,
    row_norm: float,
    y: float,
    radius: float,
    weight: float | None,
) -> None:
    if mechanism == "output" and weight == 0:
        weight = None
    if delta > 0 and epsilon < 1e-3:
        epsilon = 1e-3
    target = NoiseTarget(epsilon, delta, mechanism, n, dimension, row_norm)
    for make in (
        lambda: ridge_recipe(target, y, radius, weight),
        lambda: logistic_recipe(target, radius, weight),
        lambda: logistic_recipe(target, "auto", weight),
        lambda: logistic_recipe(target, None, weight),
    ):
        made = recipe_or_reason(make)
        if isinstance(made, str):
            assert "Expected" in made
            continue
        assert all(math.isfinite(x) and x > 0 for x in (made.scale, made.curvature, made.reach))
        assert made.tolerance.displacement > 0


def recipe_or_reason(make: Callable[[], Recipe]) -> Recipe | str:
    try:
        return make()
    except InvalidInput as problem:
        return str(problem)


def test_a_smaller_ball_needs_less_noise() -> None:
    scales = [logistic_recipe(EXAMPLE, radius, 0.01).scale for radius in (0.5, 5.0, None)]
    assert scales == sorted(scales)
    assert scales[0] < 0.7 * scales[-1]
