from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd  # type: ignore[import-untyped]
import pytest
from onnx.reference import ReferenceEvaluator

from sudare import site
from sudare.foundations.checks import InvalidInput
from sudare.site._model import Model
from sudare.study import parse_study
from tests.site.exported import CLASSES, HEADER, NUMBER, complete_only, model, study, write_rows


def inputs(data: Path) -> dict[str, Any]:
    """The columns of a file as they stand there: numbers, and texts with their gaps."""
    frame = pd.read_csv(data, dtype=str, keep_default_na=False)
    numbers = ("age", "pressure")
    return {
        name: (
            pd.to_numeric(frame[name]).to_numpy(float)
            if name in numbers
            else frame[name].to_numpy(object)
        )[:, None]
        for name in HEADER
    }


def run(made: Model, columns: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        site.to_onnx(made), options, providers=["CPUExecutionProvider"]
    )
    found: list[Any] = session.run(None, columns)
    return found


@pytest.mark.parametrize(
    "settings",
    [{}, {"scale": 20}, {"more": "row_norm = 0.5\nintercept = false"}],
    ids=["plain", "narrow scale", "short rows"],
)
def test_classes_come_out_of_the_graph(settings: Any, tmp_path: Path) -> None:
    made = model(study(CLASSES, **settings))
    data = write_rows(tmp_path / "rows.csv")
    label, chance = run(made, inputs(data))
    told = made.predict_proba(data)[:, 1]
    np.testing.assert_allclose(chance[:, 0], told, rtol=0, atol=1e-12)
    assert label[:, 0].tolist() == [str(each) for each in made.predict(data)]
    assert np.std(told) > 0.01


def test_rows_without_gaps_come_out_of_a_study_that_leaves_others_out(tmp_path: Path) -> None:
    made, data = model(complete_only()), tmp_path / "whole.csv"
    lines = write_rows(tmp_path / "rows.csv").read_text().splitlines()
    whole = [line for line in lines if ",," not in line and "NaN" not in line]
    data.write_text("\n".join(whole) + "\n")
    _, chance = run(made, inputs(data))
    told = made.predict_proba(data)[:, 1]
    np.testing.assert_allclose(chance[:, 0], told, rtol=0, atol=1e-12)
    label, chance = run(made, inputs(tmp_path / "rows.csv"))
    assert (label[np.isnan(chance)] == "").all()
    assert np.isnan(chance).sum() > 50


def test_numbers_come_out_of_the_graph(tmp_path: Path) -> None:
    made = model(study(NUMBER))
    data = write_rows(tmp_path / "rows.csv")
    (found,) = run(made, inputs(data))
    np.testing.assert_allclose(found[:, 0], made.predict(data), rtol=0, atol=1e-11)


def test_the_reference_of_the_format_agrees(tmp_path: Path) -> None:
    made = model(study())
    columns = inputs(write_rows(tmp_path / "rows.csv", rows=20))
    graph = onnx.load_from_string(site.to_onnx(made))
    found: Any = ReferenceEvaluator(graph).run(None, columns)
    label, chance = found
    ours, theirs = run(made, columns)
    assert label.tolist() == ours.tolist()
    np.testing.assert_allclose(chance, theirs, rtol=1e-12)


def test_a_value_that_the_study_does_not_allow_has_no_prediction() -> None:
    made = model(study())
    good: dict[str, object] = {"age": 50.0, "pressure": 120.0, "sex": "f"}
    good |= {"stage": "1", "smoker": "true", "country": "DE"}
    bad: list[dict[str, object]] = [
        {"age": np.nan}, {"pressure": np.inf}, {"sex": ""}, {"sex": "x"}, {"country": "FR"},
    ]  # fmt: skip
    fine: list[dict[str, object]] = [
        {}, {"pressure": np.nan}, {"stage": ""}, {"stage": "2.0"}, {"smoker": "TRUE"},
    ]  # fmt: skip
    frame = pd.DataFrame([{**good, **each} for each in (*bad, *fine)])
    columns = {
        name: frame[name].to_numpy(float if name in ("age", "pressure") else object)[:, None]
        for name in HEADER
    }
    label, chance = run(made, columns)
    np.testing.assert_array_equal(np.isnan(chance[:, 0]), [True] * len(bad) + [False] * len(fine))
    assert label[:, 0].tolist()[: len(bad)] == [""] * len(bad)
    assert set(label[:, 0].tolist()[len(bad) :]) <= {"0", "1"}


def test_the_graph_says_where_it_belongs() -> None:
    graph = onnx.load_from_string(site.to_onnx(model(study())))
    told = {each.key: each.value for each in graph.metadata_props}
    assert told["digest"] == study().digest()
    assert "keep it inside" in told["note"]
    assert site.to_onnx(model(study())) == site.to_onnx(model(study()))


def test_names_that_meet_are_no_trouble_or_refused() -> None:
    text = """
    name = "n"
    [columns."step 1"]
    low = 0
    high = 1
    [columns."{}"]
    low = 0
    high = 1
    [target]
    column = "y"
    classes = ["a", "b"]
    [privacy]
    epsilon = 1.0
    delta = 1e-6
    """
    half = np.array([[0.25]])
    made = model(parse_study(text.format("step 3")))
    _, chance = run(made, {"step 1": half, "step 3": half})
    told = made.predict_proba(pd.DataFrame({"step 1": [0.25], "step 3": [0.25]}))[0, 1]
    assert chance[0, 0] == pytest.approx(told)
    with pytest.raises(InvalidInput, match="export as csv"):
        site.to_onnx(model(parse_study(text.format("prediction"))))
