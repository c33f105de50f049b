"""What blending costs, in numbers that can be computed.

The published bounds on the risk of an aggregate of private learners (Minami et al. 2015, theorem 3,
and its classification companion, theorem 4.1) contain constants that are only said to exist. Here
is a replacement all of whose terms are functions of public numbers. For a party with n rows, its
private learner θ̃ of the objective (1/n)Σℓ + λ‖θ‖² (ridge; λ/2 for logistic) perturbed in a ball of
radius B, and any fixed θ° in that ball,

    E R(blend) ≤ R(θ°) + bias + generalisation + privacy + aggregation

    bias             λ‖θ°‖² (λ‖θ°‖²/2)
    generalisation   ζS/κ                               replacing one row moves θ̃ by at most S/κ
    privacy          E‖b‖²/(2κn) + ΔB²/(2n)             noise, and the curvature added against it
    aggregation      τ·log M/(n0 + 1)                   n0 own rows of the blending party

ζ bounds one record's gradient, S the difference of two, κ is the strong convexity of the summed
objective, Δ the part of it that privacy added, and E‖b‖² = p(p+1)s² for Gamma-norm noise of scale
s, ps² for Gaussian noise. The bound is for the best received party: take the least over them.

The stability term is nearly vacuous in practice (docs/theory/mirror.md has numbers): it is there
because the inequality needs it. What to look at are the privacy cost, the aggregation cost and an
interval on rows that nothing was fitted to, `holdout_interval`.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sudare import checks
from sudare.blending.losses import LOSSES, LossName


@dataclass(frozen=True)
class RiskBound:
    """The terms by which a blend's expected risk can exceed that of a fixed θ° in the ball."""

    bias: float
    generalisation: float
    privacy: float
    aggregation: float

    @property
    def total(self) -> float:
        return self.bias + self.generalisation + self.privacy + self.aggregation


def oracle_price(loss: LossName, temperature: float, *, learners: int, rows: int) -> float:
    """How far mirror averaging's expected risk may exceed the best learner's.

    τ·log M/(n + 1) for squared and logistic loss, if τ is at least `theory_temperature`. For
    zero-one loss τ·log M/(n + 1) + 1/(8τ): at the theory's temperature twice its first part.
    """
    checks.one_of(LOSSES, loss=loss)
    checks.positive(temperature=temperature)
    checks.count(learners=learners)
    checks.count(minimum=0, rows=rows)
    price = temperature * math.log(learners) / (rows + 1)
    return price + 1 / (8 * temperature) if loss == "zero-one" else price


def privacy_cost(
    *,
    law: Literal["gamma", "gaussian"],
    scale: float,
    curvature: float,
    extra_curvature: float,
    radius: float,
    dimension: int,
    n: int,
) -> float:
    """E‖b‖²/(2κn) + ΔB²/(2n): what the noise of objective perturbation adds to the objective.

    The expected excess of (1/n)Σℓ + regularisation at the private coefficients over its minimum in
    the ball. Every argument is public; a learner has them in `noise_`.
    """
    checks.one_of(("gamma", "gaussian"), law=law)
    checks.positive(scale=scale, curvature=curvature, radius=radius)
    checks.non_negative(extra_curvature=extra_curvature)
    checks.count(dimension=dimension, n=n)
    spread = dimension * (dimension + 1) if law == "gamma" else dimension
    return (spread * scale**2 / curvature + extra_curvature * radius**2) / (2 * n)


def stability(gradient_bound: float, gradient_diameter: float, curvature: float) -> float:
    """γ = ζS/κ: how much one replaced row can move the loss of the learner on any other."""
    checks.positive(
        gradient_bound=gradient_bound, gradient_diameter=gradient_diameter, curvature=curvature
    )
    return gradient_bound * gradient_diameter / curvature


def risk_bound(
    *,
    loss: LossName,
    regularization: float,
    comparison_norm: float,
    generalisation: float,
    privacy: float,
    temperature: float,
    learners: int,
    rows: int,
) -> RiskBound:
    """The replacement for the published theorems, for one received party.

    `comparison_norm` is ‖θ°‖, `generalisation` comes from `stability` and `privacy` from
    `privacy_cost`; `rows` are the blending party's own.
    """
    checks.one_of(("squared", "logistic"), loss=loss)
    checks.non_negative(
        regularization=regularization,
        comparison_norm=comparison_norm,
        generalisation=generalisation,
        privacy=privacy,
    )
    share = 1.0 if loss == "squared" else 0.5
    return RiskBound(
        bias=share * regularization * comparison_norm**2,
        generalisation=generalisation,
        privacy=privacy,
        aggregation=oracle_price(loss, temperature, learners=learners, rows=rows),
    )


def generalisation_gap(stability: float, loss_bound: float, n: int, alpha: float) -> float:
    """With probability 1 − α, risk − mean loss on the n rows trained on is at most this.

    γ + (2nγ + H)·√(log(1/α)/(2n)), by McDiarmid's inequality: a learner of stability γ and losses
    in [0, H]. The noise is held fixed.
    """
    checks.non_negative(stability=stability)
    checks.positive(loss_bound=loss_bound)
    checks.count(n=n)
    checks.proportion(alpha=alpha)
    return stability + (2 * n * stability + loss_bound) * math.sqrt(math.log(1 / alpha) / (2 * n))


def holdout_interval(losses: ArrayLike, alpha: float = 0.05) -> tuple[float, float]:
    """An interval for the expected loss, from losses on rows that nothing was fitted to.

    Empirical Bernstein bounds (Maurer and Pontil 2009) for losses in [0, 1] hold with probability
    1 − α whatever the law: mean ± (√(2V·log(4/α)/n) + 7·log(4/α)/(3(n − 1))), V their variance.
    Scale other bounded losses, or differences of losses, to [0, 1] first.
    """
    checks.proportion(alpha=alpha)
    values = checks.finite_array(dimensions=1, losses=losses)
    if len(values) < 2 or values.min() < 0 or values.max() > 1:
        raise checks.InvalidInput("Expected at least two losses, all in [0, 1]")
    n, rate = len(values), math.log(4 / alpha)
    width = math.sqrt(2 * float(np.var(values, ddof=1)) * rate / n) + 7 * rate / (3 * (n - 1))
    mean = float(values.mean())
    return max(0.0, mean - width), min(1.0, mean + width)
