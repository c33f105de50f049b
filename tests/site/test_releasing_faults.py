"""`sudare release` when it is killed, when the disk fails, and when several want the same.

Some of the instants are tried; `make soak` tries every one of them.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from sudare import site
from sudare.exchange import new_key
from sudare.ledger import Ledger
from sudare.ledger._filters import enforced
from sudare.study import parse_study, raw_content
from tests.site.clinics import CLASSES, write_patients
from tests.site.faulty import check, strace, under_faults
from tests.support.faults import RACERS
from tests.support.soak import SOAK, times

EPSILON, CAP, DELTA = 1.0, 2.2, 1e-6
KILLS = times(8, 100)
ONCE = ("fchmod", "fsync", "mkdir", "rename", "unlink", "write")
"""Calls that a release makes a few times."""
LAST = {"fchmod": 4, "fsync": 7, "mkdir": 2, "rename": 4, "unlink": 3, "write": 6}
LAST |= {"fdatasync": 12, "openat": 48, "pwrite64": 32}
SOME = ["fchmod:1", "fsync:1", "mkdir:1", "rename:1", "unlink:1", "unlink:2", "write:1", "write:2"]
SOME += ["write:3", "fdatasync:1", "fdatasync:4", "fdatasync:6", "fdatasync:10", "pwrite64:1"]
SOME += ["pwrite64:8", "pwrite64:15", "pwrite64:22", "pwrite64:28", "openat:3", "openat:8"]
SOME += ["openat:14", "openat:18", "fsync:2", "fsync:3", "fsync:4", "fsync:5", "rename:2"]
SOME += ["rename:3", "fchmod:2", "fchmod:3", "write:4", "write:5"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With all that a release needs, to be copied for each."""
    template = tmp_path / "template"
    template.mkdir()
    (template / "study.toml").write_text(CLASSES.format(model="moments", epsilon=EPSILON))
    data = write_patients(template / "people.csv", 60, seed=1)
    new_key().save(template / "key.json")
    with Ledger(template / "ledger.db") as ledger:
        ledger.open("people", ledger.fingerprint(raw_content(data)), CAP, DELTA)
    return tmp_path


@pytest.mark.soak(tries="a kill at every write" if SOAK else "a kill at some writes")
def test_killed_at_any_write_nothing_is_released_that_was_not_spent(folder: Path) -> None:
    aims = [f"{name}:1" for name in ONCE]
    aims += ["fdatasync:1", "pwrite64:1"] if SOAK else ["fdatasync:6", "pwrite64:16"]
    ends = defaultdict(list)
    for told in under_faults("kills", str(folder), *aims, under=strace("signal=KILL")):
        check(told)
        ends[told["name"].split("-")[0]].append(told["end"])
    assert len(ends) == len(aims)
    for several in ends.values():
        assert len(several) >= 2  # some were killed, and the last one was over before
        assert several[-1] == 0


@pytest.mark.soak(tries="every write" if SOAK else "some writes")
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"] if SOAK else ["ENOSPC"])
def test_a_failing_disk_is_one_line_and_nothing_is_lost(folder: Path, error: str) -> None:
    every = [f"{name}:{n}" for name, last in LAST.items() for n in range(1, last + 1)]
    found = under_faults(
        "errors", str(folder), *(every if SOAK else SOME), under=strace(f"error={error}")
    )
    for told in found:
        check(told)
        assert told["end"] in (0, 2), told
        if told["end"] == 2:
            usual = ("Released", "Warning: from 60 rows")
            (line,) = [line for line in told["said"].splitlines() if not line.startswith(usual)]
            assert line.startswith("Error: ")
            assert told["left"]["spent"] == 0 or "nothing was spent" not in line.lower()
        else:
            assert told["left"]["released"]
    assert sum(told["end"] == 2 for told in found) > len(found) / 2  # else nothing was tried


@pytest.mark.soak(tries=f"{KILLS} kills and two races")
def test_killed_at_any_instant_or_racing_what_is_released_was_spent_once(folder: Path) -> None:
    *instants, same, each = under_faults("peace", str(folder), str(KILLS))
    for told in instants:
        check(told)
    assert "killed" in {told["end"] for told in instants}

    assert same["ends"] == [0] * RACERS
    assert same["left"]["spent"] == len(same["left"]["kept"]) == 1
    assert same["left"]["released"] == same["left"]["kept"]

    event = site.ReleasePlan.of(
        parse_study(CLASSES.format(model="moments", epsilon=EPSILON)), 100
    ).event
    fit = max(k for k in range(1, RACERS) if enforced([event] * k, CAP, DELTA).epsilon <= CAP)
    assert 1 < fit < RACERS
    assert sorted(each["ends"]) == [0] * fit + [2] * (RACERS - fit)
    assert each["left"]["spent"] == len(each["left"]["kept"]) == fit
    assert each["left"]["released"] == each["left"]["kept"]
    assert each["said"].count("Nothing was spent") == RACERS - fit
