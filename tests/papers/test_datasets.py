"""Public data sets: where they come from, and what becomes of them."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from papers import datasets
from papers.figure import Unavailable
from sudare.foundations.checks import InvalidInput
from sudare.foundations.randomness import seeded


def write_pima(folder: Path, rows: int = 120, **changes: Any) -> Path:
    """Made-up women."""
    rng = seeded(4)
    path = folder / "pima.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*datasets.PIMA_COLUMNS, "diabetes"])
        for _ in range(rows):
            values = {
                name: max(0.0, round(rng.normal(centre, spread), 1))
                for name, (centre, spread) in datasets.PIMA_COLUMNS.items()
            }
            ill = int(values["glucose"] + rng.normal(0, 20) > 125)
            writer.writerow((values | {"diabetes": ill} | changes).values())
    return path


@pytest.mark.parametrize("load", [datasets.breast_cancer, datasets.diabetes])
def test_most_rows_are_within_norm_one(load: Any) -> None:
    rows, targets = load()
    norms = np.linalg.norm(rows, axis=1)
    assert 0.3 < np.mean(norms <= 1) < 1
    assert norms.max() <= 3
    assert len(rows) == len(targets)
    # Typical values and deviations are near the data's own, column by column.
    z = rows * np.sqrt(rows.shape[1])
    assert np.abs(z.mean(axis=0)).max() < 0.5
    assert 0.5 < z.std(axis=0).min() < z.std(axis=0).max() < 1.5


def test_scaling_keeps_what_the_columns_say() -> None:
    rows, benign = datasets.breast_cancer()
    raw = load_breast_cancer()
    np.testing.assert_array_equal(benign, raw.target)
    np.testing.assert_allclose(rows[0, 0] * np.sqrt(30), (raw.data[0, 0] - 14) / 3.5)
    rows, progression = datasets.diabetes()
    raw = load_diabetes(scaled=False)
    np.testing.assert_allclose(progression, (raw.target - 150) / 75)
    assert np.mean(np.abs(progression) > datasets.TARGET_BOUND) < 0.01


def test_a_row_is_scaled_without_the_others() -> None:
    one = datasets._scaled(np.array([[14.0, 2.0]]), (10, 1), (2, 1))
    two = datasets._scaled(np.array([[14.0, 2.0], [1e6, np.nan]]), (10, 1), (2, 1))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_allclose(two * np.sqrt(2), [[2, 1], [3, 0]])


def test_pima_from_a_file(tmp_path: Path) -> None:
    write_pima(tmp_path, glucose=0)
    rows, ill = datasets.pima(tmp_path)
    assert rows.shape == (120, 8)
    assert set(ill) == {0, 1}
    # A glucose of zero was not measured, and counts as the typical one; ages are as they are.
    assert (rows[:, 1] == 0).all()
    assert (rows[:, 7] != 0).any()


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", "\xff", "pregnancies,glucose\n1,x\n"],
    ids=["empty", "other", "1", "x"],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "pima.csv").write_text(text, encoding="latin-1")
    with pytest.raises(InvalidInput, match=r"pima\.csv to have the columns pregnancies, glucose"):
        datasets.pima(tmp_path)


def test_labels_other_than_zero_and_one_are_refused(tmp_path: Path) -> None:
    write_pima(tmp_path, diabetes=2)
    with pytest.raises(InvalidInput, match="0 or 1"):
        datasets.pima(tmp_path)


def test_pima_from_openml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def fetch(name: str, **how: Any) -> Any:
        asked.update(how, name=name)
        data = np.column_stack([np.full(4, centre) for centre, _ in datasets.PIMA_COLUMNS.values()])
        labels = np.array(["tested_positive", "tested_negative"] * 2, dtype=object)
        return SimpleNamespace(data=data, target=labels)

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    rows, ill = datasets.pima(tmp_path)
    assert (asked["name"], asked["version"]) == ("diabetes", 1)
    np.testing.assert_array_equal(ill, [1, 0, 1, 0])
    np.testing.assert_array_equal(rows, np.zeros((4, 8)))


def test_without_file_and_network_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def fetch(*_: Any, **__: Any) -> Any:
        assert socket.getdefaulttimeout() is not None
        raise URLError("no route")

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    before = socket.getdefaulttimeout()
    with pytest.raises(Unavailable, match=r"pima\.csv"):
        datasets.pima(None)
    assert socket.getdefaulttimeout() == before
