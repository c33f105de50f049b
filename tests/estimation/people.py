"""A made-up consortium with columns of every kind, its exact sums, and noise to add to them."""

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from sudare.estimation import NoisySums
from sudare.foundations.randomness import Generator
from sudare.study import Study, parse_study, read_table

Array = NDArray[np.float64]
COLUMNS = """
name = "people"
description = "Who <are> they?"
[columns.age]
low = 20
high = 90
centre = 48
[columns.sex]
categories = ["f", "m"]
[columns.pressure]
low = 80
high = 200
missing = 130
indicator = true
[columns.stage]
categories = ["I", "II", "III", "IV"]
missing = "II"
indicator = true
[columns.smoker]
categories = ["no", "yes"]
missing = "no"
[columns.weight]
low = 40
high = 160
"""
CLASSES = """
[target]
column = "ill"
classes = ["no", "yes"]
"""
NUMBERS = """
[target]
column = "days"
low = 0
high = 30
"""
TERMS = """
[privacy]
epsilon = 1.0
delta = 1e-6
"""


def classes(more: str = "") -> Study:
    return parse_study(COLUMNS + CLASSES + TERMS + more)


def numbers(more: str = "") -> Study:
    return parse_study(COLUMNS + NUMBERS + TERMS + more)


def people(n: int, rng: Generator) -> pd.DataFrame:
    """Rows with gaps, some values outside of the bounds, and columns that have to do with each
    other."""
    age = rng.normal(55, 14, n)
    male, smoker = rng.random(n) < 0.4, rng.random(n) < 0.2
    frame = pd.DataFrame(
        {
            "age": age,
            "sex": np.where(male, "m", "f"),
            "pressure": rng.normal(100 + 0.6 * age, 14),
            "stage": rng.choice(["I", "II", "III", "IV"], n, p=[0.45, 0.3, 0.15, 0.1]),
            "smoker": np.where(smoker, "yes", "no"),
            "weight": 55 + 10 * rng.standard_exponential(n) + 15 * male,
        }
    )
    later = frame["stage"].isin(["III", "IV"])
    score = (age - 55) / 20 + 0.8 * male + 1.2 * later + rng.logistic(0, 1, n)
    frame["ill"] = np.where(score > 0.6, "yes", "no")
    frame["days"] = 8 + age / 10 + 3 * male + 4 * later + rng.normal(0, 5, n)
    for name, share in (("pressure", 0.12), ("stage", 0.08), ("smoker", 0.05)):
        frame.loc[rng.random(n) < share, name] = None
    return frame


def exact(frame: Any, study: Study) -> tuple[Array, Array]:
    """Rows and targets in the units of releases: ‖x‖ ≤ 1, |y| ≤ 1."""
    block, contract = read_table(frame, study), study.contract
    assert block.targets is not None
    return contract.rows(block.rows) / contract.full_norm, block.targets


def noisy(
    frame: Any,
    study: Study,
    noise_std: float,
    rng: Generator,
    draws: int | None = None,
    squares: bool = True,
) -> NoisySums:
    """The sums of these rows with fresh noise, one draw or many."""
    rows, targets = exact(frame, study)
    p, front = rows.shape[1], () if draws is None else (draws,)
    noise = noise_std * rng.standard_normal((*front, p, p))
    upper = np.triu(noise, 1)
    gram = upper + np.swapaxes(upper, -1, -2) + np.sqrt(2) * noise * np.eye(p)
    known = targets @ targets + np.sqrt(2) * noise_std * rng.standard_normal(front)
    return NoisySums(
        contract=study.contract,
        n=len(rows),
        cross=targets @ rows + noise_std * rng.standard_normal((*front, p)),
        gram=rows.T @ rows + gram,
        squares=known if squares and study.task == "regression" else None,
        noise_std=noise_std,
    )


def clipped(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows as the study counts them; what is missing with an indicator stays so."""
    found = frame.copy()
    for name, low, high in (("age", 20, 90), ("pressure", 80, 200), ("weight", 40, 160)):
        found[name] = found[name].clip(low, high)
    found["days"] = found["days"].clip(0, 30)
    found["smoker"] = found["smoker"].fillna("no")
    return found


def truth(frame: pd.DataFrame, study: Study) -> dict[tuple[str, ...], float]:
    """Every number of the table without any privacy, by pandas alone."""
    rows = clipped(frame)
    outcome = (rows["ill"] == "yes") * 1.0 if study.task == "classification" else rows["days"]
    found: dict[tuple[str, ...], float] = {("outcome",): outcome.mean()}
    if study.task == "regression":
        found["outcome deviation",] = outcome.std(ddof=0)
    for name in ("age", "pressure", "weight"):
        found["mean", name] = rows[name].mean()
        found["deviation", name] = rows[name].std(ddof=0)
    for name in ("sex", "stage", "smoker"):
        for level in rows[name].dropna().unique():
            inside = rows[name] == level
            found["share", name, level] = inside.mean()
            found["group", name, level] = outcome[inside].mean()
    for name in ("pressure", "stage"):
        found["missing", name] = rows[name].isna().mean()
        found["group", name, ""] = outcome[rows[name].isna()].mean()
    filled = rows.assign(pressure=rows["pressure"].fillna(130.0))
    for name, other in (("age", "pressure"), ("age", "weight"), ("pressure", "weight")):
        found["correlation", name, other] = filled[name].corr(filled[other])
    for name, other in (("sex", "stage"), ("sex", "smoker"), ("stage", "smoker")):
        for level in rows[name].dropna().unique():
            for second in rows[other].dropna().unique():
                inside = (rows[name] == level) & (rows[other] == second)
                found["cell", name, level, other, second] = inside.mean()
    return found
