"""Where to put the envelope of a logistic posterior: its centre θ̂ and, on a ball, its pull κ.

The radial sampler is exact for every centre and every pull; how many proposals it keeps depends on
them. Best is a pull under which proposals have E‖θ‖² = B², if the ball is in the way at all, and
the mode of U + (κ/2)‖θ‖² as centre. The pull comes from the quadratic model of U at the last
centre, the mode from Newton's method.

Three things hold of the result for every admissible input, and what rounding can do in the accept
step is bounded by them: ‖θ̂‖ ≤ B; the gradient at θ̂ is at most `CLOSE` in the whitened norm; and
(κ/2)(B² − ‖θ̂‖²) ≤ 2p. The last two are reached because the minimum of a strongly convex function
is, and because the pull that puts the mode on the sphere has them both.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from sudare.foundations import checks
from sudare.foundations.sampling.ball import best_pull
from sudare.foundations.sampling.logistic import LogisticPosterior

Array = NDArray[np.float64]

CLOSE = 2.0**-7
"""Length of the gradient in the whitened norm at which a point is as good as the mode."""
_SAFE = 0.5
"""Scores that move by less than this leave the quadratic model good enough for a full step."""


class Settled(NamedTuple):
    """A centre and a pull for `radial_envelope`."""

    centre: Array
    pull: float


def settle(target: LogisticPosterior, start: Array | None = None) -> Settled:
    """The centre and pull for a posterior, found from `start` (or from zero)."""
    target.check()
    p = target.rows.shape[1]
    centre = np.zeros(p) if start is None else checks.finite_array(dimensions=1, start=start)
    if len(centre) != p:
        raise checks.InvalidInput("Expected start to have a number for each column of rows")
    model = _Model(target, centre)
    pull = model.best_pull()
    model = _mode(model, pull)
    # The model at the mode is better than that at the start.
    better = model.best_pull()
    if not 0.8 * pull <= better <= 1.25 * pull:
        model, pull = _mode(model, better), better
    return _admitted(model, pull)


class _Model:
    """The quadratic model of U at a point: gradient and Hessian, without wall and pull."""

    def __init__(self, target: LogisticPosterior, theta: Array) -> None:
        self.target, self.theta = target, theta
        hessian, _ = target.hessian(theta)
        values, self.vectors = eigh(hessian)
        self.values = np.maximum(values, target.curvature)
        self.slopes = self.vectors.T @ target.gradient(theta)

    def best_pull(self) -> float:
        """For the Gaussian that this model is the potential of."""
        target = self.target
        if math.isinf(target.radius):
            return 0.0
        along = self.values * (self.vectors.T @ self.theta) - self.slopes
        pull = best_pull(self.values, along, target.radius)
        return min(pull, target.wall / target.limit) if target.wall > 0 else pull

    def step(self, pull: float) -> tuple[Array, float]:
        """Newton's step for U + (pull/2)‖θ‖², and twice the fall that it promises."""
        slopes = self.slopes + pull * (self.vectors.T @ self.theta)
        scaled = slopes / (self.values + pull)
        return -(self.vectors @ scaled), float(slopes @ scaled)


def _admitted(model: _Model, pull: float) -> Settled:
    """A pull under which the mode is in the ball, and not much farther inside than it need be.

    The norm of the mode falls as the pull grows. Between a pull that leaves it outside and one that
    brings it too far in, halving the interval ends at one that does neither.
    """
    target, p = model.target, len(model.theta)
    radius = target.radius
    most = target.wall / target.limit if target.wall > 0 else math.inf
    low, high = 0.0, math.inf
    while True:
        norm = float(np.linalg.norm(model.theta))
        if norm > radius:
            if pull >= most:  # no pull that the wall covers is enough: it only costs time
                return Settled(model.theta * (radius / norm), pull)
            low = pull
        elif math.isfinite(radius) and pull / 2 * (radius - norm) * (radius + norm) > 2 * p:
            high = pull
        else:
            return Settled(model.theta, pull)
        middle = 2 * max(low, p / radius**2) if math.isinf(high) else (low + high) / 2
        pull = min(middle, most)
        model = _mode(model, pull)


def _mode(model: _Model, pull: float) -> _Model:
    """Near the minimiser of U + (pull/2)‖θ‖²: Newton's method, with halved steps far from it."""
    # The stretched norm of the envelope is up to √10 times as large. Under a strong pull a point
    # that is this close could be on either side of what `_admitted` asks for, at every pull: there
    # (κ/2)‖θ‖² must be within p/2 of the mode's.
    close = CLOSE / 4
    if pull > 0:
        close = min(close, len(model.theta) / (2 * math.sqrt(pull) * model.target.radius))
    while True:
        step, promise = model.step(pull)
        if promise <= close**2:
            return model
        fraction = _fraction(model, pull, step, promise)
        model = _Model(model.target, model.theta + fraction * step)


def _fraction(model: _Model, pull: float, step: Array, promise: float) -> float:
    """The largest of 1, ½, ¼, … that lowers the potential by a tenth of what is promised."""
    target = model.target
    largest = float(np.abs(target.rows @ step).max())
    if largest <= _SAFE:
        return 1.0
    fractions = 2.0 ** -np.arange(math.ceil(math.log2(largest / _SAFE)) + 1)
    points = np.concatenate([model.theta[None], model.theta + fractions[:, None] * step])
    values = target.smooth(points) + pull / 2 * np.einsum("ij,ij->i", points, points)
    good = values[1:] <= values[0] - 0.1 * fractions * promise
    # The last of them moves no score by more than _SAFE and needs no proof.
    good[-1] = True
    return float(fractions[int(np.argmax(good))])
