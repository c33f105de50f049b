"""How the project itself is kept."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sudare
from benchmarks import table
from benchmarks.table import Row, against, best_of, compare, markdown
from tests.support import PACKAGE, ROOT, soak
from tools.house import survey
from tools.mutate import report
from tools.mutate.modules import PRIVACY, files_testing, source_of
from tools.mutate.operators import mutants, mutated

TESTS = ROOT / "tests"
NOT_MIRRORS = {
    TESTS / f"test_{name}.py" for name in ("consortia", "deploy", "docs", "house", "readme")
}
LONGEST_FILE = 550
"""A file holds one thing: one that grows beyond this usually holds two."""
MODULES_ARE_THE_FACE = {"cli", "foundations", "storage"}
"""Of these others import modules, or nothing (the command line); of other rooms, names."""
PUBLIC_MODULES = {
    "blending/mirror",
    "collector/monitoring",
    "counting/signals",
    "counting/smoothing",
    "counting/tree",
    "counting/wire",
    "federation/flower",
}
"""Modules whose functions are read together with the module's name, such as `signals.step`."""
MAY_IMPORT_SKLEARN = {"learners", "blending", "demo"}
# Where modules live, and where their tests do.
MIRRORED = {PACKAGE: TESTS, ROOT / "papers": TESTS / "papers"}

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
            # In a second worktree .git is a file.
            if name != ".git" and not name.startswith(".coverage") and Path(folder, name).is_file()
        )


def mirrored() -> Iterator[tuple[Path, Path]]:
    """Every module of the package and of the papers, with the file that tests it."""
    for code, tests in MIRRORED.items():
        for module in sorted(code.rglob("*.py")):
            folder = tests / module.parent.relative_to(code)
            if module.stem == "__init__":
                yield module, folder.parent / f"test_{folder.name}.py"
            else:
                # Private ones too: _book.py is tested by test_book.py.
                yield module, folder / f"test_{module.stem.removeprefix('_')}.py"


def test_every_module_has_its_tests() -> None:
    expected = {tests for module, tests in mirrored() if not module.stem.startswith("__")}
    missing = sorted(str(p.relative_to(ROOT)) for p in expected if not p.exists())
    assert not missing, "no tests: " + ", ".join(missing)


def test_every_test_file_mirrors_a_module() -> None:
    known = {tests for _, tests in mirrored()}
    # What runs in browsers is tested from here as well.
    known |= {TESTS / "collector" / f"test_{page}.py" for page in ("dashboard", "browser_client")}
    strays = {
        path
        for path in set(TESTS.rglob("test_*.py")) - NOT_MIRRORS
        # A module with much to test may have several files: test_seal.py, test_seal_law.py.
        if not any(
            path.parent == test.parent and f"{path.stem}_".startswith(f"{test.stem}_")
            for test in known
        )
    }
    assert not strays, "no such module: " + ", ".join(str(p.relative_to(ROOT)) for p in strays)


@pytest.mark.parametrize(
    "module", [m for m, _ in mirrored()], ids=lambda m: str(m.relative_to(ROOT))
)
def test_no_file_is_too_long(module: Path) -> None:
    assert module.read_text().count("\n") <= LONGEST_FILE


def imports(source: str) -> Iterator[str]:
    """What a file imports, with every name: `sudare.site._model.Model`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def past_the_face(room: str, source: str) -> list[str]:
    """What a file of one room imports that is private to another."""
    private = re.compile(r"sudare\.(?!_)(\w+)\..*\b_")
    found = ((name, private.match(name)) for name in imports(source))
    return [name for name, match in found if match and match[1] != room]


def test_no_room_imports_what_is_private_to_another() -> None:
    found = [
        f"{module}: {name}"
        for module in modules()
        for name in past_the_face(module.parts[0], (PACKAGE / module).read_text())
    ]
    assert not found, "import it from the room's face: " + ", ".join(found)


@pytest.mark.parametrize(
    ("line", "past"),
    [
        ("from sudare.site._releasing import publish", True),
        ("from sudare.site import _releasing", True),
        ("import sudare.site._releasing", True),
        ("def f():\n    from sudare.collector.stores import _table", True),
        ("from sudare.site import publish", False),
        ("from sudare.ledger._book import Ledger", False),
        ("from sudare.blending.mirror import mirror_weights", False),
        ("from sudare import __version__", False),
    ],
)
def test_what_is_private_to_a_room_is_recognised(line: str, past: bool) -> None:
    assert bool(past_the_face("ledger", line)) == past


def test_modules_of_a_room_are_private_unless_they_are_part_of_its_face() -> None:
    public = {
        str(module.with_suffix(""))
        for module in modules()
        if len(module.parts) == 2
        and not module.stem.startswith("_")
        and module.parts[0] not in MODULES_ARE_THE_FACE
    }
    assert public == PUBLIC_MODULES


def test_every_room_is_kept_from_sklearn_or_may_import_it() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (kept,) = (
        c["source_modules"]
        for c in contracts["contracts"]
        if c.get("forbidden_modules") == ["sklearn"]
    )
    rooms = {Path(m.parts[0]).stem for m in modules()} - {"__init__", "__main__"}
    assert {f"sudare.{room}" for room in rooms - MAY_IMPORT_SKLEARN} == set(kept)


def test_the_names_people_start_with() -> None:
    for name in sudare.__all__:
        assert getattr(sudare, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sudare.Nothing


def test_importing_sudare_brings_in_no_room() -> None:
    """Devices and `--version` wait for nothing they do not use."""
    code = "import sys, sudare; print([m for m in sys.modules if m.startswith('sudare.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src"
    )
    assert done.stdout.strip() == "[]"


HEAVY = ("dp_accounting", "granian", "opendp", "pyarrow", "scipy", "sklearn", "starlette")


def without(*blocked: str) -> list[str]:
    """Python in which these libraries are as good as not installed."""
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); exec(sys.argv.pop(1))"
    return [sys.executable, "-c", code]


def test_a_device_goes_without_heavy_libraries() -> None:
    code = """
