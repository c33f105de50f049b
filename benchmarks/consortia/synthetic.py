"""Consortia drawn from known laws: rows on the unit sphere, labels from a logistic model.

iid            everyone draws from the same law
clusters       three laws of labels; the organisation belongs to one of them
covariates     the same law of labels, but each organisation sees rows of its own kind
coefficients   each organisation's coefficients lie about half their length from a common centre
flipped        a fifth of the others send their release with its sign turned
huge           a fifth of the others send theirs times −100
opposite       all others have the opposite labels
"""

from typing import Literal, get_args

import numpy as np

from benchmarks.consortia import Array, Consortium, classification
from sudare.foundations.randomness import Generator, seeded

Scenario = Literal["iid", "clusters", "covariates", "coefficients", "flipped", "huge", "opposite"]
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)

ORGANISATIONS = 100
ROWS = 50
TEST_ROWS = 5000
LENGTH = 5.0
"""Norm of the true coefficients."""


def synthetic(scenario: Scenario, features: int, seed: int) -> Consortium:
    """One hundred organisations of fifty rows, the first one's being the own, and test rows."""
    rng = seeded(seed)
    M, d = ORGANISATIONS, features
    thetas = np.tile(LENGTH * _directions(rng, 1, d), (M, 1))
    shifts = np.zeros((M, d))
    tampering = np.ones(M - 1)
    match scenario:
        case "clusters":
            centres = LENGTH * _directions(rng, 3, d)
            thetas = centres[np.append(0, rng.integers(3, size=M - 1))]
        case "covariates":
            shifts = np.sqrt(d) * _directions(rng, M, d)
        case "coefficients":
            thetas = thetas + LENGTH / 2 * rng.standard_normal((M, d)) / np.sqrt(d)
        case "flipped" | "huge":
            hostile = rng.permutation(M - 1)[: M // 5]
            tampering[hostile] = -1.0 if scenario == "flipped" else -100.0
        case "opposite":
            thetas[1:] *= -1
    tables = [_draw(rng, ROWS, thetas[k], shifts[k]) for k in range(M)]
    test = _draw(rng, TEST_ROWS, thetas[0], shifts[0])
    return Consortium(
        f"{scenario}, d = {d}", classification(d), *tables[0], tables[1:], *test, tampering
    )


def _directions(rng: Generator, count: int, features: int) -> Array:
    """Points uniform on the sphere."""
    return _on_sphere(rng.standard_normal((count, features)))


def _on_sphere(rows: Array) -> Array:
    unit: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _draw(
    rng: Generator, n: int, theta: Array, shift: Array
) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    rows = _on_sphere(rng.standard_normal((n, len(theta))) + shift)
    labels = rng.random(n) < 1 / (1 + np.exp(-rows @ theta))
    return rows, labels.astype(np.int64)
