"""Noisy equations: against explicit linear algebra, fifty digits, and simulation."""

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.estimation._solving import (
    Equations,
    Solved,
    noise_of_product,
    solve,
    third_order,
)
from sudare.foundations.randomness import Generator, seeded
from tests.statistical import FALSE_ALARM, rate_at_least, rate_at_most

Array = NDArray[np.float64]
P, PRIOR = 4, 3.0


def variances(rng: Generator) -> Array:
    found = rng.uniform(0.2, 3.0, (P, P))
    found = found + found.T
    found[0, 1] = found[1, 0] = found[3, 3] = 0.0
    return found


def noises(sizes: Array, draws: int, rng: Generator) -> Array:
    """Symmetric, each entry with its own variance."""
    found = rng.standard_normal((draws, P, P)) * np.sqrt(sizes)
    upper = np.triu(found)
    return np.asarray(upper + np.swapaxes(np.triu(found, 1), -1, -2))


def one(theta: Array, covariance: Array, positive: Array) -> Array:
    return np.full(theta.shape[:-1], 0.7)


def test_the_variance_of_a_product_is_that_of_its_linear_map() -> None:
    rng = seeded(0)
    sizes, d = variances(rng), rng.standard_normal(P)
    entries = [(i, k) for i in range(P) for k in range(i, P)]
    linear = np.zeros((P, len(entries)))
    for place, (i, k) in enumerate(entries):
        unit = np.zeros((P, P))
        unit[i, k] = unit[k, i] = 1.0
        linear[:, place] = unit @ d
    by_hand = linear @ np.diag([sizes[entry] for entry in entries]) @ linear.T
    assert noise_of_product(sizes, np.outer(d, d)) == pytest.approx(by_hand, rel=1e-13)
    # The usual noise: one variance off the diagonal, twice that on it.
    usual = noise_of_product(4.0 * (1 + np.eye(P)), np.outer(d, d))
    assert usual == pytest.approx(4.0 * (d @ d * np.eye(P) + np.outer(d, d)), rel=1e-13)


def test_fifty_digits_agree() -> None:
    """What is told of well-conditioned equations is θ₀ + H⁻¹g, with covariance H⁻¹VH⁻¹."""
    rng = seeded(1)
    sizes = 4.0 * variances(rng)
    root = rng.standard_normal((P, P))
    hessian = 900 * np.eye(P) + 200 * root @ root.T
    start, score = rng.standard_normal(P), 300 * rng.standard_normal(P)
    found = solve(Equations(start, score, hessian, 25.0, sizes, one, PRIOR))
    assert not found.hidden.any()
    with mpmath.workdps(50):
        inverse = mpmath.matrix(hessian.tolist()) ** -1
        d = inverse * mpmath.matrix(score.tolist())
        middle = mpmath.mpf("0.7") * mpmath.matrix(hessian.tolist()) + 25 * mpmath.eye(P)
        for i in range(P):
            for k in range(P):
                if i == k:
                    middle[i, i] += sum(mpmath.mpf(sizes[i, j]) * d[j] ** 2 for j in range(P))
                else:
                    middle[i, k] += mpmath.mpf(sizes[i, k]) * d[i] * d[k]
        exact = inverse * middle * inverse
        theta = [float(start[k] + d[k]) for k in range(P)]
        covariance = [[float(exact[i, k]) for k in range(P)] for i in range(P)]
    assert found.theta == pytest.approx(np.array(theta), rel=1e-11)
    assert found.covariance == pytest.approx(np.array(covariance), rel=1e-10, abs=1e-14)


def simulate(draws: int, count_hessian: bool) -> tuple[Array, NDArray[np.bool_]]:
    """z-scores of many draws, and what was told; noise on the Hessian counted or left out."""
    rng = seeded(2)
    sizes, truth = 60.0 * variances(rng), np.array([1.0, -0.5, 0.3, 2.0])
    start = np.array([0.3, 0.0, 0.0, 0.5])
    root = rng.standard_normal((P, P))
    hessian = 250 * np.eye(P) + 60 * root @ root.T
    sampled = rng.standard_normal((draws, P)) @ np.linalg.cholesky(0.7 * hessian).T
    score = hessian @ (truth - start) + sampled + 5.0 * rng.standard_normal((draws, P))
    noisy = hessian + noises(sizes, draws, rng)
    counted = sizes if count_hessian else np.zeros_like(sizes)
    found = solve(Equations(start, score, noisy, 25.0, counted, one, PRIOR))
    std = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    return (found.theta - truth) / std, ~found.hidden


