"""Coefficients from noisy equations, with the noise of every sum counted.

For generalised linear models, the sums at a public θ₀ give a score g and a Hessian H, both noisy: e
on g, E on H, independent normal numbers with known variances. With d = θ* − θ₀ for the true θ*,

    g̃ − H̃d = r + e − Ed        r the score at θ*, of sampling variance S

up to the third order of the curve; for linear models this is exact at θ₀ = 0. As an entry E_ik
moves equation i by E_ik·d_k and equation k by E_ik·d_i,

    Var(Ed)_ii = Σ_k N_ik·d_k²,   Var(Ed)_ik = N_ik·d_i·d_k,   N_ik = Var(E_ik)

(docs/theory/estimates.md). Where H̃ is clearly positive, θ̂ = θ₀ + H̃⁻¹g̃ and its covariance is
H̃⁻¹VH̃⁻¹ with V = S + Var(e) + Var(Ed), and what is known of the third order. Coefficients for which
it is not are hidden: a public prior holds them near zero, and the others allow for what they may
be. All functions take stacks of equations, for many draws of the noise at once.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sudare.learners import inverse

Array = NDArray[np.float64]
_ROUNDS = 10
_MARGIN = 5 * np.sqrt(2)
"""Standard deviations of the Hessian's noise by which its eigenvalues may be too large."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_TAKEN_OFF, _DOUBT = 0.5, 2.0
"""How much of the estimated third order is taken off, and how often its square counts as variance:
what comes out is squared in it, noise and all."""
_LEAST_SHARE = 0.05
"""Of an earlier session: below it is left out."""
_FARTHEST = 1.0
"""Mean square of rows' change of score, by weight, beyond which no third order is enough."""
_MARGIN_MANY = 1.5
"""The same times √p: the largest eigenvalue of much noise is at 2√p."""


class Equations(NamedTuple):
    """Noisy score and Hessian at a public point, in units of rows at most 1 long."""

    start: Array
    score: Array
    hessian: Array
    noise_variance: float | Array
    """Of each number of the score."""
    hessian_variance: Array
    """(p, p): of each entry of the Hessian; 0 where it is known."""
    scale: Callable[[Array, Array, Array], Array]
    """Of θ, its covariance and the positive part of H: the sampling variance of the score is the
    Hessian times this."""
    prior_std: float
    """Coefficients of rows 1 long are taken to be about so large, where the noise hides them."""
    slope: Callable[[Array], Array] | None = None
    """Of a row's weight, relative to it, at its score; None where weights are constant."""
    constant: float = 0.0
    """Value of the constant feature, the last one; 0 if there is none."""
    earlier: "Equations | None" = None
    """The same rows at another point, with noise of their own: both tell the same θ."""


class Solved(NamedTuple):
    """Coefficients in the units of the equations."""

    theta: Array
    covariance: Array
    hidden: NDArray[np.bool_]
    """Coefficients that are not told."""
    far: NDArray[np.bool_]
    """Whether the start is too far from where it leads: then nothing is told."""


class _Mixed(NamedTuple):
    """One or two sessions about the same rows, as one: with shares that add up to 1."""

    sessions: tuple[Equations, ...]
    shares: tuple[Array, ...]

    @property
    def last(self) -> Equations:
        return self.sessions[0]

    @property
    def hessian(self) -> Array:
        return _added(w[..., None, None] * e.hessian for e, w in self)

    @property
    def target(self) -> Array:
        """Σ of shares of g + Hθ₀."""
        return _added(w[..., None] * (e.score + _times(e.hessian, e.start)) for e, w in self)

    @property
    def noise_variance(self) -> Array:
        return _added(w**2 * e.noise_variance for e, w in self)

    @property
    def hessian_variance(self) -> Array:
        return _added(w[..., None, None] ** 2 * e.hessian_variance for e, w in self)

    def __iter__(self) -> Iterator[tuple[Equations, Array]]:
        return iter(zip(self.sessions, self.shares, strict=True))


