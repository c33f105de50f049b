"""A release of moments: Σyx and Σxxᵀ, noisy, in one go.

Guarantee. For replace-one neighbours with n public, the whole release is (ε, δ)-DP by exact
discrete Gaussian noise on a fine lattice, μ-GDP but for a stated distance
(`seal.lattice_event`). Scaled so that ‖x‖ ≤ 1 and |y| ≤ 1, the vector of Σyx, the
off-diagonal entries of Σxxᵀ and its diagonal over √2 has L2 sensitivity 2, exactly that of Σyx
alone: for unit rows with c = yy'·x·x' the squared distance is (2 − 2c) + (1 − c²) ≤ 4, and shorter
rows come less far (docs/theory/moments.md). So the second moments cost nothing.

Others can do more with moments than with coefficients (add them up, weigh them by their noise), so
this is what an organisation publishes when it can. `predict` uses them alone: for regression a
ridge fit to the noisy moments; for classification the θ whose expected Σyx, under normally
distributed rows, matches the released one as far as its noise allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh
from scipy.special import roots_hermitenorm
from sklearn.utils.validation import check_is_fitted

from sudare.foundations import checks
from sudare.foundations.privacy import Event, account
from sudare.foundations.randomness import Generator, as_generator
from sudare.foundations.rounding import up
from sudare.foundations.seal import Seal, plan_seal
from sudare.learners._base import PrivateLearner, PublicNoise, refuse_weights
from sudare.learners._definite import inverse, solve
from sudare.learners._linear import Straight, TwoClasses
from sudare.learners._recipe import event_of
from sudare.learners._solvers import BLOCK, Array, Rows
from sudare.releases import MomentsRelease, Release

_NODES = 80


@dataclass(frozen=True)
class MomentsNoise:
    """What the public knows of the noise in a moments release, in units of ‖x‖ ≤ 1, |y| ≤ 1."""

    n: int
    noise_std: float
    """On Σyx and off the diagonal of Σxxᵀ; √2 times that on it."""
    seal: Seal


class MomentsLearner(PrivateLearner):
    """Base of the learners that release moments: `cross_` = Σyx and `gram_` = Σxxᵀ, noisy.

    Both are in units of `row_norm` (with the constant feature) and of the target's bound: ‖x‖ ≤ 1
    and |y| ≤ 1 per record. The last entry belongs to the constant feature, if there is one.
    """

    cross_: Array
    gram_: Array
    noise_: MomentsNoise  # type: ignore[assignment]

    def plan(self) -> Event:
        """The privacy event that `fit` will spend, from the parameters alone."""
        checks.positive(epsilon=self.epsilon)
        checks.proportion(delta=self.delta)
        return event_of("output", float(self.epsilon), float(self.delta))

    def plan_for(self, n: int, features: int) -> Event:
        """The same: the price of moments does not depend on how many there are."""
        return self.plan()

    def public_noise(self, n: int, features: int) -> PublicNoise:
        """The noise that `fit` will add to n rows, and no ball: known without the rows."""
        seal = moments_seal(n, features + bool(self.fit_intercept), self.epsilon, self.delta)
        return PublicNoise(seal.noise_std, None, None)

    def release(self, party: str) -> Release:
        """What `fit` made, in the form that others can blend; spends nothing more."""
        check_is_fitted(self)
        return MomentsRelease(
            party=party,
            contract=self._contract(),
            n=self.noise_.n,
            event=self.event_,
            noise_std=self.noise_.noise_std,
            simulated=self.sealed_.simulated,
            cross=tuple(self.cross_.tolist()),
            gram=tuple(self.gram_[np.triu_indices(len(self.cross_))].tolist()),
        )

    def _release(self, rows: Rows, targets: Array, row_norm: float) -> None:
        """Sum, scale, seal."""
        n, p = len(targets), rows.dimension
        upper = np.triu_indices(p, 1)
        gram = rows.weighted_gram() / row_norm**2
        exact = np.concatenate(
            [rows.moments(targets) / row_norm, gram[upper], np.diag(gram) / np.sqrt(2)]
        )
        seal = moments_seal(n, p, float(self.epsilon), float(self.delta))
        self.sealed_ = seal.apply(exact, as_generator(self.rng))
        values = self.sealed_.values
        self.cross_ = values[:p]
        self.gram_ = np.zeros((p, p))
        self.gram_[upper] = values[p : p + len(upper[0])]
        self.gram_ += self.gram_.T + np.diag(values[p + len(upper[0]) :] * np.sqrt(2))
        self.event_ = self.plan()
        self.guarantee_ = account([self.event_], float(self.delta))
        self.noise_ = MomentsNoise(n, seal.noise_std, seal)


@lru_cache(maxsize=256)
def moments_seal(n: int, dimension: int, epsilon: float, delta: float) -> Seal:
    """The noise of a moments release, from public numbers: sensitivity 2 and the rounding of sums.

    Each of the p + p(p+1)/2 sums of n terms in blocks errs by at most (BLOCK + n/BLOCK + 8)·2⁻⁵³ of
    the sum of the terms' sizes, whose vector has norm at most 2n.
    """
    entries = dimension + dimension * (dimension + 1) // 2
    rounding = up(2 * n * (min(n, BLOCK) + n / BLOCK + 16) * 2.0**-52)
    return plan_seal(
        dimension=entries, epsilon=epsilon, delta=delta, sensitivity=2.0, displacement=rounding
    )


class MomentsRegressor(Straight, MomentsLearner):
    """Publishes noisy moments of rows and targets; predicts by ridge regression on them.

    Args:
        epsilon: Privacy budget of the release.
        delta: Probability with which ε may fail; must be above zero.
        row_norm: Public bound on a row's Euclidean norm; longer rows are shortened to it.
        target_bound: Public bound on |y|; targets are clipped to it.
        fit_intercept: Add a constant feature.
        rng: None for secure randomness; a number or a generator simulates.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        row_norm: float | None = None,
        target_bound: float | None = None,
        fit_intercept: bool = True,
        rng: Generator | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.fit_intercept = fit_intercept
        self.rng = rng

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Self:
        """Release the moments of rows and targets; spends `plan()`."""
        self.plan()
        refuse_weights(unsupported)
        self._check_bounds(
            row_norm="how long a row may be (Euclidean norm); longer rows are shortened",
            target_bound="how large |y| may be; targets beyond are clipped",
        )
        table, target = self._table(X, y)
        bound = float(self.target_bound or 0.0)
        targets = np.clip(checks.finite_array(y=target), -bound, bound) / bound
        norm = self._full_norm()
        self._release(self._rows(table), targets, norm)
        theta = ridge_from_moments(self.cross_, self.gram_, self.noise_.noise_std)
        self._keep(*self._split(theta * (bound / norm)))
        return self


