"""Public data sets in units that do not depend on the rows at hand.

For each column a typical value and a typical deviation, round numbers written down here: a value
counts in deviations from the typical one, at most 3 either way, and a missing one is the typical
one. Divided by √columns, most rows are within norm 1; learners shorten the rest.
"""

import csv
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_breast_cancer, load_diabetes

from papers.figure import Array, Unavailable
from sudare.foundations import checks

Rows = tuple[Array, NDArray[Any]]
"""A table and its targets."""

# mean, error and worst of each of ten measurements, as scikit-learn orders them
_BREAST_CANCER_TYPICAL = (
    *(14, 19, 92, 650, 0.1, 0.1, 0.1, 0.05, 0.18, 0.06),
    *(0.4, 1.2, 3, 40, 0.007, 0.025, 0.03, 0.012, 0.02, 0.004),
    *(16, 26, 107, 900, 0.13, 0.25, 0.27, 0.11, 0.3, 0.08),
)
_BREAST_CANCER_DEVIATION = (
    *(3.5, 4, 24, 350, 0.015, 0.05, 0.08, 0.04, 0.03, 0.007),
    *(0.3, 0.5, 2, 45, 0.003, 0.02, 0.03, 0.006, 0.008, 0.003),
    *(5, 6, 34, 600, 0.02, 0.15, 0.2, 0.07, 0.06, 0.02),
)
# age, sex, bmi, pressure, six blood serum measurements
_DIABETES_TYPICAL = (50, 1.5, 26, 95, 190, 115, 50, 4, 4.6, 91)
_DIABETES_DEVIATION = (13, 0.5, 4.5, 14, 35, 30, 13, 1.3, 0.5, 11)
_PROGRESSION = (150.0, 75.0)
TARGET_BOUND = 2.5
"""The diabetes target counts in deviations too, and is clipped to so many of them."""

PIMA_COLUMNS = {
    "pregnancies": (4, 3.5),
    "glucose": (120, 30),
    "pressure": (72, 12),
    "skin": (29, 10),
    "insulin": (150, 120),
    "bmi": (32, 7),
    "pedigree": (0.5, 0.3),
    "age": (33, 12),
}
_ZERO_IS_MISSING = ("glucose", "pressure", "skin", "insulin", "bmi")
_PIMA_TARGET = "diabetes"
_SECONDS = 20.0


@cache
def breast_cancer() -> Rows:
    """569 tumours, 30 measurements; 1 is benign (comes with scikit-learn)."""
    bunch = load_breast_cancer()
    return _scaled(bunch.data, _BREAST_CANCER_TYPICAL, _BREAST_CANCER_DEVIATION), bunch.target


@cache
def diabetes() -> Rows:
    """442 patients, ten measurements, progression after a year (comes with scikit-learn)."""
    bunch = load_diabetes(scaled=False)
    centre, spread = _PROGRESSION
    target: Array = (bunch.target - centre) / spread
    return _scaled(bunch.data, _DIABETES_TYPICAL, _DIABETES_DEVIATION), target


def pima(folder: Path | None) -> Rows:
    """768 women, eight measurements, diabetes or not (Smith et al. 1988).

    From `pima.csv` in the folder (a heading and the columns of PIMA_COLUMNS and `diabetes`), else
    from OpenML by scikit-learn, which keeps a copy; `Unavailable` if neither works.
    """
    if folder is not None and (folder / "pima.csv").exists():
        table, target = _read_pima(folder / "pima.csv")
    else:
        table, target = _fetch_pima()
    for column, name in enumerate(PIMA_COLUMNS):
        if name in _ZERO_IS_MISSING:
            table[table[:, column] == 0, column] = np.nan
    typical, deviation = zip(*PIMA_COLUMNS.values(), strict=True)
    return _scaled(table, typical, deviation), target


def _read_pima(path: Path) -> Rows:
    names = [*PIMA_COLUMNS, _PIMA_TARGET]
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.DictReader(file))
        cells = np.array([[float(line[name]) for name in names] for line in lines])
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror}") from None
    except (KeyError, TypeError, ValueError, csv.Error):
        cells = np.empty((0, len(names)))
    if len(cells) < 100 or not np.isin(cells[:, -1], (0, 1)).all():
        raise checks.InvalidInput(
            f"Expected {path} to have the columns {', '.join(names)}, numbers in each, and 0 or 1 "
            "in the last"
        )
    return cells[:, :-1], cells[:, -1].astype(np.int64)


def _fetch_pima() -> Rows:
    try:
        with _patience(_SECONDS):
            bunch = fetch_openml(
                "diabetes", version=1, as_frame=False, parser="liac-arff", n_retries=0
            )
    except Exception:  # no network, a proxy's page, a full disk: all the same to the reader
        raise Unavailable(
            "needs the Pima data: put pima.csv into a folder and name it with --data, or allow "
            "scikit-learn to fetch it from OpenML"
        ) from None
    return np.array(bunch.data, dtype=float), (bunch.target == "tested_positive").astype(np.int64)


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _scaled(table: Array, typical: Any, deviation: Any) -> Array:
    z = np.clip((table - np.array(typical)) / np.array(deviation), -3, 3)
    scaled: Array = np.nan_to_num(z, nan=0.0) / np.sqrt(table.shape[1])
    return scaled