def test_intervals_hold_and_without_the_hessians_noise_they_do_not() -> None:
    errors, told = simulate(4000, count_hessian=True)
    assert told.mean() > 0.99
    inside, runs = int((np.abs(errors) < 1.959964)[told].sum()), int(told.sum())
    # Four coefficients of one draw are no independent trials: a fourth of the runs counts.
    assert rate_at_least(inside // 4, runs // 4) < 0.95 < rate_at_most(inside // 4, runs // 4)
    assert inside / runs == pytest.approx(0.95, abs=0.012)
    naive, told = simulate(4000, count_hessian=False)
    held = int((np.abs(naive) < 1.959964)[told].sum())
    assert rate_at_most(held // 4, int(told.sum()) // 4, FALSE_ALARM) < 0.93


def test_a_direction_that_noise_may_have_made_up_is_hidden_and_counted() -> None:
    rng = seeded(3)
    hessian = np.diag([4000.0, 4000.0, 4000.0, 6.0])
    hessian[0, 3] = hessian[3, 0] = 100.0
    sizes, truth = 9.0 * (1 + np.eye(P)), np.array([1.0, -1.0, 0.5, 2.0])
    draws = 2000
    noisy = hessian + noises(sizes, draws, rng)
    sampled = rng.standard_normal((draws, P)) * np.sqrt(0.7 * np.diag(hessian))
    score = hessian @ truth + sampled + 3.0 * rng.standard_normal((draws, P))
    found = solve(Equations(np.zeros(P), score, noisy, 9.0, sizes, one, PRIOR))
    assert found.hidden[:, 3].all()
    assert not found.hidden[:, :3].any()
    std = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    held = (np.abs(found.theta - truth) < 1.96 * std)[:, :3].mean(axis=0)
    assert held.min() > 0.92
    assert held[1:].min() > 0.94
    # One that is truly there is told, and not shrunk by the prior.
    clear = np.diag([4000.0, 4000.0, 4000.0, 800.0])
    score = clear @ np.array([1.0, -1.0, 0.5, 40.0])
    strong = solve(Equations(np.zeros(P), score, clear, 9.0, sizes, one, PRIOR))
    assert not strong.hidden.any()
    assert strong.theta[3] == pytest.approx(40.0, rel=1e-12)


def test_sums_that_no_rows_can_have_do_no_harm() -> None:
    rng = seeded(4)
    for size in (1.0, 1e6, 1e15):
        hessian = noises(np.full((P, P), size**2), 1, rng)[0]
        score = size * rng.standard_normal(P)
        found = solve(Equations(np.zeros(P), score, hessian, 1.0, 1 + np.eye(P), one, PRIOR))
        assert np.all(np.isfinite(found.theta))
        assert np.all(np.isfinite(found.covariance))
        assert np.all(np.diag(found.covariance) > 0)


def test_a_stack_is_solved_as_each_by_itself() -> None:
    rng = seeded(5)
    sizes = variances(rng)
    hessian = 300 * np.eye(P) + noises(sizes * 400, 3, rng)
    score = 100 * rng.standard_normal((3, P))
    many = solve(Equations(np.zeros(P), score, hessian, 4.0, sizes, one, PRIOR))
    for k in range(3):
        single = solve(Equations(np.zeros(P), score[k], hessian[k], 4.0, sizes, one, PRIOR))
        assert many.theta[k] == pytest.approx(single.theta, rel=1e-10)
        assert many.covariance[k] == pytest.approx(single.covariance, rel=1e-10)
        assert (many.hidden[k] == single.hidden).all()


@pytest.mark.parametrize("constant", [0.25, 0.0])
def test_the_third_order_of_normal_rows_is_what_their_sum_gives(constant: float) -> None:
    """Normal rows as a grid of points with weights, with which their moments are exact."""
    rng = seeded(6)
    nodes, chances = np.polynomial.hermite_e.hermegauss(24)
    points: Array = np.stack(np.meshgrid(nodes, nodes, nodes), axis=-1).reshape(-1, 3)
    weights = np.prod(np.stack(np.meshgrid(chances, chances, chances), axis=-1), axis=-1).ravel()
    weights = 500 * weights / weights.sum()
    rows = points @ rng.standard_normal((3, 3)) * 0.15
    if constant:
        rows = np.hstack([rows + np.array([0.2, -0.1, 0.3]), np.full((len(rows), 1), constant)])
    else:  # the sum of the weights is taken from the rows, that are at most 1 long
        rows /= np.sqrt((weights * (rows**2).sum(axis=1)).sum() / 500)
    p = rows.shape[1]
    start, d = np.split(3 * rng.standard_normal(2 * p), 2)
    hessian: Array = (rows * weights[:, None]).T @ rows
    for slope in (np.ones_like, lambda scores: -np.tanh(scores / 2)):
        by_hand = (weights * slope(rows @ start) * (rows @ d) ** 2) @ rows / 2
        equations = Equations(
            start, d, hessian, 1.0, np.eye(p), one, PRIOR, slope=slope, constant=constant
        )
        found = third_order(equations, hessian, d)
        assert found == pytest.approx(by_hand, rel=1e-3, abs=1e-3)
        assert np.abs(by_hand).max() > 5 or slope is np.ones_like


def test_a_start_that_is_far_away_makes_intervals_longer_and_then_nothing_is_told() -> None:
    hessian = 900.0 * np.eye(P)
    hessian[-1, -1] = 9000 * 0.0625

    def solved(pull: float, slope: Callable[[Array], Array] | None) -> Solved:
        start, score = np.array([2.0, 0, 0, 0]), np.array([pull, 0.0, 0.0, 0.0])
        variances = np.zeros((P, P))
        return solve(
            Equations(start, score, hessian, 25.0, variances, one, 10.0, slope, constant=0.25)
        )

    def logistic(scores: Array) -> Array:
        return np.asarray(-np.tanh(scores / 2))

    near, straight, curved = solved(9.0, logistic), solved(900.0, None), solved(900.0, logistic)
    assert near.covariance[0, 0] == pytest.approx(straight.covariance[0, 0], rel=1e-3)
    assert curved.covariance[0, 0] > 1.5 * straight.covariance[0, 0]
    assert curved.theta[0] > straight.theta[0] + 0.02  # weights fall on the way up
    assert not near.far
    assert not curved.far
    assert solved(5000.0, logistic).far
    assert solved(5000.0, logistic).hidden.all()
    assert not solved(5000.0, None).far


def test_two_sessions_are_one_with_less_noise() -> None:
    """2,000 draws: shorter intervals than the last session's alone, and they hold as often."""
    rng, draws, truth = seeded(7), 2000, np.array([1.0, -0.5, 0.3, 2.0])
    root = rng.standard_normal((P, P))
    hessian = 400 * np.eye(P) + 60 * root @ root.T
    sampled = rng.standard_normal((draws, P)) @ np.linalg.cholesky(0.7 * hessian).T
    sizes = 9.0 * (1 + np.eye(P))

    def session(start: Array, noise_std: float, factor: float) -> Equations:
        score = hessian @ (truth - start) + sampled
        score = score + noise_std * rng.standard_normal((draws, P))
        noisy = hessian + noises(factor * sizes, draws, rng)
        return Equations(
            start, score, noisy, noise_std**2, factor * sizes, one, PRIOR,
            lambda scores: np.zeros_like(scores), 0.25,
        )  # fmt: skip

    last = session(np.array([0.9, -0.4, 0.3, 1.8]), 15.0, 1.0)
    earlier = session(np.array([0.7, -0.1, 0.1, 1.5]), 22.0, 2.0)
    alone, both = solve(last), solve(last._replace(earlier=earlier))
    assert not both.hidden.any()
    held = {}
    for name, found in (("alone", alone), ("both", both)):
        std = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
        held[name] = (np.abs(found.theta - truth) < 1.959964 * std).mean()
        assert held[name] == pytest.approx(0.95, abs=0.015)
    widths = np.diagonal(both.covariance / alone.covariance, axis1=1, axis2=2) ** 0.5
    assert 0.7 < np.median(widths) < 0.96
    # One that is far noisier is left out.
    useless = earlier._replace(noise_variance=1e6)
    assert solve(last._replace(earlier=useless)).theta == pytest.approx(alone.theta, rel=1e-12)


def test_an_earlier_session_that_tells_little_is_left_out() -> None:
    """Its noise is as small as the last one's, but its rows weigh a tenth: it was far away."""
    rng, truth, sizes = seeded(8), np.array([1.0, -0.5, 0.3, 2.0]), 4.0 * (1 + np.eye(P))
    root = rng.standard_normal((P, P))
    hessian = 300 * np.eye(P) + 20 * root @ root.T

    def session(start: Array, noise_std: float, weight: float) -> Equations:
        score = weight * hessian @ (truth - start) + noise_std * rng.standard_normal((40, P))
        noisy = weight * hessian + noises(sizes, 40, rng)
        return Equations(
            start, score, noisy, noise_std**2, sizes, one, PRIOR,
            lambda scores: np.zeros_like(scores), 0.25,
        )  # fmt: skip

    last = session(np.array([0.9, -0.4, 0.3, 1.8]), 30.0, 1.0)
    alone = solve(last)
    light = solve(last._replace(earlier=session(np.array([1.1, -0.6, 0.3, 2.2]), 30.0, 0.1)))
    assert light.theta == pytest.approx(alone.theta, rel=1e-9)
    assert light.covariance == pytest.approx(alone.covariance, rel=1e-9)
    # One as informative as the last is not.
    full = solve(last._replace(earlier=session(np.array([1.1, -0.6, 0.3, 2.2]), 30.0, 1.0)))
    widths = np.diagonal(full.covariance / alone.covariance, axis1=1, axis2=2) ** 0.5
    assert widths.max() < 1
