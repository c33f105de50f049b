"""The tour runs, repeats its tables for a seed, and keeps what it promises on the way."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sudare import demo, site


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str], Path]:
    folder, page = tmp_path_factory.mktemp("tour"), StringIO()
    ticks: list[str] = []
    demo.run(
        Console(file=page, width=120),
        seed=7,
        progress=lambda title, done, total: ticks.append(title),
        folder=folder,
    )
    return page.getvalue(), ticks, folder


def test_the_tour_tells_its_four_chapters(tour: tuple[str, list[str], Path]) -> None:
    told, ticks, _ = tour
    for chapter in ("1 Learn together", "2 The same on real", "3 Count", "4 Audit", "Try next"):
        assert chapter in told
    assert "40 releases verified" in told
    assert "coefficients unbounded: refuted" in told
    assert "over the ball: not refuted" in told
    assert set(ticks) == {
        "clinics release",
        "blending",
        "comparing blends",
        "real data",
        "auditing",
    }


def test_blending_gains_in_the_table_of_clinics(tour: tuple[str, list[str], Path]) -> None:
    lines = [line for line in tour[0].splitlines() if line.count("%") == 6][:3]
    for line in lines:
        own, _, _, hedged, pooled, ceiling = (float(x) for x in re.findall(r"([\d.]+)%", line))
        assert own < hedged < pooled < ceiling
    assert len(lines) == 3


def test_the_pool_is_told_with_its_condition(tour: tuple[str, list[str], Path]) -> None:
    told = " ".join(tour[0].split())
    assert "pooled sum: one sum of all clinics with one noise" in told
    assert "as long as more than half of them are honest" in told
    assert "Noise in this table is simulated" in told


def test_the_tour_leaves_files_that_the_commands_take(tour: tuple[str, list[str], Path]) -> None:
    folder = tour[2]
    assert site.load_model(folder / "model.json").party == "Clinic 1"
    assert "data-protection officer" in (folder / "report.html").read_text()
    assert len(list((folder / "releases").glob("*.release"))) == 41
