import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.site._export import ROW_NORM, TERMS_HEADER, term_rows
from sudare.site._model import Model
from tests.site.exported import CLASSES, NUMBER, complete_only, model, study, write_rows

Lines = list[dict[str, str]]


def written(made: Model) -> Lines:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(TERMS_HEADER)
    writer.writerows(term_rows(made))
    file.seek(0)
    return list(csv.DictReader(file))


def spelled(text: str) -> str:
    """As the recipe says: whole numbers without decimals, truth in small letters."""
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        return str(int(float(text))) if float(text).is_integer() else text
    except ValueError:
        return text


def value_of(line: dict[str, str], row: dict[str, str], levels: set[str]) -> float:
    """v of the recipe."""
    if line["kind"] in ("intercept", "reference"):
        return 1.0
    text = row[line["column"]]
    gap = text in ("", "NA", "NaN") and text not in levels
    if line["kind"] == "missing":
        return float(gap)
    if gap:
        assert line["missing"], "no prediction"
        text = line["missing"]
    if line["kind"] == "level":
        label = spelled(text) if spelled(text) in levels else line["other"]
        assert label, "no prediction"
        return float(label == line["level"])
    return min(max(float(text), float(line["low"])), float(line["high"]))


def predicted(lines: Lines, row: dict[str, str]) -> float:
    """One prediction, from the file alone."""
    norms = [float(line["coefficient"]) for line in lines if line["term"] == ROW_NORM]
    components: dict[str, Lines] = {}
    for line in lines:
        if line["term"] != ROW_NORM:
            components.setdefault(line["component"], []).append(line)
    total = 0.0
    for terms in components.values():
        levels: dict[str, set[str]] = {}
        for line in terms:
            some = levels.setdefault(line["column"], set())
            some |= {line["level"]} if line["kind"] in ("level", "reference") else set()
        values = [value_of(line, row, levels[line["column"]]) for line in terms]
        if norms:
            placed = [
                (float(line["centre"]), float(line["scale"])) if line["scale"] else None
                for line in terms
            ]
            length = math.sqrt(
                sum(((v - p[0]) / p[1]) ** 2 for v, p in zip(values, placed, strict=True) if p)
            )
            if length > norms[0]:
                values = [
                    v if p is None else p[0] + (v - p[0]) * norms[0] / length
                    for v, p in zip(values, placed, strict=True)
                ]
        score = sum(float(line["coefficient"]) * v for line, v in zip(terms, values, strict=True))
        if terms[0]["low"]:
            part = min(max(score, float(terms[0]["low"])), float(terms[0]["high"]))
        else:
            part = 1 / (1 + math.exp(-score))
        total += float(terms[0]["weight"]) * part
    return total


def by_the_file(made: Model, data: Path) -> list[float]:
    lines = written(made)
    with data.open(newline="", encoding="utf-8") as file:
        return [predicted(lines, row) for row in csv.DictReader(file)]


@pytest.mark.parametrize("kind", [CLASSES, NUMBER], ids=["classes", "numbers"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"scale": 20}, {"more": "row_norm = 0.5\nintercept = false"}],
    ids=["plain", "narrow scale", "short rows"],
)
def test_every_prediction_comes_out_of_the_file(kind: str, settings: Any, tmp_path: Path) -> None:
    made = model(study(kind, **settings))
    data = write_rows(tmp_path / "rows.csv")
    told = made.predict_proba(data)[:, 1] if kind == CLASSES else made.predict(data)
    found = by_the_file(made, data)
    np.testing.assert_allclose(found, told, rtol=0, atol=1e-9 * (1 if kind == CLASSES else 30))
    assert np.std(told) > 0.01  # there was something to reproduce
    assert any(line["term"] == ROW_NORM for line in written(made)) == bool(settings)


def test_rows_without_gaps_come_out_of_a_study_that_leaves_others_out(tmp_path: Path) -> None:
    made, data = model(complete_only()), tmp_path / "whole.csv"
    lines = write_rows(tmp_path / "rows.csv").read_text().splitlines()
    whole = [line for line in lines if ",," not in line and "NaN" not in line]
    data.write_text("\n".join(whole) + "\n")
    assert len(whole) > 50
    np.testing.assert_allclose(
        by_the_file(made, data), made.predict_proba(data)[:, 1], rtol=0, atol=1e-9
    )
    assert made.effects()[-1].feature.startswith("country")


def test_the_first_line_of_each_component_is_its_intercept() -> None:
    lines = written(model(study()))
    heads = [line for line in lines if line["kind"] == "intercept"]
    assert [line["component"] for line in heads] == ["part 0", "part 1", "part 2"]
    assert math.isclose(sum(float(line["weight"]) for line in heads), 1.0)
    assert {line["level"] for line in heads} == {"1"}
    # intercept; age; pressure and its gap; sex; stage and its gap; smoker; country, with references
    assert [line["term"] for line in lines[:15]] == [
        "(intercept)", "age", "pressure", "pressure missing", "sex=f", "sex=m", "stage=1",
        "stage=2", "stage=3", "stage missing", "smoker=True", "smoker=False", "country=NA",
        "country=DE",
        "country=Côte d'Ivoire, north",
    ]  # fmt: skip
    assert len(lines) == 3 * 15
    assert {line["coefficient"] for line in lines if line["kind"] == "reference"} == {"0.0"}


def test_bounds_of_a_number_are_those_of_the_target() -> None:
    head = written(model(study(NUMBER)))[0]
    assert (float(head["low"]), float(head["high"])) == pytest.approx((3.0, 30.5))
