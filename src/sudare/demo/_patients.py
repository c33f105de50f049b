"""Made-up patients for trying things out: a documented simulator, not data of anyone's.

Age is uniform between 30 and 90; blood pressure, cholesterol, body mass and resting heart rate are
normal, pressure and body mass rising a little with age; smoking, diabetes and illness in the family
are coins. The chance of falling ill has log-odds that are linear in these, with an intercept that
makes about half of them ill. Every clinic draws from the same law, so that the only thing a small
clinic lacks is patients.
"""

import csv
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.foundations.randomness import Generator
from sudare.study import Categories, Number, Study, parse_study

Array = NDArray[np.float64]

COLUMNS = {
    "age": Number(low=18, high=100, centre=60, scale=30),
    "pressure": Number(low=80, high=220, centre=125, scale=30),
    "cholesterol": Number(low=2, high=12, centre=5, scale=2),
    "bmi": Number(low=14, high=50, centre=26, scale=8),
    "heart_rate": Number(low=40, high=140, centre=75, scale=22),
    "smoker": Categories(categories=("no", "yes")),
    "diabetes": Categories(categories=("no", "yes")),
    "family": Categories(categories=("no", "yes")),
}
"""Bounds, typical values and spreads: public knowledge, agreed on before anyone looks at data."""
_EFFECTS = np.array([0.08, 0.035, 0.6, 0.1, 0.03, 1.2, 1.1, 1.0])
_MIDDLE = np.array([60.0, 124.0, 5.2, 26.5, 75.0, 0.25, 0.15, 0.3])


def patients(n: int, rng: Generator) -> tuple[Array, NDArray[np.bool_]]:
    """Rows in the order of `COLUMNS`, yes being 1,, and who fell ill."""
    age = rng.uniform(30, 90, n)
    rows = np.column_stack(
        [
            age,
            rng.normal(110 + 0.4 * (age - 30), 14),
            rng.normal(5.2, 1.0, n),
            rng.normal(25 + 0.05 * (age - 30), 4),
            rng.normal(75, 11, n),
            rng.random(n) < 0.25,
            rng.random(n) < 0.15,
            rng.random(n) < 0.3,
        ]
    )
    score = (rows - _MIDDLE) @ _EFFECTS
    return rows, rng.random(n) < 1 / (1 + np.exp(-score))


def encode(rows: Array) -> Array:
    """Rows as the study's features."""
    columns = list(COLUMNS.values())
    low = [column.low if isinstance(column, Number) else 0.0 for column in columns]
    high = [column.high if isinstance(column, Number) else 1.0 for column in columns]
    features = study().features
    centres, scales = [f.centre for f in features], [f.scale for f in features]
    encoded: Array = (np.clip(rows, low, high) - centres) / scales
    return encoded


def write_patients(path: Path, rows: Array, ill: NDArray[np.bool_]) -> None:
    """A clinic's file."""
    flags = [isinstance(column, Categories) for column in COLUMNS.values()]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "ill"])
        for row, sick in zip(np.round(rows, 2).tolist(), ill.tolist(), strict=True):
            cells = [
                ("yes" if value else "no") if flag else value
                for value, flag in zip(row, flags, strict=True)
            ]
            writer.writerow([*cells, "yes" if sick else "no"])


def study_text(epsilon: float, delta: float) -> str:
    """The study that the clinics agree on."""
    sections = ""
    for name, column in COLUMNS.items():
        sections += f"\n[columns.{name}]\n"
        if isinstance(column, Number):
            sections += f"low = {column.low}\nhigh = {column.high}\n"
            sections += f"centre = {column.centre}\nscale = {column.scale}\n"
        else:
            sections += 'categories = ["no", "yes"]\n'
    return (
        'name = "clinics"\n'
        'description = "Which patients fall ill? Made-up patients of made-up clinics."\n'
        f"{sections}\n"
        '[target]\ncolumn = "ill"\nclasses = ["no", "yes"]\n\n'
        f'[privacy]\nepsilon = {epsilon}\ndelta = {delta}\nunit = "patient"\n'
    )


@lru_cache(maxsize=8)
def study(epsilon: float = 2.0, delta: float = 1e-6) -> Study:
    """The same, parsed."""
    return parse_study(study_text(epsilon, delta))
