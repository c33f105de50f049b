"""`sudare ledger export` and `sudare ledger check`."""

import json
from pathlib import Path

import pytest

from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger
from tests.support.commands import command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    command(tmp_path, "keys", "new", "key.json", "--public", "a.pub")
    command(tmp_path, "trust", "add", "Clinic A", "a.pub")
    with Ledger(tmp_path / "ledger.db") as book:
        book.open("visits", "ab" * 32, 3.0, 1e-6)
        book.spend("visits", PureEvent(0.4), purpose="for hearts")
    return tmp_path


def test_a_record_is_checked_without_the_ledger(folder: Path) -> None:
    done = command(folder, "ledger", "export", "record.jsonl")
    assert done.code == 0
    for name in ("ledger.db", "ledger.db.key", "key.json"):
        (folder / name).unlink()
    checked = command(folder, "ledger", "check", "record.jsonl", "--trust", "trust.toml")
    assert checked.code == 0
    assert "Every link holds; the prices are within every cap. Signed by 'Clinic A'." in checked.out
    told = json.loads(command(folder, "ledger", "check", "record.jsonl", "--json").out)
    assert told["datasets"][0]["enforced_epsilon"] == pytest.approx(0.4, rel=1e-5)
    assert told["link"][:16] in done.out


def test_a_changed_record_and_an_unsigned_one_are_refused(folder: Path) -> None:
    command(folder, "ledger", "export", "record.jsonl")
    text = (folder / "record.jsonl").read_text()
    (folder / "changed.jsonl").write_text(text.replace("for hearts", "for nobody"))
    done = command(folder, "ledger", "check", "changed.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "Line 4 was changed" in done.err
    (folder / "key.json").unlink()
    assert "not signed" in command(folder, "ledger", "export", "plain.jsonl").out
    done = command(folder, "ledger", "check", "plain.jsonl", "--trust", "trust.toml")
    assert (done.code, "not signed" in done.err) == (2, True)


def test_a_crate_needs_a_name(folder: Path) -> None:
    assert "--party" in command(folder, "ledger", "export", "crate", "--crate").err
    done = command(folder, "ledger", "export", "crate", "--crate", "--party", "Clinic A")
    assert done.code == 0
    assert (folder / "crate" / "ro-crate-metadata.json").exists()
    assert command(folder, "ledger", "check", "crate/ledger.jsonl").code == 0
