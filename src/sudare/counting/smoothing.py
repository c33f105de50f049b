"""Smoothing: a curve that borrows from earlier rounds, at no cost to anyone's privacy.

A bank of filters watches the estimates. Each believes that the share wanders by a random step of
its own size between rounds (a local-level model, Kalman 1960) and predicts the next estimate; those
that predict well get more weight, and old merits are forgotten at a tenth a round, so that a step
in the signal is followed soon. Round t's smoothed share uses rounds up to t and never changes
afterwards; before the first report there is none (NaN). The raw estimate stays beside it:
smoothing is a picture, not a promise, and has no interval of its own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.counting._estimation import Estimates

Array = NDArray[np.float64]

WANDERINGS = np.logspace(-6, 0, 13)
"""Variance of the step each filter believes in."""
_FORGETTING = 0.9


class Filter(NamedTuple):
    """What is known after some rounds; the last axis goes over the bank, others over curves."""

    means: Array
    variances: Array
    merits: Array
    """Logarithms of the weights, up to a constant; all zero until something is heard."""


def init(shape: tuple[int, ...] = ()) -> Filter:
    """Before the first round, for one curve or many at once."""
    whole = (*shape, len(WANDERINGS))
    return Filter(np.full(whole, 0.5), np.full(whole, 1.0), np.zeros(whole))


def step(state: Filter, share: ArrayLike, std: ArrayLike) -> Filter:
    """After one more round: its raw estimate and about its standard deviation.

    Where nobody reported (NaN, or an infinite deviation) only time passes.
    """
    seen = np.asarray(share, dtype=float)[..., None]
    noise = np.asarray(std, dtype=float)[..., None] ** 2
    heard = np.isfinite(seen) & np.isfinite(noise)
    seen, noise = np.where(heard, seen, 0.0), np.where(heard, noise, 1.0)
    before = state.variances + WANDERINGS
    total = before + noise
    surprise = seen - state.means
    gain = np.where(heard, before / total, 0.0)
    likelihood = -0.5 * (np.log(total) + surprise**2 / total)
    return Filter(
        state.means + gain * surprise,
        (1 - gain) * before,
        np.where(heard, _FORGETTING * state.merits + likelihood, state.merits),
    )


def result(state: Filter) -> tuple[Array, Array]:
    """The smoothed share, within [0, 1], and about its standard deviation.

    NaN and infinity before the first report: the filters' starting values are not an estimate.
    """
    weights = np.exp(state.merits - state.merits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mean = (weights * state.means).sum(axis=-1)
    spread = (weights * (state.variances + (state.means - mean[..., None]) ** 2)).sum(axis=-1)
    begun = state.merits.any(axis=-1)
    share = np.where(begun, np.clip(mean, 0.0, 1.0), np.nan)
    return share, np.where(begun, np.sqrt(spread), np.inf)


def smooth(estimates: Estimates) -> Array:
    """The smoothed share of every round, each from rounds up to its own."""
    return smooth_many(estimates.raw, estimates.std)


def smooth_many(raw: Array, std: Array) -> Array:
    """The same for many curves at once: the last axis goes over rounds."""
    state = init(raw.shape[:-1])
    curve = np.empty(raw.shape)
    for t in range(raw.shape[-1]):  # in time there is no other way
        state = step(state, raw[..., t], std[..., t])
        curve[..., t] = result(state)[0]
    return curve
