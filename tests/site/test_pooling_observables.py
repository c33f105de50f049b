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

from sudare import site
from sudare.ledger import Ledger
from sudare.study import raw_content
from tests.federation.test_answering_observables import LINES, PAIRS
from tests.site.clinics import CLASSES, counts
from tests.site.desks import Desk, desks
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


@pytest.mark.parametrize("row", ["89,m,4000000000", "50,f,2.5", "nan,x,", "50,m,1e999", "5"])
def test_a_pool_of_counts_looks_the_same_for_all_neighbours(row: str, tmp_path: Path) -> None:
    def seen(last: str) -> list[Any]:
        folder = tmp_path / last[:1].replace('"', "q")
        made = desks(folder, rows=12, study=counts(), kind="poisson")
        data = made[0].data
        data.write_text(data.read_text() + last + "\n")
        with Ledger(made[0].folder / "other.db") as ledger:
            ledger.open("people", ledger.fingerprint(raw_content(data)), 4.0, 1e-6)
        told: list[Any] = []
        while not told or told[-1].state != "done":
            told.append(unattended(made[0], "other.db"))
            for desk in made[1:]:
                unattended(desk, "ledger.db")
        sizes = sorted(f.stat().st_size // 32 for f in Path(made[0].pool.place).rglob("*.answer"))
        return [[(t.state, t.session, t.waiting, t.problems, t.charged) for t in told], len(sizes)]

    assert seen(row) == seen("60,f,1")


def unattended(desk: Desk, ledger: str) -> site.PoolStatus:
    with Ledger(desk.folder / ledger) as book:
        return site.take_part_unattended(desk.data, desk.pool, book, desk.key, home=desk.folder)
