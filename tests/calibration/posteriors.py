"""What the tests of Gibbs posteriors share: exact formulas, and laws that are integrated."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.digits import mpf
from tests.support.strategies import spread

repeatable = settings(derandomize=True, deadline=None, max_examples=100)
EPSILONS = spread(1e-4, 50)
DELTA = spread(1e-60, 0.3)
MODELS = st.fixed_dictionaries(
    {
        "gradient_diameter": spread(1e-3, 1e3),
        "prior_curvature": spread(1e-6, 1e6),
        "loss_curvature": st.one_of(st.just(0.0), spread(1e-6, 1e3)),
        "n": st.integers(1, 10**7),
    }
)
FLAT: dict[str, Any] = {"gradient_diameter": 2.0, "prior_curvature": 1.0}


def exact_divergence(beta: Any, model: dict[str, Any]) -> Any:
    """D = (βS)²/(2m), the exponent both guarantees are made of."""
    m = mpf(model["prior_curvature"])
    m += model.get("n", 0) * mpf(model.get("loss_curvature", 0)) * beta
    return (mpf(beta) * mpf(model["gradient_diameter"])) ** 2 / (2 * m)


class Model(NamedTuple):
    """Losses on an interval, the two rows that differ, and the numbers that bound them."""

    loss: Callable[[Any, float], Any]
    common: tuple[float, ...]
    differing: tuple[float, float]
    interval: tuple[float, float]
    temperature: float
    bounds: dict[str, Any]


def far_apart(distance: float, temperature: float, interval: tuple[float, float]) -> Model:
    """√(1 + (θ − x)²), 1-Lipschitz, with a row that moves from far left to far right."""
    return Model(
        lambda theta, x: np.sqrt(1 + (theta - x) ** 2),
        (),
        (-distance, distance),
        interval,
        temperature,
        {"gradient_diameter": 2.0, "prior_curvature": 1.5},
    )


def logistic(temperature: float, interval: tuple[float, float]) -> Model:
    return Model(
        lambda theta, x: np.logaddexp(0.0, -theta * x),
        (1.0, 0.3, -1.0),
        (-1.0, 1.0),
        interval,
        temperature,
        # In one dimension two gradients are at most σ(t) + 0.278/t ≤ 1.052 apart.
        {"gradient_diameter": 1.052, "prior_curvature": 0.2},
    )


def normal_mean(temperature: float, interval: tuple[float, float]) -> Model:
    return Model(
        lambda theta, x: (theta - x) ** 2 / 2,
        (0.5, -0.2, 1.0),
        (-1.0, 1.0),
        interval,
        temperature,
        {"gradient_diameter": 2.0, "prior_curvature": 1.0, "loss_curvature": 1.0, "n": 4},
    )


LINE = (-40.0, 40.0)
GRID = 1e-7  # what the cells of the grid can hide
INTEGRATED = [
    far_apart(1e4, 0.5, LINE),
    far_apart(1e4, 1.5, LINE),
    far_apart(3.0, 0.7, (-1.0, 2.5)),
    logistic(0.3, LINE),
    logistic(2.0, (-0.5, 4.0)),
    normal_mean(0.4, LINE),
    normal_mean(3.0, LINE),
    normal_mean(3.0, (0.2, 1.0)),
]


def laws(model: Model) -> tuple[Any, Any, Any]:
    """Cell masses and log-ratio on a fine grid (the prior is normal with the stated curvature)."""
    theta = np.linspace(*model.interval, 400_001)
    logs = []
    for row in model.differing:
        rows = (*model.common, row)
        data = sum(model.loss(theta, x) - model.loss(np.zeros(1), x) for x in rows)
        value = -model.temperature * data - model.bounds["prior_curvature"] / 2 * theta**2
        top = value.max()
        logs.append(value - top - math.log(float(np.exp(value - top).sum())))
    return np.exp(logs[0]), np.exp(logs[1]), logs[0] - logs[1]
