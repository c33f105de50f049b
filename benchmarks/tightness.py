"""How much of what is promised is used up: the largest ε found, beside the claim.

Each mechanism is calibrated by the functions that learners and surveys use, and neighbouring inputs
are searched for that tell most. What is found is exact for those inputs (a density ratio, an
integral, a sum), so it is a lower bound of what the mechanism spends; the claim is proved, so it is
an upper bound. One less the ratio is the *slack*, in the last column: about the share of the noise
that a better proof could save at most. With δ > 0, ε is what the laws found need at the claimed δ.

Objective perturbation is attacked at an interior θ of the plane, with other records that make one
direction stiff and pull the noise along the difference of two gradients; with δ > 0, with other
records so many that θ hardly moves. Rows are at most 1.7 long, targets at most 0.6.

Aim: nothing found exceeds its claim.
"""

from dataclasses import replace
from functools import partial
from math import floor, inf, log
from typing import Any

from scipy.special import log_expit

from benchmarks.attacks import (
    Plane,
    epsilon_at,
    gibbs_pair,
    logistic_output_distance,
    logistic_plane,
    ridge_output_distance,
    ridge_plane,
    steps_delta,
    transcripts_epsilon,
)
from benchmarks.table import Row, against
from sudare.audit import Domain, LogDensity, hockey_stick, normal_mean
from sudare.calibration import (
    ObjectiveNoise,
    flip_probability,
    inverse_temperature,
    logistic_gradient_diameter,
    logistic_objective,
    logistic_output_sensitivity,
    mask_law,
    normal_mean_inverse_temperature,
    ridge_gradient_diameter,
    ridge_objective,
    ridge_output_sensitivity,
)
from sudare.foundations.curves import gaussian_epsilon
from sudare.foundations.rounding import down
from sudare.foundations.seal import plan_seal
from sudare.learners import MomentsClassifier

ROW_NORM, TARGET, DELTA = 1.7, 0.6, 1e-6


def run(quick: bool) -> list[Row]:
    """Every mechanism, at one ε or at several."""
    rows: list[Row] = []
    for epsilon in (1.0,) if quick else (0.1, 1.0, 5.0):
        rows += _objective(epsilon, quick)
        rows += _output(epsilon)
        rows += _posteriors(epsilon)
        rows += _sealed(epsilon)
        rows += _counting(epsilon)
    return rows


def _objective(epsilon: float, quick: bool) -> list[Row]:
    rows = []
    rounds = 3 if quick else 15
    common: dict[str, Any] = {"n": 1000, "row_norm": ROW_NORM}
    for reach in (8.0,) if quick else (1.0, 8.0, 30.0):
        radius = reach / ROW_NORM
        for weight in (0.01,) if quick else (0.0, 0.01):
            planes: list[tuple[str, Plane, list[ObjectiveNoise]]] = [
                (
                    "ridge",
                    ridge_plane(ROW_NORM, TARGET, radius),
                    [
                        ridge_objective(
                            epsilon,
                            delta,
                            **common,
                            dimension=dimension,
                            target_bound=TARGET,
                            radius=radius,
                            regularization=weight,
                        )
                        for delta, dimension in ((0.0, 2), (DELTA, 10_000))
                    ],
                ),
                (
                    "logistic",
                    logistic_plane(ROW_NORM, radius),
                    [
                        logistic_objective(
                            epsilon,
                            delta,
                            **common,
                            dimension=dimension,
                            radius=radius,
                            regularization=weight,
                        )
                        for delta, dimension in ((0.0, 2), (DELTA, 10_000))
                    ],
                ),
            ]
            for name, plane, (pure, gaussian) in planes:
                where = f"BX = {reach:g}, λ = {weight:g}, "
                found = plane.loss(pure.scale, pure.curvature, rounds)
                text = f"{name}, objective, pure; {where}ε = {epsilon:g}"
                rows.append(_row(text, found, epsilon))
                mu = plane.distance(rounds) / gaussian.scale
                rows.append(_gaussian(f"{name}, objective, Gaussian; {where}", mu, epsilon))
    return rows


