"""What `sudare pool DATA --unattended` shows is the same for all neighbouring tables.

One row of two tables is arbitrary bytes. The two others of the pool have joined, so that one run
reads, joins, is charged and answers; what it prints, its exit code, and the names and sizes of all
that it leaves in the shared folder must be the same.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from sudare.ledger import Ledger
from sudare.study import raw_content
from tests.federation.test_answering_observables import LINES, PAIRS
from tests.site.clinics import CLASSES
from tests.site.desks import desks
from tests.support.commands import command


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    made = desks(folder / "made", rows=12, colluders=0)
    for desk in made[1:]:
        desk.run()
    shutil.copytree(made[0].folder, folder / "desk")
    shutil.copytree(made[0].pool.place, folder / "desk" / "releases")
    for file in (folder / "desk").glob("ledger.db*"):
        file.unlink()
    (folder / "desk" / "study.toml").write_text(CLASSES.format(model="moments", epsilon=1.0))
    return folder / "desk"


def seen(template: Path, row: bytes) -> list[Any]:
    """All that others can see of two runs with this last row: the second only repeats."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "desk")
        shutil.copytree(template, folder)
        data = folder / "people.csv"
        data.write_bytes(data.read_bytes() + row + b"\n")
        with Ledger(folder / "ledger.db") as ledger:
            ledger.open("people", ledger.fingerprint(raw_content(data)), 4.0, 1e-6)
        found: list[Any] = []
        for _ in range(2):
            done = command(folder, "pool", "people.csv", "--unattended", "--json")
            told = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00", "moment", done.out)
            found.append((done.code, json.loads(told), done.err))
        left = (folder / "releases").rglob("*")
        files = [(re.sub(r"[0-9a-f]{12}", "hash", f.name), f.stat().st_size) for f in left]
        return [*found, sorted(files)]


@pytest.mark.soak(tries=f"{PAIRS} pairs of tables")
@settings(max_examples=PAIRS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, LINES)
@example(b"130,50,m,yes,x", b"130,50,m,perhaps,x")
@example(b"130,50,m,yes,x", b"inf,nan,\xff,,")
@example(b"130,50,m,yes,x", b"too,few")
def test_an_unattended_run_looks_the_same_for_all_neighbours(
    template: Path, one: bytes, other: bytes
) -> None:
    first, second = seen(template, one), seen(template, other)
    assert first == second
    (code, told, err), again, files = first
    assert (code, err, told["charged"]) == (4, "", True)
    assert (again[0], again[1]["charged"]) == (4, False)
    assert len(files) == 1 + 4  # the folder, three joins, one answer
