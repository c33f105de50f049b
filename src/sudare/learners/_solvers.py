"""Minimisers over a ball, with a public bound on their distance from the exact one.

Objectives are sums over records. Let κ be the strong convexity, B the radius, G the gradient. For a
point θ of the ball and μ ≥ 0 (μ = 0 unless ‖θ‖ = B), ‖G(θ) + μθ‖ ≤ γ implies that θ is within
γ/(κ + μ/2) of the exact minimiser, because on a ball the outward pull adds to the convexity:
B² − θ·θ' ≥ ½‖θ − θ'‖². So a solver that stops at ‖G + μθ‖ ≤ τ(κ + μ)B ends within 2τB, and τ
depends on public numbers alone.

τ lies far above what rounding can do (`Tolerance` adds up worst cases over all admissible inputs),
so Newton's method reaches it; should doubles ever not suffice, it goes on in extended precision.
There is no way out that depends on the data: an abort would be an output too.

Rows are never copied: a row counts as `factor × features`, with the constant feature appended.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.special import expit

from sudare.foundations.mechanisms import draw_error
from sudare.foundations.rounding import up

Array = NDArray[np.float64]

BLOCK = 512
"""Rows summed at a time: bounds the depth of every sum that a certificate rests on."""
_CURVATURE_BLOCK = 8192
"""Rows at a time where only the memory matters."""
_NEAR = 0.02
"""Residual, against the largest possible gradient, from which the full Hessian pays."""
_PATIENCE = 40
"""Full steps, damped ones too, before rounding is suspected; few inputs take half as many."""
_UNIT = 2.0**-53


class Rows(NamedTuple):
    """Records as the loss sees them, without a copy of the table."""

    features: Array
    factors: Array
    """min(1, row_norm/‖features‖) a row: clipping to the public norm."""
    constant: float
    """Value of the intercept's constant feature; zero for none."""

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1]) + (self.constant > 0)

    def blocks(self, size: int, step: int = 1) -> Iterator[tuple[slice, Array, Array]]:
        """Every `step`-th block of rows: its place, its features and its factors."""
        for start in range(0, len(self.features), size * step):
            part = slice(start, start + size)
            yield part, self.features[part], self.factors[part]

    def weighted_gram(
        self, weights: Array | None = None, *, size: int = BLOCK, step: int = 1
    ) -> Array:
        """Σ w·xxᵀ over the blocks taken, scaled up to all records."""
        d = self.features.shape[1]
        gram = np.zeros((self.dimension, self.dimension))
        taken = 0
        for part, features, factors in self.blocks(size, step):
            taken += len(features)
            w = np.ones(len(features)) if weights is None else weights[part]
            scaled = features * (factors * np.sqrt(w))[:, None]
            gram[:d, :d] += scaled.T @ scaled
            if self.constant > 0:
                gram[:d, d] += (factors * w) @ features * self.constant
                gram[d, d] += w.sum() * self.constant**2
        gram[d:, :d] = gram[:d, d:].T
        if taken < len(self.features):
            gram *= len(self.features) / taken
        return gram

    def moments(self, targets: Array) -> Array:
        """Σ t·x, in sums of BLOCK terms and then of blocks."""
        n, d = self.features.shape
        weights = self.factors * targets
        whole = n - n % BLOCK
        total = np.zeros(self.dimension)
        blocked = weights[:whole].reshape(-1, 1, BLOCK)
        total[:d] = (blocked @ self.features[:whole].reshape(-1, BLOCK, d)).sum(axis=(0, 1))
        total[:d] += weights[whole:] @ self.features[whole:]
        total[d:] = targets.sum() * self.constant
        return total

    def scores(self, coefficients: Array) -> Array:
        """θ·x for every record."""
        d = self.features.shape[1]
        scores: Array = self.features @ coefficients[:d]
        scores *= self.factors
        if self.constant > 0:
            scores += self.constant * coefficients[d]
        return scores


class Tolerance(NamedTuple):
    """Public numbers of a problem, and what follows from them for its solver."""

    n: int
    dimension: int
    gradient_bound: float
    """ζ, of one record, on the ball."""
    score_bound: float
    """Largest |θ·x| for logistic loss, whose rounding enters the loss; zero for ridge."""
    curvature: float
    radius: float

    @property
    def relative(self) -> float:
        """τ: sums of at most BLOCK + n/BLOCK terms, products of length p, and room to spare."""
        p = self.dimension
        rounding = self._gradient_rounding / (self.curvature * self.radius)
        return rounding + 4 * _UNIT * (p * math.sqrt(p) + 16)

    @property
    def _gradient_rounding(self) -> float:
        n, p = self.n, self.dimension
        depth = min(n, BLOCK) + n / BLOCK + p * (math.sqrt(p) + self.score_bound) + 16
        return 4 * _UNIT * depth * n * self.gradient_bound

    @property
    def least_curvature(self) -> float:
        """κ below which rounding would move the minimiser by more than 2⁻²⁴ of the radius."""
        return self._gradient_rounding / (self.radius * 2.0**-24)

    @property
    def displacement(self) -> float:
        """Distance of what is computed from the ideal minimiser for the ideal draw of b.

        ‖b‖ ≤ nζ + (κ + μ)B at the minimiser, so a relative error e of the draw moves it by at most
        2e(nζ/κ + B), however large b is.
        """
        reach = self.n * self.gradient_bound / self.curvature + self.radius
        return up(2 * self.relative * self.radius + 2 * draw_error(self.dimension) * reach, 1e-6)


