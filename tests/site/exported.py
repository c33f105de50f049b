"""Studies and models for tests of what is handed on, with every kind of column and gap."""

import csv
from pathlib import Path

import numpy as np

from sudare.foundations.randomness import seeded
from sudare.site._model import Component, Model, Story
from sudare.study import Study, parse_study

COLUMNS = """
name = "everything"
[columns.age]
low = 20
high = 90
[columns.pressure]
low = 80
high = 200
centre = 125
scale = {scale}
missing = 130
indicator = true
[columns.sex]
categories = ["f", "m"]
[columns.stage]
categories = [1, 2, 3]
other = 3
missing = 2
indicator = true
[columns.smoker]
categories = [true, false]
missing = true
[columns.country]
categories = ["NA", "DE", "Côte d'Ivoire, north"]
[target]
column = "{target}"
{kind}
[privacy]
epsilon = 1.0
delta = 1e-6
{more}
"""
CLASSES, NUMBER = "classes = [0, 1]", "low = 3\nhigh = 30.5"
HEADER = ["age", "pressure", "sex", "stage", "smoker", "country"]


def study(kind: str = CLASSES, scale: float = 75, more: str = "row_norm = 1.0") -> Study:
    return parse_study(COLUMNS.format(kind=kind, scale=scale, more=more, target="outcome"))


def complete_only() -> Study:
    """A study that learns from complete rows: nothing stands in for a gap but in one column."""
    text = COLUMNS.format(kind=CLASSES, scale=75, more="", target="outcome")
    for line in ("missing = 2\nindicator = true\n", "missing = true\n"):
        text = text.replace(line, "")
    return parse_study('incomplete = "leave out"\n' + text)


def model(about: Study, parts: int = 3, seed: int = 1) -> Model:
    rng = seeded(seed)
    weights = rng.dirichlet(np.ones(parts))
    size = 4.0 if about.task == "classification" else 1.5  # so that some scores are clipped
    components = tuple(
        Component(
            name=f"part {k}",
            weight=float(weight),
            coefficients=tuple(rng.normal(0, size, about.contract.dimension).tolist()),
        )
        for k, weight in enumerate(weights)
    )
    return Model(
        study=about,
        party="A",
        moment="2026-01-01",
        rows=10,
        components=components,
        story=Story(sentence="Fine.", weights={}),
    )


def write_rows(path: Path, rows: int = 300, seed: int = 2) -> Path:
    """Values beyond the bounds, gaps wherever the study has something to put there."""
    rng = seeded(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", *HEADER])
        for k in range(rows):
            gaps = rng.random(3) < 0.2
            writer.writerow(
                [
                    f"00{k}",
                    f"{rng.normal(55, 25):.2f}",
                    "" if gaps[0] else f"{rng.normal(140, 40):.1f}",
                    rng.choice(["f", "m"]),
                    "" if gaps[1] else rng.choice(["1", "2", "3.0", "4"]),
                    "NaN" if gaps[2] else rng.choice(["true", "False"]),
                    rng.choice(["NA", "DE", "Côte d'Ivoire, north"]),
                ]
            )
    return path
