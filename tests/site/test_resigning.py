"""Signed again for a lost key or a wrong name: the same numbers, at no cost, and counted once."""

from pathlib import Path

import msgspec
import pytest

from sudare import site
from sudare.exchange import Keyring, new_key, seal_release, unverified
from sudare.foundations.checks import InvalidInput
from sudare.ledger import BudgetExceeded, Ledger
from sudare.releases import Pooled
from sudare.site import Checked, Published, resign
from sudare.site._receiving import counted_once
from sudare.study import parse_study
from tests.site.clinics import CLASSES, Clinic, classes, clinic
from tests.site.desks import desks

STUDY = classes("objective")
NEW = new_key()


@pytest.fixture
def released(tmp_path: Path) -> tuple[Clinic, Published]:
    """A clinic that called itself something else, with its whole budget spent."""
    ours = clinic(tmp_path, "Klinik A", seed=1, cap=4.0)
    return ours, ours.publish(STUDY, tmp_path / "out")


def again(ours: Clinic, place: Path, party: str = "Clinic A", key=NEW) -> Published:
    with Ledger(ours.ledger) as ledger:
        return resign(ledger, key, party=party, place=str(place))


def test_the_numbers_stay_and_nothing_is_spent(
    tmp_path: Path, released: tuple[Clinic, Published]
) -> None:
    ours, first = released
    done = again(ours, tmp_path / "out")
    ring = Keyring({"Clinic A": NEW.public})
    trusted = site.verify(Path(done.address).read_bytes(), ring, STUDY)
    before, _ = unverified(Path(first.address).read_bytes())
    assert trusted.release.party == "Clinic A"
    assert trusted.release == msgspec.structs.replace(before.release, party="Clinic A")
    assert trusted.signed.certificate.receipt == before.certificate.receipt
    assert trusted.signed.certificate.moment > before.certificate.moment
    with Ledger(ours.ledger) as ledger:
        assert len(ledger.record()) == 1
        assert ledger.verify() == 1


def test_there_is_a_trail(tmp_path: Path, released: tuple[Clinic, Published]) -> None:
    ours, _ = released
    again(ours, tmp_path / "out")
    again(ours, tmp_path / "out", party="Clinic Alpha")
    with Ledger(ours.ledger) as ledger:
        (entry,) = ledger.record()
        assert len(entry.kept) == 3
        assert len(site.read_record(site.write_record(ledger)).digests) == 3


def test_asked_again_the_same_bytes_come_out(
    tmp_path: Path, released: tuple[Clinic, Published]
) -> None:
    ours, _ = released
    one, two = again(ours, tmp_path / "one"), again(ours, tmp_path / "two")
    assert (one.repeated, two.repeated) == (False, True)
    assert Path(one.address).read_bytes() == Path(two.address).read_bytes()


def test_a_release_under_the_new_name_is_that_one(
    tmp_path: Path, released: tuple[Clinic, Published]
) -> None:
    """Without it, the same request would be a new draw, or refused for want of budget."""
    ours, _ = released
    place = str(tmp_path / "more")
    with Ledger(ours.ledger) as ledger:
        with pytest.raises(BudgetExceeded):
            site.publish(ours.data, STUDY, ledger, NEW, party="Clinic A", place=place)
        done = resign(ledger, NEW, party="Clinic A", place=str(tmp_path / "out"))
        same = site.publish(ours.data, STUDY, ledger, NEW, party="Clinic A", place=place)
        assert same.repeated
        assert Path(same.address).read_bytes() == Path(done.address).read_bytes()
        # Of this study only.
        other = parse_study(CLASSES.format(model="moments", epsilon=4.0))
        with pytest.raises(BudgetExceeded):
            site.publish(ours.data, other, ledger, NEW, party="Clinic A", place=place)


@pytest.mark.parametrize("same_key", [True, False])
def test_who_holds_both_counts_them_once(
    tmp_path: Path, released: tuple[Clinic, Published], same_key: bool
) -> None:
    ours, _ = released
    again(ours, tmp_path / "out", key=ours.key if same_key else NEW)
    keys = {"Clinic A": ours.key.public, "Clinic A, new key": NEW.public}
    found = site.collect([str(tmp_path / "out")], Keyring(keys), STUDY)
    used = [each.trusted.release.party for each in found if each.trusted is not None]
    assert used == ["Clinic A"]
    (why,) = [each.problem for each in found if each.trusted is None]
    assert why is not None
    assert "replaces it" in why or "signed again" in why