def solve(equations: Equations) -> Solved:
    """The coefficients, which of them are hidden, and the covariance of their errors.

    Of two sessions each counts by how little noise and curve it has where the last one leads. The
    earlier one is left out where the last one alone tells more: little noise is of no use where
    rows weigh little as well.
    """
    whole = np.ones(equations.hessian.shape[:-2])
    alone = _Mixed((equations,), (whole,))
    found = _solve(alone)
    earlier = equations.earlier
    if earlier is None:
        return found
    sizes = [_roughness(each, found.theta) for each in (equations, earlier)]
    share = sizes[0] / (sizes[0] + sizes[1])
    both = _Mixed((equations, earlier), (1.0 - share, share))
    wider = _size(both, found.theta) >= _size(alone, found.theta)
    share = np.where(found.far | (share < _LEAST_SHARE) | wider, 0.0, share)
    return _solve(_Mixed((equations, earlier), (1.0 - share, share)))


def _roughness(equations: Equations, theta: Array) -> Array:
    """The mean square of what stands between the equations and a straight line without noise."""
    d = theta - equations.start
    spread = d[..., :, None] * d[..., None, :]
    product = noise_of_product(equations.hessian_variance, spread)
    rest = third_order(equations, _positive(equations.hessian), d)
    squares = np.einsum("...kk->...", product) + _DOUBT * np.einsum("...k,...k->...", rest, rest)
    return np.asarray(d.shape[-1] * np.asarray(equations.noise_variance) + squares)


def _size(mixed: _Mixed, theta: Array) -> Array:
    """How wide the equations leave the coefficients, if θ is right: a product of their variances,
    as a logarithm. At one θ for whatever is compared, so that no estimate is preferred for itself.
    """
    values, vectors = np.linalg.eigh(mixed.hessian)
    positive = _matrix(np.maximum(values, 0.0), vectors)
    variance, _ = _disturbance(mixed, positive, theta, np.zeros_like(positive))
    least = _least_covariance(mixed, values, vectors, variance)
    return np.asarray(np.log(np.diagonal(least, axis1=-2, axis2=-1)).sum(axis=-1))


def _least_covariance(mixed: _Mixed, values: Array, vectors: Array, variance: Array) -> Array:
    """Of θ under the prior, with all eigenvalues as low as noise may have left them."""
    p, prior = values.shape[-1], mixed.last.prior_std
    noise_std = np.sqrt(_largest_noise(mixed.hessian_variance))
    margin = max(_MARGIN, _MARGIN_MANY * np.sqrt(p)) * noise_std[..., None]
    lowered = _matrix(np.maximum(values - margin, 0.0), vectors)
    return inverse(lowered @ inverse(variance) @ lowered + np.eye(p) / prior**2)


def _solve(mixed: _Mixed) -> Solved:
    prior, hessian = mixed.last.prior_std, mixed.hessian
    values, vectors = np.linalg.eigh(hessian)
    positive = _matrix(np.maximum(values, 0.0), vectors)
    everywhere = np.full(hessian.shape[:-1], 1 / prior**2)
    _, _, variance = _rounds(mixed, positive, everywhere, everywhere[..., None, :] > 0)
    least = _least_covariance(mixed, values, vectors, variance)
    hidden = np.sqrt(np.diagonal(least, axis1=-2, axis2=-1)) >= prior / 2
    # The noise of what is told is in θ already; what is hidden may be larger than it came out.
    unseen = hidden[..., :, None] & hidden[..., None, :]
    theta, covariance, _ = _rounds(mixed, positive, hidden / prior**2, unseen)
    far = np.zeros(hidden.shape[:-1], dtype=np.bool_)
    if mixed.last.slope is not None:
        d = theta - mixed.last.start
        squares = np.einsum("...i,...ij,...j->...", d, positive, d)
        far = squares > _FARTHEST * _weight(mixed.last, positive)
    return Solved(theta, covariance, hidden | far[..., None], far)


def noise_of_product(variances: Array, spread: Array) -> Array:
    """The variance of Ed for symmetric noise E and d with E[ddᵀ] = `spread`."""
    across = variances * spread
    squares = np.einsum("...ik,...kk->...i", variances, spread)
    diagonal = np.einsum("...kk->...k", across)
    diagonal[...] = squares
    return across


