"""The learner a study asks for, and what can be said of its release before reading a row."""

from dataclasses import dataclass
from typing import Any

import msgspec

from sudare import checks
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from sudare.privacy import Event, account
from sudare.study import Study

SIGNS = (-1.0, 1.0)
"""How rows are labelled inside; the study says what the two stand for."""


@dataclass(frozen=True)
class Preview:
    """What a release will be made of: public numbers only."""

    study: Study
    n: int
    event: Event
    numbers: int
    """How many numbers are released."""
    noise_std: float
    """About the noise on each, in the units of the release."""
    radius: float | None
    """Coefficients keep within this; None for moments."""

    @property
    def sentence(self) -> str:
        return str(account([self.event], self.study.privacy.delta))


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


def planned_event(study: Study) -> Event:
    """What a release under this study costs one unit."""
    event: Event = make_learner(study).plan()
    return msgspec.structs.replace(event, unit=study.privacy.unit)


def preview(study: Study, n: int) -> Preview:
    """What will be released from n rows, its noise and its cost."""
    checks.count(n=n)
    learner, dimension = make_learner(study), study.contract.dimension
    noise_std, radius = learner.public_noise(n, len(study.features))
    numbers = dimension
    if study.privacy.model == "moments":
        numbers += dimension * (dimension + 1) // 2
    return Preview(study, n, planned_event(study), numbers, noise_std, radius)