def test_another_who_signs_the_same_numbers_does_not_count_twice(
    tmp_path: Path, released: tuple[Clinic, Published]
) -> None:
    """Releases are public: somebody who is trusted could sign a copy as their own."""
    ours, first = released
    signed, _ = unverified(Path(first.address).read_bytes())
    thief = new_key()
    copy = msgspec.structs.replace(signed.release, party="Clinic Z")
    (tmp_path / "out" / "z.release").write_bytes(seal_release(copy, signed.certificate, thief))
    ring = Keyring({"Clinic A": ours.key.public, "Clinic Z": thief.public})
    found = site.collect([str(tmp_path / "out")], ring, STUDY)
    assert sum(each.trusted is not None for each in found) == 1


def stolen(released: tuple[Clinic, Published], folder: Path, ring: Keyring) -> list[Checked]:
    """What is found where somebody trusted has signed a copy, with a receipt of their own."""
    _, first = released
    signed, _ = unverified(Path(first.address).read_bytes())
    thief = new_key()
    copy = msgspec.structs.replace(signed.release, party="Clinic Z")
    later = msgspec.structs.replace(
        signed.certificate, moment="2099-01-01T00:00:00+00:00", receipt="0" * 64
    )
    (folder / "z.release").write_bytes(seal_release(copy, later, thief))
    return site.collect([str(folder)], ring.with_key("Clinic Z", thief.public), STUDY)


def test_whoever_signs_a_copy_ones_own_rows_are_known(
    tmp_path: Path, released: tuple[Clinic, Published]
) -> None:
    ours, _ = released
    found = stolen(released, tmp_path / "out", Keyring({"Clinic A": ours.key.public}))
    assert [each.trusted.signer for each in found if each.trusted] == ["Clinic Z"]
    made = site.blend(ours.data, STUDY, found, party="A", key=ours.key.public.fingerprint)
    assert made.story.parties == ()
    assert "made from these rows" in {refusal.reason for refusal in made.story.refusals}


def test_what_is_in_a_pool_does_not_count_again_when_it_was_signed_again(tmp_path: Path) -> None:
    made = desks(tmp_path, study=(study := classes(epsilon=1.0)), cap=9.0)
    for _ in range(2):
        for desk in made:
            desk.run()
    first, place = made[0], made[0].pool.place
    with Ledger(first.folder / "ledger.db") as ledger:
        site.publish(first.data, study, ledger, first.key, party=first.name, place=place)
        resign(ledger, NEW, party="A, new key", place=place)
    ring = first.pool.keyring.with_key("A, new key", NEW.public)
    found = site.collect([place], ring, study)
    assert {each.trusted.signer for each in found if each.trusted} >= {"A, new key"}
    used = [each for each in counted_once(found) if each.trusted is not None]
    assert [isinstance(each.trusted.release, Pooled) for each in used if each.trusted] == [True]


def test_what_cannot_be_signed_again_is_said(
    tmp_path: Path, released: tuple[Clinic, Published]
) -> None:
    ours, _ = released
    with pytest.raises(InvalidInput, match="in the first place"):
        again(ours, tmp_path / "out", party="Klinik A", key=ours.key)
    with Ledger(ours.ledger) as ledger, pytest.raises(InvalidInput, match="no release under"):
        resign(ledger, NEW, party="Clinic A", place=str(tmp_path), entry=7)
    with Ledger(tmp_path / "empty.db") as ledger, pytest.raises(InvalidInput, match="no release"):
        resign(ledger, NEW, party="Clinic A", place=str(tmp_path))


def test_of_several_releases_one_is_named(tmp_path: Path) -> None:
    ours = clinic(tmp_path, "A", seed=1, cap=9.0)
    for epsilon in (1.0, 2.0):
        ours.publish(classes("moments", epsilon), tmp_path / "out")
    with Ledger(ours.ledger) as ledger:
        with pytest.raises(InvalidInput, match="Which entry of the ledger is meant"):
            resign(ledger, NEW, party="B", place=str(tmp_path / "out"))
        done = resign(ledger, NEW, party="B", place=str(tmp_path / "out"), entry=2)
    assert done.receipt.number == 2
