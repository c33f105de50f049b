"""The seal: the last step of every number that leaves.

A program computes floats near the number a theorem speaks of; the difference (solver tolerance,
rounding, a float draw instead of a real one) could carry data. The seal makes it private: the
result is rounded to a public dyadic grid and exact discrete noise is added, enough to hide any
displacement up to a *public* bound r. With grid g and d coordinates, two runs that share the ideal
output differ by at most 2R steps in L2, R = r/g + √d/2, so

    δ = 0   discrete Laplace of scale 2√d·R/ε a coordinate   (an L2 distance of 2R is √d·2R in L1)
    δ > 0   discrete Gaussian of L2 sensitivity 2R, accounted as zCDP: ρ = (2R)²/(2·scale²)

and the total guarantee is that of the ideal mechanism plus the seal's. With `sensitivity` > 0 the
same step is output perturbation itself: what is hidden is then sensitivity/g + 2R steps.

The bound r must hold for every admissible input and every outcome of the coins; a bound that is
looked up after the computation is not one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sudare import checks, exact
from sudare.calibration.gaussian import concentrated_rho
from sudare.privacy import ConcentratedEvent, Event, PureEvent
from sudare.randomness import is_secure
from sudare.rounding import up

_MOST_STEPS = 2**52
"""Farther out values are clipped: below this every step is a float of its own."""
_FINENESS = 2.0**-11
"""Grid step against the sensitivity: the rounding adds a thousandth to the noise."""


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
    sealing: Event | None = None,
) -> Seal:
    """The seal that costs (ε, δ) and hides `displacement` (and `sensitivity`), in L2.

    The event takes neighbours and unit from `sealing`, the event of the mechanism it closes.
    """
    checks.count(dimension=dimension)
    checks.positive(epsilon=epsilon)
    checks.delta_like(delta=delta)
    checks.non_negative(displacement=displacement, sensitivity=sensitivity)
    dimension, epsilon, delta = int(dimension), float(epsilon), float(delta)
    displacement, sensitivity = float(displacement), float(sensitivity)
    if displacement == 0 and sensitivity == 0:
        raise checks.InvalidInput("Expected displacement > 0 or sensitivity > 0: nothing to hide")
    finest = max(displacement, sensitivity * _FINENESS) / math.sqrt(dimension)
    exponent = math.frexp(finest)[1] - 1
    if not -1000 <= exponent <= 900:
        raise checks.InvalidInput("Expected displacement and sensitivity within 1e±270")
    grid = math.ldexp(1.0, exponent)
    half = up(displacement / grid + math.sqrt(dimension) / 2)
    hidden = up(sensitivity / grid + 2 * half)
    about = {} if sealing is None else _circumstances(sealing)
    if delta > 0:
        rho = concentrated_rho(epsilon, delta)
        scale = _least_scale(exact.gaussian, up(hidden / math.sqrt(2 * rho)), hidden, rho)
        event: Event = ConcentratedEvent(exact.gaussian(scale).loss(hidden), **about)
    else:
        hidden = up(hidden * math.sqrt(dimension))
        scale = _least_scale(exact.laplace, up(hidden / epsilon), hidden, epsilon)
        event = PureEvent(exact.laplace(scale).loss(hidden), **about)
    return Seal(dimension, displacement, sensitivity, exponent, scale, event)


def _least_scale(
    sampler: Callable[[float], exact.Sampler], scale: float, hidden: float, budget: float
) -> float:
    """The first scale from `scale` upwards whose own statement stays within the budget."""
    step = 2.0**-45
    while sampler(scale).loss(hidden) > budget:
        scale, step = up(scale, step), step * 2
    return scale


def _circumstances(event: Event) -> dict[str, Any]:
    return {"neighbours": event.neighbours, "unit": event.unit}


def _simulated_laplace(scale: float, size: int, rng: Generator) -> NDArray[np.int64]:
    stop = -math.expm1(-1 / scale)
    return rng.geometric(stop, size) - rng.geometric(stop, size)


def _simulated_gaussian(scale: float, size: int, rng: Generator) -> NDArray[np.int64]:
    """Rounded normals: for simulation, where the last digit of the law does not matter."""
    return np.rint(scale * rng.standard_normal(size)).astype(np.int64)
