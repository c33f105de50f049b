"""Consortia from public data sets: medical records dealt out over hospitals.

Breast cancer and diabetes progression come with scikit-learn. The folder named by the environment
variable SUDARE_DATA may add `pima.csv` (Smith et al. 1988) and `heart/cleveland.csv`,
`hungarian.csv`, `switzerland.csv`, `va.csv` (Janosi et al. 1988), each with a heading; without them
these consortia are left out.

Scaling is public: for each column a typical value and a typical deviation, round numbers written
down here, never taken from the data at hand. A value counts in deviations from the typical one, at
most 3 either way; a missing value is the typical one. Rows are divided by √columns and shortened to
norm 1.
"""

import csv
import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

from benchmarks.consortia import Array, Consortium, Table, classification, regression
from sudare.foundations.randomness import seeded

Typical = dict[str, tuple[float, float]]
"""For each column the typical value and the typical deviation from it."""

BREAST_CANCER: Typical = {
    "mean radius": (14, 3.5),
    "mean texture": (19, 4),
    "mean perimeter": (92, 24),
    "mean area": (650, 350),
    "mean smoothness": (0.1, 0.015),
    "mean compactness": (0.1, 0.05),
    "mean concavity": (0.1, 0.08),
    "mean concave points": (0.05, 0.04),
    "mean symmetry": (0.18, 0.03),
    "mean fractal dimension": (0.06, 0.007),
    "radius error": (0.4, 0.3),
    "texture error": (1.2, 0.5),
    "perimeter error": (3, 2),
    "area error": (40, 45),
    "smoothness error": (0.007, 0.003),
    "compactness error": (0.025, 0.02),
    "concavity error": (0.03, 0.03),
    "concave points error": (0.012, 0.006),
    "symmetry error": (0.02, 0.008),
    "fractal dimension error": (0.004, 0.003),
    "worst radius": (16, 5),
    "worst texture": (26, 6),
    "worst perimeter": (107, 34),
    "worst area": (900, 600),
    "worst smoothness": (0.13, 0.02),
    "worst compactness": (0.25, 0.15),
    "worst concavity": (0.27, 0.2),
    "worst concave points": (0.11, 0.07),
    "worst symmetry": (0.3, 0.06),
    "worst fractal dimension": (0.08, 0.02),
}
PIMA: Typical = {
    "pregnancies": (4, 3.5),
    "glucose": (120, 30),
    "pressure": (72, 12),
    "skin": (29, 10),
    "insulin": (150, 120),
    "bmi": (32, 7),
    "pedigree": (0.5, 0.3),
    "age": (33, 12),
}
HEART: Typical = {
    "age": (55, 9),
    "sex": (0.5, 0.5),
    "asymptomatic": (0.5, 0.5),
    "atypical angina": (0.5, 0.5),
    "trestbps": (130, 18),
    "chol": (245, 55),
    "fbs": (0.5, 0.5),
    "restecg": (0.5, 0.5),
    "thalach": (140, 25),
    "exang": (0.5, 0.5),
    "oldpeak": (1, 1.1),
}
DIABETES: Typical = {
    "age": (50, 13),
    "sex": (1.5, 0.5),
    "bmi": (26, 4.5),
    "bp": (95, 14),
    "s1": (190, 35),
    "s2": (115, 30),
    "s3": (50, 13),
    "s4": (4, 1.3),
    "s5": (4.6, 0.5),
    "s6": (91, 11),
}
PROGRESSION = (150.0, 75.0)
"""Typical value and deviation of the diabetes target, which is clipped to ±2.5 deviations."""
TARGET_BOUND = 2.5
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
TRAIN = 0.7


class Study(NamedTuple):
    """A real data set and how it is dealt out."""

    name: str
    deal: Callable[[int], Consortium]
    """From a seed to a consortium."""


def studies() -> list[Study]:
    """All that can be run here."""
    found = [
        Study("breast cancer over 5", partial(_dealt, "breast cancer", 5)),
        Study("breast cancer over 10", partial(_dealt, "breast cancer", 10)),
        Study("diabetes over 5", partial(_dealt, "diabetes", 5)),
    ]
    folder = data_folder()
    if folder and (folder / "pima.csv").exists():
        found.append(Study("Pima over 5", partial(_dealt, "Pima", 5)))
        found.append(Study("Pima over 10", partial(_dealt, "Pima", 10)))
    if folder and (folder / "heart").is_dir():
        found.append(Study("heart over four hospitals", heart))
    return found


