"""The browser's client under node: the same cases as in Python, and the same manners."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sudare.counting import Ticket
from sudare.counting.wire import mark_text
from sudare.foundations.randomness import seeded
from tests.collector.clients import published
from tests.collector.served import serving, survey_of
from tests.counting import vectors
from tests.support import PACKAGE, debian

PAGES = PACKAGE / "collector" / "pages"
SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="module")
def served_as(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules at the addresses at which a collector serves them."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "pages").mkdir()
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(PAGES / "client.js", folder)
    shutil.copy(PAGES / "rules.js", folder / "pages")
    for script in SCRIPTS.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder


def node(folder: Path, script: str, *arguments: str) -> Any:
    program = debian.require("node", "nodejs")
    command = [program, str(folder / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_browser_reproduces_the_file(served_as: Path) -> None:
    assert node(served_as, "vectors.mjs", str(vectors.FILE)) == []


def test_another_outcome_is_noticed(served_as: Path, tmp_path: Path) -> None:
    """What the comparison is worth: each part of a case, changed a little, is reported."""
    (case,) = [c for c in json.loads(vectors.FILE.read_text()) if c["survey"]["name"] == "m2"][:1]
    changed = [
        case | {"digest": "00" * 32},
        case | {"law": case["law"] | {"far_weight": "1"}},
        case | {"flips": [1 - flip for flip in case["flips"]]},
        case | {"reports": case["reports"][:-1]},
        case | {"state": case["state"] | {"moves": 1}},
    ]
    file = tmp_path / "changed.json"
    file.write_text(json.dumps([case, *changed]))
    wrong = node(served_as, "vectors.mjs", str(file))
    names = ["digest", "law", "flips", "reports", "state"]
    assert [(number, name) for number, name, _ in wrong] == list(enumerate(names, 1))


def test_manners(served_as: Path) -> None:
    told = node(served_as, "client.mjs")
    assert told["failed"] == {}
    assert told["passed"] == 21


def test_a_state_that_does_not_fit_says_nothing(served_as: Path) -> None:
    """`bit ^ undefined` is the bit: a state without its coins must never be answered from."""
    told = node(served_as, "state.mjs")
    assert told["failed"] == {}
    assert told["passed"] == 8


def test_a_real_collector_counts_it(served_as: Path, tmp_path: Path) -> None:
    bits = [1, 0, 1, 0, 1, 1]
    survey = survey_of(rounds=6, seconds=1.5, method="rappor", epsilon=6.0)
    with serving(tmp_path, survey) as served:
        told = node(served_as, "live.mjs", served.root, json.dumps(bits))
        counted = published(served)
    assert told["reports"], "it came too late for every round"
    assert told["lost"] == 0
    for report in told["reports"]:
        slot = report["slot"]
        assert report["bit"] == bits[slot] ^ told["flips"][slot]
        assert counted[slot] == 1
    assert sum(counted) == len(told["reports"])


def test_a_real_collector_counts_a_tree_of_few_flips(served_as: Path, tmp_path: Path) -> None:
    """Both sides must be of one mind about the survey, or the browser would stay away."""
    survey = survey_of(
        rounds=4,
        seconds=1.5,
        method="tree",
        epsilon=6.0,
        changes=3,
        flips="stretches",
        marks="slots",
    )
    with serving(tmp_path, survey) as served:
        assert served.http.get(served.url).json()["flips"] == "stretches"
        told = node(served_as, "live.mjs", served.root, json.dumps([1, 0, 1, 0]))
    assert len(told["flips"]) == min(3, 4 >> told["ticket"]["level"])
    assert told["reports"], "it came too late for every round"
    assert told["lost"] == 0


def test_the_marks_of_reports_are_the_same(served_as: Path) -> None:
    rng = seeded(6)
    tickets = [Ticket(b"", 0, rng.bytes(16)) for _ in range(40)]
    survey = survey_of(method="rappor", marks="slots")
    slots = rng.integers(0, 10**6, 40).tolist()
    pairs = [[mark_text(own.mark), slot] for own, slot in zip(tickets, slots, strict=True)]
    told = [mark_text(own.mark_of(survey, slot)) for own, slot in zip(tickets, slots, strict=True)]
    assert node(served_as, "marks.mjs", json.dumps(pairs)) == told
