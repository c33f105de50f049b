"""What blending costs, in numbers that can be computed beforehand.

A party with n rows releases a private learner of (1/n)Σℓ + regularisation, perturbed in a ball of
radius B; another one blends M such learners by n0 rows of its own. In the expected risk
(docs/theory/mirror.md has the statement) that costs

    privacy       E‖b‖²/(2κn) + ΔB²/(2n)   noise, and the curvature added against it
    aggregation   τ·log M/(n0 + 1)         not knowing which learner is best

κ is the strong convexity of the summed objective, Δ the part of it that privacy added, and E‖b‖² =
p(p+1)s² for Gamma-norm noise of scale s, ps² for Gaussian noise. What came out is measured by an
interval on rows that nothing was fitted to, `holdout_interval`.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sudare.blending._losses import LOSSES, LossName
from sudare.foundations import checks


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