def ridge_in_ball(gram: Array, moments: Array, noise: Array, tolerance: Tolerance) -> Array:
    """Minimiser of θᵀ·gram·θ − 2·moments·θ + (κ/2)‖θ‖² + noise·θ over the ball."""
    p = len(moments)
    hessian = 2 * gram + tolerance.curvature * np.eye(p)
    target = 2 * moments - noise
    values, vectors = eigh(hessian)
    values = np.maximum(values, tolerance.curvature)
    theta = quadratic_in_ball(values, vectors, target, tolerance.radius)
    precise: type[np.floating] = np.float64
    while True:
        gradient = hessian.astype(precise) @ theta - target
        residual, pull = _residual(gradient.astype(np.float64), theta, tolerance.radius)
        allowed = tolerance.relative / 2 * (tolerance.curvature + pull) * tolerance.radius
        if float(np.linalg.norm(residual)) <= allowed:
            return theta
        precise = np.longdouble
        theta = _corrected(theta, residual, pull, values, vectors, tolerance.radius)


def quadratic_in_ball(values: Array, vectors: Array, target: Array, radius: float) -> Array:
    """Minimiser of ½θᵀHθ − target·θ over the ball, H given by its eigenvalues and vectors.

    Outside the ball the multiplier solves ‖θ(μ)‖ = B; Newton's method on 1/‖θ(μ)‖ − 1/B, concave in
    μ, climbs to it from zero without overshooting.
    """
    g = vectors.T @ target
    mu = 0.0
    for _ in range(100):
        theta = g / (values + mu)
        norm = float(np.linalg.norm(theta))
        if norm <= radius * (1 + 4 * _UNIT):
            break
        slope = float(theta @ (theta / (values + mu)))
        step = (norm / radius - 1) * norm * norm / slope
        if mu + step == mu:
            break
        mu += step
    theta = vectors @ theta
    return into_ball(theta, radius) if mu == 0 else _onto_sphere(theta, radius)


