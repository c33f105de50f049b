import math

import numpy as np
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import account
from sudare.learners import (
    MomentsClassifier,
    MomentsRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
)
from sudare.site import ReleasePlan, make_learner
from sudare.study import parse_study
from tests.site.clinics import CLASSES, classes, numbers


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
    event = ReleasePlan.of(study, 200).event
    assert event.unit == study.privacy.unit
    assert account([event], 1e-6).epsilon() <= study.privacy.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("model", ["moments", "objective", "output", "gibbs"])
def test_a_preview_tells_what_fit_will_do_without_a_row(model: str) -> None:
    study = classes(model)
    planned = ReleasePlan.of(study, 150)
    # Age, sex, pressure and its indicator, and the constant feature.
    assert planned.numbers == (5 + 15 if model == "moments" else 5)
    assert planned.noise_std > 0
    assert (planned.radius is None) == (model == "moments")
    assert "per patient" in planned.sentence
    assert (planned.slack is None) == (model == "moments")
    if model != "moments":
        assert math.isfinite(planned.radius or math.inf)
        assert ReleasePlan.of(study, 15_000).noise_std < planned.noise_std


@pytest.mark.parametrize("model", ["objective", "output", "gibbs"])
def test_what_a_preview_says_is_what_a_release_says(model: str) -> None:
    study = numbers(model, "radius = 2.0")
    planned, learner = ReleasePlan.of(study, 60), make_learner(study).set_params(rng=1)
    rows = np.linspace(-1, 1, 60)
    made = learner.fit(rows[:, None], rows / 2).release("A")
    assert (made.noise_std, made.radius) == (planned.noise_std, planned.radius)
    assert made.slack == planned.slack
    assert made.numbers == planned.numbers == planned.parameters["numbers"]


def test_a_preview_needs_a_number_of_rows() -> None:
    with pytest.raises(InvalidInput, match="n=0"):
        ReleasePlan.of(classes(), 0)


def test_a_preview_knows_how_many_rows_are_plausible() -> None:
    assert ReleasePlan.of(classes(), 10**9).n == 10**9
    with pytest.raises(InvalidInput, match="at most 1000000000 rows"):
        ReleasePlan.of(classes(), 10**9 + 1)
    few = parse_study(CLASSES.format(model="moments", epsilon=4.0) + "most_rows = 149\n")
    assert ReleasePlan.of(few, 149).n == 149
    with pytest.raises(InvalidInput, match="at most 149 rows"):
        ReleasePlan.of(few, 150)
