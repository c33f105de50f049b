"""Where a ledger's key is, what it must be, and the mark in its file."""

import json
import stat
from pathlib import Path

import pytest

from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger, LedgerError
from sudare.ledger import _keys as keys
from tests.ledger.filled import PRINT, filled, key_of, rows


def test_the_key_is_beside_the_file_and_its_owner_s(tmp_path: Path) -> None:
    filled(str(tmp_path / "ledger.db"))
    key = tmp_path / "ledger.db.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    secret = json.loads(key.read_bytes())["secret"]
    assert len(bytes.fromhex(secret)) == 32
    assert secret.encode() not in (tmp_path / "ledger.db").read_bytes()
    assert bytes.fromhex(secret) not in (tmp_path / "ledger.db").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db", "ledger.db.key"]


def test_the_key_of_a_server_s_ledger_is_in_the_configuration(
    database: str, configuration: Path
) -> None:
    filled(database)
    (key,) = configuration.iterdir()
    assert key == key_of(database)
    assert "127.0.0.1" in key.name
    assert "unspoken" not in key.name
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o700


def test_another_place_can_be_named(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(keys.ENVIRONMENT, str(tmp_path / "safe" / "my.key"))
    filled(place)
    assert key_of(place) == tmp_path / "safe" / "my.key"
    monkeypatch.delenv(keys.ENVIRONMENT)
    with pytest.raises(LedgerError, match=r"key .* is not there: restore it.*Nothing was spent"):
        Ledger(place)


def test_a_link_to_the_ledger_finds_the_key(tmp_path: Path) -> None:
    filled(str(tmp_path / "ledger.db"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.db").symlink_to(tmp_path / "ledger.db")
    with Ledger(tmp_path / "elsewhere" / "link.db") as ledger:
        assert ledger.verify() == 3


def test_a_ledger_may_be_ahead_of_its_mark(place: str) -> None:
    """So it is after a crash between the two, and with a key from a backup."""
    with Ledger(place) as ledger:
        ledger.open("people", PRINT, 2.0)
        early = ledger._key_path.read_bytes()
        receipt = ledger.spend("people", PureEvent(0.5), request="r")
        ledger._key_path.write_bytes(early)
        assert ledger.verify() == 1
        ledger._key_path.write_bytes(early)
        assert ledger.spend("people", PureEvent(0.5), request="r").repeated
        assert ledger._key().mark.entries == 1  # caught up
        assert ledger._key().mark.chain == receipt.chain


def test_a_mark_is_never_put_back(place: str) -> None:
    """Of two that write at once the later one's mark stays, whoever is slower."""
    filled(place)
    with Ledger(place) as ledger:
        far = ledger._key().moved_to(keys.Mark(1, 2, 9, 2, "z" * 64))
        keys.write_key(ledger._key_path, far)
        ledger._move_mark("")
        assert ledger._key() == far


def test_without_the_key_nothing_is_spent_or_handed_out(place: str) -> None:
    filled(place)
    with Ledger(place) as ledger:
        ledger._key_path.unlink()
        for attempt in (
            lambda: Ledger(place),
            ledger.verify,
            lambda: ledger.kept("r"),
            lambda: ledger.account("people"),
            lambda: ledger.open("new", "ef" * 32, 1.0),
            lambda: ledger.spend("people", PureEvent(0.1)),
            lambda: ledger.spend("people", PureEvent(0.5), request="r"),
        ):
            with pytest.raises(LedgerError, match=r"restore it from a backup.*Nothing was spent"):
                attempt()
        assert rows(place, "SELECT count(*) FROM ledger_events") == [(3,)]


def test_a_key_that_is_none_or_another_s_is_explained(place: str, tmp_path: Path) -> None:
    filled(place)
    path = key_of(place)
    for content in (b"", b"{}", b"\xff", path.read_bytes()[:-9]):
        path.write_bytes(content)
        with pytest.raises(LedgerError, match=r"not the key of a ledger.*Nothing was spent"):
            Ledger(place)
    with Ledger(tmp_path / "other.db") as other:
        path.write_bytes(other._key_path.read_bytes())
    with pytest.raises(LedgerError, match=r"not the key of this ledger.*Nothing was spent"):
        Ledger(place)


def test_a_key_without_a_ledger_yet_is_used(tmp_path: Path) -> None:
    """So it is after a crash in the first moment."""
    keys.write_key(tmp_path / "ledger.db.key", keys.new_key())
    before = json.loads((tmp_path / "ledger.db.key").read_bytes())["secret"]
    filled(str(tmp_path / "ledger.db"))
    assert json.loads((tmp_path / "ledger.db.key").read_bytes())["secret"] == before
