"""A No-U-Turn sampler in plain numpy, to check exact draws against (Hoffman and Gelman 2014).

Written for the tests and sharing nothing with the samplers it judges: no envelope, no rejection
from a hull, only gradients of the potential. A slice is drawn under the joint density of place and
momentum, the leapfrog path is doubled in random directions of time until it turns back on itself,
and the next place is drawn evenly from the points of the path within the slice. The target is left
invariant whatever the step; nothing is adapted on the way.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Potential = Callable[[Any], tuple[float, Any]]
"""A point to the potential there and its gradient."""

_DEEPEST = 8
_ASTRAY = 1000.0


class _Point(NamedTuple):
    place: Any
    momentum: Any
    value: float
    gradient: Any

    def energy(self) -> float:
        return self.value + float(self.momentum @ self.momentum) / 2


class _Tree(NamedTuple):
    first: _Point
    last: _Point
    chosen: _Point
    within: int
    """Points in the slice."""
    goes_on: bool


def nuts(potential: Potential, start: Any, step: float, draws: int, rng: Any) -> Any:
    """A chain of `draws` places, one a row; `start` counts as a draw already warm."""
    chain = np.empty((draws, len(start)))
    value, gradient = potential(start)
    here = _Point(start, start, value, gradient)
    for k in range(draws):
        here = here._replace(momentum=rng.standard_normal(len(start)))
        slice_ = here.energy() + rng.standard_exponential()
        tree = _Tree(here, here, here, 1, True)
        for depth in range(_DEEPEST):
            forward = rng.random() < 0.5
            signed = step if forward else -step
            end = tree.last if forward else tree.first
            half = _grown(potential, end, depth, signed, slice_, rng)
            chosen = tree.chosen
            if half.goes_on and rng.random() < half.within / tree.within:
                chosen = half.chosen
            tree = _joined(tree, half, forward, chosen)
            if not tree.goes_on:
                break
        here = tree.chosen
        chain[k] = here.place
    return chain


def _grown(
    potential: Potential, end: _Point, depth: int, step: float, slice_: float, rng: Any
) -> _Tree:
    """2^depth leapfrog steps from `end`."""
    if depth == 0:
        momentum = end.momentum - step / 2 * end.gradient
        place = end.place + step * momentum
        value, gradient = potential(place)
        point = _Point(place, momentum - step / 2 * gradient, value, gradient)
        energy = point.energy()
        return _Tree(point, point, point, int(energy <= slice_), energy < slice_ + _ASTRAY)
    near = _grown(potential, end, depth - 1, step, slice_, rng)
    if not near.goes_on:
        return near
    forward = step > 0
    far = _grown(potential, near.last if forward else near.first, depth - 1, step, slice_, rng)
    both = near.within + far.within
    chosen = far.chosen if both and rng.random() < far.within / both else near.chosen
    return _joined(near, far, forward, chosen)


def _joined(tree: _Tree, half: _Tree, forward: bool, chosen: _Point) -> _Tree:
    first, last = (tree.first, half.last) if forward else (half.first, tree.last)
    across = last.place - first.place
    straight = across @ first.momentum >= 0 and across @ last.momentum >= 0
    goes_on = tree.goes_on and half.goes_on and bool(straight)
    return _Tree(first, last, chosen, tree.within + half.within, goes_on)


def worst_gap(sample: Any, chain: Any, features: Callable[[Any], Any], batches: int = 100) -> float:
    """The largest difference of mean features, in standard errors.

    `sample` is independent; the chain's error is taken from the means of long batches, so that
    each ratio is about a t variable with `batches − 1` degrees of freedom. It is taken to be no
    less than that of as many independent points: a rare feature may not have come up in the chain.
    """
    ours, theirs = features(sample), features(chain)
    parts = theirs[: len(theirs) // batches * batches].reshape(batches, -1, theirs.shape[1])
    independent = ours.var(axis=0, ddof=1)
    between = parts.mean(axis=1).var(axis=0, ddof=1) / batches
    error = independent / len(ours) + np.maximum(between, independent / len(theirs))
    gap = np.abs(ours.mean(axis=0) - parts.mean(axis=(0, 1)))
    # A feature that no point has on either side tells nothing; on one side only, everything.
    ratio = np.divide(gap, np.sqrt(error), out=np.where(gap > 0, np.inf, 0.0), where=error > 0)
    return float(ratio.max())


def moments_and_projections(dimension: int, seed: int) -> Callable[[Any], Any]:
    """Features of points that are about standard normal.

    Along the axes and twenty random directions: three moments, and the distribution function at
    five levels; and the squared norm, which adds up every deviation in scale.
    """
    random = np.random.default_rng(seed).standard_normal((20, dimension))
    directions = np.concatenate(
        [np.eye(dimension), random / np.linalg.norm(random, axis=1)[:, None]]
    )

    def features(points: Any) -> Any:
        along = points @ directions.T
        below = [along < level for level in (-2.0, -1.0, 0.0, 1.0, 2.0)]
        square = (points**2).sum(axis=1)[:, None] / math.sqrt(dimension)
        return np.concatenate([along, along**2, along**3, *below, square], axis=1)

    return features
