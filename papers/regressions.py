"""Organisations that regress together: the pipeline behind the ridge figures.

As in the paper: each of the M others publishes an ε-DP ridge regression by objective perturbation
(equations 2 to 8, with the constants that the proof needs), and the first averages them by mirror
averaging over its own rows (equation 10). Beside it stand its own regression and that of all rows
in one place, neither private, and sudare's default: moments at (ε, 10⁻⁵) and the hedged blend.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from papers import drawing
from papers.figure import Array
from sudare.blending import HedgedBlend, MirrorAveraging
from sudare.foundations.randomness import Generator
from sudare.learners import MomentsRegressor, PrivateRidge
from sudare.releases import Release

DELTA = 1e-5
OWN, POOLED = "own rows only", "all rows in one place"
MIRROR, HEDGED = "mirror averaging", "hedged, moments (sudare)"
STYLE = {
    POOLED: drawing.Line(drawing.INK, "", "--", "all rows in one place (not private)"),
    OWN: drawing.Line(drawing.MUTED, "", ":", "own rows only (not private)"),
    MIRROR: drawing.Line(drawing.VERMILION, "s", label="mirror averaging (paper)"),
    HEDGED: drawing.Line(drawing.BLUE, "o", label="hedged, moments, δ = 10⁻⁵ (sudare)"),
}


class Party(NamedTuple):
    """What one organisation holds."""

    rows: Array
    targets: Array


class Bounds(NamedTuple):
    """What the organisations agreed on; rows are within norm 1."""

    target_bound: float
    radius: float
    """Bound on the coefficients' norm, B."""
    temperature: float | str
    """Of mirror averaging, τ."""
    regularization: float | str = "auto"
    intercept: bool = True

    def ridge(self, epsilon: float, rng: Generator | int | None = None) -> PrivateRidge:
        """The paper's private learner."""
        return PrivateRidge(
            epsilon,
            row_norm=1.0,
            target_bound=self.target_bound,
            radius=self.radius,
            regularization=self.regularization,
            fit_intercept=self.intercept,
            rng=rng,
        )


class Published(NamedTuple):
    """What the others sent: lines as in the paper, and moments."""

    learners: list[Release]
    moments: list[Release]


def publish(others: Sequence[Party], epsilon: float, bounds: Bounds, rng: Generator) -> Published:
    """A private regression and a moments release of each of the others."""
    learners = [
        bounds.ridge(epsilon, rng).fit(*party).release(f"party {k}")
        for k, party in enumerate(others)
    ]
    moments = [
        MomentsRegressor(
            epsilon,
            delta=DELTA,
            row_norm=1.0,
            target_bound=bounds.target_bound,
            fit_intercept=bounds.intercept,
            rng=rng,
        )
        .fit(*party)
        .release(f"party {k}")
        for k, party in enumerate(others)
    ]
    return Published(learners, moments)


def models(
    own: Party, others: Sequence[Party], published: Published, bounds: Bounds
) -> dict[str, Any]:
    """All four models, fitted."""
    learners, moments = published
    contract = learners[0].contract
    every = [np.concatenate(part) for part in zip(own, *others, strict=True)]
    mirror = MirrorAveraging(learners, temperature=bounds.temperature, include_prior=False)
    return {
        OWN: HedgedBlend([], contract=contract).fit(*own),
        POOLED: HedgedBlend([], contract=contract).fit(*every),
        MIRROR: mirror.fit(*own),
        HEDGED: HedgedBlend(moments).fit(*own),
    }
