"""The embedded store: one process, its memory, its start, and a disk that will not have it."""

import os
import re
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.collector import StoreUnavailable, open_store
from sudare.collector.stores import Group, Progress, Store
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import COUNTED, REPEATED, Clock, a_collector, a_survey, packed
from tests.support import ROOT
from tests.support.disks import full_after, unprivileged


def group(serials: object, bank: int = 0) -> Group:
    numbers = np.asarray(serials, np.uint64)
    where = np.zeros(numbers.size, np.int64)
    return Group(bank, numbers, where, where, np.ones(numbers.size, np.uint8))


def test_one_process_at_a_time(file: str) -> None:
    store = open_store(file)
    with pytest.raises(InvalidInput, match=rf"in use by process {os.getpid()}: .*PostgreSQL"):
        open_store(file)
    program = f"from sudare.collector import open_store; open_store({file!r})"
    other = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert other.returncode == 1
    assert f"in use by process {os.getpid()}" in other.stderr
    store.close()
    open_store(file).close()


def test_a_closed_store_stays_closed(file: str) -> None:
    store = open_store(file)
    store.close()
    for use in (
        store.meta,
        store.progress,
        lambda: store.issue(1),
        lambda: store.count(group([1])),
    ):
        with pytest.raises(StoreUnavailable, match="is closed"):
            use()


def test_only_its_owner_may_read_it(file: str) -> None:
    open_store(file).close()
    assert {path.stat().st_mode & 0o777 for path in Path(file).parent.iterdir()} == {0o600}


def test_commits_are_synced(file: str) -> None:
    store = open_store(file)
    settings = {
        name: store._db.execute(f"PRAGMA {name}").fetchone()[0]  # type: ignore[attr-defined]
        for name in ("journal_mode", "synchronous")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2}
    store.close()


class TestAFullDisk:
    def test_nothing_is_lost_and_it_comes_back(self, file: str) -> None:
        clock, survey = Clock(), a_survey("rappor")
        collector = a_collector(file, survey, clock)
        tickets = collector.issue(3000)
        taken, refused = 0, 0
        with full_after(100_000):
            for start in range(0, 3000, 50):
                try:
                    told = collector.count(packed(tickets[start : start + 50]))
                    assert (told == COUNTED).all()
                    taken += 50
                except StoreUnavailable as problem:
                    said = str(problem)
                    refused += "disk" in said
                    reachable = collector.status().reachable
        assert taken > 0
        assert refused == 60 - taken / 50 > 0, said
        assert not reachable
        told = collector.count(packed(tickets))
        assert collector.status().reachable
        assert int((told == REPEATED).sum()) >= taken
        assert int(collector.store.counts(np.array([0]))[0][0]) == 3000
        collector.close()

    def test_no_room_for_a_new_store(self, file: str) -> None:
        with full_after(2000), pytest.raises(StoreUnavailable, match="the disk"):
            open_store(file)
        open_store(file).close()


def test_a_read_only_folder() -> None:
    with unprivileged() as folder:
        place = str(folder / "collector.db")
        open_store(place).close()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        with pytest.raises(InvalidInput, match=r"Cannot write .*\.lock: Permission denied"):
            open_store(place)
        with pytest.raises(InvalidInput, match=r"Cannot write .*new\.db\.lock: Permission denied"):
            open_store(folder / "new.db")
        (folder / "collector.db.lock").chmod(0o644)
        with pytest.raises(StoreUnavailable, match=r"read-only|cannot be opened"):
            open_store(place)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no folder"):
        open_store(tmp_path / "none" / "collector.db")


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "people.csv"
    text.write_bytes(b"age,ill\n" * 999)
    with pytest.raises(StoreUnavailable, match="not a collector's store"):
        open_store(text)
    assert text.read_bytes() == b"age,ill\n" * 999
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        other.execute("CREATE TABLE bookmarks (page TEXT)")
        other.commit()
    with pytest.raises(InvalidInput, match="it is something else"):
        open_store(tmp_path / "ledger.db")


def test_a_newer_store(file: str) -> None:
    open_store(file).close()
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(InvalidInput, match="is of a newer version"):
        open_store(file)


