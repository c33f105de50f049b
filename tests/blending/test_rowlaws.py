"""What the laws of rows come to in cases where it is plain; the oracle in `naive_suggestions` goes
through all of their arithmetic with the whole blend."""

import numpy as np
import pytest

from sudare.blending._received import Moments
from sudare.blending._records import Array, Records
from sudare.blending._rowlaws import released_law, row_law
from sudare.foundations.randomness import seeded
from sudare.releases import Contract

CONTRACT = Contract(features=3, row_norm=3.0, constant=0.75, classes=(0, 1))
CONSTANT = 0.75 / float(np.hypot(3.0, 0.75))


def rows(n: int, seed: int, shift: float = 0.0) -> Array:
    """Skewed rows at most 1 long with their constant, whose columns differ in size."""
    rng = seeded(seed)
    table = (rng.random((n, 3)) ** 2 - 0.3 + shift) * np.array([0.6, 0.3, 0.1])
    return np.column_stack([table, np.full(n, CONSTANT)])


def summed(*parts: Array, noise_std: float = 1e-3) -> Moments:
    many = len(parts)
    return Moments(
        tuple(f"party {k}" for k in range(many)),
        np.zeros((many, 4)),
        np.array([part.T @ part for part in parts]),
        np.array([len(part) for part in parts]),
        np.full(many, noise_std),
        {},
    )


def moments_of(table: Array) -> tuple[Array, Array]:
    return table.mean(axis=0), np.cov(table.T, bias=True)


def test_released_rows_without_noise_are_what_they_were() -> None:
    parts = rows(3000, 1), rows(1000, 2, shift=0.2)
    own = Records(rows(20, 3), np.ones(20), constant=CONSTANT)
    found = released_law(summed(*parts), own)
    mean, spread = moments_of(np.vstack(parts))
    assert found.law.mean == pytest.approx(mean, abs=1e-5)
    assert found.law.spread == pytest.approx(spread, abs=1e-5)
    assert found.second_error == pytest.approx(2 * (1e-3 / 4000) ** 2)
    assert found.mean_error == pytest.approx(found.second_error / CONSTANT**2)


def test_own_rows_say_nothing_of_released_ones() -> None:
    held = summed(rows(500, 1))
    laws = [
        released_law(held, Records(rows(n, seed, shift), np.ones(n), constant=CONSTANT))
        for n, seed, shift in ((10, 4, 0.0), (300, 5, 0.4))
    ]
    assert laws[0].law.mean.tolist() == laws[1].law.mean.tolist()
    assert laws[0].law.spread.tolist() == laws[1].law.spread.tolist()


def test_released_rows_are_never_longer_than_one() -> None:
    """Noise may say that they are: a hundred times as long as all rows together."""
    held = summed(rows(10, 1), noise_std=50.0)
    held.gram[:] += 1000.0 * np.eye(4)
    found = released_law(held, Records(rows(10, 2), np.ones(10), constant=CONSTANT)).law
    assert np.trace(found.second) <= 1 + 1e-9
    assert np.linalg.eigvalsh(found.spread).min() >= -1e-12


def test_many_rows_of_one_law_are_believed() -> None:
    held, own = summed(rows(5000, 1), rows(5000, 2)), rows(400, 3)
    found = row_law(held, CONTRACT, own)
    mean, spread = moments_of(rows(200_000, 9))
    assert found.law.mean == pytest.approx(mean, abs=0.01)
    assert found.law.spread == pytest.approx(spread, abs=0.005)


def test_noisy_releases_leave_it_to_own_rows() -> None:
    own, near, far = rows(400, 3), rows(5000, 1), rows(5000, 1, shift=0.5)
    mine, theirs = moments_of(own)[0], moments_of(far)[0]
    quiet = row_law(summed(far, noise_std=1e-3), CONTRACT, own).law.mean
    loud = row_law(summed(far, noise_std=5000.0), CONTRACT, own).law.mean
    assert np.linalg.norm(quiet - theirs) < 0.1 * np.linalg.norm(mine - theirs)
    assert np.linalg.norm(loud - mine) < 0.2 * np.linalg.norm(mine - theirs)
    errors = [row_law(summed(near, noise_std=s), CONTRACT, own).second_error for s in (1.0, 100.0)]
    assert errors[0] < errors[1]