def missing() -> list[str]:
    """What is left out because its files are not here."""
    present = {study.name for study in studies()}
    return [
        name
        for name in ("Pima over 5", "Pima over 10", "heart over four hospitals")
        if name not in present
    ]


def _dealt(name: str, organisations: int, seed: int) -> Consortium:
    """Seven tenths of the rows dealt out evenly, the first hand being the own; test on the rest."""
    X, y = _data(name)
    order = seeded(seed).permutation(len(y))
    cut = int(TRAIN * len(y))
    hands = [(X[part], y[part]) for part in np.array_split(order[:cut], organisations)]
    test = order[cut:]
    d = X.shape[1]
    contract = regression(d, TARGET_BOUND) if name == "diabetes" else classification(d)
    return Consortium(
        f"{name} over {organisations}", contract, *hands[0], hands[1:], X[test], y[test]
    )


def heart(seed: int) -> Consortium:
    """Each hospital in turn learns from seven tenths of its own rows and all the others' releases,
    and is judged on the rest of its own."""
    hospitals = hospital_tables()
    own = seed % len(hospitals)
    X, y = hospitals[own]
    order = seeded(seed).permutation(len(y))
    cut = int(TRAIN * len(y))
    train, test = order[:cut], order[cut:]
    others = [table for k, table in enumerate(hospitals) if k != own]
    return Consortium(
        f"heart, {HOSPITALS[own]}",
        classification(X.shape[1]),
        X[train],
        y[train],
        others,
        X[test],
        y[test],
    )


@lru_cache(maxsize=8)
def _data(name: str) -> Table:
    if name == "breast cancer":
        bunch = load_breast_cancer()
        return _scaled(bunch.data, BREAST_CANCER), bunch.target
    if name == "diabetes":
        bunch = load_diabetes(scaled=False)
        centre, spread = PROGRESSION
        return _scaled(bunch.data, DIABETES), (bunch.target - centre) / spread
    folder = data_folder()
    assert folder is not None
    records = _records(folder / "pima.csv")
    table = np.column_stack([records[column] for column in PIMA])
    for j, column in enumerate(PIMA):
        if column in {"glucose", "pressure", "skin", "insulin", "bmi"}:
            table[table[:, j] == 0, j] = np.nan
    return _scaled(table, PIMA), records["diabetes"].astype(np.int64)


def pima_table() -> Table:
    """Rows and labels of `pima.csv`."""
    return _data("Pima")


@lru_cache(maxsize=1)
def hospital_tables() -> list[Table]:
    """Rows and labels of the four hospitals."""
    folder = data_folder()
    assert folder is not None
    return [_hospital(_records(folder / "heart" / f"{name}.csv")) for name in HOSPITALS]


def _hospital(records: dict[str, Array]) -> Table:
    """Columns that most hospitals recorded; a pressure or cholesterol of 0 was not measured."""
    for column in ("trestbps", "chol"):
        records[column][records[column] == 0] = np.nan
    records["asymptomatic"] = _indicator(records["cp"], 4)
    records["atypical angina"] = _indicator(records["cp"], 2)
    records["restecg"] = np.minimum(records["restecg"], 1)
    table = np.column_stack([records[column] for column in HEART])
    return _scaled(table, HEART), (records["num"] > 0).astype(np.int64)


def _indicator(column: Array, value: float) -> Array:
    return np.where(np.isnan(column), np.nan, column == value)


def _scaled(table: Array, typical: Typical) -> Array:
    centre, spread = np.array(list(typical.values()), dtype=float).T
    z = np.nan_to_num(np.clip((table - centre) / spread, -3, 3), nan=0.0)
    rows = z / np.sqrt(len(typical))
    scaled: Array = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return scaled


def _records(path: Path) -> dict[str, Array]:
    """Columns by name; empty cells are NaN."""
    with path.open(newline="") as file:
        heading, *lines = csv.reader(file)
    columns: Sequence[Sequence[str]] = list(zip(*lines, strict=True))
    return {
        name: np.array([float(cell) if cell else np.nan for cell in column])
        for name, column in zip(heading, columns, strict=True)
    }


def data_folder() -> Path | None:
    named = os.environ.get("SUDARE_DATA")
    return Path(named) if named else None