def third_order(equations: Equations, hessian: Array, d: Array) -> Array:
    """About ½Σw′(x·d)²x, what the score is beyond the straight line along d.

    Sums do not hold third moments. They are put in as those of rows that are normal where the
    weights w are, with the mean and covariance that the Hessian Σwxxᵀ says: exact for such rows,
    and the right size for others (docs/theory/estimates.md).
    """
    assert equations.slope is not None
    total, mean = _weight(equations, hessian), np.zeros_like(d)
    if equations.constant > 0:
        mean = hessian[..., -1] / (equations.constant * total[..., None])
    spread = hessian / total[..., None, None] - mean[..., :, None] * mean[..., None, :]
    towards = np.einsum("...ij,...j->...i", spread, equations.start)
    variance = np.maximum(np.einsum("...i,...i->...", equations.start, towards), 1e-12)
    std = np.sqrt(variance)
    scores = np.einsum("...i,...i->...", mean, equations.start)[..., None] + std[..., None] * _NODES
    slopes = equations.slope(scores) * _WEIGHTS
    powers = [(slopes * _NODES**k).sum(axis=-1) * std**k for k in range(4)]
    k = towards / variance[..., None]
    along, across = np.einsum("...i,...i->...", d, mean), np.einsum("...i,...i->...", d, k)
    turned = np.einsum("...ij,...j->...i", spread, d)
    beside = turned - (across * variance)[..., None] * k
    left = np.maximum(np.einsum("...i,...i->...", d, beside), 0.0)
    square = along**2 + left
    still = square * powers[0] + 2 * along * across * powers[1] + across**2 * powers[2]
    moved = square * powers[1] + 2 * along * across * powers[2] + across**2 * powers[3]
    mixed = 2 * (along * powers[0] + across * powers[1])
    found = still[..., None] * mean + moved[..., None] * k + mixed[..., None] * beside
    return np.asarray(found * total[..., None] / 2)


def _rounds(
    mixed: _Mixed, positive: Array, precision: Array, unseen: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """θ, its covariance, and that of the equations; V depends on θ, so in a few rounds.

    `unseen` are the places where θ may be as far from what comes out as its covariance says.
    """
    last = mixed.last
    theta: Array = np.broadcast_to(last.start, positive.shape[:-1])
    covariance = np.zeros_like(positive)
    held = precision[..., None] * np.eye(positive.shape[-1])
    target = mixed.target + _times(positive - mixed.hessian, theta)
    variance = covariance
    for _ in range(_ROUNDS):
        variance, rest = _disturbance(mixed, positive, theta, covariance, unseen)
        weighted = positive @ inverse(variance)
        covariance = inverse(weighted @ positive + held)
        theta = _times(covariance @ weighted, target - _TAKEN_OFF * rest)
    return theta, covariance, variance


def _disturbance(
    mixed: _Mixed,
    positive: Array,
    theta: Array,
    covariance: Array,
    unseen: bool | NDArray[np.bool_] = False,
) -> tuple[Array, Array]:
    """What stands between the equations and a straight line: sampling and noise, and the curve."""
    last = mixed.last
    scale = np.asarray(last.scale(theta, covariance, positive))
    noise = np.asarray(mixed.noise_variance)[..., None, None] * np.eye(positive.shape[-1])
    variance, rest = scale[..., None, None] * positive + noise, np.zeros_like(theta)
    for each, share in mixed:
        d = theta - each.start
        spread = d[..., :, None] * d[..., None, :] + covariance * unseen
        product = noise_of_product(each.hessian_variance, spread)
        variance = variance + share[..., None, None] ** 2 * product
        if each.slope is not None:
            rest = rest + share[..., None] * third_order(each, positive, d)
    return variance + _DOUBT * rest[..., :, None] * rest[..., None, :], rest


def _weight(equations: Equations, hessian: Array) -> Array:
    """Of all rows: by the constant feature; without one at least the trace, as ‖x‖ ≤ 1."""
    trace = np.maximum(np.einsum("...kk->...", hessian), 1e-9)
    if equations.constant == 0:
        return np.asarray(trace)
    return np.asarray(np.maximum(hessian[..., -1, -1] / equations.constant**2, trace))


def _times(matrix: Array, vector: Array) -> Array:
    return np.asarray(np.einsum("...ij,...j->...i", matrix, vector))


def _added(parts: Iterable[Array]) -> Array:
    return np.asarray(functools.reduce(operator.add, parts))


def _positive(hessian: Array) -> Array:
    values, vectors = np.linalg.eigh(hessian)
    return _matrix(np.maximum(values, 0.0), vectors)


def _matrix(values: Array, vectors: Array) -> Array:
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def _largest_noise(variances: Array) -> Array:
    """The largest variance of an entry that counts once: half of one on the diagonal."""
    counted = variances * (1 - np.eye(variances.shape[-1]) / 2)
    return np.asarray(counted.max(axis=(-2, -1)))
