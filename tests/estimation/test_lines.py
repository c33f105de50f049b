"""How often the intervals of lines through noisy sums hold, by simulation.

About 2,400 intervals in each cell, four of each of 600 draws: the share that holds has a standard
error below 0.009 where the level is .95. The bounds are four of them or more away: a false alarm
has probability below 1e-4 each, and seeds are fixed.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.estimation import Line, NoisySums, least_squares
from sudare.foundations.randomness import Generator, seeded
from sudare.study import Study, parse_study

Array = NDArray[np.float64]
TEXT = """
name = "lines"
[columns.sex]
categories = ["f", "m"]
[columns.pain]
categories = ["none", "some", "much"]
[columns.tail]
low = -1
high = 1
[columns.level]
low = -1
high = 1
[target]
column = "y"
{target}
[privacy]
epsilon = 1.0
delta = 1e-6
"""
CLASSES = parse_study(TEXT.format(target="classes = [0, 1]"))
NUMBERS = parse_study(TEXT.format(target="low = -1\nhigh = 1"))
ROWS, STD, SIMULATIONS = 6000, 9.0, 600


def skewed(n: int, rng: Generator) -> Array:
    """Two categories, two rarer ones of three, a long tail, and something like normal; ‖x‖ ≤ 1."""
    pain = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    columns = [
        2.0 * (rng.random(n) < 0.4) - 1,
        (pain == 1) * 1.0,
        (pain == 2) * 1.0,
        np.clip(rng.exponential(0.4, n) - 0.4, -1, 1),
        rng.normal(0, 0.5, n).clip(-1, 1),
    ]
    root, contract = np.sqrt(5), CLASSES.contract
    rows = np.column_stack([*(column / root for column in columns), np.full(n, contract.constant)])
    return np.asarray(rows / contract.full_norm)


def labels(rows: Array, rng: Generator) -> Array:
    score = rows @ np.array([2.0, 2.5, 1.0, -3.0, 4.0, -1.0])
    return np.where(rng.random(len(rows)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)


def amounts(rows: Array, rng: Generator) -> Array:
    score = rows @ np.array([0.4, 0.5, 0.2, -0.6, 0.8, -0.2])
    return np.clip(score + rng.uniform(-0.4, 0.4, len(rows)), -1, 1)


def truth(draw) -> tuple[Array, float]:
    """The line through half a million rows, and the mean square about it."""
    rng = seeded(99)
    rows = skewed(500_000, rng)
    y = draw(rows, rng)
    theta = np.linalg.solve(rows.T @ rows, rows.T @ y)
    return theta, float(((y - rows @ theta) ** 2).mean())


def noisy(study: Study, sums: list[tuple[Array, Array, float]], rng: Generator) -> NoisySums:
    """Many draws at once: of rows, and of the noise on their sums."""
    gram, cross, squares = (np.array(each) for each in zip(*sums, strict=True))
    noise = np.triu(rng.normal(0, STD, gram.shape), 1)
    noise = noise + np.swapaxes(noise, -1, -2)
    diagonal = np.arange(gram.shape[-1])
    noise[..., diagonal, diagonal] = rng.normal(0, STD * np.sqrt(2), gram.shape[:-1])
    told = squares + rng.normal(0, STD * np.sqrt(2), len(squares))
    held = None if study is CLASSES else told
    return NoisySums(
        study.contract, ROWS, cross + rng.normal(0, STD, cross.shape), gram + noise, held, STD
    )


def drawn(draw, rng: Generator) -> tuple[Array, Array, float]:
    rows = skewed(ROWS, rng)
    y = draw(rows, rng)
    return rows.T @ rows, y @ rows, float(y @ y)


def held(line: Line, halves: Array, theta: Array) -> float:
    """Share of the intervals told, the constant's left out, that hold."""
    told = line.told[..., :-1]
    assert told.mean() > 0.7
    holds = (abs(line.slopes - theta) <= halves)[..., :-1]
    return float(holds[told].mean())


@pytest.mark.parametrize(
    ("draw", "study", "known"),
    [(labels, CLASSES, True), (amounts, NUMBERS, True), (amounts, NUMBERS, False)],
    ids=["classes", "numbers with squares", "numbers without"],
)
def test_intervals_hold_as_often_as_they_say(draw, study: Study, known: bool) -> None:
    theta, scatter = truth(draw)
    rng = seeded(1)
    sums = noisy(study, [drawn(draw, rng) for _ in range(SIMULATIONS)], rng)
    if not known:
        sums = NoisySums(sums.contract, sums.n, sums.cross, sums.gram, None, sums.noise_std)
    line = least_squares(sums, study, scatter)
    halves = 1.96 * np.sqrt(line.variances)
    assert 0.93 < held(line, halves, theta) < 0.985
    assert held(line, 0.7 * halves, theta) < 0.9
    # What reports drew before: the noise on Σyx over a typical curvature, and no sampling.
    former = np.full(6, 1.96 * STD / (ROWS / 6 + STD * np.sqrt(6)))
    assert held(line, former, theta) < 0.75
    rows = skewed(100_000, rng)
    spread = np.diag(np.linalg.inv(rows.T @ rows * (ROWS / len(rows))))
    assert held(line, 1.96 * np.sqrt(scatter * spread), theta) < 0.85


def test_little_noise_leaves_least_squares() -> None:
    rng = seeded(2)
    rows = skewed(3000, rng)
    y = labels(rows, rng)
    sums = NoisySums(CLASSES.contract, 3000, y @ rows, rows.T @ rows, None, 1e-9)
    line = least_squares(sums, CLASSES, 1.0)
    np.testing.assert_allclose(line.slopes, np.linalg.lstsq(rows, y, rcond=None)[0], rtol=1e-6)
    assert line.told.all()


def test_a_category_that_nobody_has_is_not_told_and_spoils_nothing() -> None:
    rng, found = seeded(4), []
    for _ in range(60):
        rows = skewed(ROWS, rng)
        rows[:, 2] = 0.0
        y = labels(rows, rng)
        found.append((rows.T @ rows, y @ rows, float(ROWS)))
    line = least_squares(noisy(CLASSES, found, rng), CLASSES, 1.0)
    assert not line.told[:, 2].any()
    assert line.told[:, 0].all()
