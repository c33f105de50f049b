"""The seal: the last step of every number that leaves.

A program computes floats near the number a theorem speaks of; the difference (solver tolerance,
rounding, a float draw instead of a real one) could carry data. The seal makes it private: the
result is rounded to a public dyadic grid and exact discrete noise is added, enough to hide any
displacement up to a *public* bound r. With grid g and d coordinates, two runs that share the ideal
output differ by at most 2R steps in L2, R = r/g + √d/2, so

    δ = 0   discrete Laplace of scale 2√d·R/ε a coordinate   (an L2 distance of 2R is √d·2R in L1)
    δ > 0   discrete Gaussian of L2 sensitivity 2R: on this lattice as good as Gaussian noise
            (μ = 2R/scale) but for a stated distance, or accounted as zCDP where that is better

and the total guarantee is that of the ideal mechanism plus the seal's. With `sensitivity` > 0 the
same step is output perturbation itself: what is hidden is then sensitivity/g + 2R steps.

The bound r must hold for every admissible input and every outcome of the coins; a bound that is
looked up after the computation is not one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sudare.foundations import checks, exact
from sudare.foundations.gaussian import (
    concentrated_rho,
    gaussian_mu,
    lattice_log_ratio,
    near_gaussian_mu,
)
from sudare.foundations.privacy import ConcentratedEvent, Event, NearGaussianEvent, PureEvent
from sudare.foundations.randomness import is_secure
from sudare.foundations.rounding import down, up

_MOST_STEPS = 2**52
"""Farther out values are clipped: below this every step is a float of its own."""
FINE = 2.0**11
"""Grid steps in a sensitivity, for each √d: the rounding adds a thousandth to the noise."""
_COARSE = 3.0
"""The least that hides a displacement alone, 2R ≥ 3√d."""
_NEGLIGIBLE = 2.0**-30
"""Share of δ that the lattice's distance from Gaussian noise may cost."""
_LARGEST_EPSILON = 200.0
"""Beyond, e^ε times the smallest probabilities counts, and the noise is accounted as zCDP."""


@dataclass(frozen=True)
class Seal:
    """Public description of a seal: all of it may be, and is, written into a certificate."""

    dimension: int
    displacement: float
    sensitivity: float
    grid_exponent: int
    """The grid is all multiples of 2^grid_exponent."""
    noise_scale: float
    """Scale of the discrete noise, in grid steps."""
    event: Event

    @property
    def noise_std(self) -> float:
        """About how far the seal moves each number (standard deviation, in the number's units)."""
        spread = math.sqrt(2) if isinstance(self.event, PureEvent) else 1.0
        return math.ldexp(spread * self.noise_scale, self.grid_exponent)

    def apply(self, values: ArrayLike, rng: Generator) -> "Sealed":
        """Round, clip to the grid's range and add the noise."""
        numbers = checks.finite_array(dimensions=1, values=values)
        if numbers.size != self.dimension:
            raise checks.InvalidInput(
                f"Expected {self.dimension} values for this seal, not {numbers.size}"
            )
        with np.errstate(over="ignore"):  # a warning would be an output too
            steps = np.rint(np.ldexp(numbers, -self.grid_exponent))
        steps = np.clip(steps, -_MOST_STEPS, _MOST_STEPS).astype(np.int64)
        pure = isinstance(self.event, PureEvent)
        if is_secure(rng):
            sampler = (exact.laplace if pure else exact.gaussian)(self.noise_scale)
            noisy = sampler.add_noise(steps.tolist())
            return Sealed(tuple(noisy), self.grid_exponent, simulated=False)
        noise = _simulated_laplace if pure else _simulated_gaussian
        noisy = (steps + noise(self.noise_scale, steps.size, rng)).tolist()
        return Sealed(tuple(noisy), self.grid_exponent, simulated=True)


@dataclass(frozen=True)
class Sealed:
    """Numbers that may leave, as whole steps of a dyadic grid; exact in any language."""

    steps: tuple[int, ...]
    grid_exponent: int
    simulated: bool
    """Drawn from a generator that can be run again: never to be signed as a release."""

    @property
    def values(self) -> NDArray[np.float64]:
        return np.ldexp(np.array(self.steps, dtype=np.float64), self.grid_exponent)


