import warnings
from typing import Any

import numpy as np
import pytest

from sudare.foundations.randomness import seeded
from sudare.learners._definite import WORST, inverse, solve


def stack(many: int, p: int, seed: int = 0) -> Any:
    roots = seeded(seed).normal(size=(many, p, p + 3))
    return roots @ roots.transpose(0, 2, 1)


@pytest.mark.parametrize("p", [1, 2, 7])
def test_ordinary_matrices_are_lapacks_to_the_last_bit(p: int) -> None:
    matrices, vectors = stack(5, p), seeded(1).normal(size=(5, p))
    assert (inverse(matrices) == np.linalg.inv(matrices)).all()
    assert (inverse(matrices[0]) == np.linalg.inv(matrices[0])).all()
    assert (solve(matrices, vectors) == np.linalg.solve(matrices, vectors[..., None])[..., 0]).all()
    assert (solve(matrices[0], vectors[0]) == np.linalg.solve(matrices[0], vectors[0])).all()


def test_a_singular_one_among_others_leaves_the_others_alone() -> None:
    matrices, vectors = stack(4, 3), seeded(1).normal(size=(4, 3))
    ordinary = np.linalg.inv(matrices)
    solved = np.linalg.solve(matrices, vectors[..., None])[..., 0]
    matrices[2] = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    others = [0, 1, 3]
    assert inverse(matrices)[others] == pytest.approx(ordinary[others], rel=1e-10)
    assert solve(matrices, vectors)[others] == pytest.approx(solved[others], rel=1e-9)


def test_what_is_singular_is_answered_where_it_has_an_answer() -> None:
    """Along the one direction that it knows, the inverse is right; across it, large."""
    direction = np.array([3.0, 4.0]) / 5
    found = inverse(2e-20 * np.outer(direction, direction))
    assert direction @ found @ direction == pytest.approx(0.5e20, rel=0.1)
    assert np.linalg.eigvalsh(found).min() > 0
    assert np.abs(found).max() > 0.1 * WORST * 0.5e20
    step = solve(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([3.0, 0.0]))
    assert step == pytest.approx(np.array([3.0, 0.0]))


def test_nothing_finite_raises_warns_or_gives_what_is_no_number() -> None:
    rng = seeded(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(500):
            p = int(rng.integers(1, 6))
            matrices = stack(3, p, int(rng.integers(1000)))
            sizes = 10.0 ** rng.uniform(-150, 150, size=p) * rng.choice([0.0, 1.0], size=p)
            matrices[0] = sizes[:, None] * matrices[0] * sizes  # of any condition
            matrices[1] *= rng.choice([0.0, -1.0, 5e-324, 1e-300, 1e300])
            vectors = rng.normal(size=(3, p)) * 10.0 ** rng.uniform(-300, 300)
            assert np.isfinite(inverse(matrices)).all()
            assert np.isfinite(solve(matrices, vectors)).all()
