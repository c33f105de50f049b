"""Regression by objective perturbation, right and wrong, vectorised over runs.

The mechanisms that the catalogue audits. Each draws many independent releases at once; the wrong
ones are kept wrong on purpose, exactly as published or as found in use.

    nJ(θ) = Σ loss + (κ/2)‖θ‖² + b·θ,    b of density ∝ exp(−‖b‖/s)

in which Σ loss is the sum over records of (y − θ·x)² or of log(1 + exp(−y θ·x)), s is
`terms.scale` and κ, on the scale of the sum, is `terms.strength`.

Reference: Chaudhuri, Monteleoni and Sarwate (2011); Kifer, Smith and Thakurta (2012); the ridge
aggregation paper of Minami, Arai, Sato and Nakagawa (2015; eq. 7, eq. 8).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from sudare.audit._exact import audit_exact
from sudare.audit._findings import ExactFinding
from sudare.calibration import ObjectiveNoise
from sudare.foundations.mechanisms import gamma_noise

Floats = NDArray[np.float64]


class Perturbation(NamedTuple):
    """What is added to the sum of losses: noise of scale s, and κ/2 times the squared norm."""

    scale: float
    strength: float

    @classmethod
    def corrected(cls, noise: ObjectiveNoise) -> "Perturbation":
        """The terms of a calibration made for neighbours that replace one record."""
        return cls(noise.scale, noise.curvature)

    @classmethod
    def published(
        cls,
        epsilon: float,
        *,
        n: int,
        regularization: float,
        row_norm: float,
        target_bound: float,
        radius: float,
    ) -> "Perturbation":
        """The ridge aggregation paper's constants (around eq. 7): s = 2ζ/ε and Δ = 2Λ/ε."""
        zeta = 2 * row_norm * (target_bound + radius * row_norm)
        return cls(2 * zeta / epsilon, 2 * n * regularization + 4 * row_norm**2 / epsilon)


@dataclass(frozen=True)
class Squares:
    """All that squared loss depends on: Σ loss has gradient `curvature @ θ - pull`."""

    curvature: Floats
    pull: Floats

    @classmethod
    def of(cls, rows: ArrayLike, targets: ArrayLike, counts: ArrayLike = 1.0) -> "Squares":
        """From rows (m, p) and targets (m,), each record standing for `counts` like it."""
        x = np.asarray(rows, dtype=np.float64)
        weight = np.broadcast_to(np.asarray(counts, dtype=np.float64), (len(x),))
        weighted = 2 * weight[:, None] * x
        return cls(weighted.T @ x, weighted.T @ np.asarray(targets, dtype=np.float64))

    @property
    def dimension(self) -> int:
        """p."""
        return len(self.pull)


@dataclass(frozen=True)
class Labels:
    """Records of a two-class problem: rows (m, p), labels ±1, and how many are alike."""

    rows: Floats
    labels: Floats
    counts: Floats


def ridge_anywhere(data: Squares, terms: Perturbation, runs: int, rng: Generator) -> Floats:
    """The minimiser over the whole space, in closed form (eq. 8): not private for any ε."""
    noise = gamma_noise(terms.scale, data.dimension, rng, runs)
    hessian = data.curvature + terms.strength * np.eye(data.dimension)
    return np.asarray(np.linalg.solve(hessian, (data.pull - noise).T).T, dtype=np.float64)


def ridge_clipped(
    data: Squares, terms: Perturbation, radius: float, runs: int, rng: Generator
) -> Floats:
    """The minimiser over the whole space, moved to the ball afterwards: no remedy for p > 1."""
    free = ridge_anywhere(data, terms, runs, rng)
    norm = np.linalg.norm(free, axis=1, keepdims=True)
    return np.asarray(free * (radius / np.maximum(norm, radius)), dtype=np.float64)