def filled(file: str, used: int) -> Store:
    """A store in which that many serials are used, in groups of 50,000 in random order."""
    store = open_store(file)
    store.initialise({"survey": b"{}"}, b"secret")
    for serials in np.array_split(np.random.default_rng(0).permutation(used), used // 50_000):
        store.count(group(serials))
    return store


def rows_read_at_start(store: Any) -> int:
    ((rows,),) = store._db.execute(
        "SELECT (SELECT COUNT(*) FROM groups) + (SELECT COUNT(*) FROM chunks)"
    )
    return int(rows)


def test_ten_million_used_serials(file: str) -> None:
    """A start that reads few rows, two bits of memory for each, a file not much larger."""
    store, used = filled(file, 10**7), 10**7
    assert Path(file).stat().st_size > 3 * used  # four bytes each, until they are folded
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for folded in (False, True):
        if folded:
            store.tidy()
        store.close()
        store = open_store(file)
        assert rows_read_at_start(store) <= used // 50_000
        told = store.count(group([0, used - 1, used + folded]))
        assert told.tolist() == [REPEATED, REPEATED, COUNTED]
    bank = store._banks[0]  # type: ignore[attr-defined]
    assert bank.size <= 2 * used / 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KB
    store._db.execute("VACUUM")  # type: ignore[attr-defined]
    store.close()
    assert Path(file).stat().st_size < 2 * used / 8


def test_folding_is_worth_it(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are written when there are about as many bytes of blobs, and those that changed."""
    monkeypatch.setattr("sudare.collector.stores.sqlite._FOLD_BYTES", 1000)
    store = filled(file, 200_000)
    store.tidy()
    rows = "SELECT (SELECT COUNT(*) FROM groups), (SELECT COUNT(*) FROM chunks)"
    count = store._db.execute  # type: ignore[attr-defined]
    assert count(rows).fetchone() == (0, 4)
    store.count(group([10**6, 10**6 + 1]))
    store.tidy()
    assert count(rows).fetchone() == (1, 4)
    store.close()


def test_a_failed_commit_is_forgotten(file: str) -> None:
    """What the disk did not take is not used in memory either."""
    store = open_store(file)
    store.initialise({"survey": b"{}"}, b"secret")
    store.count(group([1]))
    trigger = "CREATE TRIGGER full BEFORE UPDATE ON counts BEGIN SELECT RAISE(ABORT, 'no'); END"
    store._db.execute(trigger)  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.count(group([1, 2]))
    store._recover()  # type: ignore[attr-defined]
    store._db.execute("DROP TRIGGER full")  # type: ignore[attr-defined]
    assert store.count(group([1, 2])).tolist() == [REPEATED, COUNTED]
    with store.closing() as closing_:
        closing_.record([], Progress(1, 0, b""))
    assert store.progress() == (1, 0, b"")
    store.close()


def test_a_link_does_not_lead_past_the_lock(file: str) -> None:
    """Two collectors on one file would each count the same report."""
    link = Path(file).with_name("link.db")
    link.symlink_to(file)
    with (
        closing(open_store(file)),
        pytest.raises(InvalidInput, match=rf"link\.db is in use by process {os.getpid()}"),
    ):
        open_store(link)


def test_the_log_does_not_keep_who_said_what(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From commit to commit it tells the serial and by how much the counts rose."""
    log = Path(f"{file}-wal")
    store = open_store(file)
    store.initialise({"survey": b"{}"}, b"secret")
    store.tidy()
    assert log.stat().st_size > 0, "not at every turn"
    monkeypatch.setattr("sudare.collector.stores.sqlite._EMPTY_SECONDS", 0.0)
    store.count(group([1]))
    # A backup that is reading is not waited for, and the log is emptied when it is done.
    with closing(sqlite3.connect(file, isolation_level=None)) as backup:
        backup.execute("BEGIN")
        backup.execute("SELECT * FROM meta").fetchall()
        store.count(group([2]))
        waits = _busy_timeouts(store)
        store.tidy()
        assert waits == [0, 5000], "the log is emptied without waiting, and only the log"
        assert log.stat().st_size > 0
    store.tidy()
    assert log.stat().st_size == 0
    assert store.count(group([1, 2, 3])).tolist() == [REPEATED, REPEATED, COUNTED]
    store.close()


def _busy_timeouts(store: Any) -> list[int]:
    """How long the store's connection is told to wait for others, from here on."""
    waits: list[int] = []

    def heard(statement: str) -> None:
        if found := re.fullmatch(r"PRAGMA busy_timeout = (\d+)", statement):
            waits.append(int(found[1]))
        elif "wal_checkpoint" in statement:
            assert waits == [0]

    store._db.set_trace_callback(heard)
    return waits


def test_raw_reports_that_were_moved_are_overwritten(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where SQLite by itself would not, as it does on some systems."""
    connect = sqlite3.connect

    def forgetful(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made = connect(*arguments, **options)
        made.execute("PRAGMA secure_delete = OFF")
        return made

    monkeypatch.setattr(sqlite3, "connect", forgetful)
    secret = np.frombuffer(b"who said what to whom, and when." * 40, np.void(b"x" * 32).dtype)
    store = open_store(file)
    store.initialise({"survey": b"{}"}, b"secret")
    store.count(group([1])._replace(raw=secret))
    ((number, kept),) = store.raw(10**6)
    assert kept == secret.tobytes()
    store.drop_raw([number])
    store.close()
    assert kept[:32] not in Path(file).read_bytes()


def test_an_empty_file_is_no_fresh_survey(file: str) -> None:
    """It is what a disk leaves of a store when it loses it."""
    Path(file).touch()
    with pytest.raises(InvalidInput, match=r"empty file.*restore it from a backup"):
        open_store(file)
    assert Path(file).stat().st_size == 0


def test_a_second_name_is_refused(file: str, tmp_path: Path) -> None:
    """It would get past the lock, which goes by the name."""
    store = open_store(file)
    (tmp_path / "other.db").hardlink_to(file)
    with pytest.raises(InvalidInput, match="another name"):
        open_store(tmp_path / "other.db")
    store.close()
    with pytest.raises(InvalidInput, match="another name"):
        open_store(file)
    (tmp_path / "other.db").unlink()
    open_store(file).close()


@pytest.mark.parametrize("column", ["reporters", "ones", "control"])
@pytest.mark.parametrize("bit", [0, 1, 6, 17, 40])
def test_a_flipped_bit_of_a_count_is_noticed(file: str, column: str, bit: int) -> None:
    store = open_store(file)
    store.initialise({"survey": b"{}"}, b"secret")
    for first in (0, 50, 90):
        store.count(group(np.arange(first, first + 60)))
    assert [each.tolist() for each in store.counts(np.array([0, 1]))] == [[150, 0], [150, 0]]
    store.close()
    with closing(sqlite3.connect(file)) as damaged:
        (value,) = damaged.execute(f"SELECT {column} FROM counts").fetchone()
        damaged.execute(f"UPDATE counts SET {column} = ?", (value ^ (1 << bit),))
        damaged.commit()
    store = open_store(file)
    for _ in range(2):  # counting on does not hide it
        with pytest.raises(StoreUnavailable, match="damaged: restore it from a backup"):
            store.counts(np.array([0]))
        store.count(group([500 + _]))
    store.close()


def test_a_store_of_the_first_format_gets_controls(file: str) -> None:
    store = open_store(file)
    store.initialise({"survey": b"{}"}, b"secret")
    store.count(group([1, 2, 3]))
    store.close()
    with closing(sqlite3.connect(file)) as old:
        old.execute("ALTER TABLE counts DROP COLUMN control")
        old.execute("PRAGMA user_version = 1")
        old.commit()
    store = open_store(file)
    store.count(group([4]))
    assert [each.tolist() for each in store.counts(np.array([0]))] == [[4], [4]]
    store.close()
    with closing(sqlite3.connect(file)) as new:
        new.execute("UPDATE counts SET ones = 3")
        new.commit()
    store = open_store(file)
    with pytest.raises(StoreUnavailable):
        store.counts(np.array([0]))
    store.close()
