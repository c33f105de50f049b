"""Who holds which rows: the consortia on which blending is judged.

A consortium is one organisation with rows of its own, others who release private numbers about
theirs, and test rows from the first one's law. `synthetic` draws them from known laws, some of them
unkind; `real` deals public data sets out. All rows are within norm 1 by public numbers alone.

`moments` and `learners` make the others' releases. Both draw by seed, so that a run can be
repeated: what comes out is for simulation and marked so.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.foundations.privacy import Event
from sudare.foundations.randomness import seeded
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from sudare.learners._moments import moments_seal
from sudare.releases import Contract, LearnerRelease, MomentsRelease

Array = NDArray[np.float64]
Table = tuple[Array, NDArray[Any]]
"""Rows and their targets."""

DELTA = 1e-5
INTERCEPT = 0.25
"""Size of the constant feature, as the learners choose it for rows of norm 1."""
RADIUS = 2.0
"""Public bound on the coefficients of a private ridge regression."""


@dataclass(frozen=True)
class Consortium:
    """An organisation with its own rows, the others, and the rows it will be judged on."""

    name: str
    contract: Contract
    own_X: Array
    own_y: NDArray[Any]
    others: list[Table]
    test_X: Array
    test_y: NDArray[Any]
    tampering: Array | None = None
    """What each of the others multiplies its release with before sending it; 1 is honest."""

    def pooled(self) -> Table:
        """All training rows in one place: what nobody may have, as a ceiling."""
        rows = [self.own_X, *(X for X, _ in self.others)]
        return np.concatenate(rows), np.concatenate([self.own_y, *(y for _, y in self.others)])

    def factors(self) -> Array:
        return np.ones(len(self.others)) if self.tampering is None else self.tampering


def classification(features: int, constant: float = INTERCEPT) -> Contract:
    """Rows within norm 1, an intercept unless its constant is zero, classes 0 and 1."""
    return Contract(features=features, row_norm=1.0, constant=constant, classes=(0, 1))


def regression(features: int, target_bound: float) -> Contract:
    """Rows within norm 1, an intercept, targets within ±target_bound."""
    return Contract(features=features, row_norm=1.0, constant=INTERCEPT, target_bound=target_bound)


def moments(
    consortium: Consortium, epsilon: float, seed: int, delta: float = DELTA
) -> list[MomentsRelease]:
    """The others' moments releases.

    In law what the moments learners release, whose noise is drawn on so fine a grid that a normal
    draw of the same size cannot be told apart here; no model is fitted on the way, which makes this
    a hundred times as fast.
    """
    contract, rng = consortium.contract, seeded(seed)
    p = contract.dimension
    upper = np.triu_indices(p)
    on_diagonal = np.where(upper[0] == upper[1], np.sqrt(2), 1.0)
    event = _plan(contract, epsilon, delta)
    found = []
    for k, ((X, y), factor) in enumerate(
        zip(consortium.others, consortium.factors(), strict=True), start=1
    ):
        rows = contract.rows(X) / contract.full_norm
        targets = contract.targets(y) / (contract.target_bound or 1.0)
        std = moments_seal(len(y), p, epsilon, delta).noise_std
        cross = targets @ rows + std * rng.standard_normal(p)
        gram = (rows.T @ rows)[upper] + std * on_diagonal * rng.standard_normal(len(on_diagonal))
        found.append(
            MomentsRelease(
                party=f"organisation {k}",
                contract=contract,
                n=len(y),
                event=event,
                noise_std=std,
                simulated=True,
                cross=tuple(factor * cross),
                gram=tuple(abs(factor) * gram),
            )
        )
    return found


def learners(
    consortium: Consortium, epsilon: float, seed: int, delta: float = DELTA
) -> list[LearnerRelease]:
    """The others' objective-perturbed regressions."""
    contract, rng = consortium.contract, seeded(seed)
    found = []
    for k, ((X, y), factor) in enumerate(
        zip(consortium.others, consortium.factors(), strict=True), start=1
    ):
        learner: Any
        if contract.classes is not None:
            learner = PrivateLogisticRegression(
                epsilon, delta=delta, row_norm=1.0, classes=contract.classes, rng=rng
            )
        else:
            learner = PrivateRidge(
                epsilon,
                delta=delta,
                row_norm=1.0,
                target_bound=contract.target_bound,
                radius=RADIUS,
                rng=rng,
            )
        release: LearnerRelease = learner.fit(X, y).release(party=f"organisation {k}")
        if factor != 1:
            coefficients = tuple(factor * c for c in release.coefficients)
            release = _copy(release, coefficients=coefficients)
        found.append(release)
    return found


@lru_cache(maxsize=64)
def _plan(contract: Contract, epsilon: float, delta: float) -> Event:
    if contract.classes is not None:
        return MomentsClassifier(epsilon, delta=delta, row_norm=1.0).plan()
    return MomentsRegressor(
        epsilon, delta=delta, row_norm=1.0, target_bound=contract.target_bound
    ).plan()


def _copy(release: LearnerRelease, **changes: Any) -> LearnerRelease:
    fields = {name: getattr(release, name) for name in release.__struct_fields__}
    return LearnerRelease(**{**fields, **changes})
