"""Noise for private ridge and logistic regression, from public numbers alone.

Objective perturbation adds b·θ/n to the objective, with b random (Chaudhuri, Monteleoni and Sarwate
2011; Kifer, Smith and Thakurta 2012). Write S for the largest distance between the gradients of two
records at one θ in the ball, ζ for the largest gradient, Λ for the largest curvature of a record,
and κ for the strong convexity of the summed objective (regularisation included). The exact
minimiser over the ball is then, for replace-one neighbours,

    pure     ε-DP with  ε = S/s + log(1 + Λ/κ),  b of density ∝ exp(−‖b‖/s);
    Gaussian (ε, δ)-DP with b ~ N(0, s²I) and δ = a sum of Gaussian curves, one for each corner of
             a polygon around the possible shifts of b; see the two functions at the end.

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

from sudare import checks
from sudare.calibration.gaussian import gaussian_mu
from sudare.calibration.gradients import (
    logistic_gradient_bound,
    logistic_gradient_diameter,
    ridge_gradient_diameter,
)
from sudare.curves import gaussian_delta
from sudare.rounding import down, up


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
    epsilon_curvature: float
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
    epsilon, delta, x, reach = float(epsilon), float(delta), float(row_norm), float(radius)

    def diameter(stretch: float) -> float:
        return ridge_gradient_diameter(x, target_bound, reach * stretch, dimension)

    return _objective(
        epsilon,
        delta,
        dimension=int(dimension),
        curvature_per_record=up(2 * x * x),
        curvature_given=2 * int(n) * float(regularization),
        norm_guess=radius if norm_guess is None else norm_guess,
        gamma_unit=diameter(1.0),
        gaussian_scale=lambda budget: _polygon_gaussian_scale(budget, delta, diameter, dimension),
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
    epsilon, delta, x = float(epsilon), float(delta), float(row_norm)
    if norm_guess is None:
        norm_guess = radius if radius is not None else 8.0 / x
    return _objective(
        epsilon,
        delta,
        dimension=int(dimension),
        curvature_per_record=up(x * x / 4),
        curvature_given=int(n) * float(regularization),
        norm_guess=norm_guess,
        gamma_unit=logistic_gradient_diameter(row_norm, dimension, radius),
        gaussian_scale=lambda budget: _one_sided_gaussian_scale(budget, delta, bound),
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
    curvature_per_record: float,
    curvature_given: float,
    norm_guess: float,
    gamma_unit: float,
    gaussian_scale: Callable[[float], float],
) -> ObjectiveNoise:
    """The cheaper of the two noises, each with its best split of ε."""
    checks.non_negative(norm_guess=norm_guess)
    p = dimension
    problem = _Split(epsilon, curvature_per_record, curvature_given, float(norm_guess))
    gamma = problem.solve(
        "gamma", lambda budget: p * (p + 1) * (gamma_unit / budget) ** 2, lambda b: gamma_unit / b
    )
    if delta == 0:
        return gamma
    # While searching, the exact Gaussian scale is stood in for by one of the same shape.
    unit = gaussian_scale(epsilon) * float(_tail_rate(epsilon, delta))
    gaussian = problem.solve(
        "gaussian", lambda budget: p * (unit / _tail_rate(budget, delta)) ** 2, gaussian_scale
    )
    return min(gamma, gaussian, key=lambda noise: noise.excess)


class _Split(NamedTuple):
    """Divides ε between noise and curvature so that the expected excess objective is least.

    The excess is at most ‖b‖²/(2κ) + (Δ/2)‖θ̂‖². Every split is valid, so the search over κ, with
    public numbers only, need not be exact.
    """

    epsilon: float
    per_record: float
    given: float
    norm_guess: float

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
            spread = squared_noise(self.epsilon - np.log1p(self.per_record / curvature))
            pull = (curvature - self.given) * self.norm_guess**2
            return (spread / curvature + pull) / 2

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
        epsilon_curvature = up(math.log1p(self.per_record / kept))
        epsilon_noise = down(self.epsilon - epsilon_curvature)
        return ObjectiveNoise(
            law=law,
            scale=up(scale(epsilon_noise)),
            extra_regularization=extra,
            curvature=kept,
            epsilon_noise=epsilon_noise,
            epsilon_curvature=epsilon_curvature,
            excess=float(excess(math.log(curvature))),
        )


def _tail_rate(budget: Any, delta: float) -> Any:
    """What a Gaussian of scale one may be shifted by, judged by its tail; number or array."""
    z = -float(ndtri(delta / 2))
    return 2 * budget / (z + np.sqrt(z * z + 2 * budget))


@lru_cache(maxsize=256)
def _one_sided_gaussian_scale(budget: float, delta: float, bound: float) -> float:
    """Gaussian noise for logistic loss: δ ≤ H(2L) + 2·H(L), H the Gaussian curve at `budget`.

    A record's gradient lies between 0 and a fixed vector of length at most L (`bound`), so the
    shift of b lies in the hull of {0, −u, u', u' − u}. The log-ratio of Gaussian densities is
    convex in the shift, hence at most its maximum over those four corners, and the maximum's curve
    is at most the sum of the corners' curves.
    """

    def spent(mu: float) -> float:
        return gaussian_delta(budget, 2 * mu) + 2 * gaussian_delta(budget, mu)

    high = gaussian_mu(budget, delta) / 2
    low = high
    while spent(low) > delta:
        low *= 0.8
    if low < high:
        root = brentq(lambda mu: math.log(spent(mu) / delta), low, high, rtol=1e-14)
        low = down(float(root), 2.0**-40)
        while spent(low) > delta:
            low = down(low, 2.0**-38)
    return up(bound / low)


def _polygon_gaussian_scale(
    budget: float, delta: float, diameter: Callable[[float], float], dimension: int
) -> float:
    """Gaussian noise for the squared loss, whose gradient differences are affine in θ.

    Over the ball the shift of b fills an ellipse: the affine image of a disc. A k-gon around the
    disc reaches out to radius B/cos(π/k), so the ellipse lies in the hull of k shifts of length at
    most S(B/cos(π/k)). The log-ratio of Gaussian densities is convex in the shift, hence at most
    its maximum over those k corners, and δ ≤ k·H(S), H the Gaussian curve at `budget`. In one
    dimension the ellipse is a segment with two ends. Every k is valid; the best is taken.
    """
    if dimension == 1:
        return up(diameter(1.0) / gaussian_mu(budget, delta / 2))
    return min(
        up(diameter(up(1 / math.cos(math.pi / k))) / gaussian_mu(budget, delta / k))
        for k in (4, 5, 6, 8, 10, 12, 16)
    )