import secrets
from sudare.counting import Client, MemoryStore, Reporter, Survey, open_office
survey = Survey(name="x", rounds=2, epsilon=1.0, method="masks", slots=2)
office = open_office(survey, secrets.token_bytes(32))
device = Reporter.enrol(survey, office.issue(0), MemoryStore())
print(len([device.report(hour, bit=1) for hour in range(2)]), Client.__name__)
"""
    done = subprocess.run([*without(*HEAVY), code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "Client"]


@pytest.mark.parametrize("name", ["learner", "moments"])
def test_releases_are_verified_without_any_extra(name: str) -> None:
    """Signature and price, by the command: what is pure, and what is Gaussian."""
    words = ["verify", f"tests/golden/{name}-1.release", "--trust", "tests/golden/keyring-1.toml"]
    code = f"import sys; sys.argv = ['sudare', *{words!r}]; from sudare.cli import main; main()"
    blocked = sorted({*HEAVY, "fsspec", "narwhals"})
    done = subprocess.run(
        [*without(*blocked), code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "valid" in done.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["study", "new", "a", "b"], "learn"),
        (["collect", "survey.toml"], "collect"),
        (["--version"], None),
    ],
)
def test_the_command_says_what_to_install(tmp_path: Path, words: list[str], extra: Any) -> None:
    (tmp_path / "trust.toml").touch()
    (tmp_path / "survey.toml").write_text('name = "x"\nrounds = 2\nepsilon = 1.0\n')
    code = f"import sys; sys.argv = ['sudare', *{words!r}]; from sudare.cli import main; main()"
    done = subprocess.run(
        [*without(*HEAVY), code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    if extra is None:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 2
        assert f"pip install 'sudare[{extra}]'" in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr


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
    tight = Row(name="noise", value=0.9, unit="ε", slack=0.1)
    assert markdown([tight, plain]).splitlines() == [
        "| name | value | unit | baseline | baseline value | ratio | aim | ok | slack |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| noise | 0.9 | ε |  |  |  |  |  | 0.1 |",
        "| size | 12 | KB |  |  |  |  |  |  |",
    ]


def test_benchmark_times_are_those_of_the_best_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slow = 0.0, 1.0

    def work(seconds: float) -> None:
        nonlocal now, slow
        now += seconds * slow
        slow = 1.0  # only the first call of each run is slow

    def look() -> float:
        nonlocal slow
        slow = 3.0
        return now

    monkeypatch.setattr(table, "time", SimpleNamespace(perf_counter=look))
    assert best_of(lambda: work(2.0), repeat=3, min_seconds=1.0) == 6.0
    long = best_of(lambda: work(2.0), repeat=3, min_seconds=1000.0)
    assert 2.0 < long <= 2.0 + 4.0 / 166  # the slow call among at least so many
    ours, theirs = compare(lambda: work(2.0), lambda: work(5.0), 3, 1.0)
    assert (ours, theirs) == (6.0, 15.0)


def test_benchmarks_refuse_an_unknown_name() -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "no-such-benchmark"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no such benchmark: no-such-benchmark" in done.stderr


def test_mutants_are_small_faults() -> None:
    source = "\n".join(
        [
            '"""Not 2 texts."""',
            "from sudare.foundations.rounding import up",
            "def f(x: int = 3) -> float:",
            "    check(x)",
            "    if x < 0 and x:",
            '        raise ValueError(f"{x + 1}")',
            "    return up(x + g(x, 2))",
        ]
    )
    found = [(m.lines[0], m.before, m.after) for m in mutants("m", source)]
    whole = "if x < 0 and x:"
    sent = "return up(x + g(x, 2))"
    assert found == [
        (3, "def f(x: int=3) -> float:", "def f(x: int=6) -> float:"),
        (4, "check(x)", "pass"),
        (5, whole, "if not (x < 0 and x):"),
        (5, whole, "if x < 0 or x:"),
        (5, whole, "if x <= 0 and x:"),
        (5, whole, "if x > 0 and x:"),
        (5, whole, "if x < 1 and x:"),
        (6, "raise ValueError(f'{x + 1}')", "pass"),
        (7, sent, "return None"),
        (7, sent, "return down(x + g(x, 2))"),
        (7, sent, "return up(x - g(x, 2))"),
        (7, sent, "return up(-x + g(x, 2))"),
        (7, sent, "return up(x + g(2, x))"),
        (7, sent, "return up(x + g(x, 4))"),
    ]
    rounded = mutated(source, 9)
    assert rounded.splitlines()[-1] == "    return down(x + g(x, 2))"
    assert "import up, down" in rounded


def test_mutated_modules_have_tests_and_reasons_speak_of_them() -> None:
    assert all(files_testing(ROOT, module) for module in PRIVACY)
    known = report.reasons()
    for module in {key[0] for key in known}:
        every = mutants(module, source_of(ROOT, module).read_text())
        there = {report.key(asdict(mutant)) for mutant in every}
        assert [key for key in known if key[0] == module and key not in there] == []


def test_a_power_is_one_number_and_false_is_not_also_none() -> None:
    source = "def f(x):\n    if x < 2.0**-40:\n        return False\n    return x"
    found = [(m.lines[0], m.after) for m in mutants("m", source)]
    assert found == [
        (2, "if not x < 2.0 ** (-40):"),
        (2, "if x <= 2.0 ** (-40):"),
        (2, "if x > 2.0 ** (-40):"),
        (2, "if x < 2 * 2.0 ** (-40):"),
        (3, "return True"),
        (4, "return None"),
    ]


def test_rooms_are_counted_and_chains_followed_through_faces(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "low.py": "import os\n\nX = 1\n",
        "far.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.low\n",
        "room/__init__.py": "from house.room._one import f as g\n",
        "room/_one.py": "from house.low import X\ndef f():\n    from house import far\n",
        "top.py": "from house.room import g\nimport house.low\n",
    }
    for name, text in files.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = survey(tmp_path / "house")
    assert [(room.name, room.modules, room.lines, room.importers) for room in found.rooms] == [
        ("house", 1, 0, 0),
        ("house.far", 1, 3, 0),
        ("house.low", 1, 3, 2),
        ("house.room", 2, 4, 1),
        ("house.top", 1, 2, 0),
    ]
    assert found.fan_in["house.room._one"] == 2  # by its face, and through it
    assert len(found.chain) == 3
    assert found.chain[1:] == ("house.room._one", "house.low")


def test_the_table_of_what_was_soaked(tmp_path: Path) -> None:
    def ended(case: str, outcome: str, *tries: tuple[str, str]) -> Any:
        return SimpleNamespace(nodeid=case, outcome=outcome, user_properties=list(tries))

    table = soak.Table(tmp_path / "soak.md")
    for when in ("passed", "passed", "passed"):  # setup, call, teardown
        table.pytest_runtest_logreport(ended("tests/b.py::test_b[x]", when, ("tries", "9 kills")))
    for when in ("passed", "failed", "passed"):
        table.pytest_runtest_logreport(ended("tests/b.py::test_b[y]", when, ("tries", "9 kills")))
    table.pytest_runtest_logreport(ended("tests/a/test_a.py::test_a", "skipped"))
    table.pytest_sessionfinish()
    assert (tmp_path / "soak.md").read_text().splitlines()[-2:] == [
        "| a/test_a.py test_a |  | 1 | 0 | 1 |",
        "| b.py test_b | 9 kills | 2 | 1 | 1 |",
    ]


def test_the_page_of_mutants_says_how_they_were_drawn() -> None:
    mutant = {"module": "pooling.masks", "function": "f", "before": "a", "after": "b"}
    one = {"mutant": mutant, "outcome": "lived", "seed": 7}
    page = report.markdown([one, one | {"outcome": "killed", "seed": None}])
    assert "\nSeeds: 7. Without a mutant in the sample: `foundations.gaussian`, " in page
    assert "`pooling.masks`" not in page.partition("| module")[0]
    assert "| pooling.masks | 2 | 1 | 0 | 1 | 0 |" in page
    assert "- `pooling.masks`, `f`: `a` → `b`. A gap." in page
