"""How often the intervals hold, by simulation: of noisy sums, and of rows at hand.

Each share of 600 draws (4 slopes of 150 consortia, or 600 of one) has a standard error below 0.009
where the level is .95. The bounds are four of them or more away: a false alarm has probability
below 1e-4 each, and seeds are fixed.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.foundations.randomness import Generator, seeded
from sudare.site._slopes import Slopes, Sums, line_through, own_slopes

Array = NDArray[np.float64]
FULL, CONSTANT = np.hypot(1.0, 0.25), 0.25


def skewed(n: int, rng: Generator) -> Array:
    """Two categories, a rarer one of three, and a long tail: nothing normal; ‖x‖ ≤ 1."""
    columns = [
        2.0 * (rng.random(n) < 0.4) - 1,
        (rng.random(n) < 0.15) * 1.0,
        np.clip(rng.exponential(0.4, n) - 0.4, -1, 1),
        rng.normal(0, 0.5, n).clip(-1, 1),
    ]
    return np.column_stack([*(column / 2 for column in columns), np.full(n, CONSTANT)]) / FULL


def labels(rows: Array, rng: Generator) -> Array:
    score = rows @ np.array([2.0, 2.5, -3.0, 4.0, -1.0])
    return np.where(rng.random(len(rows)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)


def amounts(rows: Array, rng: Generator) -> Array:
    score = rows @ np.array([0.4, 0.5, -0.6, 0.8, -0.2])
    return np.clip(score + rng.uniform(-0.4, 0.4, len(rows)), -1, 1)


def truth(draw) -> tuple[Array, float]:
    """The line through half a million rows, and the mean square about it."""
    rng = seeded(99)
    rows = skewed(500_000, rng)
    y = draw(rows, rng)
    theta = np.linalg.solve(rows.T @ rows, rows.T @ y)
    return theta, float(((y - rows @ theta) ** 2).mean())


def noisy(rows: Array, y: Array, std: float, rng: Generator) -> Sums:
    p = rows.shape[1]
    noise = np.triu(rng.normal(0, std, (p, p)), 1)
    noise += noise.T + np.diag(rng.normal(0, std * np.sqrt(2), p))
    cross = y @ rows + rng.normal(0, std, p)
    return Sums(cross, rows.T @ rows + noise, len(y), std, float((rows[:, -1] ** 2).sum()))


def held(found: list[Slopes], theta: Array, factor: float = 1.0) -> float:
    """Share of the intervals told, the constant's left out, that hold."""
    away = np.array([abs(each.values - theta)[:-1] for each in found])
    halves = factor * np.array([each.halves[:-1] for each in found])
    told = np.isfinite(away)
    assert told.mean() > 0.8
    return float((away[told] <= halves[told]).mean())


@pytest.mark.parametrize(
    ("draw", "known"), [(labels, True), (amounts, True), (amounts, False)],
    ids=["classes", "numbers with squares", "numbers without"],
)  # fmt: skip
def test_intervals_of_noisy_sums_hold_as_often_as_they_say(draw, known: bool) -> None:
    theta, scatter = truth(draw)
    rng, n, std = seeded(1), 4000, 9.0
    found, noise_of_cross_alone, sampling_alone = [], [], []
    for _ in range(150):
        rows = skewed(n, rng)
        y = draw(rows, rng)
        sums = noisy(rows, y, std, rng)
        told = sums.slopes(float(y @ y) if known else None, scatter)
        found.append(told)
        # What was drawn before: the noise on Σyx over a typical curvature, and no sampling.
        former = 1.96 * std / (n / 5 + std * np.sqrt(5))
        noise_of_cross_alone.append(Slopes(told.values, np.full(5, former)))
        spread = np.sqrt(scatter * np.diag(np.linalg.inv(rows.T @ rows)))
        sampling_alone.append(Slopes(told.values, 1.96 * spread))
    assert 0.915 < held(found, theta) < 0.985
    assert held(found, theta, 0.7) < 0.9
    assert held(noise_of_cross_alone, theta) < 0.75
    assert held(sampling_alone, theta) < 0.85


def test_little_noise_leaves_least_squares() -> None:
    rng = seeded(2)
    rows = skewed(3000, rng)
    y = labels(rows, rng)
    told = noisy(rows, y, 1e-9, rng).slopes(3000.0, 1.0)
    plain = np.linalg.lstsq(rows, y, rcond=None)[0]
    np.testing.assert_allclose(
        told.values, plain, rtol=2e-2, atol=1e-2
    )  # the bound B shrinks a bit


@pytest.mark.parametrize("draw", [labels, amounts])
def test_intervals_of_own_rows_hold_as_often_as_they_say(draw) -> None:
    theta, _ = truth(draw)
    rng, found = seeded(3), []
    for _ in range(150):
        rows = skewed(80, rng)
        found.append(own_slopes(rows, draw(rows, rng))[0])
    assert 0.915 < held(found, theta) < 0.985
    assert held(found, theta, 0.7) < 0.9


def test_a_category_that_nobody_has_is_not_told_and_spoils_nothing() -> None:
    rng = seeded(4)
    told = np.zeros(5)
    for _ in range(60):
        rows = skewed(4000, rng)
        rows[:, 1] = 0.0
        told += np.isfinite(noisy(rows, labels(rows, rng), 9.0, rng).slopes(4000.0, 1.0).values)
    assert told[1] == 0
    assert told[0] == 60


def test_noise_as_large_as_the_sums_hides_everything() -> None:
    rng = seeded(5)
    rows = skewed(60, rng)
    sums = noisy(rows, labels(rows, rng), 9.0, rng)
    assert np.isnan(sums.slopes(60.0, 1.0).values).all()
    broken = sums._replace(gram=np.full((5, 5), np.nan))
    assert np.isnan(broken.slopes(60.0, 1.0).halves).all()


def test_what_own_rows_do_not_settle_is_not_told() -> None:
    rng = seeded(6)
    rows = skewed(50, rng)
    rows[:, 1] = 0.0  # nobody
    rows[:, 3] = rows[:, 2]  # one and the same
    y = labels(rows, rng)
    found, _ = own_slopes(rows, y)
    np.testing.assert_array_equal(np.isnan(found.values), [False, True, True, True, False])
    np.testing.assert_array_equal(np.isnan(line_through(rows, y)), np.isnan(found.values))
    np.testing.assert_allclose(line_through(rows, y)[0], found.values[0])
    few, scatter = own_slopes(rows[:3], y[:3])
    assert np.isnan(few.values).all()
    assert 0 < scatter <= 1
