"""What is proved about blends of private learners, where the papers' constants only exist.

The published bounds on the risk of an aggregate of private learners (Minami et al. 2015, theorem 3,
and its classification companion, theorem 4.1) contain constants that are only said to exist. Here
is a replacement all of whose terms are functions of public numbers. For a party with n rows, its
private learner θ̃ of the objective (1/n)Σℓ + λ‖θ‖² (ridge; λ/2 for logistic) perturbed in a ball of
radius B, and any fixed θ° in that ball,

    E R(blend) ≤ R(θ°) + bias + generalisation + privacy + aggregation

    bias             λ‖θ°‖² (λ‖θ°‖²/2)
    generalisation   ζS/κ                               replacing one row moves θ̃ by at most S/κ
    privacy          `sudare.blending.privacy_cost`
    aggregation      `sudare.blending.oracle_price`

ζ bounds one record's gradient, S the difference of two, κ is the strong convexity of the summed
objective. The bound is for the best received party: take the least over them.

The stability term is nearly vacuous in practice (docs/theory/mirror.md has numbers): it is there
because the inequality needs it.
"""

import math
from dataclasses import dataclass
from typing import Literal

from sudare.blending import oracle_price
from sudare.foundations import checks

__all__ = ["RiskBound", "generalisation_gap", "risk_bound", "stability"]


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


def risk_bound(
    *,
    loss: Literal["squared", "logistic"],
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


def stability(gradient_bound: float, gradient_diameter: float, curvature: float) -> float:
    """γ = ζS/κ: how much one replaced row can move the loss of the learner on any other."""
    checks.positive(
        gradient_bound=gradient_bound, gradient_diameter=gradient_diameter, curvature=curvature
    )
    return gradient_bound * gradient_diameter / curvature


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