def _output(epsilon: float) -> list[Row]:
    rows = []
    for weight in (0.01, 1.0, 100.0):
        public: dict[str, Any] = {
            "n": 1,
            "dimension": 2,
            "row_norm": ROW_NORM,
            "regularization": weight,
        }
        for name, sensitivity, distance in (
            (
                "ridge",
                ridge_output_sensitivity(**public, target_bound=TARGET, radius=8 / ROW_NORM),
                ridge_output_distance(ROW_NORM, TARGET, weight),
            ),
            (
                "logistic",
                logistic_output_sensitivity(**public, radius=8 / ROW_NORM),
                logistic_output_distance(ROW_NORM, weight),
            ),
        ):
            where = f"nλ = {weight:g}, "
            found = epsilon * distance / sensitivity
            rows.append(_row(f"{name}, output, pure; {where}ε = {epsilon:g}", found, epsilon))
            seal = plan_seal(dimension=2, epsilon=epsilon, delta=DELTA, sensitivity=sensitivity)
            mu = distance / seal.noise_std
            rows.append(_gaussian(f"{name}, output, Gaussian; {where}", mu, epsilon))
    return rows


def _posteriors(epsilon: float) -> list[Row]:
    # On balls as small as these the gradient diameter is attained at every θ.
    curvature, radius = 1000.0, 0.17
    rows = []
    for name, diameter, loss in (
        (
            "ridge",
            ridge_gradient_diameter(ROW_NORM, TARGET, radius, 1),
            lambda theta, sign: (sign * TARGET - ROW_NORM * theta) ** 2,
        ),
        (
            "logistic",
            logistic_gradient_diameter(ROW_NORM, 1, radius),
            lambda theta, sign: -log_expit(sign * ROW_NORM * theta),
        ),
    ):
        beta = inverse_temperature(
            epsilon, DELTA, gradient_diameter=diameter, prior_curvature=curvature
        )
        laws = gibbs_pair(loss, beta, curvature, radius)
        found = _integrated(laws, ((-radius, radius),), epsilon)
        rows.append(
            _row(f"Gibbs {name}, on a line; ε = {epsilon:g}, δ = {DELTA:g}", found, epsilon)
        )
    bound, n = 1.3, 50
    public: dict[str, Any] = {"n": n, "noise_std": 1.0, "prior_std": 2.0}
    beta = normal_mean_inverse_temperature(epsilon, DELTA, bound=bound, **public)
    first, second = (normal_mean(total, beta, **public) for total in (n * bound, (n - 2) * bound))
    found = _integrated((first, second), ((-inf, inf),), epsilon)
    return [*rows, _row(f"normal mean; ε = {epsilon:g}, δ = {DELTA:g}", found, epsilon)]


def _integrated(laws: tuple[LogDensity, LogDensity], domain: Domain, epsilon: float) -> float:
    return epsilon_at(DELTA, lambda e: hockey_stick(*laws, e, domain), 2 * epsilon)


def _sealed(epsilon: float) -> list[Row]:
    made = MomentsClassifier(epsilon, delta=DELTA, row_norm=ROW_NORM).public_noise(1000, 5)
    rows = [_gaussian("moments; ", 2 / made.noise_std, epsilon)]
    for delta in (0.0, DELTA):
        seal = plan_seal(dimension=1, epsilon=epsilon, delta=delta, displacement=3e-7)
        # Two runs within the displacement, rounded apart.
        steps = floor(2 * seal.displacement / 2.0**seal.grid_exponent + 1)
        scale = seal.noise_scale
        if delta == 0:
            rows.append(_row(f"seal alone, pure; ε = {epsilon:g}", steps / scale, epsilon))
        else:
            found = epsilon_at(DELTA, partial(steps_delta, steps=steps, scale=scale), 2 * epsilon)
            name = f"seal alone, Gaussian; ε = {epsilon:g}, δ = {DELTA:g}"
            rows.append(_row(name, found, epsilon))
    return rows


def _counting(epsilon: float) -> list[Row]:
    flip = flip_probability(epsilon)
    masks, tree = mask_law(epsilon, 4, 1), mask_law(epsilon, 2)
    found = {
        "randomised response": log((1 - flip) / flip),
        "masks, 4 slots": log(masks.near_weight / masks.far_weight),
        "tree, 2 changes, 4 stretches": transcripts_epsilon(tree, 4),
    }
    return [_row(f"{name}; ε = {epsilon:g}", value, epsilon) for name, value in found.items()]


def _gaussian(name: str, mu: float, epsilon: float) -> Row:
    """Two laws that are a Gaussian pair at distance μ."""
    found = gaussian_epsilon(mu, DELTA)
    return _row(f"{name}ε = {epsilon:g}, δ = {DELTA:g}", found, epsilon)


def _row(name: str, found: float, epsilon: float) -> Row:
    row = against(name, down(found), "ε", "claimed", epsilon, "<= 1")
    return replace(row, slack=max(0.0, 1 - down(found) / epsilon))
