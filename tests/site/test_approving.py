"""A second person's approval: nothing is charged without it, and nobody approves their own."""

from pathlib import Path

import pytest

from sudare.exchange import SigningKey, new_key, sign
from sudare.foundations.checks import InvalidInput, PrivacyError
from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger, LedgerError, Policy, rekey
from sudare.site import ApprovalNeeded, approve, read_record, read_request, write_record
from tests.site.clinics import Clinic, classes, clinic

STUDY = classes("moments", 3.0)
BOSS, OTHER = new_key(), new_key()


def policy(needed: int = 1, **people: SigningKey) -> Policy:
    return Policy(needed, {name: key.public.to_text() for name, key in people.items()})


@pytest.fixture
def ours(tmp_path: Path) -> Clinic:
    made = clinic(tmp_path, "A", seed=1, cap=4.0)
    with Ledger(made.ledger) as ledger:
        ledger.set_policy(policy(1, Boss=BOSS, Other=OTHER))
    return made


def asked(ours: Clinic, tmp_path: Path) -> Path:
    """What a release asks for, as nobody has approved it yet."""
    with pytest.raises(ApprovalNeeded, match="Nothing was spent"):
        ours.publish(STUDY, tmp_path / "out", approved=tmp_path / "approvals")
    (request,) = (tmp_path / "approvals").glob("*.request")
    return request


def entries(ours: Clinic) -> int:
    with Ledger(ours.ledger) as ledger:
        return len(ledger.record())


def test_a_release_waits_for_a_second_person(ours: Clinic, tmp_path: Path) -> None:
    request = asked(ours, tmp_path)
    assert entries(ours) == 0
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True
    told = read_request(request)
    assert (told.study, told.rows, told.epsilon, told.party) == ("hearts", 150, 3.0, "A")
    approve(request, BOSS)
    done = ours.publish(STUDY, tmp_path / "out", approved=tmp_path / "approvals")
    assert Path(done.address).exists()
    with Ledger(ours.ledger) as ledger:
        (entry,) = ledger.record()
        assert set(entry.kept) == {"", "approval-1"}
        assert read_record(write_record(ledger)).accounts == (ledger.account("A 2026"),)
    # Asked again it is the same release, and needs nobody.
    assert ours.publish(STUDY, tmp_path / "out").repeated


def test_whose_approval_does_not_count(ours: Clinic, tmp_path: Path) -> None:
    request = asked(ours, tmp_path)
    folder = request.parent
    with pytest.raises(InvalidInput, match="signs the release itself"):
        approve(request, ours.key)
    data = request.read_bytes()
    approve(request, new_key())  # a stranger
    (folder / "own.approval").write_bytes(sign(data, "sudare-approval/1", ours.key))
    (folder / "kind.approval").write_bytes(sign(data, "sudare-record/1", BOSS))
    (folder / "junk.approval").write_bytes(b"nonsense")
    changed = data.replace(b'"rows":150', b'"rows":151')
    assert changed != data
    (folder / "rows.approval").write_bytes(sign(changed, "sudare-approval/1", BOSS))
    asked(ours, tmp_path)
    assert entries(ours) == 0


def test_one_persons_approval_counts_once(tmp_path: Path) -> None:
    ours = clinic(tmp_path, "A", seed=1)
    with Ledger(ours.ledger) as ledger:
        ledger.set_policy(policy(2, Boss=BOSS, Other=OTHER))
    request = asked(ours, tmp_path)
    first = approve(request, BOSS)
    first.with_name("copy.approval").write_bytes(first.read_bytes())
    asked(ours, tmp_path)
    approve(request, OTHER)
    ours.publish(STUDY, tmp_path / "out", approved=tmp_path / "approvals")
    assert entries(ours) == 1


def test_an_approval_is_for_one_release(ours: Clinic, tmp_path: Path) -> None:
    approve(asked(ours, tmp_path), BOSS)
    with pytest.raises(ApprovalNeeded):
        ours.publish(classes("moments", 1.0), tmp_path / "out", approved=tmp_path / "approvals")
    with pytest.raises(ApprovalNeeded):
        ours.publish(STUDY, tmp_path / "out", approved=tmp_path / "approvals", party="B")


def test_the_ledger_refuses_whoever_does_not_ask(ours: Clinic) -> None:
    """Pools, federations and scripts: what brings no approvals is not charged."""
    with Ledger(ours.ledger) as ledger:
        with pytest.raises(PrivacyError, match="asks for 1 approval by Boss, Other, and has 0"):
            ledger.spend("A 2026", PureEvent(0.5))
        ledger.set_policy(Policy())
        ledger.spend("A 2026", PureEvent(0.5))
        assert [each.approvals for each in ledger.policies()] == [0, 1, 0]


def test_a_policy_is_under_the_ledgers_key_and_outlives_a_new_one(ours: Clinic) -> None:
    rekey(ours.ledger)
    with Ledger(ours.ledger) as ledger:
        assert ledger.policies()[-1].approvals == 1
        with ledger._database.transaction() as step:
            forged = '{"approvals":0,"approvers":{},"moment":""}'
            step.run("INSERT INTO ledger_meta VALUES ('policy-2', ?)", f"{'0' * 64} {forged}")
        with pytest.raises(LedgerError, match="The policy of"):
            ledger.spend("A 2026", PureEvent(0.5))


def test_more_approvals_than_approvers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 2 approvers"):
        policy(2, Boss=BOSS)


def test_other_files_are_no_requests(tmp_path: Path) -> None:
    (tmp_path / "x.request").write_text("{}")
    with pytest.raises(InvalidInput, match="not a request"):
        approve(tmp_path / "x.request", BOSS)