def logistic_in_ball(rows: Rows, signs: Array, noise: Array, tolerance: Tolerance) -> Array:
    """Minimiser of Σ log(1 + e^{−sign·θ·x}) + (κ/2)‖θ‖² + noise·θ over the ball.

    Newton's method with the ball kept exactly in every quadratic step. Far from the end a sample of
    the rows is curvature enough; near it one full Hessian serves several steps, as only the
    gradient decides when to stop. With a full Hessian of its own, a step that moves no score by
    more than ½ lowers the objective by a sixth of what its model promises, so the descent cannot
    stall before rounding does; after that, gradients are evaluated in extended precision.
    """
    kappa, radius = tolerance.curvature, tolerance.radius
    stride = max(1, tolerance.n // (2 * _CURVATURE_BLOCK))
    theta, margins = np.zeros(rows.dimension), np.zeros(len(signs))
    model = _Quadratic(np.eye(rows.dimension), kappa)
    size, full_steps, updated = math.inf, 0, False
    while True:
        slopes = expit(-margins)
        if full_steps > _PATIENCE:
            pulls = _exact_moments(rows, signs, theta)
        else:
            pulls = rows.moments(signs * slopes)
        gradient = noise + kappa * theta - pulls
        previous, (residual, pull) = size, _residual(gradient, theta, radius)
        size = float(np.linalg.norm(residual))
        allowed = tolerance.relative / 2 * (kappa + pull) * radius
        if size <= allowed:
            if not updated:
                return theta
            # Updated margins have gathered rounding: only fresh ones may end it.
            margins, updated = signs * rows.scores(theta), False
            continue
        if size < _NEAR * tolerance.n * tolerance.gradient_bound:
            stride = 1
        # A full Hessian costs as much as about five steps with an old one.
        steps_left = math.log(size / allowed) / max(math.log(previous / size), 1e-9)
        if stride > 1 or not full_steps or steps_left > 5:
            hessian = rows.weighted_gram(slopes * (1 - slopes), size=_CURVATURE_BLOCK, step=stride)
            hessian[np.diag_indices_from(hessian)] += kappa
            model = _Quadratic(hessian, kappa)
        full_steps += stride == 1
        move = model.minimiser(theta, gradient, radius) - theta
        shift = rows.scores(move)
        shift *= signs
        fraction = _descent(margins, shift, noise + kappa * theta, kappa, move, gradient)
        if fraction < 0.05:
            stride = 1
        theta = into_ball(theta + fraction * move, radius)
        margins += fraction * shift
        updated = True


class _Quadratic:
    """The model of an objective around a point: its Hessian, factored as far as needed."""

    def __init__(self, hessian: Array, kappa: float) -> None:
        self._hessian = hessian
        self._kappa = kappa
        self._factor: Any = None
        self._eigen: tuple[Array, Array] | None = None
        with contextlib.suppress(LinAlgError):  # rounding can hide a tiny κ: see below
            self._factor = cho_factor(hessian)

    def minimiser(self, theta: Array, gradient: Array, radius: float) -> Array:
        """Where the model is least over the ball; by eigenvalues only if the ball is in the way."""
        if self._factor is not None:
            free: Array = theta - cho_solve(self._factor, gradient)
            if float(np.linalg.norm(free)) <= radius:
                return free
        if self._eigen is None:
            values, vectors = eigh(self._hessian)
            self._eigen = np.maximum(values, self._kappa), vectors
        target = self._hessian @ theta - gradient
        aim = quadratic_in_ball(*self._eigen, target, radius)
        # Eigenvectors of a cluster are orthogonal to a few hundred roundings only, which would
        # leave the aim off for good; a step in proportion to what is left does not.
        left = _residual(self._hessian @ aim - target, aim, radius)
        return _corrected(aim, *left, *self._eigen, radius)


def _descent(
    margins: Array, shift: Array, pull: Array, kappa: float, move: Array, gradient: Array
) -> float:
    """The largest of 1, ½, ¼, … that lowers the objective enough; margins move by `shift`."""
    largest = float(np.abs(shift).max())
    if largest <= 0.5:
        return 1.0
    promised = float(gradient @ move)
    start = float(np.logaddexp(0, -margins).sum())
    fraction = 1.0
    while fraction * largest > 0.5:
        loss = float(np.logaddexp(0, -margins - fraction * shift).sum())
        rest = fraction * float(move @ (pull + fraction / 2 * kappa * move))
        if loss - start + rest <= 1e-3 * fraction * promised:
            break
        fraction /= 2
    return fraction


def _residual(gradient: Array, theta: Array, radius: float) -> tuple[Array, float]:
    """‖G + μθ‖ at its least over the μ allowed at θ, as a vector, and that μ."""
    squared = float(theta @ theta)
    # No wider than rounding: μθ is allowed on the sphere only, and counts as if θ were on it.
    if squared < (radius * (1 - (len(theta) + 4) * 2 * _UNIT)) ** 2:
        return gradient, 0.0
    pull = max(0.0, -float(gradient @ theta) / squared)
    return gradient + pull * theta, pull


def _corrected(
    theta: Array, residual: Array, pull: float, values: Array, vectors: Array, radius: float
) -> Array:
    """θ less the Newton step for its residual; on the sphere, where the multiplier moves too."""
    step = vectors @ (vectors.T @ residual / (values + pull))
    if pull == 0:
        return into_ball(theta - step, radius)
    tilt = vectors @ (vectors.T @ theta / (values + pull))
    step -= tilt * (float(theta @ step) / float(theta @ tilt))
    return _onto_sphere(theta - step, radius)


def into_ball(theta: Array, radius: float) -> Array:
    norm = float(np.linalg.norm(theta))
    return theta * (radius / norm) if norm > radius else theta


def _onto_sphere(theta: Array, radius: float) -> Array:
    return theta * (radius / float(np.linalg.norm(theta)))


def _exact_moments(rows: Rows, signs: Array, theta: Array) -> Array:
    """Σ sign·σ(−sign·θ·x)·x in extended precision: slow, and hardly ever needed."""
    d = rows.features.shape[1]
    total = np.zeros(rows.dimension, dtype=np.longdouble)
    wide = theta.astype(np.longdouble)
    for part, features, factors in rows.blocks(BLOCK):
        x = features.astype(np.longdouble) * factors[:, None]
        margins = signs[part] * (x @ wide[:d] + (rows.constant * wide[d] if rows.constant else 0))
        with np.errstate(over="ignore"):  # a warning would be an output too
            pulls = signs[part] / (1 + np.exp(margins))
        total[:d] += pulls @ x
        total[d:] += pulls.sum() * rows.constant
    return total.astype(np.float64)
