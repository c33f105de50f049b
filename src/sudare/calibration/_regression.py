"""Noise for private ridge and logistic regression, from public numbers alone.

Objective perturbation adds b·θ/n to the objective, with b random (Chaudhuri, Monteleoni and Sarwate
2011; Kifer, Smith and Thakurta 2012). Write S for the largest distance between the gradients of two
records at one θ in the ball, ζ for the largest gradient, Λ for the largest curvature of a record,
and κ for the strong convexity of the summed objective (regularisation included). The exact
minimiser over the ball is then, for replace-one neighbours,

    pure     ε-DP with  ε = max of  D/s + log(1 + c/κ),  b of density ∝ exp(−‖b‖/s), where D is the
             distance of two gradients and c the curvature of one of them, at the same θ;
    Gaussian (ε, δ)-DP with b ~ N(0, s²I) and δ a bound at ε − log(1 + Λ/κ) for shifts of b that
             may depend on b; see the two functions at the end.

For the squared loss D = S and c = Λ meet; for the logistic loss they do not.

The published constants (s = 2ζ/ε and κ ≥ 2Λ/ε) only reach 1.5 ε for this neighbour relation, and
the unconstrained minimiser of the squared loss has no finite ε at all: docs/theory/corrections.md.

    X row_norm   Y target_bound   B radius   p dimension   λ regularization
    ridge      (1/n)Σ(y − θ·x)² + λ‖θ‖²                 κ = 2nλ + Δ,  Λ = 2X²
    logistic   (1/n)Σlog(1 + e^{−yθ·x}) + (λ/2)‖θ‖²     κ = nλ + Δ,   Λ = X²/4
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri

from sudare.calibration._gradients import (
    GradientPairs,
    logistic_gradient_bound,
    logistic_gradient_diameter,
    logistic_gradient_pairs,
    ridge_gradient_diameter,
)
from sudare.calibration._shifts import disc_delta, segment_delta
from sudare.foundations import checks
from sudare.foundations.curves import gaussian_delta
from sudare.foundations.gaussian import gaussian_mu
from sudare.foundations.rounding import SLACK, down, up

_WORTH_DELTA = 0.905
"""What Gaussian noise must at most cost, against Gamma noise, to be worth its δ. Near it they are
equally good (diabetes, ε = 0.1, 600 splits: errors of 1.071 and 1.075 ± 0.012)."""
_TILT = np.linspace(0.0, math.pi / 4, 33)


@dataclass(frozen=True)
class ObjectiveNoise:
    """How to perturb an objective so that its minimiser meets the target guarantee."""

    law: Literal["gamma", "gaussian"]
    scale: float
    """s: ‖b‖ ~ Gamma(p, s) in a uniform direction, or b ~ N(0, s²I)."""
    extra_regularization: float
    """Δ: add (Δ/2)‖θ‖² to the summed objective."""
    curvature: float
    """κ, never more than the strong convexity of the summed objective."""
    epsilon_noise: float
    """What is left of ε for the noise where a record adds most curvature."""
    epsilon_curvature: float
    """log(1 + Λ/κ), the most that a record's curvature can cost."""
    excess: float
    """About what noise and extra regularisation cost in the summed objective."""


def ridge_objective(
    epsilon: float,
    delta: float,
    *,
    n: int,
    dimension: int,
    row_norm: float,
    target_bound: float,
    radius: float,
    regularization: float,
    norm_guess: float | None = None,
) -> ObjectiveNoise:
    """Noise that makes the ridge minimiser over the ball (ε, δ)-DP; pure when δ = 0.

    With δ > 0 the law with the smaller expected cost is taken; in few dimensions that is the Gamma
    law, which meets ε without using δ.

    `norm_guess` is a public guess of the size of the coefficients, the radius by default: it moves
    the split between noise and curvature, never the guarantee.
    """
    _check_target(epsilon, delta, n, dimension, regularization)
    checks.positive(row_norm=row_norm)
    checks.non_negative(radius=radius)
    epsilon, delta, x = float(epsilon), float(delta), float(row_norm)
    bounds = (x, float(target_bound), float(radius), int(dimension))
    diameter = ridge_gradient_diameter(*bounds)
    return _objective(
        epsilon,
        delta,
        dimension=int(dimension),
        pairs=GradientPairs(np.array([up(2 * x * x)]), np.array([diameter])),
        curvature_given=2 * int(n) * float(regularization),
        norm_guess=radius if norm_guess is None else norm_guess,
        gaussian_scale=lambda budget: _ridge_gaussian_scale(budget, delta, *bounds),
    )


