import math
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from scipy.special import expit

from sudare.foundations.checks import InvalidInput
from sudare.site._model import Component, Effect, Model, Seen, Story, load_model
from sudare.study import read_table
from tests.site.clinics import classes, numbers, write_patients, write_stays

GOLDEN = Path(__file__).parents[1] / "golden"


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
    age = model.effects()[1]
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


def test_the_intercept_and_all_effects_give_the_scores_of_raw_values() -> None:
    study = classes()
    model = two_parts(study, (1.0, -2.0, 0.5, 0.3, 4.0))
    intercept, age, male, pressure, gap = (each.effect for each in model.effects())
    frame = pd.DataFrame(
        {"age": [30.0, 71.5], "sex": ["f", "m"], "pressure": [140.0, np.nan]}
    )  # its gap is filled with 130
    raw = np.array([[30.0, 0, 140, 0], [71.5, 1, 130, 1]])
    scores = intercept + raw @ [age, male, pressure, gap]
    rows = read_table(frame, study, with_target=False).rows
    expected = study.contract.rows(rows) @ (1.75 * np.array([1.0, -2.0, 0.5, 0.3, 4.0]))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    units = [each.unit for each in model.effects()]
    assert units[2:] == ["m instead of f", "one more unit of pressure", units[4]]
    assert "missing" in units[4]


def test_effects_of_numbers_are_in_the_targets_units() -> None:
    study = numbers()
    model = two_parts(study, (0.2, 0.1))
    intercept, age = (each.effect for each in model.effects())
    rows = study.contract.rows(
        read_table(pd.DataFrame({"age": [64.0]}), study, with_target=False).rows
    )
    expected = 15 + 15 * 1.75 * (rows @ [0.2, 0.1])
    assert intercept + 64 * age == pytest.approx(expected[0], rel=1e-12)
    assert model.effects()[1].odds_ratio is None


OTHERS = {"others": 4.0, "low": 0.0, "high": 31.0, "of": 900}


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"varies": True, "own": 3}, ""),
        ({"varies": False}, "it is the same in all own rows"),
        ({"varies": False, "of": 900}, ""),
        ({"varies": False, "own": 0}, "no own row has it"),
        ({"varies": False, "own": 0, "of": 900}, "no own row has it, and releases do not tell who"),
        ({"varies": False, "own": 0} | OTHERS, "of 900 others at most 31 have it"),
        ({"varies": False, "own": 0} | OTHERS | {"low": 2.0}, ""),
        (
            {"varies": False, "own": 50} | OTHERS | {"low": 880.0, "high": 900.0},
            "at most 20 lack it",
        ),
    ],
)
def test_a_coefficient_that_nobody_can_have_told_is_known(seen: dict, words: str) -> None:
    effect = Effect(
        feature="a=b", unit="", effect=0.1, odds_ratio=1.1, seen=Seen(feature="a=b", **seen)
    )
    assert words in effect.unseen
    assert bool(words) == bool(effect.unseen)
    assert effect.told == (not words or "do not tell" in words)  # then nobody knows


def test_a_model_of_the_first_version_opens_and_predicts_as_it_did(tmp_path: Path) -> None:
    """Golden: written by sudare 0.1.0 before slopes and further measures were kept."""
    model = load_model(GOLDEN / "model-1.json")
    data = tmp_path / "p.csv"
    data.write_text(
        "pressure,age,sex\n137.3,63.8,f\n135.4,82.8,m\n131.6,74.3,f\n,35.8,f\n,41.0,m\n"
    )
    expected = [
        0.6602211534102331, 0.973481179026184, 0.8439162213293732, 0.21463976687475272,
        0.555536008438259,
    ]  # fmt: skip
    np.testing.assert_allclose(model.predict_proba(data)[:, 1], expected, rtol=1e-12)
    assert [party.name for party in model.story.parties] == ["Hospital C0", "Hospital C1"]
    assert model.story.slopes == ()
    assert model.story.assessment is not None
    assert (model.story.assessment.folds, model.story.assessment.compared) == (5, ())


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