def ridge_in_ball(
    data: Squares, terms: Perturbation, radius: float, runs: int, rng: Generator
) -> Floats:
    """The minimiser over the ball: what the theorem is about.

    In the eigenbasis of the Hessian the minimiser is t/(e + μ) with the multiplier μ ≥ 0 of the
    constraint; μ solves the secular equation by Newton's method on 1/norm, monotone from zero.
    """
    noise = gamma_noise(terms.scale, data.dimension, rng, runs)
    values, basis = np.linalg.eigh(data.curvature)
    e = values + terms.strength
    t = (data.pull - noise) @ basis
    solution = t / e
    outside = np.linalg.norm(solution, axis=1) > radius
    pulled, multiplier = t[outside], np.zeros((int(outside.sum()), 1))
    for _ in range(100):
        place = pulled / (e + multiplier)
        norm = np.linalg.norm(place, axis=1, keepdims=True)
        slope = (place**2 / (e + multiplier)).sum(axis=1, keepdims=True)
        step = (norm / radius - 1) * norm**2 / slope
        multiplier += step
        if not (step > 1e-13 * (e.max() + multiplier)).any():
            break
    on_sphere = pulled / (e + multiplier)
    solution[outside] = on_sphere / np.linalg.norm(on_sphere, axis=1, keepdims=True) * radius
    return _without_last_digits(solution @ basis.T)


class LineOutput(NamedTuple):
    """Law of a minimiser over [-radius, radius]: a density inside, a point mass at each end."""

    log_density: Callable[[Floats], Floats]
    low: float
    high: float


def line_output(
    gradient: Callable[[Floats], Floats],
    curvature: Callable[[Floats], Floats],
    scale: float,
    radius: float,
) -> LineOutput:
    """The exact law in one dimension, from the gradient and second derivative of nJ without noise.

    The minimiser is θ inside exactly when b = -gradient(θ), so that its density there is that of b
    times the second derivative; it is at an end when the slope, noise included, points outwards.
    """

    def log_density(theta: Floats) -> Floats:
        slope = np.abs(gradient(theta)) / scale
        return np.asarray(np.log(curvature(theta)) - slope - np.log(2 * scale), dtype=np.float64)

    if np.isinf(radius):
        return LineOutput(log_density, 0.0, 0.0)
    ends = np.array([-radius, radius])
    low, high = (float(g) / scale for g in gradient(ends))
    return LineOutput(log_density, _laplace_above(-low), _laplace_above(high))


def ridge_line(data: Squares, terms: Perturbation, radius: float) -> LineOutput:
    """The exact law of the ridge minimiser for one feature; `radius` may be infinite."""
    slope, pull = float(data.curvature[0, 0]) + terms.strength, float(data.pull[0])
    return line_output(
        lambda theta: slope * theta - pull,
        lambda theta: np.full(np.shape(theta), slope),
        terms.scale,
        radius,
    )


def line_audit(
    first: LineOutput, second: LineOutput, radius: float, epsilon: float
) -> ExactFinding:
    """Exact audit of two such laws; `radius` may be infinite."""
    ends = [(first.low, second.low), (first.high, second.high)]
    return audit_exact(
        first.log_density,
        second.log_density,
        epsilon=epsilon,
        domain=((-radius, radius),),
        atoms=ends if np.isfinite(radius) else (),
    )


def ridge_plane(data: Squares, terms: Perturbation) -> Callable[[Floats], Floats]:
    """Log density of the ridge minimiser for two features, at points inside the ball."""
    hessian = data.curvature + terms.strength * np.eye(2)
    constant = np.linalg.slogdet(hessian)[1] - np.log(2 * np.pi * terms.scale**2)

    def log_density(theta: Floats) -> Floats:
        gradient = theta @ hessian - data.pull
        return np.asarray(constant - np.linalg.norm(gradient, axis=1) / terms.scale)

    return log_density


def replaced_record(r: float = 0.5) -> tuple[Squares, Squares]:
    """Neighbours with one feature that the published constants do not cover (X = Y = 1, n = 2001).

    The changed record is (1, 1) in the first input and (r, -1) in the second. The two differ by
    2(1 + r) in gradient and by 2(1 - r²) in curvature, which the constants pay for only once. The
    other 2,000 records are tiny in x: they add slope, so that the noise density is on one flank of
    its peak, and next to no curvature.
    """
    rest, targets, counts = [-1e-3], 1.0, 2000
    return (
        Squares.of([[1.0], rest], [1.0, targets], [1, counts]),
        Squares.of([[r], rest], [-1.0, targets], [1, counts]),
    )


