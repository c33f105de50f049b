"""Copies of a store: private, without keys unless asked, and good to go on from."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from sudare.collector import back_up
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import COUNTED, WRONG_MARK, Clock, a_collector, a_survey, due

KEY = bytes(range(32))


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_copy_of_a_store_at_work(file: str, tmp_path: Path, with_keys: bool) -> None:
    survey, clock, copy = a_survey(), Clock(), tmp_path / "copy.db"
    collector = a_collector(file, survey, clock)
    tickets = collector.issue(40)
    collector.count(due(survey, tickets, 0))
    assert back_up(file, copy, with_keys=with_keys) == with_keys
    ((secret,),) = sqlite3.connect(file).execute("SELECT secret FROM ranges")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert (secret in copy.read_bytes()) == with_keys
    clock.set(1.2)
    collector.publish_due()
    collector.close()
    again = a_collector(str(copy), survey, clock)
    again.publish_due()
    assert [each.reporters for each in again.history()] == [10]
    told = again.count(due(survey, tickets, 1))
    assert (told == (COUNTED if with_keys else WRONG_MARK)).all()
    more = again.issue(40)
    clock.set(2.5)
    assert (again.count(due(survey, more, 2)) == COUNTED).all()
    assert not {own.serial for own in more} & {own.serial for own in tickets}
    again.close()


def test_wrapped_keys_are_in_the_copy(file: str, tmp_path: Path) -> None:
    survey, clock, copy = a_survey(), Clock(), tmp_path / "copy.db"
    collector = a_collector(file, survey, clock, key=KEY)
    tickets = collector.issue(40)
    assert back_up(file, copy)
    collector.close()
    again = a_collector(str(copy), survey, clock, key=KEY)
    assert (again.count(due(survey, tickets, 0)) == COUNTED).all()
    again.close()


def test_nothing_is_written_over(file: str, tmp_path: Path) -> None:
    a_collector(file, a_survey(), Clock()).close()
    (tmp_path / "there").write_text("mine")
    with pytest.raises(InvalidInput, match="there already"):
        back_up(file, tmp_path / "there")
    with pytest.raises(InvalidInput, match="Cannot write"):
        back_up(file, tmp_path / "no" / "there")
    with pytest.raises(InvalidInput, match="There is no store"):
        back_up(str(tmp_path / "nothing.db"), tmp_path / "copy.db")
    with pytest.raises(InvalidInput, match="pg_dump"):
        back_up("postgresql://a/b", tmp_path / "copy.db")
    (tmp_path / "text").write_text("no database at all, but text")
    with pytest.raises(InvalidInput, match="not a collector's store"):
        back_up(str(tmp_path / "text"), tmp_path / "copy.db")
    assert sorted(p.name for p in tmp_path.iterdir() if "copy" in p.name) == []
    assert (tmp_path / "there").read_text() == "mine"


def test_a_bare_key_is_nowhere_in_the_copy(file: str, tmp_path: Path) -> None:
    """Not in a page that was given free either."""
    collector = a_collector(file, a_survey(), Clock())
    for _ in range(5):
        collector.issue()
        collector.rotate_key()
    with closing(sqlite3.connect(file)) as store:
        secrets = [secret for (secret,) in store.execute("SELECT secret FROM ranges")]
    collector.close()
    back_up(file, tmp_path / "copy.db")
    held = (tmp_path / "copy.db").read_bytes()
    assert len(secrets) == 6
    assert not any(secret in held for secret in secrets)