def logistic_objective(
    epsilon: float,
    delta: float,
    *,
    n: int,
    dimension: int,
    row_norm: float,
    regularization: float,
    radius: float | None = None,
    norm_guess: float | None = None,
) -> ObjectiveNoise:
    """Noise that makes the logistic minimiser (ε, δ)-DP; pure when δ = 0.

    `row_norm` counts the constant feature of an intercept, which must be regularised like any
    other. With `radius` the minimiser is taken over that ball. `norm_guess` is a public guess of
    the size of the coefficients: it moves the split, never the guarantee.
    """
    _check_target(epsilon, delta, n, dimension, regularization)
    bound = logistic_gradient_bound(row_norm, radius)
    diameter = logistic_gradient_diameter(row_norm, dimension, radius)
    flat = dimension == 1
    epsilon, delta, x = float(epsilon), float(delta), float(row_norm)
    if norm_guess is None:
        norm_guess = radius if radius is not None else 8.0 / x
    return _objective(
        epsilon,
        delta,
        dimension=int(dimension),
        pairs=logistic_gradient_pairs(row_norm, int(dimension), radius),
        curvature_given=int(n) * float(regularization),
        norm_guess=norm_guess,
        gaussian_scale=lambda budget: _logistic_gaussian_scale(
            budget, delta, bound, diameter, flat
        ),
    )


def ridge_output_sensitivity(
    *,
    n: int,
    dimension: int,
    row_norm: float,
    target_bound: float,
    radius: float,
    regularization: float,
) -> float:
    """L2 sensitivity of the ridge minimiser over the ball, rounded up.

    S(B*)/(2nλ): the two minimisers differ by at most the gradient difference at one of them over
    the strong convexity, and that one lies within B* = min(B, Y/√λ), where its objective is already
    no better than at zero.
    """
    checks.count(n=n, dimension=dimension)
    checks.positive(regularization=regularization)
    checks.non_negative(target_bound=target_bound, radius=radius)
    weight = float(regularization)
    reach = min(float(radius), up(float(target_bound) / math.sqrt(weight)))
    diameter = ridge_gradient_diameter(row_norm, target_bound, reach, dimension)
    return up(diameter / (2 * int(n) * weight))


def logistic_output_sensitivity(
    *, n: int, dimension: int, row_norm: float, regularization: float, radius: float | None = None
) -> float:
    """L2 sensitivity of the logistic minimiser, rounded up: S(B*)/(nλ).

    B* = min(radius, X/λ, √(2 log 2/λ)) holds the minimiser: by its optimality condition, and
    because its objective is no more than log 2, the value at zero.
    """
    checks.count(n=n, dimension=dimension)
    checks.positive(row_norm=row_norm, regularization=regularization)
    weight = float(regularization)
    reach = up(min(float(row_norm) / weight, math.sqrt(2 * math.log(2) / weight)))
    if radius is not None:
        checks.non_negative(radius=radius)
        reach = min(reach, float(radius))
    diameter = logistic_gradient_diameter(row_norm, dimension, reach)
    return up(diameter / (int(n) * weight))


def _check_target(
    epsilon: float, delta: float, n: int, dimension: int, regularization: float
) -> None:
    checks.positive(epsilon=epsilon)
    checks.delta_like(delta=delta)
    checks.count(n=n, dimension=dimension)
    checks.non_negative(regularization=regularization)


