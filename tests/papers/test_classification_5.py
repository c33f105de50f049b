"""Accuracy on Pima diabetes, or on rows that look like it."""

from pathlib import Path

import pytest

from papers import Setting, Size, Unavailable, consortia, datasets, figures
from papers.figure import Results
from papers.running import run
from tests.papers.test_datasets import write_pima


def test_it_runs_on_a_file(tmp_path: Path) -> None:
    write_pima(tmp_path, rows=300)
    figure = figures()["classification-5"]
    tasks = figure.tasks(Setting(Size.SMOKE, 1, tmp_path))
    ((_, found),) = run([(figure, tasks)], 1, lambda *_: None)
    assert found.panels == ["5 organisations", "10 organisations"]
    assert found.at("5 organisations", consortia.POOLED, 2.0).value > 0.6
    told = figure.conclude(found)
    assert "five organisations" in told.measured
    assert len(told.findings) == 2
    assert figure.draw is not None


def test_it_is_skipped_by_name_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object, **__: object) -> Results:
        raise OSError("no network")

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    with pytest.raises(Unavailable, match="Pima"):
        figures()["classification-5"].tasks(Setting(Size.SMOKE))