def plan_seal(
    *,
    dimension: int,
    epsilon: float,
    delta: float = 0.0,
    displacement: float = 0.0,
    sensitivity: float = 0.0,
    whole_epsilon: float = 0.0,
    sealing: Event | None = None,
) -> Seal:
    """The seal that costs (ε, δ) and hides `displacement` (and `sensitivity`), in L2.

    `whole_epsilon` is that of the release it closes, if the two will be one near-Gaussian event:
    failures then count e^`whole_epsilon` times. The event takes neighbours and unit from `sealing`,
    the event of the mechanism it closes.
    """
    checks.count(dimension=dimension)
    checks.positive(epsilon=epsilon)
    checks.delta_like(delta=delta)
    checks.non_negative(displacement=displacement, sensitivity=sensitivity)
    dimension, epsilon, delta = int(dimension), float(epsilon), float(delta)
    displacement, sensitivity = float(displacement), float(sensitivity)
    if displacement == 0 and sensitivity == 0:
        raise checks.InvalidInput("Expected displacement > 0 or sensitivity > 0: nothing to hide")
    exponent, hidden = lattice_steps(dimension, sensitivity, displacement)
    event: Event
    if delta > 0:
        fineness = FINE if sensitivity > 0 else _COARSE
        event = lattice_event(epsilon, delta, fineness, max(epsilon, float(whole_epsilon)))
        if isinstance(event, NearGaussianEvent):
            scale = up(hidden / event.mu)
        else:
            scale = up(hidden / math.sqrt(2 * event.rho))
            scale = _least_scale(exact.gaussian, scale, hidden, event.rho)
    else:
        hidden = up(hidden * math.sqrt(dimension))
        scale = _least_scale(exact.laplace, up(hidden / epsilon), hidden, epsilon)
        event = PureEvent(exact.laplace(scale).loss(hidden))
    if sealing is not None:
        event = msgspec.structs.replace(event, neighbours=sealing.neighbours, unit=sealing.unit)
    return Seal(dimension, displacement, sensitivity, exponent, scale, event)


def lattice_steps(
    dimension: int, sensitivity: float, displacement: float = 0.0
) -> tuple[int, float]:
    """The exponent of the grid that hides these, and how many of its steps they are in L2.

    Any two results that must look alike are at most so far apart after rounding; rounded up. One of
    the two is above zero.
    """
    finest = max(displacement, sensitivity) / FINE if sensitivity > 0 else displacement
    finest /= math.sqrt(dimension)
    exponent = math.frexp(finest)[1] - 1
    if not -1000 <= exponent <= 900:
        raise checks.InvalidInput("Expected displacement and sensitivity within 1e±270")
    grid = math.ldexp(1.0, exponent)
    half = up(displacement / grid + math.sqrt(dimension) / 2)
    return exponent, up(sensitivity / grid + 2 * half)


@lru_cache(maxsize=512)
def lattice_event(
    epsilon: float, delta: float, fineness: float = FINE, whole_epsilon: float = 0.0
) -> NearGaussianEvent | ConcentratedEvent:
    """The price of every seal at (ε, δ > 0), whatever its dimension d.

    What is hidden is at least `fineness`·√d steps long (2048, or 3 for a displacement alone), so
    that the noise's scale is at least fineness·√d/μ, and the bound of `lattice_log_ratio` over all
    d is one number: a guarantee that is known before anything is known of the data.
    """
    concentrated = ConcentratedEvent(concentrated_rho(epsilon, delta))
    largest, counted = gaussian_mu(epsilon, delta), max(epsilon, whole_epsilon)
    if counted > _LARGEST_EPSILON or largest > fineness:
        return concentrated
    failure = down(delta * _NEGLIGIBLE / (1 + math.exp(counted)))
    if failure < 1e-300:
        return concentrated
    # `lattice_log_ratio` falls with the dimension once the scale is written as f·√d/μ.
    log_ratio = lattice_log_ratio(1, fineness / largest, -math.log(failure))
    if 4 * log_ratio > epsilon:
        return concentrated
    mu = near_gaussian_mu(epsilon, delta, log_ratio, up(failure))
    if mu * mu <= 2 * concentrated.rho:
        return concentrated
    return NearGaussianEvent(mu, log_ratio, up(failure))


def _least_scale(
    sampler: Callable[[float], exact.Sampler], scale: float, hidden: float, budget: float
) -> float:
    """The first scale from `scale` upwards whose own statement stays within the budget."""
    step = 2.0**-45
    while sampler(scale).loss(hidden) > budget:
        scale, step = up(scale, step), step * 2
    return scale


def _simulated_laplace(scale: float, size: int, rng: Generator) -> NDArray[np.int64]:
    stop = -math.expm1(-1 / scale)
    return rng.geometric(stop, size) - rng.geometric(stop, size)


def _simulated_gaussian(scale: float, size: int, rng: Generator) -> NDArray[np.int64]:
    """Rounded normals: for simulation, where the last digit of the law does not matter."""
    return np.rint(scale * rng.standard_normal(size)).astype(np.int64)