def _objective(
    epsilon: float,
    delta: float,
    *,
    dimension: int,
    pairs: GradientPairs,
    curvature_given: float,
    norm_guess: float,
    gaussian_scale: Callable[[float], float],
) -> ObjectiveNoise:
    """The cheaper of the two noises, each with its best split of ε."""
    checks.non_negative(norm_guess=norm_guess)
    p = dimension
    largest = float(pairs.curvature[0])
    problem = _Split(epsilon, largest, curvature_given, float(norm_guess))

    def gamma_scale(curvature: Any) -> Any:
        """The least s with D/s + log(1 + c/κ) ≤ ε for every pair; one κ or an array of them."""
        cost = np.log1p(pairs.curvature / np.asarray(curvature)[..., None]) * (1 + SLACK)
        return np.max(pairs.distance / ((epsilon - cost) * (1 - SLACK)), axis=-1)

    gamma = problem.solve(
        "gamma",
        lambda curvature: p * (p + 1) * gamma_scale(curvature) ** 2,
        lambda curvature: float(gamma_scale(curvature)),
    )
    if delta == 0:
        return gamma

    def budget(curvature: Any) -> Any:
        return epsilon - np.log1p(largest / curvature)

    # While searching, the exact Gaussian scale is stood in for by one of the same shape.
    unit = gaussian_scale(epsilon) * float(_tail_rate(epsilon, delta))
    gaussian = problem.solve(
        "gaussian",
        lambda curvature: p * (unit / _tail_rate(budget(curvature), delta)) ** 2,
        lambda curvature: gaussian_scale(problem.left(curvature)),
    )
    # Gamma noise leaves δ unspent, and pure releases compose better than plain (ε, δ) ones.
    return gaussian if gaussian.excess < _WORTH_DELTA * gamma.excess else gamma


class _Split(NamedTuple):
    """Divides ε between noise and curvature so that the expected excess objective is least.

    The excess is at most ‖b‖²/(2κ) + (Δ/2)‖θ̂‖². Every split is valid, so the search over κ, with
    public numbers only, need not be exact.
    """

    epsilon: float
    per_record: float
    given: float
    norm_guess: float

    def left(self, curvature: float) -> float:
        """What is left of ε where a record adds most curvature, rounded down."""
        return down(self.epsilon - up(math.log1p(self.per_record / curvature)))

    def solve(
        self,
        law: Literal["gamma", "gaussian"],
        squared_noise: Callable[[Any], Any],
        scale: Callable[[float], float],
    ) -> ObjectiveNoise:
        # Beyond ε = 50 still less curvature would be allowed, and none of it of any use.
        widest = min(self.epsilon, 50.0)
        needed = up(self.per_record / math.expm1(widest)) * (1 + 1e-6)
        least = max(self.given, needed)

        def excess(log_curvature: Any) -> Any:
            curvature = np.exp(log_curvature)
            pull = (curvature - self.given) * self.norm_guess**2
            return (squared_noise(curvature) / curvature + pull) / 2

        grid = math.log(least) + np.linspace(0.0, 25.0 + widest, 251)
        best = int(np.argmin(excess(grid)))
        around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
        found = minimize_scalar(excess, bounds=around, method="bounded", options={"xatol": 1e-6})
        log_curvature = float(min(found.x, grid[best], key=excess))
        curvature = max(least, math.exp(log_curvature))
        extra = 0.0
        if curvature > self.given:
            # `given` is itself rounded: the margin pays for that too.
            extra = up(curvature - self.given) + curvature * 2.0**-50
        kept = down(curvature)
        return ObjectiveNoise(
            law=law,
            scale=up(scale(kept)),
            extra_regularization=extra,
            curvature=kept,
            epsilon_noise=self.left(kept),
            epsilon_curvature=up(math.log1p(self.per_record / kept)),
            excess=float(excess(math.log(curvature))),
        )


def _tail_rate(budget: Any, delta: float) -> Any:
    """What a Gaussian of scale one may be shifted by, judged by its tail; number or array."""
    z = -float(ndtri(delta / 2))
    return 2 * budget / (z + np.sqrt(z * z + 2 * budget))