class MomentsClassifier(TwoClasses, MomentsLearner):
    """Publishes noisy moments of rows and two-valued labels; predicts by matching them.

    Args:
        epsilon: Privacy budget of the release.
        delta: Probability with which ε may fail; must be above zero.
        row_norm: Public bound on a row's Euclidean norm; longer rows are shortened to it.
        fit_intercept: Add a constant feature.
        classes: The two labels, if they are agreed on beforehand; then data that happens to hold
            only one of them is no error. By default the labels found in the data.
        rng: None for secure randomness; a number or a generator simulates.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        row_norm: float | None = None,
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        rng: Generator | int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.rng = rng

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Self:
        """Release the moments of rows and labels; spends `plan()`."""
        self.plan()
        refuse_weights(unsupported)
        self._check_bounds(
            row_norm="how long a row may be (Euclidean norm); longer rows are shortened"
        )
        table, labels = self._table(X, y)
        signs = self._signs(labels)
        norm = self._full_norm()
        self._release(self._rows(table), signs, norm)
        share = self._constant() / norm
        noise = self.noise_
        theta = logistic_from_moments(self.cross_, self.gram_, noise.n, noise.noise_std, share)
        self._keep(*self._split(theta / norm))
        return self


def ridge_from_moments(cross: Array, gram: Array, noise_std: float) -> Array:
    """(gram + λI)⁻¹·cross, with the gram made positive and λ the size of its noise."""
    p = len(cross)
    values, vectors = eigh(gram)
    # The noise matrix has eigenvalues up to about 2·std·√p/√… ; its typical size is std·√p.
    ridge = noise_std * np.sqrt(p)
    theta: Array = vectors @ (vectors.T @ cross / (np.maximum(values, 0.0) + ridge))
    return theta


def logistic_from_moments(
    cross: Array, gram: Array, n: int, noise_std: float, constant: float
) -> Array:
    """The θ for which E[x·tanh(θ·x/2)] matches cross/n, x normal with the released moments.

    Minimises ½rᵀV⁻¹r + ½λ‖θ‖², r the mismatch and V its variance (sampling and noise), by Gauss and
    Newton's method with halved steps.
    """
    p = len(cross)
    values, vectors = eigh(gram / n)
    floor = noise_std * np.sqrt(p) / n
    second = (vectors * np.maximum(values, min(floor, 1.0 / p))) @ vectors.T
    second /= max(1.0, float(np.trace(second)))
    mean = second[:, -1] / constant if constant > 0 else np.zeros(p)
    if constant > 0:
        mean[-1] = constant
    spread = second - np.outer(mean, mean)
    values, vectors = eigh(spread)
    spread = (vectors * np.maximum(values, 0.0)) @ vectors.T
    target = cross / n
    precision = inverse(second / n + (noise_std / n) ** 2 * np.eye(p))
    penalty = 0.01 * p
    theta = np.zeros(p)
    value = _mismatch(theta, target, mean, spread)
    cost = 0.5 * float(value @ precision @ value)
    for _ in range(60):
        slope = _slope(theta, mean, spread)
        step = solve(
            slope.T @ precision @ slope + penalty * np.eye(p),
            slope.T @ precision @ value - penalty * theta,
        )
        fraction = 1.0
        while fraction > 1e-6:
            trial = theta + fraction * step
            residual = _mismatch(trial, target, mean, spread)
            new = 0.5 * float(residual @ precision @ residual + penalty * trial @ trial)
            if new <= cost:
                break
            fraction /= 2
        else:
            return theta
        done = cost - new <= 1e-9 * max(1.0, cost)
        theta, value, cost = trial, residual, new
        if done:
            return theta
    return theta


def label_means(centre: Array, deviation: Array, nodes: int) -> tuple[Array, ...]:
    """Means of tanh(z/2) and of its first three derivatives, z normal, by quadrature."""
    at, weights = _quadrature(nodes)
    t = np.tanh((centre[..., None] + deviation[..., None] * at) / 2)
    first = (1 - t * t) / 2
    third = first * (3 * t * t - 1) / 2
    return tuple(each @ weights for each in (t, first, -t * first, third))


@lru_cache
def _quadrature(nodes: int) -> tuple[Array, Array]:
    """Nodes and weights of a standard normal mean."""
    at, weights = roots_hermitenorm(nodes)
    return at, weights / weights.sum()


def _means(theta: Array, mean: Array, spread: Array) -> tuple[Array, tuple[Array, ...]]:
    """spread·θ, and the means over z = θ·x."""
    pull = spread @ theta
    deviation = np.sqrt(np.maximum(theta @ pull, 0.0))
    return pull, label_means(mean @ theta, deviation, _NODES)


def _mismatch(theta: Array, target: Array, mean: Array, spread: Array) -> Array:
    """target − E[x·t(θ·x)] with t = tanh(·/2): m·E t + Cθ·E t' by Stein's identity."""
    pull, (e0, e1, _, _) = _means(theta, mean, spread)
    mismatch: Array = target - mean * e0 - pull * e1
    return mismatch


def _slope(theta: Array, mean: Array, spread: Array) -> Array:
    """E[xxᵀ·t'(θ·x)], by Stein's identity twice."""
    pull, (_, e1, e2, e3) = _means(theta, mean, spread)
    cross = np.outer(mean, pull)
    slope: Array = (
        e1 * (spread + np.outer(mean, mean)) + e2 * (cross + cross.T) + e3 * np.outer(pull, pull)
    )
    return slope