def logistic_line(data: Labels, terms: Perturbation, radius: float) -> LineOutput:
    """The exact law of the logistic minimiser for one feature."""
    x, y, w = data.rows[:, 0], data.labels, data.counts

    def gradient(theta: Floats) -> Floats:
        pull = expit(-theta[:, None] * x * y) * y * x
        return np.asarray(terms.strength * theta - pull @ w, dtype=np.float64)

    def curvature(theta: Floats) -> Floats:
        chance = expit(theta[:, None] * x)
        return np.asarray(terms.strength + (chance * (1 - chance) * x**2) @ w, dtype=np.float64)

    return line_output(gradient, curvature, terms.scale, radius)


def logistic(data: Labels, terms: Perturbation, runs: int, rng: Generator) -> Floats:
    """The logistic minimiser with every coefficient penalised and perturbed."""
    p = data.rows.shape[1]
    return _newton(data, np.full(p, terms.strength), gamma_noise(terms.scale, p, rng, runs))


def logistic_free_intercept(data: Labels, terms: Perturbation, runs: int, rng: Generator) -> Floats:
    """Coefficients penalised and perturbed, and an intercept that is neither: not private.

    Given the coefficients, such an intercept is a deterministic function of the data.
    """
    p = data.rows.shape[1]
    noise = np.zeros((runs, p + 1))
    noise[:, :p] = gamma_noise(terms.scale, p, rng, runs)
    rows = np.column_stack([data.rows, np.ones(len(data.rows))])
    strength = np.append(np.full(p, terms.strength), 0.0)
    return _newton(Labels(rows, data.labels, data.counts), strength, noise)


def _newton(data: Labels, strength: Floats, noise: Floats) -> Floats:
    """Minimise Σ loss + ½θ·(strength θ) + noise·θ for every row of `noise`: damped Newton."""
    signed = data.rows * data.labels[:, None]
    pairs = np.einsum("ra,rb->rab", data.rows, data.rows)

    def objective(theta: Floats, b: Floats) -> Floats:
        loss = np.logaddexp(0.0, -theta @ signed.T) @ data.counts
        return np.asarray(loss + (theta * (0.5 * strength * theta + b)).sum(axis=1))

    theta = np.zeros_like(noise)
    active = np.arange(len(noise))
    for _ in range(200):
        here, b = theta[active], noise[active]
        miss = expit(-here @ signed.T)
        gradient = -(miss * data.counts) @ signed + strength * here + b
        hessian = np.einsum("mr,rab->mab", miss * (1 - miss) * data.counts, pairs)
        hessian += np.diag(strength)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        decrement = (gradient * step).sum(axis=1)
        value, length = objective(here, b), np.ones(len(here))
        for _ in range(50):
            trial = objective(here - length[:, None] * step, b)
            # The slack lets the last steps pass, whose gain is below the rounding of the sum.
            worse = trial > value - 0.25 * length * decrement + 1e-12 * (1 + np.abs(value))
            if not worse.any():
                break
            length[worse] /= 2
        theta[active] = here - length[:, None] * step
        active = active[decrement > 1e-20 * (1 + np.abs(value))]
        if not len(active):
            break
    return _without_last_digits(theta)


def _without_last_digits(theta: Floats) -> Floats:
    """Twelve decimals, as a release would round.

    Which of the doubles next to the exact minimiser comes out depends on the data, and an audit
    sees that: at the end of the ball, say, the same number up to rounding is many different ones.
    """
    return np.asarray(np.round(theta, 12), dtype=np.float64)


def _laplace_above(edge: float) -> float:
    """Probability that a standard Laplace number exceeds `edge`."""
    tail = 0.5 * float(np.exp(-abs(edge)))
    return tail if edge >= 0 else 1.0 - tail
