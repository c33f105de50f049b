"""The papers' figures as a whole: public interface only, named, and written with a page."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest

import papers
from papers import Setting, Size, datasets
from sudare.foundations.checks import InvalidInput
from tests.support import ROOT

ROOM = ROOT / "papers"
SMOKE = Setting(Size.SMOKE, 3)
LISTED = {
    "classification-1": "figure 1",
    "classification-3": "figure 3",
    "classification-4": "figure 4",
    "classification-5": "figure 5",
    "ridge-terms": "theorem 3",
    "ridge-diabetes": "equations 2 to 10",
    "ridge-narrow": "section 2.2",
    "gibbs-temperature": "corollary 10",
    "gibbs-logistic": "section 4.1",
    "gibbs-normal": "section 4.2",
    "glance-1": "figure 1",
    "glance-2": "figure 2",
    "glance-3": "figure 3",
    "glance-masks": "figure 3",
    "glance-table-1": "table 1",
    "glance-table-2": "table 2",
}


def imported(source: str) -> set[tuple[str, str]]:
    """Module and name of everything that is imported from sudare, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sudare":
            found |= {(node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(a.name, "") for a in node.names if a.name.split(".")[0] == "sudare"}
    return found


def is_public(module: str, name: str) -> bool:
    """In the module's `__all__`; where it has none, a name of a module that the reference shows.

    Or such a module itself, and the version.
    """
    if (module, name) == ("sudare", "__version__"):
        return True
    if "._" in module:
        return False
    exported = getattr(importlib.import_module(module), "__all__", None)
    if exported is not None:
        return name in exported
    if not name or name.startswith("_"):
        return False
    # A room's page does not make its modules public: each has a page of its own, or none.
    inner = importlib.util.find_spec(f"{module}.{name}") if is_package(module) else None
    shown = module if inner is None else inner.name
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return any(f"::: {shown}\n" in page.read_text() for page in pages)


def is_package(module: str) -> bool:
    return hasattr(importlib.import_module(module), "__path__")


@pytest.mark.parametrize(
    "module", sorted(ROOM.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOM))
)
def test_only_the_public_interface_is_used(module: Path) -> None:
    private = [
        f"{where}.{name}"
        for where, name in imported(module.read_text())
        if not is_public(where, name)
    ]
    assert private == []


def test_private_names_are_recognised() -> None:
    assert imported(
        "def f():\n    from sudare.foundations.seal import Seal\nimport sudare.foundations.exact"
    ) == {
        ("sudare.foundations.seal", "Seal"),
        ("sudare.foundations.exact", ""),
    }
    assert is_public("sudare.blending", "HedgedBlend")
    assert is_public("sudare.counting", "simulate")
    assert is_public("sudare.counting.signals", "constant")
    assert is_public("sudare.foundations", "checks")
    for module, name in (
        ("sudare.learners._moments", "moments_seal"),
        ("sudare.blending", "_hedged"),
        ("sudare.counting._simulation", "simulate"),
        ("sudare.foundations.exact", "laplace"),
        ("sudare.foundations", "exact"),
        ("sudare.counting._simulation", "_BATCH"),
        ("sudare.counting._simulated_users", "ranked"),
        ("sudare.foundations.exact", ""),
    ):
        assert not is_public(module, name), (module, name)


def test_every_figure_is_there_with_its_source() -> None:
    found = papers.figures()
    assert list(found) == list(LISTED)
    for name, where in LISTED.items():
        assert where in found[name].paper
        assert found[name].name == name
        # One file a figure, of the same name.
        assert (ROOM / f"{name.replace('-', '_')}.py").exists()
        assert (found[name].draw is None) == ("table" in name)
    assert len({figure.title for figure in found.values()}) == len(found)


def test_every_figure_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "papers.md").read_text()
    told = re.findall(r"^\| `([\w-]+)` \|.*\| ([\w ]+) \|$", page, re.M)
    assert [name for name, _ in told] == list(LISTED)
    assert {verdict for _, verdict in told} <= set(papers.Verdict)


def test_reproduce_writes_everything(tmp_path: Path) -> None:
    heard = []
    report = papers.reproduce(
        ["glance-table-2", "glance-3"],
        tmp_path / "a" / "b",
        SMOKE,
        progress=lambda *told: heard.append(told),
    )
    names = {path.name for path in report.page.parent.iterdir()}
    assert names == {
        "index.html",
        *(f"glance-3.{kind}" for kind in ("csv", "png", "svg")),
        *(f"glance-table-2.{kind}" for kind in ("csv", "txt")),
    }
    # In the papers' order, not the caller's.
    assert [outcome.figure.name for outcome in report.outcomes] == ["glance-3", "glance-table-2"]
    assert ("Errors of Glance and Harmony, simulated", 60, 60) in heard
    told = json.loads(json.dumps(report.to_dict()))
    assert told["figures"][0]["verdict"] in {"holds", "does not hold"}
    assert told["figures"][0]["files"]["png"] == "glance-3.png"
    assert {f["figure"] for f in told["figures"]} == {"glance-3", "glance-table-2"}
    assert "symbol" in report.page.read_text()


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    made = []
    for seed, folder in ((3, "a"), (3, "b"), (4, "c")):
        papers.reproduce(["glance-2"], tmp_path / folder, Setting(Size.SMOKE, seed))
        made.append({p.name: p.read_bytes() for p in (tmp_path / folder).iterdir()})
    assert made[0] == made[1]
    assert made[0]["glance-2.csv"] != made[2]["glance-2.csv"]


def test_all_means_all_and_missing_data_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: object, **__: object) -> object:
        raise OSError("no network")

    work: list[str] = []

    def nothing(parts: object, jobs: int, progress: object) -> list[object]:
        work.extend(figure.name for figure, _ in parts)  # type: ignore[attr-defined]
        return []

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    monkeypatch.setattr(papers, "run", nothing)
    report = papers.reproduce(["all"], tmp_path, SMOKE)
    assert work == [name for name in LISTED if name != "classification-5"]
    assert [skipped.figure.name for skipped in report.skipped] == ["classification-5"]
    assert "pima.csv" in report.page.read_text()


@pytest.mark.parametrize(
    ("names", "words"),
    [([], "or all"), (["glance-9"], "Unknown figure 'glance-9'.*glance-table-2")],
)
def test_wrong_names_are_refused(names: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=words):
        papers.reproduce(names, tmp_path / "never", SMOKE)
    assert not (tmp_path / "never").exists()


def test_matplotlib_is_asked_for_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=re.escape("'.[reproduce]'")):
        papers.reproduce(["glance-3"], tmp_path / "never", SMOKE)
    assert not (tmp_path / "never").exists()
