"""Which releases agree: groups of organisations, separated no further than noise allows.

Each release j is a vector z_j about its organisation's truth, with known variances v_j (sampling
and privacy noise, in coordinates where they are diagonal). The truths of a group lie about a common
centre with variance t·u, u known up to its size; a release may also be *anything*, normal about
zero with variance a. Groups, memberships and t are found by expectation and maximisation. More
groups must pay for their parameters (Schwarz 1978), so that noise alone makes no groups. A release
of several organisations together is about the mean of their truths, which varies less: by a share
of t·u.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from sudare.blending._records import Array

_ROUNDS = 50
_LOOSE = (0.005, 0.5)
"""Least and largest share of releases that may be anything."""


@dataclass(frozen=True)
class Spread:
    """Releases in coordinates where everything known of their errors is diagonal."""

    values: Array
    """z: (M, p)."""
    variances: Array
    """v: (M, p)."""
    unit: Array
    """u: (p,), about 1 on average."""
    anything: Array
    """a: (p,)."""
    scatter: Array = field(default_factory=lambda: np.ones(1))
    """(M,), or (1,) for all: the share of t·u that a release varies by; 1 for one organisation."""

    def varied(self, between: float) -> Array:
        """(M, p): what releases vary by if truths do by `between`."""
        return self.variances + between * self.units

    @property
    def units(self) -> Array:
        """u of each release."""
        return self.scatter[:, None] * self.unit


@dataclass(frozen=True)
class Groups:
    """M releases in k groups."""

    centres: Array
    memberships: Array
    """(M, k): chances; what is missing to one is that of being anything."""
    between: float
    """t."""
    shares: Array
    """Of the groups among releases that belong to one."""
    score: float
    """log likelihood less the price of the parameters."""

    def centre(self, spread: Spread, group: int, between: float) -> tuple[Array, Array, Array]:
        """A group's centre if its truths vary by `between`: mean, variance, shares of releases."""
        return pooled(spread, self.memberships[:, group], between)


def pooled(spread: Spread, weights: Array, between: float) -> tuple[Array, Array, Array]:
    """Centre of the weighted releases, its variance, and what each release contributed."""
    precision = weights[:, None] / spread.varied(between)
    total = precision.sum(axis=0) + 1 / spread.anything
    contributed = precision.mean(axis=1)
    contributed = contributed / max(contributed.sum(), 1e-300)
    return (precision * spread.values).sum(axis=0) / total, 1 / total, contributed


def between_likelihood(spread: Spread, weights: Array, between: Array) -> Array:
    """log likelihood of each between-variance, the centre integrated out."""
    found = []
    for t in between:
        centre, variance, _ = pooled(spread, weights, float(t))
        logs = _log_normal(spread.values - centre, spread.varied(float(t)))
        found.append(float(weights @ logs) + float(np.log(variance).sum()) / 2)
    return np.array(found)


def find_groups(spread: Spread, count: int) -> Groups:
    """The best of a few starts; none is random."""
    return max((_climb(spread, start) for start in _starts(spread, count)), key=lambda g: g.score)


def _starts(spread: Spread, count: int) -> list[Array]:
    """Memberships to start from: slices along the widest direction, and nearest of far-off ones."""
    z = spread.values
    if count == 1:
        return [np.ones((len(z), 1))]
    middle = z - np.median(z, axis=0)
    direction = np.linalg.svd(middle, full_matrices=False)[2][0]
    order = np.argsort(np.argsort(middle @ direction))
    slices = order * count // len(z)
    far = [int(np.argmax((middle**2).sum(axis=1)))]
    distances = [((z - z[far[0]]) ** 2).sum(axis=1)]
    while len(far) < count:
        far.append(int(np.argmax(np.min(distances, axis=0))))
        distances.append(((z - z[far[-1]]) ** 2).sum(axis=1))
    return [np.eye(count)[slices], np.eye(count)[np.argmin(distances, axis=0)]]


def _climb(spread: Spread, memberships: Array) -> Groups:
    z, v, u = spread.values, spread.variances, spread.units
    (many, p), k = z.shape, memberships.shape[1]
    loose, between, last = _LOOSE[0], 0.0, -np.inf
    log_anything = _log_normal(z, v + spread.anything)
    shares = memberships.mean(axis=0)
    for _ in range(_ROUNDS):
        variance = spread.varied(between)
        precision = np.einsum("mk,mp->kp", memberships, 1 / variance) + 1 / spread.anything
        centres = np.einsum("mk,mp->kp", memberships, z / variance) / precision
        # Fisher scoring for t; the centres, being fitted, take up part of the spread.
        squares = np.einsum("mk,mkp->mp", memberships, (z[:, None] - centres) ** 2)
        inside = memberships.sum(axis=1)[:, None]
        pull = (u * (squares / variance - inside) / variance).sum()
        shrunk = spread.scatter[:, None] / variance**2
        explained = np.einsum("mk,mp,kp->p", memberships, shrunk, 1 / precision)
        taken = (spread.unit * explained).sum()
        certainty = max((inside * (u / variance) ** 2).sum(), 1e-300)
        between = max(0.0, between + (pull + taken) / certainty)
        logs = np.log(np.maximum(shares, 1e-300)) + np.stack(
            [_log_normal(z - centre, spread.varied(between)) for centre in centres], axis=1
        )
        grouped = np.log1p(-loose) + logsumexp(logs, axis=1)
        total = np.logaddexp(grouped, np.log(loose) + log_anything)
        memberships = np.exp(logs + np.log1p(-loose) - total[:, None])
        loose = float(np.clip(1 - memberships.sum() / many, *_LOOSE))
        shares = memberships.sum(axis=0) / max(memberships.sum(), 1e-300)
        likelihood = float(total.sum())
        if abs(likelihood - last) < 1e-3:
            break
        last = likelihood
    price = np.log(many) / 2 * (k * p + k + 1)
    return Groups(centres, memberships, between, shares, likelihood - price)


def _log_normal(residuals: Array, variances: Array) -> Array:
    logs: Array = -(residuals**2 / variances + np.log(2 * np.pi * variances)).sum(axis=-1) / 2
    return logs
