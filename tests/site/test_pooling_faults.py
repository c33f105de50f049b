"""`sudare pool DATA` when it is killed and when the disk fails, at any of its writes.

The others have joined, so that one run joins, is charged, draws, keeps and answers. Some of the
instants are tried; `make soak` tries every one of them.
"""

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from tests.site.clinics import CLASSES
from tests.site.desks import desks
from tests.site.faulty import check, strace, under_faults
from tests.support.soak import SOAK

ONCE = ("fchmod", "fsync", "mkdir", "rename", "unlink", "write")
LAST = {"fchmod": 8, "fsync": 14, "mkdir": 2, "rename": 8, "unlink": 3, "write": 12}
LAST |= {"fdatasync": 12, "openat": 90, "pwrite64": 32}
SOME = [f"fsync:{n}" for n in range(1, 12, 2)] + [f"rename:{n}" for n in range(1, 7)]
SOME += ["fchmod:1", "fchmod:3", "mkdir:1", "write:2", "write:5", "write:8", "unlink:1"]
SOME += ["fdatasync:1", "fdatasync:5", "fdatasync:9", "pwrite64:1", "pwrite64:12", "pwrite64:24"]
SOME += ["openat:10", "openat:30", "openat:50"]
WAITING = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a desk whose two partners have joined, to be copied for each run."""
    made = desks(tmp_path / "made", colluders=0)
    for desk in made[1:]:
        desk.run()
    template = tmp_path / "template"
    shutil.copytree(made[0].folder, template)
    shutil.copytree(made[0].pool.place, template / "releases")
    (template / "study.toml").write_text(CLASSES.format(model="moments", epsilon=1.0))
    return tmp_path


@pytest.mark.soak(tries="a kill at every write" if SOAK else "a kill at some writes")
def test_killed_at_any_write_no_answer_leaves_that_was_not_spent(folder: Path) -> None:
    aims = [f"{name}:{1 if SOAK else 2}" for name in ONCE]
    aims += ["fdatasync:1", "pwrite64:1"] if SOAK else ["fdatasync:4", "pwrite64:12"]
    ends = defaultdict(list)
    for told in under_faults("kills", str(folder), *aims, under=strace("signal=KILL"), job="pool"):
        check(told, WAITING)
        ends[told["name"].split("-")[0]].append(told["end"])
    assert len(ends) == len(aims)
    assert sum(end == "killed" for several in ends.values() for end in several) >= 12
    assert all(several[-1] == WAITING for several in ends.values())


@pytest.mark.soak(tries="every write" if SOAK else "some writes")
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"] if SOAK else ["ENOSPC"])
def test_a_failing_disk_is_one_line_and_nothing_is_lost(folder: Path, error: str) -> None:
    every = [f"{name}:{n}" for name, last in LAST.items() for n in range(1, last + 1)]
    found = under_faults(
        "errors",
        str(folder),
        *(every if SOAK else SOME),
        under=strace(f"error={error}"),
        job="pool",
    )
    for told in found:
        check(told, WAITING)
        assert told["end"] in (WAITING, 2, 3), told
        if told["end"] != WAITING:
            said = told["said"].splitlines()
            (line,) = [each for each in said if each.startswith(("Error:", "Refused:"))]
            assert told["left"]["spent"] == 0 or "nothing was spent" not in line.lower()
    assert sum(told["end"] != WAITING for told in found) > len(found) / 3  # else nothing was tried
