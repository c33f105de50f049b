"""Public numbers to calibrate for, and a search for the worst case, shared by several tests."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from mpmath import mpf
from numpy.typing import NDArray

from sudare.foundations.randomness import seeded
from tests.support.strategies import spread

Array = NDArray[np.float64]
TIGHT = mpf(10) ** -6


EPSILON = spread(1e-4, 50)
DELTA = spread(1e-60, 0.3)
PROBLEM = {
    "n": st.integers(1, 10**7),
    "dimension": st.sampled_from([1, 2, 5, 100, 10_000]),
    "row_norm": spread(1e-4, 1e4),
    "regularization": st.one_of(st.just(0.0), spread(1e-12, 1e4)),
}
RIDGE = st.fixed_dictionaries(
    PROBLEM
    | {
        "target_bound": st.one_of(st.just(0.0), spread(1e-4, 1e4)),
        "radius": spread(1e-4, 1e4),
        "norm_guess": st.one_of(st.none(), spread(1e-4, 1e4)),
    }
)
LOGISTIC = st.fixed_dictionaries(
    PROBLEM
    | {
        "radius": st.one_of(st.none(), spread(1e-4, 1e4)),
        "norm_guess": st.one_of(st.none(), st.just(0.0), spread(1e-4, 1e4)),
    }
)
UNIT: dict[str, Any] = {
    "n": 1000,
    "dimension": 5,
    "row_norm": 1.0,
    "target_bound": 1.0,
    "radius": 1.0,
    "regularization": 0.01,
}
PLAIN: dict[str, Any] = {"n": 1000, "dimension": 5, "row_norm": 1.0, "regularization": 0.01}


def climb(
    score: Callable[[Array], Array], start: Array, caps: Array, rounds: int, kept: int = 50
) -> float:
    """The largest score found: the best columns are moved about at random, again and again."""
    rng = seeded(11)
    points, caps = start, caps[:, None]
    found = score(points)
    for _ in range(rounds):
        best = points[:, np.argsort(found)[-kept:]]
        moved = np.repeat(best, 40, axis=1)
        step = caps * rng.normal(size=moved.shape) * np.exp(-rng.uniform(0, 9, moved.shape))
        moved = np.clip(moved + step * (rng.random(moved.shape) < 0.5), -caps, caps)
        points = np.concatenate([best, moved], axis=1)
        found = score(points)
    return float(found.max())
