"""Everything that can go wrong with the place a ledger lives in."""

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger, LedgerError
from sudare.ledger import _databases as databases
from tests.ledger.crash import SHIFT, release
from tests.support import ROOT, debian
from tests.support.disks import unprivileged
from tests.support.soak import SOAK, times

PRINT = "ab" * 32
KILLS = times(20, 100), times(8, 30)
"""Of a ledger in a file, and in a database."""
EVERY = 1 if SOAK else 5
"""Every how many-th write is met by a fault; `make soak` tries them all."""
CALLS = {"pwrite64": 70, "fdatasync": 21, "unlink": 5, "fsync": 21, "rename": 11}
"""More than a whole release makes of each, so that the last ones go through untouched."""


def crash(*arguments: str, under: tuple[str, ...] = ()) -> list[list[str]]:
    done = subprocess.run(
        [*under, sys.executable, "-m", "tests.ledger.crash", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [line.split(" ", 2) for line in done.stdout.splitlines()]


def strace(**injected: str) -> tuple[str, ...]:
    """strace with a fault for call number SHIFT of each kind, counted in each process.

    Not with --seccomp-bpf, which is faster but loses the signals.
    """
    quiet = ["-f", "-qq", "-o", os.devnull, "-e", f"trace={','.join(injected)}"]
    faults = [f"-einject={name}:{fault}" for name, fault in injected.items()]
    return (debian.require("strace", "strace"), *quiet, *faults)


@pytest.mark.soak(tries="every write" if SOAK else f"every {EVERY}th write")
@pytest.mark.parametrize(
    ("pwrite64", "others"),
    [
        (f"signal=KILL:when={SHIFT}",) * 2,
        # A disk that is full stays full; an error may come alone.
        (f"error=ENOSPC:when={SHIFT}+", f"error=EIO:when={SHIFT}"),
    ],
    ids=["killed", "full disk or I/O error"],
)
def test_a_fault_at_any_write_leaves_nothing_released_that_was_not_spent(
    tmp_path: Path, pwrite64: str, others: str
) -> None:
    aims = [f"{call}:{n}" for call, most in CALLS.items() for n in range(1, most + 1, EVERY)]
    aims += [f"{call}:{most}" for call, most in CALLS.items()]
    under = strace(**(dict.fromkeys(CALLS, others) | {"pwrite64": pwrite64}))
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for name, word, *rest in crash("faults", str(tmp_path), *dict.fromkeys(aims), under=under):
        said[name][word] = " ".join(rest)
    ends = {word for words in said.values() for word in words}
    assert {"written", "killed" if "KILL" in others else "refused"} <= ends
    for name, words in said.items():
        assert "broke" not in words, words
        check_after_fault(tmp_path / name, words)
    for call, most in CALLS.items():
        # Unless a fault was met, the sweep has not reached the end.
        last = said[f"{call}-{most}"]
        assert "killed" not in last
        assert "refused" not in last


def check_after_fault(folder: Path, words: dict[str, str]) -> None:
    with Ledger(folder / "ledger.db") as ledger:
        spent = ledger.verify()
        kept = ledger.kept("r")
    written = folder / "shared" / "a.release"
    assert spent or not ({"spent", "kept", "written"} & words.keys())
    assert spent or not kept
    assert kept or not written.exists()
    if "kept" in words:
        assert kept is not None
        assert kept.hex() == words["kept"]
    reason = words.get("refused", "")
    assert reason == "" or any(
        known in reason for known in ("the disk", "it cannot be", "a.release", "Cannot write")
    ), reason
    if "spent" not in words and "nothing was spent" in reason:
        assert spent == 0
    again = release(folder, aloud=lambda *_: None)
    assert kept is None or again == kept
    assert written.read_bytes() == again
    assert sorted(p.name for p in (folder / "shared").glob("[!.]*")) == ["a.release"]
    with Ledger(folder / "ledger.db") as ledger:
        assert len(ledger.account("people").entries) == 1


@pytest.mark.soak(tries=f"{KILLS[0]} or {KILLS[1]} kills")
def test_killed_at_any_instant_what_was_said_is_in_the_ledger(place: str) -> None:
    kills = KILLS[0] if place.endswith(".db") else KILLS[1]
    with Ledger(place) as ledger:
        ledger.open("people", PRINT, 1.0)
    said = crash("instants", place, str(kills))
    with Ledger(place) as ledger:
        entries = ledger.account("people").entries
        assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
        numbers = [int(words[1]) for words in said if words[0] == "spent"]
        assert len(numbers) >= kills  # each child spends at least once before it is killed
        assert all(before < after for before, after in pairwise(numbers))
        assert max(numbers) <= len(entries)
        for _, number, request in (words for words in said if words[0] == "kept"):
            assert entries[int(number) - 1].released
            assert ledger.kept(request) == request.encode()
        ledger.spend("people", PureEvent(0.001))


def test_a_read_only_ledger_is_explained() -> None:
    with unprivileged() as folder:
        file = folder / "ledger.db"
        with Ledger(file) as ledger:
            ledger.open("people", PRINT, 1.0)
        file.chmod(0o444)
        folder.chmod(0o555)
        with Ledger(file) as ledger:
            assert ledger.datasets() == ["people"]  # to look at it is no harm
            with pytest.raises(LedgerError, match=r"read-only.*nothing was spent"):
                ledger.spend("people", PureEvent(0.5))
            assert ledger.verify() == 0
        with pytest.raises(LedgerError, match=r"other\.db: it cannot be made.*nothing was spent"):
            Ledger(folder / "other.db")
        folder.chmod(0o755)
        file.chmod(0o000)
        with pytest.raises(LedgerError, match=r"cannot be opened.*nothing was spent"):
            Ledger(file)


def test_only_its_owner_can_read_a_new_file(file: str) -> None:
    Ledger(file).close()
    assert Path(file).stat().st_mode & 0o777 == 0o600


def test_a_busy_ledger_is_explained(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_PATIENCE_SECONDS", 0.1)
    with Ledger(place) as ledger, Ledger(place) as other:
        ledger.open("people", PRINT, 1.0)
        with ledger._database.transaction():
            for attempt in (lambda: other.spend("people", PureEvent(0.5)), lambda: Ledger(place)):
                with pytest.raises(LedgerError, match=r"another process.*nothing was spent"):
                    attempt()
        assert other.spend("people", PureEvent(0.5)).number == 1


def test_after_a_refusal_the_ledger_goes_on(place: str) -> None:
    with Ledger(place) as ledger:
        ledger.open("people", PRINT, 1.0)
        with suppress(KeyboardInterrupt), ledger._database.transaction() as step:
            step.run("INSERT INTO ledger_meta VALUES (?, ?)", "half", "done")
            raise KeyboardInterrupt
        with ledger._database.transaction() as step:
            assert not step.rows("SELECT 1 FROM ledger_meta WHERE name = ?", "half")
        assert ledger.spend("people", PureEvent(0.5)).number == 1


def test_a_closed_ledger_says_so(place: str) -> None:
    ledger = Ledger(place)
    ledger.close()
    with pytest.raises(LedgerError, match=r"closed.*nothing was spent"):
        ledger.datasets()


def test_what_is_not_a_ledger_is_left_alone(tmp_path: Path) -> None:
    for name, content in {"a.csv": b"age,ill\n" * 999, "b.db": b"SQLite format 3\0" * 99}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(LedgerError, match=r"not a ledger.*nothing was spent"):
            Ledger(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content
    with closing(sqlite3.connect(tmp_path / "c.db")) as file:
        file.execute("CREATE TABLE bookmarks (page TEXT)")
    content = (tmp_path / "c.db").read_bytes()
    with pytest.raises(LedgerError, match=r"something else.*Nothing was spent"):
        Ledger(tmp_path / "c.db")
    assert (tmp_path / "c.db").read_bytes() == content
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path)
    with pytest.raises(LedgerError, match="there is no folder"):
        Ledger(tmp_path / "nowhere" / "ledger.db")
    with pytest.raises(InvalidInput, match=r"postgresql://"):
        Ledger("mysql://host/ledger")


def test_a_file_that_was_only_begun_becomes_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.datasets() == []


def test_no_name_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger(":memory:") as ledger:
        ledger.open("people", PRINT, 1.0)
    with Ledger(":memory:") as ledger:
        assert ledger.datasets() == ["people"]


def test_damage_is_noticed_or_harmless(tmp_path: Path) -> None:
    file, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with Ledger(file) as ledger:
        mark = ledger.fingerprint([b"rows"])
        ledger.open("people", mark, 1.0)
        ledger.open("others", PRINT, 1.0)
        receipt = ledger.spend("people", PureEvent(0.5), request="r", purpose="a study")
        ledger.keep(receipt, b"release")
        ledger.keep(receipt, b"a part", "first")  # the end of the file is in use, too
        ledger.spend("others", PureEvent(0.25), request="s")
        sound = ledger.account("people"), ledger.account("others")
    whole, key = file.read_bytes(), Path(f"{file}.key").read_bytes()
    rng = random.Random(1)
    noticed: list[str] = []
    used = [place for place, byte in enumerate(whole) if byte]
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.choice(used)] ^= 1 << rng.randrange(8)
        copy.write_bytes(damaged)
        Path(f"{copy}.key").write_bytes(key)
        try:
            with Ledger(copy) as ledger:
                assert ledger.fingerprint([b"rows"]) == mark
                assert ledger.named(mark) == "people"
                assert (ledger.account("people"), ledger.account("others")) == sound
                assert ledger.kept("r") == b"release"
                assert ledger.spend("people", PureEvent(0.5), request="r").repeated
        except LedgerError as problem:
            noticed.append(str(problem))
    assert len(noticed) >= 200
    assert all("othing was spent" in text for text in noticed)
    for size in (len(whole) - 1, len(whole) - 4096, len(whole) // 2, 4096, 100, 2):
        copy.write_bytes(whole[:size])
        with pytest.raises(LedgerError, match="damaged"), Ledger(copy) as ledger:
            ledger.verify()


@pytest.mark.parametrize("column", ["dataset", "event", "purpose", "request", "moment", "chain"])
def test_anything_may_stand_in_a_damaged_cell(file: str, column: str) -> None:
    from tests.ledger.edits import edit

    with Ledger(file) as ledger:
        ledger.open("people", PRINT, 1.0)
        ledger.spend("people", PureEvent(0.5), request="r")
    for value in ("x'ff00'", "CAST(x'ff' AS TEXT)", "1", "1.5"):
        edit(file, f"UPDATE ledger_events SET {column} = {value}")
        with pytest.raises(LedgerError, match="othing was spent"), Ledger(file) as ledger:
            ledger.spend("people", PureEvent(0.1))


def test_spenders_see_each_other_whatever_the_database_is_set_to(database: str) -> None:
    """A snapshot of the whole transaction, taken before the lock was got, would be too old."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER ROLE sudare SET default_transaction_isolation = 'serializable'")
    try:
        first, second = Ledger(database), Ledger(database)
        first.open("people", PRINT, 1.0)
        numbers = []
        with first._database.transaction():
            waiting = threading.Thread(
                target=lambda: numbers.append(second.spend("people", PureEvent(0.5)).number)
            )
            waiting.start()
            with psycopg.connect(database, autocommit=True) as connection:
                while not connection.execute(
                    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                ).fetchone():
                    pass
            step = first._database._step()  # type: ignore[attr-defined]
            first._enter(step, "people", PureEvent(0.25), "r", "")
        waiting.join(30)
        assert numbers == [2]
        first.close()
        second.close()
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("ALTER ROLE sudare RESET default_transaction_isolation")


def test_a_server_that_goes_away_is_explained(database: str) -> None:
    with Ledger(database) as ledger:
        ledger.open("people", PRINT, 1.0)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND usename = 'sudare'"
            )
        with pytest.raises(LedgerError, match=r"postgresql://127\.0\.0\.1.*nothing was spent"):
            ledger.spend("people", PureEvent(0.5))
    with Ledger(database) as ledger:
        assert ledger.verify() == 0


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:canary@127.0.0.1:1/ledger",
        "postgresql://me:canary@[127.0.0.1/ledger",
        "postgresql://me:canary@host:port/ledger",
        "postgresql://me:can/ary@127.0.0.1:1/ledger?canary=1",
        "postgresql://me:canary@127.0.0.1:1/ledger?nonsense=canary",
        "postgresql://me:canary%zz@127.0.0.1:1/ledger",
    ],
)
def test_a_password_is_never_shown(address: str) -> None:
    with pytest.raises((LedgerError, InvalidInput)) as problem:
        Ledger(address)
    assert "canary" not in str(problem.value)
    assert problem.value.__cause__ is None
    assert problem.value.__suppress_context__


def test_without_the_driver_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidInput, match=r"sudare\[postgres\]"):
        Ledger("postgresql://127.0.0.1/ledger")


def test_staff_need_no_right_but_to_read_and_to_add(server: str, database: str) -> None:
    Ledger(database).close()
    schema = database.rpartition("%3D")[2]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE ROLE staff LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO staff".encode())
        connection.execute(
            "GRANT SELECT, INSERT ON "
            "ledger_meta, ledger_datasets, ledger_events, ledger_releases, ledger_parts TO staff"
        )
    with Ledger(database.replace("sudare:unspoken", "staff")) as ledger:
        ledger.open("people", PRINT, 1.0)
        receipt = ledger.spend("people", PureEvent(0.5))
        assert ledger.keep(receipt, b"release") == ledger.kept(receipt.request)
        assert ledger.keep(receipt, b"part", "first") == ledger.kept(receipt.request, "first")