@lru_cache(maxsize=256)
def _logistic_gaussian_scale(
    budget: float, delta: float, bound: float, diameter: float, flat: bool
) -> float:
    """Gaussian noise for logistic loss, at `budget`: δ ≤ min(H(2L), edge) + 2·H(L).

    A record's gradient lies between 0 and a fixed vector of length at most L (`bound`), so the
    shift of b lies in a rhombus with corners at 0, at two points of length L, and at one as far as
    2L. No shift is longer than S (`diameter`), so the far corner may be cut off at distance S: what
    is left of it is a segment of half length y, where S^⅔ + y^⅔ = (2L)^⅔ for the rhombus that
    leaves most, and y = 0 on the line (`flat`).
    """
    share = min(1.0, (diameter / (2 * bound)) ** (2 / 3))
    half = 0.0 if flat else up(2 * bound * up(1 - share, 2.0**-40) ** 1.5, 2.0**-40)

    def spent(scale: float) -> float:
        edge = segment_delta(budget, up(diameter / scale), up(half / scale))
        corner = gaussian_delta(budget, up(2 * bound / scale))
        return min(edge, corner) + 2 * gaussian_delta(budget, up(bound / scale))

    return _least_scale(spent, delta, up(diameter / gaussian_mu(budget, delta)))


@lru_cache(maxsize=256)
def _ridge_gaussian_scale(
    budget: float,
    delta: float,
    row_norm: float,
    target_bound: float,
    radius: float,
    dimension: int,
) -> float:
    """Gaussian noise for the squared loss, whose gradient differences are affine in θ.

    With a = 2XY and b = 2X²B the shifts of b, over the ball, lie in a disc of radius
    at most b·sin 2ψ with its centre at most 2a·cos ψ from 0, for some ψ between 0 and π/4. All
    discs of an interval of ψ lie in one with the last one's centre that reaches as far as the
    farthest of them. In one dimension the shifts are a segment with two ends no longer than S.
    """
    diameter = ridge_gradient_diameter(row_norm, target_bound, radius, dimension)
    if dimension == 1:
        return up(diameter / gaussian_mu(budget, delta / 2))
    a, b = 2 * row_norm * target_bound, 2 * row_norm * row_norm * radius
    if a == 0 and b == 0:
        return 0.0
    low, high = _TILT[:-1], _TILT[1:]
    farthest = np.clip(math.asin(2 * b / (a + math.hypot(a, math.sqrt(8) * b))), low, high)
    reach = 2 * np.cos(farthest) * (a + b * np.sin(farthest)) * (1 + 1e-12)
    centre = 2 * a * np.cos(high)

    def spent(scale: float) -> float:
        return float(disc_delta(budget, centre / scale, (reach - centre) / scale).max())

    # A search among the worst discs at a good guess; all of them have the last word.
    least = up(diameter / gaussian_mu(budget, delta))
    guess = 1.1 * least
    worst = np.argsort(disc_delta(budget, centre / guess, (reach - centre) / guess))[-6:]
    few, few_reach = centre[worst], (reach - centre)[worst]

    def roughly(scale: float) -> float:
        return float(disc_delta(budget, few / scale, few_reach / scale).max())

    return _confirmed(spent, delta, _least_scale(roughly, delta, least))


def _least_scale(spent: Callable[[float], float], delta: float, low: float) -> float:
    """The scale at which a falling δ(s) meets `delta`, moved up until δ(s) confirms it."""
    high = low
    while spent(high) > delta:
        high *= 1.25
    if high == low:
        return up(low)
    root = brentq(
        lambda x: math.log(spent(math.exp(x)) / delta),
        math.log(high / 1.25),
        math.log(high),
        xtol=1e-10,
    )
    return _confirmed(spent, delta, up(math.exp(root), 2.0**-36))


def _confirmed(spent: Callable[[float], float], delta: float, scale: float) -> float:
    """The scale, moved up in growing steps until it spends no more than `delta`."""
    step = 2.0**-36
    while spent(scale) > delta:
        scale, step = up(scale, step), 2 * step
    return up(scale)
