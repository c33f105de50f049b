"""Reference mechanisms against slow oracles, and their exact laws against their draws.

Seeds are fixed; the two comparisons of draws with laws use a Kolmogorov distance that fresh seeds
would exceed with probability 1e-6 each.
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import gammaincc
from scipy.stats import gamma as gamma_law

from sudare.audit import audit, worst_log_ratio
from sudare.audit._quadrature import integrate
from sudare.audit._reference import (
    Labels,
    Perturbation,
    Squares,
    line_audit,
    logistic,
    logistic_free_intercept,
    logistic_line,
    replaced_record,
    ridge_anywhere,
    ridge_clipped,
    ridge_in_ball,
    ridge_line,
    ridge_plane,
)
from sudare.calibration._regression import logistic_objective, ridge_objective
from sudare.foundations.mechanisms import gamma_noise
from sudare.foundations.randomness import seeded

ROWS = seeded(0).normal(size=(30, 4))
TARGETS = seeded(1).normal(size=30)
DATA = Squares.of(ROWS, TARGETS)
TERMS = Perturbation(scale=40.0, strength=3.0)


def test_squares_are_gradient_and_curvature_of_the_loss():
    theta = np.array([0.3, -1.0, 0.2, 2.0])
    gradient = 2 * ROWS.T @ (ROWS @ theta - TARGETS)
    assert DATA.curvature @ theta - DATA.pull == pytest.approx(gradient)
    twice = Squares.of(np.vstack([ROWS, ROWS[:1]]), np.append(TARGETS, TARGETS[0]))
    weighted = Squares.of(ROWS, TARGETS, [2.0] + [1.0] * 29)
    assert weighted.curvature == pytest.approx(twice.curvature)
    assert weighted.pull == pytest.approx(twice.pull)


def test_the_closed_form_solves_the_normal_equations():
    theta = ridge_anywhere(DATA, TERMS, 50, seeded(3))
    noise = gamma_noise(TERMS.scale, 4, seeded(3), 50)
    gradient = theta @ DATA.curvature - DATA.pull + TERMS.strength * theta + noise
    assert np.abs(gradient).max() < 1e-9


def test_the_minimiser_over_the_ball_satisfies_its_optimality_conditions():
    radius = 2.0
    theta = ridge_in_ball(DATA, TERMS, radius, 500, seeded(3))
    noise = gamma_noise(TERMS.scale, 4, seeded(3), 500)
    gradient = theta @ DATA.curvature - DATA.pull + TERMS.strength * theta + noise
    norm = np.linalg.norm(theta, axis=1)
    inside = norm < radius * (1 - 1e-9)
    assert 20 < inside.sum() < 480
    assert np.abs(gradient[inside]).max() < 1e-8
    assert norm.max() <= radius * (1 + 1e-11)
    # On the sphere the gradient is a non-negative multiple of -theta.
    multiplier = -(gradient * theta).sum(axis=1) / radius**2
    assert (multiplier[~inside] >= 0).all()
    assert np.abs(gradient + multiplier[:, None] * theta)[~inside].max() < 1e-8


def test_clipping_afterwards_is_something_else():
    clipped = ridge_clipped(DATA, TERMS, 2.0, 500, seeded(3))
    free = ridge_anywhere(DATA, TERMS, 500, seeded(3))
    norms = np.linalg.norm(free, axis=1)
    assert clipped[norms < 2.0] == pytest.approx(free[norms < 2.0])
    assert np.linalg.norm(clipped, axis=1).max() <= 2.0 * (1 + 1e-12)
    constrained = ridge_in_ball(DATA, TERMS, 2.0, 500, seeded(3))
    assert np.abs(clipped - constrained).max() > 0.1


def test_on_a_line_the_sphere_is_met_exactly():
    """Both ends are single doubles: rounding must not say which data were used."""
    data = Squares.of([[1.0]], [0.3])
    for strength in (3.0, 4.1, 5.7):
        theta = ridge_in_ball(data, Perturbation(8.0, strength), 1.0, 20_000, seeded(0))
        ends = theta[np.abs(theta) > 1 - 1e-9]
        assert len(ends) > 1000
        assert set(np.unique(ends)) == {-1.0, 1.0}


LABELS = Labels(
    rows=np.array([[0.5, 1.0], [-0.7, 1.0], [0.2, 1.0]]),
    labels=np.array([1.0, -1.0, -1.0]),
    counts=np.array([5.0, 4.0, 2.0]),
)


def logistic_objective_by_hand(theta, data, strength, noise):
    margins = data.labels * (data.rows @ theta)
    loss = (data.counts * np.log1p(np.exp(-margins))).sum()
    return loss + 0.5 * (strength * theta**2).sum() + noise @ theta


@pytest.mark.parametrize("free", [False, True])
def test_logistic_newton_against_a_general_minimiser(free):
    terms = Perturbation(3.0, 1.5)
    if free:
        feature_only = Labels(LABELS.rows[:, :1], LABELS.labels, LABELS.counts)
        found = logistic_free_intercept(feature_only, terms, 20, seeded(4))
        noise = np.column_stack([gamma_noise(3.0, 1, seeded(4), 20), np.zeros(20)])
        strength = np.array([1.5, 0.0])
    else:
        found = logistic(LABELS, terms, 20, seeded(4))
        noise, strength = gamma_noise(3.0, 2, seeded(4), 20), np.array([1.5, 1.5])
    for theta, b in zip(found, noise, strict=True):
        slow = minimize(
            logistic_objective_by_hand, np.zeros(2), (LABELS, strength, b), options={"gtol": 1e-8}
        )
        assert theta == pytest.approx(slow.x, abs=2e-5)


def test_logistic_newton_converges_far_out():
    terms = Perturbation(200.0, 0.5)
    theta = logistic(LABELS, terms, 2000, seeded(5))
    noise = gamma_noise(200.0, 2, seeded(5), 2000)
    assert np.abs(theta).max() > 1000
    miss = 1 / (1 + np.exp(np.clip(theta @ (LABELS.rows * LABELS.labels[:, None]).T, -700, 700)))
    gradient = -(miss * LABELS.counts) @ (LABELS.rows * LABELS.labels[:, None]) + 0.5 * theta
    assert np.abs(gradient + noise).max() < 1e-9


@pytest.mark.parametrize("law", ["ridge", "logistic"])
def test_the_exact_law_on_a_line_is_that_of_the_draws(law):
    runs, radius, terms = 40_000, 0.6, Perturbation(4.0, 5.0)
    if law == "ridge":
        data = Squares.of([[1.0], [0.5]], [0.7, -0.2], [3, 4])
        output = ridge_line(data, terms, radius)
        draws = ridge_in_ball(data, terms, radius, runs, seeded(6))[:, 0]
    else:
        labels = Labels(np.array([[1.0], [0.5]]), np.array([1.0, -1.0]), np.array([9.0, 2.0]))
        output = logistic_line(labels, terms, radius)
        # For a convex function of one variable, minimising and then clipping is constraining.
        draws = np.clip(logistic(labels, terms, runs, seeded(6))[:, 0], -radius, radius)
    grid = np.linspace(-radius, radius, 41)[1:-1]
    below = [
        output.low
        + quad(lambda t: math.exp(output.log_density(np.array([t]))[0]), -radius, x, limit=200)[0]
        for x in grid
    ]
    empirical = np.searchsorted(np.sort(draws), grid) / runs
    distance = np.abs(empirical - below).max()
    assert distance < math.sqrt(math.log(2 / 1e-6) / (2 * runs))
    assert np.mean(draws >= radius * (1 - 1e-9)) == pytest.approx(output.high, abs=0.01)
    assert output.low > 0.02
    assert output.high > 0.02


def test_the_published_terms():
    terms = Perturbation.published(
        0.5, n=10, regularization=0.02, row_norm=2.0, target_bound=3.0, radius=0.25
    )
    zeta = 2 * 2.0 * (3.0 + 0.25 * 2.0)
    assert terms.scale == pytest.approx(2 * zeta / 0.5)
    assert terms.strength == pytest.approx(2 * 10 * 0.02 + 2 * (2 * 4.0) / 0.5)


def test_the_unbounded_estimate_needs_a_positive_delta_for_every_epsilon():
    first = Squares.of([[0.05], [0.0]], [0.0, 0.0], [19, 1])
    second = Squares.of([[0.05], [1.0]], [0.0, 1.0], [19, 1])
    terms = Perturbation.published(
        1.0, n=20, regularization=0.01, row_norm=1.0, target_bound=1.0, radius=1.0
    )
    laws = [ridge_line(data, terms, math.inf) for data in (first, second)]
    at = np.array([-5.0, -10.0, -50.0])
    log_ratio = laws[0].log_density(at) - laws[1].log_density(at)
    assert log_ratio == pytest.approx([1.13, 2.38, 12.38], abs=0.005)
    for epsilon, delta in ((1.0, 1.653e-2), (4.0, 1.950e-5), (8.0, 2.43e-9)):
        finding = line_audit(laws[0], laws[1], math.inf, epsilon)
        assert finding.violated
        assert finding.delta_at_epsilon == pytest.approx(delta, rel=2e-3)


def test_the_log_ratio_of_clipped_estimates_on_the_sphere():
    """On the sphere at e1, the ratio has a closed form in incomplete gamma functions.

    Checked against a cap around e1, on which the ratio is smaller.
    """
    p, radius, scale, strength = 10, 1.0, 8.0, 4.0

    def tail(k):
        return gamma_law.sf(k * radius / scale, p)

    exact = math.log(tail(strength) / tail(strength + 2)) + (p - 1) * math.log1p(2 / strength)
    assert gammaincc(p, strength * radius / scale) == pytest.approx(tail(strength))
    assert exact == pytest.approx(3.65, abs=0.005)
    first = Squares.of(np.zeros((1, p)), [0.0])
    second = Squares.of(np.eye(p)[:1], [0.0])
    counts = [
        np.count_nonzero(
            np.abs(
                ridge_clipped(data, Perturbation(scale, strength), radius, 300_000, seeded(7))[:, 0]
            )
            > 0.7
        )
        for data in (first, second)
    ]
    assert 2.0 < math.log(counts[0] / counts[1]) < exact


@pytest.mark.parametrize(("epsilon", "reached"), [(0.1, 1.113), (0.5, 1.074), (1.0, 1.037)])
def test_the_published_constants_fall_short_on_a_line(epsilon, reached):
    radius, r = 1e-3, 0.5
    terms = Perturbation.published(
        epsilon, n=2001, regularization=0.0, row_norm=1.0, target_bound=1.0, radius=radius
    )
    laws = [ridge_line(data, terms, radius) for data in replaced_record(r)]
    finding = line_audit(laws[0], laws[1], radius, epsilon)
    assert finding.violated
    assert finding.worst_log_ratio == pytest.approx(reached * epsilon, rel=1e-3)
    k = terms.strength
    by_hand = (1 + r) / 2 * epsilon + math.log((k + 2) / (k + 2 * r**2))
    assert finding.worst_log_ratio == pytest.approx(by_hand, rel=2e-3)


def test_enough_epsilon_covers_the_published_constants():
    """The reject arm is not a habit of the audit: at 1.5 times the claim nothing is found."""
    terms = Perturbation.published(
        0.1, n=2001, regularization=0.0, row_norm=1.0, target_bound=1.0, radius=1e-3
    )
    laws = [ridge_line(data, terms, 1e-3) for data in replaced_record()]
    assert not line_audit(laws[0], laws[1], 1e-3, 0.15).violated


def plane_witness():
    """Neighbours with two features, X = Y = 1: ten million records.

    The changed record is at 15° with target 1, or at 75° with target -1: both pull along 45°. Ten
    thousand records along the second axis make it stiff, so that only the first axis notices the
    change in curvature; the rest are tiny along the first axis, slope without curvature. Both kinds
    together put the gradient along 45°, far from zero.
    """
    angles = np.deg2rad([15.0, 75.0])
    changed = np.column_stack([np.cos(angles), np.sin(angles)])
    stiff, n, slope = 10_000, 10**7, 200.0
    excess = slope / 4  # records of target -1 in place of 1, each worth 4 in slope
    tiny = slope / (2 * (n - stiff - 1))
    rows = [[0.0, 1.0], [0.0, 1.0], [-tiny, 0.0]]
    counts = [stiff / 2 + excess, stiff / 2 - excess, n - stiff - 1]
    return tuple(
        Squares.of([row, *rows], [target, -1.0, 1.0, 1.0], [1, *counts])
        for row, target in zip(changed, (1.0, -1.0), strict=True)
    )


@pytest.mark.parametrize(("epsilon", "reached"), [(0.1, 1.288), (0.5, 1.252)])
def test_the_published_constants_fall_short_further_in_the_plane(epsilon, reached):
    """A density ratio on an open set: the hockey stick over a box inside the ball is positive."""
    radius = 1e-4
    terms = Perturbation.published(
        epsilon, n=10**7, regularization=0.0, row_norm=1.0, target_bound=1.0, radius=radius
    )
    log_p, log_q = (ridge_plane(data, terms) for data in plane_witness())
    side = 0.7 * radius
    box = ((-side, side),) * 2
    ratio = worst_log_ratio(log_p, log_q, box)
    assert ratio == pytest.approx(reached * epsilon, rel=2e-3)

    def stick(x):
        p, q = np.exp(log_p(x)), np.exp(log_q(x))
        excess = np.maximum(0, p - math.exp(epsilon) * q)
        return np.stack([p, excess], axis=1)

    (mass, delta), error = integrate(stick, np.array([box]), tolerance=1e-13, max_points=100_000)
    assert delta > 1000 * error[1]
    assert delta == pytest.approx(mass * -math.expm1(epsilon - ratio), rel=0.1)


def test_the_corrected_constants_hold_in_the_plane():
    for epsilon in (0.1, 0.5):
        noise = ridge_objective(
            epsilon,
            0.0,
            n=10**7,
            dimension=2,
            row_norm=1.0,
            target_bound=1.0,
            radius=1e-4,
            regularization=0.0,
        )
        laws = [ridge_plane(data, Perturbation.corrected(noise)) for data in plane_witness()]
        box = ((-7e-5, 7e-5),) * 2
        assert 0.5 * epsilon < worst_log_ratio(laws[0], laws[1], box) <= epsilon


def opposite_targets(label):
    """Twenty records, one feature: two at row 1, of which one changes its target, the rest zero."""
    return Squares.of([[1.0], [1.0], [0.0]], [-1.0, label, 0.0], [1, 1, 18])


@pytest.mark.parametrize(("factor", "violated"), [(1.0, False), (0.8, True)])
def test_corrected_ridge_is_nearly_tight(factor, violated):
    """A tiny ball: the whole budget is in the noise, and opposite targets use all of it."""
    radius = 0.01
    noise = ridge_objective(
        1.0,
        0.0,
        n=20,
        dimension=1,
        row_norm=1.0,
        target_bound=1.0,
        radius=radius,
        regularization=1.0,
    )
    terms = Perturbation(factor * noise.scale, noise.curvature)
    data = opposite_targets(1.0), opposite_targets(-1.0)
    laws = [ridge_line(d, terms, radius) for d in data]
    exact = line_audit(laws[0], laws[1], radius, 1.0)
    assert exact.violated is violated
    assert exact.worst_log_ratio == pytest.approx(1 / factor, rel=0.01)
    seen = audit(
        lambda d, runs, rng: ridge_in_ball(d, terms, radius, runs, rng),
        *data,
        epsilon=1.0,
        runs=100_000,
        rng=seeded(8),
    )
    assert seen.violated is violated
    assert seen.epsilon_lower > 0.9


@pytest.mark.parametrize(("factor", "violated"), [(1.0, False), (0.8, True)])
def test_corrected_logistic_is_nearly_tight(factor, violated):
    """One feature within a ball: a label changed at row 1 moves the gradient by all it can."""
    radius = 1.0
    noise = logistic_objective(
        1.0, 0.0, n=20, dimension=1, row_norm=1.0, regularization=0.5, radius=radius
    )
    terms = Perturbation(factor * noise.scale, noise.curvature)
    laws = [
        logistic_line(
            Labels(np.array([[1.0], [0.0]]), np.array([label, 1.0]), np.array([1.0, 19.0])),
            terms,
            radius,
        )
        for label in (1.0, -1.0)
    ]
    finding = line_audit(laws[0], laws[1], radius, 1.0)
    assert finding.violated is violated
    assert finding.worst_log_ratio > 0.9 / factor
