"""Policies on record; tests/site/test_approving.py has what they do."""

from pathlib import Path

import pytest

from sudare.foundations.checks import InvalidInput
from sudare.ledger import Ledger, Policy


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
