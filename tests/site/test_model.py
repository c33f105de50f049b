import math
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from scipy.special import expit

from sudare.foundations.checks import InvalidInput
from sudare.site._model import Component, Model, Story, load_model
from sudare.study import read_table
from tests.site.clinics import classes, numbers, write_patients, write_stays


def two_parts(study, coefficients) -> Model:
    parts = (
        Component(name="own model", weight=0.25, coefficients=coefficients),
        Component(name="all", weight=0.75, coefficients=tuple(2 * c for c in coefficients)),
    )
    return Model(
        study=study,
        party="A",
        moment="2026-01-01",
        rows=10,
        components=parts,
        story=Story(sentence="Fine.", weights={}),
    )


def test_probabilities_are_mixed(tmp_path: Path) -> None:
    study = classes()
    model = two_parts(study, (1.0, -2.0, 0.5, 0.3, 4.0))
    data = write_patients(tmp_path / "a.csv", 40, 3)
    rows = study.contract.rows(read_table(data, study).rows)
    score = rows @ np.array([1.0, -2.0, 0.5, 0.3, 4.0])
    expected = 0.25 * expit(score) + 0.75 * expit(2 * score)
    np.testing.assert_allclose(model.predict_proba(data)[:, 1], expected, rtol=1e-12)
    assert set(model.predict(data)) <= {"no", "yes"}
    np.testing.assert_array_equal(model.predict(data) == "yes", expected > 0.5)
    frame = pd.read_csv(data)
    np.testing.assert_allclose(model.predict_proba(frame), model.predict_proba(data))


def test_the_model_goes_into_scikit_learn(tmp_path: Path) -> None:
    frame = pd.read_csv(write_patients(tmp_path / "a.csv", 60, 3))
    model = two_parts(classes(), (4.0, 1.0, 2.0, 0.0, 0.0))
    estimator = model.to_sklearn()
    assert estimator.score(frame, frame["ill"]) == (model.predict(frame) == frame["ill"]).mean()
    np.testing.assert_array_equal(estimator.predict_proba(frame), model.predict_proba(frame))


def test_numbers_come_back_in_their_own_units(tmp_path: Path) -> None:
    study = numbers()
    model = two_parts(study, (0.2, 0.1))
    data = write_stays(tmp_path / "s.csv", 20, 1)
    rows = study.contract.rows(read_table(data, study).rows)
    score = rows @ np.array([0.2, 0.1])
    mixed = 0.25 * np.clip(score, -1, 1) + 0.75 * np.clip(2 * score, -1, 1)
    np.testing.assert_allclose(model.predict(data), 15 + 15 * mixed)
    with pytest.raises(InvalidInput, match="two classes"):
        model.predict_proba(data)


def test_effects_are_per_unit_of_the_column(tmp_path: Path) -> None:
    study = classes()
    model = two_parts(study, (1.0, 0.0, 0.0, 0.0, 0.0))
    age = model.effects()[0]
    average, features = 1.75, 4
    # Ten more years move the encoded feature by 10/35/√4.
    assert age.effect == pytest.approx(average / 35 / math.sqrt(features))
    assert age.odds_ratio == pytest.approx(math.exp(age.effect))
    older = pd.DataFrame({"age": [50, 60], "sex": "f", "pressure": 120.0})
    own = msgspec.structs.replace(
        model, components=(Component(name="x", weight=1.0, coefficients=(1.75, 0, 0, 0, 0)),)
    )
    odds = own.predict_proba(older)
    ratio = (odds[1, 1] / odds[1, 0]) / (odds[0, 1] / odds[0, 0])
    assert ratio == pytest.approx(math.exp(10 * age.effect), rel=1e-9)


def test_a_model_survives_its_file(tmp_path: Path) -> None:
    model = two_parts(classes(), (0.1, 1 / 3, 1e-17, 2.0**-40, 5.0))
    path = tmp_path / "model.json"
    path.write_bytes(model.to_bytes())
    assert load_model(path) == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a model"),
        ("[]", "not a model"),
        ("{}", "not a model"),
        ('"' + "[" * 5000, "not a model"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        load_model(tmp_path / "m.json")
    with pytest.raises(InvalidInput, match="Cannot read"):
        load_model(tmp_path / "none.json")


def test_a_damaged_or_later_model_is_refused(tmp_path: Path) -> None:
    model = two_parts(classes(), (0.1, 0.2, 0.3, 0.4, 0.5))
    short = msgspec.structs.replace(
        model, components=(Component(name="x", weight=1.0, coefficients=(1.0,)),)
    )
    (tmp_path / "m.json").write_bytes(short.to_bytes())
    with pytest.raises(InvalidInput, match="damaged"):
        load_model(tmp_path / "m.json")
    later = msgspec.structs.replace(model, format="sudare-model/2")
    (tmp_path / "m.json").write_bytes(later.to_bytes())
    with pytest.raises(InvalidInput, match="later sudare"):
        load_model(tmp_path / "m.json")
