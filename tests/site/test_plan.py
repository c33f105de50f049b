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


def test_the_noise_in_units_is_the_noise_of_the_means() -> None:
    """Against draws: moments of constant rows, whose means are known, read as a receiver would."""
    study = parse_study(CLASSES.format(model="moments", epsilon=3.0) + "row_norm = 0.6\n")
    n, runs = 40, 4000
    plan = ReleasePlan.of(study, n)
    feature = study.features[2]
    (told,) = [each for each in plan.in_units if each.feature == "pressure"]
    contract = study.contract
    learner = make_learner(study).set_params(rng=5)
    rows, targets = np.zeros((n, contract.features)), np.ones(n)
    longest = contract.row_norm**2 + contract.constant**2
    means = []
    for _ in range(runs // 40):
        release = learner.fit(rows, targets).release("A")
        gram = np.zeros((contract.dimension, contract.dimension))
        gram[np.triu_indices(contract.dimension)] = release.gram
        # All features have the same noise in the release's units: each is one more draw.
        sums = gram[: contract.features, -1] * longest / contract.constant
        means.extend((sums / n * feature.scale).tolist())
    # 400 draws: a standard deviation is within 15 % of the truth but once in 20,000 times.
    assert np.std(means) == pytest.approx(told.noise_std, rel=0.15)
    assert told.unit == "mean of pressure"
    assert told.scale == pytest.approx(60.0)


def test_coefficients_are_told_for_one_more_of_a_column() -> None:
    logistic = ReleasePlan.of(classes("objective"), 90)
    scale = classes("objective").features[0].scale
    assert logistic.in_units[0].noise_std == pytest.approx(logistic.noise_std / scale)
    ridge_study = numbers("objective", "radius = 2.0")
    ridge = ReleasePlan.of(ridge_study, 90)
    expected = ridge.noise_std * ridge_study.target_reach / ridge_study.features[0].scale
    assert ridge.in_units[0].noise_std == pytest.approx(expected)


@pytest.mark.parametrize("model", ["moments", "objective", "output", "gibbs"])
def test_three_rows_are_hardly_useful_and_ninety_are(model: str) -> None:
    study = classes(model)
    assert ReleasePlan.of(study, 3).hardly_useful
    assert not ReleasePlan.of(study, 400).hardly_useful


def test_without_a_constant_feature_nothing_is_said_of_means() -> None:
    study = parse_study(CLASSES.format(model="moments", epsilon=3.0) + "intercept = false\n")
    assert ReleasePlan.of(study, 40).in_units == ()
