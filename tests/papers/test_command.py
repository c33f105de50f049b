"""`python -m papers`, as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import papers
from papers import Setting, Size, figures
from papers.command import main
from tests.support import ROOT
from tests.support.commands import Done, command


def run(folder: Path, *words: str) -> Done:
    return command(folder, *words, program=main)


def test_list(tmp_path: Path) -> None:
    done = run(tmp_path, "--list")
    assert done.code == 0
    for figure in figures().values():
        assert figure.name in done.out
    told = json.loads(run(tmp_path, "--list", "--json").out)
    assert [figure["figure"] for figure in told] == list(figures())
    assert [figure["title"] for figure in told] == [each.title for each in figures().values()]
    assert list(tmp_path.iterdir()) == []


def test_figures_for_people(tmp_path: Path) -> None:
    words = ["glance-1", "glance-table-1", "--quick", "--out", "figures", "--jobs", "1"]
    done = run(tmp_path, *words)
    assert done.code == 0, done.err
    assert "Where a count loses nothing by sampling (glance-1): holds\n" in done.out
    assert "How errors depend on ε (glance-table-1): holds with the correction\n" in done.out
    assert done.out.count("Claimed: ") == done.out.count("Differs: ") == 2
    assert "Wrote figures/index.html" in done.out
    assert (tmp_path / "figures" / "glance-1.svg").exists()


def test_figures_for_scripts(tmp_path: Path) -> None:
    words = ["glance-1", "--quick", "--seed", "5", "--jobs", "1", "--json"]
    done = run(tmp_path, *words)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["size"], told["seed"]) == ("quick", 5)
    assert told["page"] == "sudare-figures/index.html"
    assert told["figures"][0]["verdict"] == "holds"


def test_options_reach_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    asked: dict[str, Any] = {}

    def reproduce(names: list[str], out: Path, setting: Setting, **how: object) -> object:
        asked.update(how, names=names, out=out, setting=setting)
        return papers.Report(setting, (), (), out / "index.html")

    monkeypatch.setattr(papers, "reproduce", reproduce)
    (tmp_path / "data").mkdir()
    words = ["all", "--seed", "9", "--jobs", "3", "--data", "data", "--out", "here"]
    assert run(tmp_path, *words).code == 0
    assert asked["setting"] == Setting(Size.FULL, 9, Path("data"))
    assert (asked["names"], asked["out"], asked["jobs"]) == (["all"], Path("here"), 3)
    assert run(tmp_path, "all").code == 0
    assert asked["jobs"] >= 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "python -m papers --list"),
        (["glance-9"], "Unknown figure 'glance-9'"),
        (["all", "--data", "nowhere"], "Expected --data nowhere to be a folder"),
        (["all", "--jobs", "0"], "--jobs"),
    ],
)
def test_mistakes_are_told(words: list[str], says: str, tmp_path: Path) -> None:
    done = run(tmp_path, *words)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_package_is_the_command() -> None:
    asked = [sys.executable, "-m", "papers", "--help"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Usage: python -m papers [OPTIONS]" in done.stdout
