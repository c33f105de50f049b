"""An adversary who chooses every price after seeing the privacy loss so far, computed exactly.

Two neighbours with laws P and Q; L = log dP/dQ of everything seen. What is released at ε is at best
δ(ε) = E_P (1 − e^(ε−L))₊, so the adversary who maximises it by backward induction over everything
that a rule accepts is the worst there is among those with these steps: randomised responses, whose
loss is ±ε, in any order and number, a Gaussian release before them, and after them either another
one or a plain release that shows everything with probability δ.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sudare.foundations.privacy import ApproximateEvent, Event, GaussianEvent, PureEvent

Accepts = Callable[[tuple[Event, ...]], bool]


def gaussian_curve(epsilon: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """δ(ε) of the pair N(μ, 1), N(0, 1) at any real ε."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


@dataclass(eq=False)
class Adversary:
    """Whoever spends by a rule, with prices from a grid; all ε are multiples of `step`."""

    epsilon: float
    accepts: Accepts
    step: float
    multiples: Sequence[int]
    mus: Sequence[float]
    most: int = 64
    losses: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    """Several losses to start from, for whoever comes after an opening release."""
    opening: tuple[Event, ...] = ()
    deltas: Sequence[float] = ()

    def best(self) -> NDArray[np.float64]:
        """The largest δ(ε) that can be reached, from each starting loss."""

        @cache
        def events(counts: tuple[int, ...]) -> tuple[Event, ...]:
            pure = [
                PureEvent(times * self.step)
                for times, count in zip(self.multiples, counts, strict=True)
                for _ in range(count)
            ]
            return (*self.opening, *pure)

        @cache
        def fits(counts: tuple[int, ...], last: Event | None = None) -> bool:
            asked = events(counts) + (() if last is None else (last,))
            return self.accepts(asked)

        @cache
        def value(counts: tuple[int, ...], steps: int) -> NDArray[np.float64]:
            losses = self.losses + steps * self.step
            best = hinge = np.maximum(0.0, -np.expm1(self.epsilon - losses))
            for mu in self.mus:
                if fits(counts, GaussianEvent(mu)):
                    best = np.maximum(best, gaussian_curve(self.epsilon - losses, mu))
            for delta in self.deltas:
                if fits(counts, ApproximateEvent(1e-12, delta)):
                    best = np.maximum(best, delta + (1 - delta) * hinge)
            if sum(counts) == self.most:
                return best
            for place, times in enumerate(self.multiples):
                more = tuple(n + (k == place) for k, n in enumerate(counts))
                if fits(more):
                    up = 1 / (1 + math.exp(-times * self.step))
                    higher, lower = value(more, steps + times), value(more, steps - times)
                    best = np.maximum(best, up * higher + (1 - up) * lower)
            return best

        return value((0,) * len(self.multiples), 0)


def after_gaussian(mu: float, nodes: int = 400) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Losses of a Gaussian release under P, N(μ²/2, μ²), and weights that integrate over them."""
    points, weights = np.polynomial.legendre.leggauss(40)
    pieces = nodes // 40  # to find so many points at once takes half a minute
    middles = (2 * np.arange(pieces) + 1 - pieces) / pieces
    points = (middles[:, None] + points / pieces).ravel()
    weights = np.tile(weights / pieces, pieces)
    spread = 9 * points  # in standard deviations
    density = np.exp(-(spread**2) / 2) / math.sqrt(2 * math.pi)
    return mu * mu / 2 + mu * spread, 9 * weights * density
