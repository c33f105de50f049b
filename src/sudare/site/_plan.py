"""The plan of a release: everything about it that is decided before a row is read.

It is made once, from the study and the number of rows, and handed on to whoever needs a part of it:
the ledger (its price), the learner, the certificate, and those who verify the release later.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import msgspec

from sudare.foundations import checks
from sudare.foundations.privacy import Event, account
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from sudare.study import Study

SIGNS = (-1.0, 1.0)
"""How rows are labelled inside; the study says what the two stand for."""
EDITION = 2
"""Of the calibrations that decide the noise. The first, which certificates do not name, had up to
half as much noise again for the same promise (CHANGELOG.md, **Privacy**)."""


@dataclass(frozen=True)
class ReleasePlan:
    """What a release will be made of, its noise and its price: public numbers only."""

    study: Study
    n: int
    event: Event
    numbers: int
    """How many numbers are released."""
    noise_std: float
    """About the noise on each, in the units of the release."""
    radius: float | None
    """Coefficients keep within this; None for moments."""
    slack: float | None
    """How far the last noise can carry them beyond it; None for moments."""
    edition: int | None = EDITION
    """Of the calibrations; None for a release of the first, whose certificate does not say."""

    @classmethod
    def of(cls, study: Study, n: int) -> Self:
        """The plan for a release of n rows."""
        checks.count(n=n)
        if n > study.privacy.plausible_rows:
            raise checks.InvalidInput(
                f"Expected at most {study.privacy.plausible_rows} rows: the study holds more to be "
                "impossible"
            )
        learner, dimension = make_learner(study), study.contract.dimension
        public = learner.public_noise(n, len(study.features))
        event = learner.plan_for(n, len(study.features))
        event = msgspec.structs.replace(event, unit=study.privacy.unit)
        numbers = dimension
        if study.privacy.model == "moments":
            numbers += dimension * (dimension + 1) // 2
        return cls(study, n, event, numbers, *public)

    @cached_property
    def sentence(self) -> str:
        """The promise, in words."""
        return str(account([self.event], self.study.privacy.delta))

    @property
    def parameters(self) -> dict[str, float | int | str | bool | None]:
        """What a certificate says of how the release was made; whoever verifies computes it too."""
        told: dict[str, float | int | str | bool | None] = {
            "model": self.study.privacy.model,
            "task": self.study.task,
            "rows": self.n,
            "numbers": self.numbers,
            "noise_std": self.noise_std,
            "radius": self.radius,
            "row_norm": self.study.privacy.row_norm,
        }
        return told if self.edition is None else told | {"edition": self.edition}


def make_learner(study: Study) -> Any:
    """The estimator that makes a release under this study, not yet fitted."""
    terms = study.privacy
    settings: dict[str, Any] = {
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "row_norm": terms.row_norm,
        "fit_intercept": terms.intercept,
    }
    if study.task == "classification":
        settings["classes"] = SIGNS
        if terms.model == "moments":
            return MomentsClassifier(**settings)
        if terms.radius is not None:
            settings["radius"] = terms.radius
        return PrivateLogisticRegression(mechanism=terms.model, **settings)
    settings["target_bound"] = 1.0
    if terms.model == "moments":
        return MomentsRegressor(**settings)
    return PrivateRidge(mechanism=terms.model, radius=terms.radius, **settings)
