"""A pool of many separate processes over one folder, all of them running at the same time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sudare import site
from sudare.exchange import get_all
from tests.site.clinics import CLASSES
from tests.site.desks import Desk, desks
from tests.support import ROOT
from tests.support.soak import times

MEMBERS = times(5, 100)


def at_once(rounds: int, made: list[Desk]) -> list[list[int]]:
    """Exit codes of `sudare pool` at all these desks, round by round."""
    for desk in made:
        (desk.folder / "study.toml").write_text(CLASSES.format(model="moments", epsilon=1.0))
    folders = [str(desk.folder) for desk in made]
    words = ["pool", "people.csv", "--place", made[0].pool.place]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.at_once", str(rounds), *folders, "--", *words],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.soak(tries=f"3 runs of {MEMBERS} processes at once")
def test_parties_that_all_run_at_once(tmp_path: Path) -> None:
    made = desks(tmp_path, MEMBERS, colluders=0)
    codes = at_once(3, made)
    said = [(desk.folder / "said").read_text() for desk in made]
    assert all(code in (0, 4) for one in codes for code in one), (codes, said)
    assert codes[-1] == [0] * len(made)
    ((_, data),) = get_all(f"{made[0].pool.folder}/pooled.release", largest=1 << 28)
    trusted = site.verify(data, made[0].pool.keyring, made[0].pool.study)
    assert trusted.release.n == sum(40 + n for n in range(len(made)))
    assert {desk.spent() for desk in made} == {1}


def test_two_runs_at_one_desk_make_one_join_and_one_answer(tmp_path: Path) -> None:
    made = desks(tmp_path, colluders=0)
    for desk in made[1:]:
        desk.run()
    (codes,) = at_once(1, [made[0]] * 6)
    assert set(codes) <= {2, 4}  # done with it, or told that another is at work
    assert 4 in codes
    folder = Path(made[0].pool.folder)
    assert len(list(folder.glob("Clinic-A*.join"))) == 1
    assert len(list(folder.glob("Clinic-A*.answer"))) == 1
    assert made[0].spent() == 1
