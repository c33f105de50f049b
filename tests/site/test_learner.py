import math

import pytest

from sudare.checks import InvalidInput
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from sudare.privacy import account
from sudare.site import make_learner, planned_event, preview
from tests.site.clinics import classes, numbers


@pytest.mark.parametrize(
    ("study", "kind"),
    [
        (classes(), MomentsClassifier),
        (classes("objective"), PrivateLogisticRegression),
        (classes("output"), PrivateLogisticRegression),
        (classes("gibbs"), PrivateLogisticRegression),
        (numbers(), MomentsRegressor),
        (numbers("objective", "radius = 2.0"), PrivateRidge),
    ],
)
def test_the_study_decides_the_learner_and_its_price(study, kind) -> None:
    learner = make_learner(study)
    assert type(learner) is kind
    assert getattr(learner, "mechanism", "moments") == study.privacy.model
    event = planned_event(study)
    assert event.unit == study.privacy.unit
    assert account([event], 1e-6).epsilon() <= study.privacy.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("model", ["moments", "objective", "output", "gibbs"])
def test_a_preview_tells_what_fit_will_do_without_a_row(model: str) -> None:
    study = classes(model)
    planned = preview(study, 150)
    # Age, sex, pressure and its indicator, and the constant feature.
    assert planned.numbers == (5 + 15 if model == "moments" else 5)
    assert planned.noise_std > 0
    assert (planned.radius is None) == (model == "moments")
    assert "per patient" in planned.sentence
    if model != "moments":
        assert math.isfinite(planned.radius or math.inf)
        assert preview(study, 15_000).noise_std < planned.noise_std


def test_a_preview_needs_a_number_of_rows() -> None:
    with pytest.raises(InvalidInput, match="n=0"):
        preview(classes(), 0)
