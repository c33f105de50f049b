"""Everything a private regression decides before it reads the first row.

A recipe is a pure function of public numbers: the privacy target, the numbers of rows and columns,
the bounds. It holds the noise, the ball, the solver's tolerance and the seal, so that one glance at
it (or at `learner.noise_`) tells what a learner's coefficients are made of.

Budget: 1 % of ε (and of δ) pays for the seal, the rest for the noise. Output perturbation with
Gaussian noise needs no separate seal; its exact discrete noise covers the displacement as well.
Gamma noise is pure, with a pure seal, also where δ > 0 was allowed: then less is spent than asked
for, and the event says so. Recipes for draws from a posterior are in `gibbs`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sudare.calibration import (
    ObjectiveNoise,
    gaussian_mu,
    logistic_gradient_bound,
    logistic_objective,
    logistic_output_sensitivity,
    ridge_gradient_bound,
    ridge_objective,
    ridge_output_sensitivity,
)
from sudare.foundations import checks
from sudare.foundations.mechanisms import draw_error
from sudare.foundations.privacy import ApproximateEvent, Event, PureEvent
from sudare.foundations.rounding import down, up
from sudare.foundations.seal import Seal, lattice_event, plan_seal
from sudare.learners._solvers import Tolerance

Mechanism = Literal["objective", "output", "gibbs"]

SEAL_SHARE = 0.01
STEEPEST = 8.0
"""Log-odds beyond ±8 (one in three thousand) are not worth their noise until rows are plentiful."""
_COARSEST = 2.0**-4
_TAIL = 40.0
"""Room for all but e⁻⁴⁰ of the noise; accuracy depends on it, privacy does not."""


@dataclass(frozen=True)
class NoiseTarget:
    """What is asked for: the guarantee, the mechanism and the size of the problem."""

    epsilon: float
    delta: float
    mechanism: Mechanism
    n: int
    dimension: int
    """Columns, the constant feature included."""
    row_norm: float
    """Of a row with its constant feature."""


@dataclass(frozen=True)
class Recipe:
    """Noise, ball, tolerance and seal of one private regression: what the public knows of it."""

    target: NoiseTarget
    law: Literal["gamma", "gaussian"]
    scale: float
    """Of b in the summed objective, or of the noise on the coefficients (the seal's, if δ > 0)."""
    regularization: float
    extra_regularization: float
    reach: float
    """Radius of the ball that the noisy coefficients are brought back to, before the seal."""
    tolerance: Tolerance
    seal: Seal
    event: Event
    """What it all costs, seal included."""
    row_curvature: float = 0.0
    """About what a row adds to the curvature in each direction, if rows look everywhere alike."""

    @property
    def coefficient_std(self) -> float:
        """About the standard deviation that the noise gives a coefficient, for such rows."""
        spread = math.sqrt(self.target.dimension + 1) if self.law == "gamma" else 1.0
        if self.target.mechanism == "objective":
            return spread * self.scale / (self.curvature + self.target.n * self.row_curvature)
        return spread * self.scale

    @property
    def curvature(self) -> float:
        """κ: the strong convexity of the summed objective that was minimised."""
        return self.tolerance.curvature


def event_of(mechanism: str, epsilon: float, delta: float) -> Event:
    """What a private regression costs at most, from its parameters alone."""
    if delta == 0:
        return PureEvent(epsilon)
    if mechanism == "output":
        return lattice_event(epsilon, delta)
    return ApproximateEvent(epsilon, delta)


@lru_cache(maxsize=512)
def ridge_recipe(
    target: NoiseTarget, target_bound: float, radius: float, regularization: float | None
) -> Recipe:
    """Recipe for ridge regression over a ball; `regularization` None chooses it."""
    n, p = target.n, target.dimension
    bounds = {"row_norm": target.row_norm, "target_bound": target_bound, "radius": radius}
    gradient = ridge_gradient_bound(**bounds)
    if target.mechanism == "objective":
        if regularization is None:
            regularization = Tolerance(n, p, gradient, 0.0, 1.0, radius).least_curvature / (2 * n)
        noise = ridge_objective(
            *_budget(target), n=n, dimension=p, regularization=regularization, **bounds
        )
        tolerance = Tolerance(n, p, gradient, 0.0, noise.curvature, radius)
        return _objective_recipe(target, noise, regularization, tolerance, 2 * target.row_norm**2)
    if regularization is None:
        regularization = _output_regularization(target, 2 * target.row_norm**2, gradient, radius)
    sensitivity = ridge_output_sensitivity(
        n=n, dimension=p, regularization=regularization, **bounds
    )
    tolerance = Tolerance(n, p, gradient, 0.0, down(2 * n * regularization), radius)
    return _output_recipe(target, sensitivity, regularization, tolerance)


@lru_cache(maxsize=512)
def logistic_recipe(
    target: NoiseTarget, radius: float | Literal["auto"] | None, regularization: float | None
) -> Recipe:
    """Recipe for logistic regression; `radius` "auto" chooses a ball, None takes a huge one.

    There is always a ball, because it is what bounds the displacement however large the noise. The
    huge one holds the minimiser for all but e⁻⁴⁰ of the noise and leaves the sensitivity alone.
    """
    n, p, row_norm = target.n, target.dimension, target.row_norm
    if radius == "auto":
        radius = automatic_radius(target)
    gradient = logistic_gradient_bound(row_norm, radius)
    if target.mechanism == "objective":
        if regularization is None:
            guess = radius or STEEPEST / row_norm
            rough = Tolerance(n, p, gradient, guess * row_norm, 1.0, guess)
            regularization = rough.least_curvature / n
        noise = logistic_objective(
            *_budget(target),
            n=n,
            dimension=p,
            row_norm=row_norm,
            regularization=regularization,
            radius=radius,
        )
        kappa = noise.curvature
        spread = noise.scale * (p + _TAIL + math.sqrt(2 * _TAIL * p))
        ball = radius or spread / kappa + math.sqrt(2 * n * math.log(2) / kappa)
        tolerance = Tolerance(n, p, gradient, ball * row_norm, kappa, ball)
        return _objective_recipe(target, noise, regularization, tolerance, row_norm**2 / 4)
    if regularization is None:
        guess = radius or STEEPEST / row_norm
        regularization = _output_regularization(target, row_norm**2 / 4, gradient, guess)
    sensitivity = logistic_output_sensitivity(
        n=n, dimension=p, row_norm=row_norm, regularization=regularization, radius=radius
    )
    ball = radius or math.sqrt(2 * math.log(2) / regularization)
    tolerance = Tolerance(n, p, gradient, ball * row_norm, down(n * regularization), ball)
    return _output_recipe(target, sensitivity, regularization, tolerance)


def automatic_radius(target: NoiseTarget) -> float:
    """A ball for logistic regression: log-odds of ±8, more when rows are plentiful."""
    plenty = target.n * min(target.epsilon, 100.0) / (1000 * target.dimension)
    return STEEPEST / target.row_norm * max(1.0, math.sqrt(plenty))


def _budget(target: NoiseTarget) -> tuple[float, float]:
    """What is left of (ε, δ) when the seal has its share."""
    return down(target.epsilon * (1 - SEAL_SHARE)), target.delta * (1 - 1.001 * SEAL_SHARE)


def _check_resolution(tolerance: Tolerance) -> None:
    """Refuse, by public numbers alone, a problem that double arithmetic cannot resolve."""
    if tolerance.relative > _COARSEST:
        raise checks.InvalidInput(
            "Expected a larger regularization: with this one, rounding alone could move the "
            'coefficients by a good part of the radius; "auto" chooses one that is large enough'
        )


def _sealed(target: NoiseTarget, delta: float, displacement: float) -> Seal:
    return plan_seal(
        dimension=target.dimension,
        epsilon=target.epsilon * SEAL_SHARE,
        delta=delta * SEAL_SHARE,
        displacement=displacement,
    )


def _objective_recipe(
    target: NoiseTarget,
    noise: ObjectiveNoise,
    regularization: float,
    tolerance: Tolerance,
    largest_curvature: float,
) -> Recipe:
    _check_resolution(tolerance)
    delta = 0.0 if noise.law == "gamma" else target.delta
    return Recipe(
        target,
        noise.law,
        noise.scale,
        regularization,
        noise.extra_regularization,
        tolerance.radius,
        tolerance,
        _sealed(target, delta, tolerance.displacement),
        event_of("objective", target.epsilon, delta),
        # Half of what a row can add, shared by all directions.
        largest_curvature / (2 * target.dimension),
    )


def _output_recipe(
    target: NoiseTarget, sensitivity: float, regularization: float, tolerance: Tolerance
) -> Recipe:
    _check_resolution(tolerance)
    p, displacement = target.dimension, tolerance.displacement
    if target.delta > 0:
        seal = plan_seal(
            dimension=p,
            epsilon=target.epsilon,
            delta=target.delta,
            displacement=displacement,
            sensitivity=sensitivity,
        )
        std, reach = seal.noise_std, tolerance.radius
        event = event_of("output", target.epsilon, target.delta)
        return Recipe(target, "gaussian", std, regularization, 0.0, reach, tolerance, seal, event)
    scale = up(sensitivity / _budget(target)[0])
    reach = tolerance.radius + scale * (p + _TAIL + math.sqrt(2 * _TAIL * p))
    # Inside the ball the draw's relative error moves less than this; outside, its direction only.
    displacement = up(displacement + 4 * draw_error(p) * reach)
    seal, event = _sealed(target, 0.0, displacement), PureEvent(target.epsilon)
    return Recipe(target, "gamma", scale, regularization, 0.0, reach, tolerance, seal, event)


def _output_regularization(
    target: NoiseTarget, curvature: float, gradient: float, norm_guess: float
) -> float:
    """λ at which noise (σ = S/(nλ·budget)) and shrinkage (λ·norm²/2) balance at the margin."""
    p = target.dimension
    if target.delta > 0:
        noise = p / gaussian_mu(target.epsilon, target.delta) ** 2
    else:
        noise = p * (p + 1) / target.epsilon**2
    spread = gradient / (target.n * norm_guess)
    return math.cbrt(2 * curvature * noise * spread**2)
