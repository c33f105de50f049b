"""How the project itself is kept."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import sudare
from benchmarks.table import Row, against, best_of, compare, markdown
from tests.support import PACKAGE, ROOT

TESTS = ROOT / "tests"
NOT_MIRRORS = {
    TESTS / f"test_{name}.py" for name in ("consortia", "deploy", "docs", "house", "readme")
}
LONGEST_FILE = 400
MAY_IMPORT_SKLEARN = {"learners", "blending", "demo", "experiments"}

# A letter in brackets keeps each pattern from matching this file.
UNWANTED = {
    "the address of a package registry": r"[p]ypi\.|[p]ythonhosted|[n]pmjs|[i]ndex-url",
    "a folder of somebody's machine": r"(?<![\w.}-])/(?:[r]oot|[w]ork)\b",
    "how it was written instead of what it is": r"\b(?:[a]ssistants?|[l]anguage model)\b",
}


def modules() -> list[Path]:
    """Every module of the package, relative to it."""
    return sorted(p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py"))


def text_files() -> Iterator[Path]:
    """What a checkout holds, without asking git, which need not be there."""
    left_out = {".git", ".venv", ".venv-peers", "site", "dist", "__pycache__", ".hypothesis"}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in left_out and not f.endswith("_cache")]
        yield from (
            Path(folder, name)
            for name in names
            if not name.startswith(".coverage") and Path(folder, name).is_file()
        )


def test_every_module_has_its_tests() -> None:
    expected = {
        TESTS / m.parent / f"test_{m.name}" for m in modules() if not m.stem.startswith("__")
    }
    missing = sorted(str(p.relative_to(ROOT)) for p in expected if not p.exists())
    assert not missing, "no tests: " + ", ".join(missing)


def test_every_test_file_mirrors_a_module() -> None:
    mirrored = {TESTS / m.parent / f"test_{m.name}" for m in modules()}
    mirrored |= {
        TESTS / m.parent.parent / f"test_{m.parent.name}.py"
        for m in modules()
        if m.stem == "__init__"
    }
    # What runs in browsers is tested from here as well.
    mirrored |= {
        TESTS / "collector" / f"test_{page}.py" for page in ("dashboard", "browser_client")
    }
    strays = {
        path
        for path in set(TESTS.rglob("test_*.py")) - NOT_MIRRORS
        # A module with much to test may have several files: test_seal.py, test_seal_law.py.
        if not any(
            path.parent == known.parent and f"{path.stem}_".startswith(f"{known.stem}_")
            for known in mirrored
        )
    }
    assert not strays, "no such module: " + ", ".join(str(p.relative_to(ROOT)) for p in strays)


@pytest.mark.parametrize("module", modules(), ids=str)
def test_no_file_is_too_long(module: Path) -> None:
    lines = (PACKAGE / module).read_text().count("\n")
    assert lines <= LONGEST_FILE


def test_every_room_is_kept_from_sklearn_or_may_import_it() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (kept,) = (c["source_modules"] for c in contracts["contracts"] if c["type"] == "forbidden")
    rooms = {Path(m.parts[0]).stem for m in modules()} - {"__init__", "__main__"}
    assert {f"sudare.{room}" for room in rooms - MAY_IMPORT_SKLEARN} == set(kept)


def test_version() -> None:
    script = Path(sys.executable).with_name("sudare")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert sudare.__version__ in done.stdout.split()


def test_no_unwanted_words() -> None:
    found = []
    for path in text_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}: {what}: {match[0]}"
            for what, pattern in UNWANTED.items()
            for match in re.finditer(pattern, text)
        ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "https://" + "py" + "pi.org/simple",
        "files.python" + "hosted.org",
        "cd /" + "work/main",
        "an assist" + "ant wrote this",
    ],
)
def test_unwanted_words_are_recognised(text: str) -> None:
    assert any(re.search(pattern, text) for pattern in UNWANTED.values())


def test_constraints_are_plain_pins() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line


def test_benchmark_rows() -> None:
    row = against("draw", 3.0, "s", "peer", 2.0, "<= 1.4")
    assert (row.ratio, row.ok) == (1.5, False)
    assert against("draw", 3.0, "s", "peer", 2.0, ">= 1.4").ok is True
    plain = Row(name="size", value=12.0, unit="KB")
    assert markdown([row, plain]).splitlines()[2:] == [
        "| draw | 3 | s | peer | 2 | 1.5 | <= 1.4 | no |",
        "| size | 12 | KB |  |  |  |  |  |",
    ]


def test_benchmark_times_are_of_the_right_order() -> None:
    assert 0 < best_of(lambda: sum(range(10)), repeat=3, min_seconds=0.001) < 0.01
    ours, theirs = compare(lambda: sum(range(100)), lambda: sum(range(10_000)), 3, 0.001)
    assert ours < theirs


def test_benchmarks_refuse_an_unknown_name() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "no-such-benchmark"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no such benchmark: no-such-benchmark" in done.stderr
