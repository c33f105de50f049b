"""Policies on record; tests/site/test_approving.py has what they do."""

import sqlite3
from pathlib import Path

import pytest

from sudare.foundations.checks import InvalidInput
from sudare.ledger import Ledger, LedgerError, Policy, rekey


def test_the_last_policy_holds_and_all_stay_on_record(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        assert ledger.policies() == [Policy()]
        for needed in (2, 1, 0):
            ledger.set_policy(Policy(needed, {"A": "a", "B": "b"}))
    with Ledger(tmp_path / "l.db") as ledger:
        assert [each.approvals for each in ledger.policies()] == [0, 2, 1, 0]
        assert all(each.moment for each in ledger.policies()[1:])


@pytest.mark.parametrize("needed", [-1, 3, 1.5])
def test_what_is_no_policy(needed: float) -> None:
    with pytest.raises(InvalidInput):
        Policy(needed, {"A": "a", "B": "b"})  # type: ignore[arg-type]


@pytest.mark.parametrize("gone", ["policy-1", "policy-%"])
@pytest.mark.parametrize("renewed", [False, True])
def test_whoever_can_only_write_to_the_database_cannot_take_a_policy_back(
    gone: str, renewed: bool, tmp_path: Path
) -> None:
    """What stands alone without them: no policy, or the milder one of before, with its seal."""
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open("people", "ab" * 32, 4.0)
        ledger.set_policy(Policy(0, {"A": "a"}))
        ledger.set_policy(Policy(1, {"A": "a"}))
    if renewed:
        rekey(tmp_path / "l.db")
        gone = gone.replace("1", "2")
    with sqlite3.connect(tmp_path / "l.db") as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (trigger,) in found.fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        assert database.execute("DELETE FROM ledger_meta WHERE name LIKE ?", [gone]).rowcount
    with pytest.raises(LedgerError, match="or of its policies, some are gone"):
        Ledger(tmp_path / "l.db")


def test_a_key_file_of_a_ledger_without_policies_is_one_for_earlier_versions(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open("people", "ab" * 32, 4.0)
        assert "policies" not in (tmp_path / "l.db.key").read_text()
        ledger.set_policy(Policy(1, {"A": "a"}))
        assert "policies" in (tmp_path / "l.db.key").read_text()
