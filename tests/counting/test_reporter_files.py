"""States in real files, under real processes and real refusals of the system."""

import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from sudare.counting import FileStore, Reporter, Survey
from sudare.foundations.checks import InvalidInput, PrivacyError, SudareError
from sudare.foundations.randomness import seeded
from tests.counting.devices import ticket

SURVEY = Survey(name="s", rounds=6, epsilon=1.0, method="masks", slots=3)
OWN = ticket(SURVEY, (1, 2, 5))


def test_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        path = tmp_path / "state"
        (tmp_path / "state.new").write_text("left by a crash, and open to all")
        (tmp_path / "state.new").chmod(0o666)
        reporter = Reporter.enrol(SURVEY, OWN, FileStore(path))
        for t in range(6):
            reporter.report(t, 1)
    finally:
        os.umask(before)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert modes == {"state": 0o600, "state.lock": 0o600}


def test_a_file_that_vanishes_is_not_begun_afresh(tmp_path):
    reporter = Reporter.enrol(SURVEY, OWN, FileStore(tmp_path / "state"))
    (tmp_path / "state").unlink()
    with pytest.raises(InvalidInput, match="this ticket is lost"):
        reporter.report(1, 1)


def test_a_draft_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "state.new").symlink_to(tmp_path / "elsewhere")
    Reporter.enrol(SURVEY, OWN, FileStore(tmp_path / "state"))
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_file_survives_a_restart(tmp_path):
    store = FileStore(tmp_path / "state")
    said = [Reporter.enrol(SURVEY, OWN, store).report(1, 1)]
    store.close()
    for _ in range(3):
        store = FileStore(tmp_path / "state")
        said.append(Reporter(SURVEY, store).report(1, 0))
        store.close()
    assert len(set(said)) == 1


def test_one_file_one_holder(tmp_path):
    store = FileStore(tmp_path / "state")
    (tmp_path / "link").symlink_to(tmp_path / "state")
    for path in ("state", "link", "../" + tmp_path.name + "/state"):
        with pytest.raises(SudareError, match="in use"):
            FileStore(tmp_path / path)
    store.close()
    FileStore(tmp_path / "link").close()


def test_a_closed_store_stays_closed(tmp_path):
    store = FileStore(tmp_path / "state")
    reporter = Reporter.enrol(SURVEY, OWN, store)
    store.close()
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    store.close()
    os.fstat(other)  # the second time closed nobody else's file
    os.close(other)
    for use in (store.load, lambda: store.save(b""), lambda: reporter.report(1, 1)):
        with pytest.raises(PrivacyError, match="not held"):
            use()


def test_a_change_of_folder_does_not_change_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reporter = Reporter.enrol(SURVEY, OWN, FileStore("state"))
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    reporter.report(1, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["below", "state", "state.lock"]
    assert list((tmp_path / "below").iterdir()) == []


def test_files_that_cannot_be(tmp_path):
    with pytest.raises(SudareError, match="No such file"):
        FileStore(tmp_path / "nowhere" / "state")
    (tmp_path / "folder").mkdir()
    store = FileStore(tmp_path / "folder")
    with pytest.raises(SudareError, match="Is a directory"):
        store.load()
    store = FileStore(tmp_path / "state")
    reporter = Reporter.enrol(SURVEY, OWN, store)
    (tmp_path / "state.new").mkdir()
    with pytest.raises(SudareError, match="nothing was reported"):
        reporter.report(1, 1)
    (tmp_path / "state.new").rmdir()
    assert reporter.report(1, 1) is not None


def _run(script: str, folder: Path) -> str:
    """A real second process, with the survey and ticket of this file at hand."""
    head = """
import os, resource
from pathlib import Path
from sudare.foundations.checks import PrivacyError, SudareError
from sudare.counting import FileStore, Reporter, Survey
from sudare.foundations.randomness import seeded
from tests.counting.devices import state_of, ticket
SURVEY = Survey(name="s", rounds=6, epsilon=1.0, method="masks", slots=3)
OWN = ticket(SURVEY, (1, 2, 5))
"""
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(script)],
        env={**os.environ, "STATE": str(folder / "state"), "PYTHONPATH": "src:."},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_hands_out_nothing(tmp_path):
    """A limit on the size of files stands for the disk: the system refuses the write itself."""
    said = _run(
        """
        store = FileStore(os.environ["STATE"])
        reporter = Reporter.enrol(SURVEY, OWN, store, seeded(0))
        before = store.load()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        for bit in (1, 0):
            try:
                print("handed out", reporter.report(1, bit))
            except SudareError as problem:
                print("refused", problem)
            assert store.load() == before and not Path(os.environ["STATE"] + ".new").exists()
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        print(reporter.report(1, 0).bit == state_of(store)["flips"][0])
        """,
        tmp_path,
    ).splitlines()
    refusal = f"refused Cannot save {tmp_path}/state: File too large; nothing was reported"
    assert said == [refusal, refusal, "True"]


def test_other_processes_are_kept_out(tmp_path):
    store = FileStore(tmp_path / "state")
    first = Reporter.enrol(SURVEY, OWN, store, seeded(0)).report(1, 1)
    script = """
        try:
            store = FileStore(os.environ["STATE"])
        except SudareError as problem:
            print(str(problem).split(" is ")[1])
        else:
            print(Reporter(SURVEY, store).report(1, 0).bit)
            # A child of a fork has the lock too, but must not answer beside its parent.
            reporter = Reporter(SURVEY, store)
            child = os.fork()
            if child == 0:
                try:
                    reporter.report(2, 1)
                except PrivacyError:
                    os._exit(7)
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            print(reporter.report(2, 1) is not None)
        """
    assert _run(script, tmp_path).startswith("in use by another process")
    store.close()
    assert first is not None
    assert _run(script, tmp_path).split() == [str(first.bit), "7", "True"]


def test_a_read_only_folder_is_an_error_with_a_name():
    """Without the rights of root, whom no folder stops, and outside root's closed folders."""
    with tempfile.TemporaryDirectory() as folder:
        said = _run(
            """
            folder = Path(os.environ["STATE"]).parent
            if os.geteuid() == 0:
                os.chown(folder, 65534, 65534)
                os.setuid(65534)
            reporter = Reporter.enrol(SURVEY, OWN, FileStore(os.environ["STATE"]), seeded(0))
            folder.chmod(0o555)
            for bit in (0, 1):
                try:
                    print("handed out", reporter.report(1, bit))
                except SudareError as problem:
                    print(str(problem).partition("state: ")[2])
            folder.chmod(0o755)
            print(reporter.report(1, 0).bit == state_of(reporter._store)["flips"][0])
            """,
            Path(folder),
        )
    refusal = "Permission denied; nothing was reported"
    assert said.splitlines() == [refusal, refusal, "True"]
