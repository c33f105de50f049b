"""Who can change a ledger unnoticed: with the key everybody, without it nobody."""

import hashlib
import hmac
import json
import shutil
from pathlib import Path

import pytest

from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import PureEvent
from sudare.ledger import Ledger, LedgerError, Reason, rekey
from sudare.ledger import _chain as chain
from sudare.ledger import _keys as keys
from tests.ledger.edits import edit
from tests.ledger.filled import PRINT, filled, key_of, rows
from tests.support import ROOT


def test_links_and_seals_are_what_other_programs_compute() -> None:
    """HMAC-SHA256 of texts, each after its length in eight bytes: files outlive programs."""

    def tag(*fields: str) -> str:
        parts = [len(each.encode()).to_bytes(8, "little") + each.encode() for each in fields]
        return hmac.new(bytes(range(32)), b"".join(parts), "sha256").hexdigest()

    key = keys.LedgerKey("sudare-ledger-key/1", bytes(range(32)).hex(), keys.Mark())
    digest = hashlib.sha256(b"payload").hexdigest()
    assert chain.link(key, "abc", 7, "people", "é") == tag("entry", "abc", "7", "people", "é")
    assert chain.dataset_seal(key, "f", "people", "1.0") == tag("data set", "f", "people", "1.0")
    assert chain.release_seal(key, "r", b"payload") == f"{digest}:{tag('release', 'r', digest)}"
    assert key.identity == tag("identity")[:16]


def test_a_chain_made_anew_without_the_key_is_noticed(place: str) -> None:
    """What an unkeyed chain cannot see: somebody who changes an entry and all links after it."""
    filled(place)
    changes, link = [], ""
    for number, dataset, event, purpose, request, moment in rows(
        place, "SELECT number, dataset, event, purpose, request, moment FROM ledger_events"
    ):
        line = event.replace("0.5", "0.1")
        link = chain._unkeyed(link, number, dataset, line, purpose, request, moment)
        changes.append(
            f"UPDATE ledger_events SET event = '{line}', chain = '{link}' WHERE number = {number}"
        )
    edit(place, *changes)
    with pytest.raises(LedgerError, match=r"Entry 1 of the ledger was changed.*Nothing was spent"):
        Ledger(place)


def test_a_cap_sealed_anew_without_the_key_is_noticed(place: str) -> None:
    filled(place)
    ((secret,),) = rows(place, "SELECT value FROM ledger_meta WHERE name = 'fingerprint-key'")
    ((*row, _),) = rows(place, "SELECT * FROM ledger_datasets WHERE name = 'people'")
    row[2] = (9.0).hex()
    forged = keys.LedgerKey("sudare-ledger-key/1", secret, keys.Mark())
    for seal in (chain._unkeyed(secret, 0, *row), chain.dataset_seal(forged, secret, *row)):
        edit(
            place,
            f"UPDATE ledger_datasets SET epsilon = '{row[2]}', seal = '{seal}' "
            "WHERE name = 'people'",
        )
        with pytest.raises(LedgerError, match=r"cap .* was changed.*Nothing was spent"):
            Ledger(place)


LAST_RELEASE = "DELETE FROM ledger_releases WHERE request = 't'"
CUTS = {
    "the last entry": [LAST_RELEASE, "DELETE FROM ledger_events WHERE number = 3"],
    "all entries": ["DELETE FROM ledger_releases", "DELETE FROM ledger_events"],
    # Worth a second draw at no cost.
    "a release": [LAST_RELEASE],
    # It could be opened again with a larger cap.
    "a data set without entries": ["DELETE FROM ledger_datasets WHERE name = 'others'"],
}


@pytest.mark.parametrize("changes", CUTS.values(), ids=CUTS.keys())
def test_what_is_cut_off_is_missed(place: str, changes: list[str]) -> None:
    """No chain can see this: what is left of it is sound."""
    filled(place)
    edit(place, *changes)
    with pytest.raises(LedgerError, match=r"put back to an earlier state.*Nothing was spent"):
        Ledger(place)


def test_a_forged_release_is_noticed(place: str) -> None:
    filled(place)
    payload = b"forged"
    seal = hashlib.sha256(payload).hexdigest()
    blob = f"'\\x{payload.hex()}'" if place.startswith("postgresql:") else f"x'{payload.hex()}'"
    for forged in (seal, f"{seal}:{seal}"):
        edit(
            place,
            f"UPDATE ledger_releases SET payload = {blob}, seal = '{forged}' WHERE request = 'r'",
        )
        with pytest.raises(LedgerError, match=r"A release in the ledger was changed"):
            Ledger(place)


def test_a_ledger_put_back_as_a_whole_is_noticed(tmp_path: Path) -> None:
    file, earlier = tmp_path / "ledger.db", tmp_path / "earlier.db"
    with Ledger(file) as ledger:
        ledger.open("people", PRINT, 2.0)
        ledger.spend("people", PureEvent(0.5), request="r")
        shutil.copy(file, earlier)
        ledger.spend("people", PureEvent(0.5), request="s")
    shutil.copy(earlier, file)
    with pytest.raises(LedgerError, match=r"earlier state.* seen 2 entries.*rekey.*Nothing was"):
        Ledger(file)
    # Spent from again by somebody with the key, it is as long as before and still another one.
    mark = json.loads((tmp_path / "ledger.db.key").read_bytes())
    blank = mark | {"mark": mark["mark"] | {"entries": 0, "chain": ""}}
    (tmp_path / "ledger.db.key").write_text(json.dumps(blank))
    with Ledger(file) as ledger:
        ledger.spend("people", PureEvent(0.25), request="t")
    (tmp_path / "ledger.db.key").write_text(json.dumps(mark))
    with pytest.raises(LedgerError, match=r"earlier state"):
        Ledger(file)
    file.unlink()
    with pytest.raises(LedgerError, match=r"is gone: restore it.*Nothing was spent"):
        Ledger(file)


def test_both_put_back_are_not_noticed(tmp_path: Path) -> None:
    """As the documentation says: keep the key where the ledger's backups are not."""
    file = tmp_path / "ledger.db"
    filled(str(file))
    both = [(path, path.read_bytes()) for path in (file, tmp_path / "ledger.db.key")]
    with Ledger(file) as ledger:
        ledger.spend("people", PureEvent(0.1))
    for path, content in both:
        path.write_bytes(content)
    with Ledger(file) as ledger:
        assert ledger.verify() == 3


def test_a_new_key_is_put_on_record(place: str) -> None:
    filled(place)
    path = key_of(place)
    assert rekey(place).reason is Reason.REKEYED
    with Ledger(place) as ledger:
        receipt = ledger.spend("people", PureEvent(0.1), request="u")
        ledger.keep(receipt, b"u")
    path.unlink()
    anchor = rekey(place)
    assert (anchor.reason, anchor.entries, anchor.chain) == (
        Reason.REKEYED_UNCHECKED,
        4,
        receipt.chain,
    )
    with Ledger(place) as ledger:
        assert [each.reason for each in ledger.anchors()] == [
            Reason.MADE,
            Reason.REKEYED,
            Reason.REKEYED_UNCHECKED,
        ]
        assert [ledger.kept(request) for request in "rstu"] == [b"r", None, b"t", b"u"]
        assert ledger.spend("people", PureEvent(0.5), request="s").repeated
        assert ledger.spend("people", PureEvent(0.1)).number == 5
        assert ledger._key().mark.anchors == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_events SET purpose = 'x' WHERE number = 1",
        "UPDATE ledger_datasets SET epsilon = '0x1p9'",
        "UPDATE ledger_releases SET seal = 'x' WHERE request = 'r'",
        "UPDATE ledger_meta SET value = 'x' WHERE name = 'anchor-0'",
        "UPDATE ledger_meta SET value = replace(value, 'made', 'upgraded') WHERE name = 'anchor-0'",
        "UPDATE ledger_meta SET value = replace(value, 'rekeyed', 'made') WHERE name = 'anchor-1'",
        "UPDATE ledger_meta SET value = 'x' WHERE name = 'fingerprint-key'",
        "DELETE FROM ledger_releases WHERE request = 'r'",
        "DELETE FROM ledger_datasets WHERE name = 'others'",
    ],
)
def test_what_was_there_before_a_new_key_is_vouched_for_by_it(place: str, change: str) -> None:
    filled(place)
    rekey(place)
    edit(place, change)
    with pytest.raises(LedgerError, match=r"was changed behind.*Nothing was spent"):
        Ledger(place)


def test_the_record_of_a_new_key_cannot_be_removed(place: str) -> None:
    filled(place)
    rekey(place)
    edit(place, "DELETE FROM ledger_meta WHERE name = 'anchor-1'")
    with pytest.raises(LedgerError, match=r"not the key of this ledger.*Nothing was spent"):
        Ledger(place)
    edit(place, "DELETE FROM ledger_meta WHERE name = 'anchor-0'")
    with pytest.raises(LedgerError, match=r"was changed behind.*Nothing was spent"):
        Ledger(place)
    edit(place, "UPDATE ledger_meta SET value = '1' WHERE name = 'version'")
    with pytest.raises(LedgerError, match=r"was changed behind.*Nothing was spent"):
        Ledger(place)  # it does not pass for one of version 1 either


def test_a_ledger_put_back_is_accepted_only_by_a_new_key(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    filled(str(file))
    earlier = file.read_bytes()
    with Ledger(file) as ledger:
        ledger.spend("people", PureEvent(0.1))
    file.write_bytes(earlier)
    assert rekey(file).reason is Reason.REKEYED_UNCHECKED
    with Ledger(file) as ledger:
        assert ledger.verify() == 3


def test_a_new_key_mends_no_damage_and_leaves_the_old_one(place: str) -> None:
    filled(place)
    path = key_of(place)
    before = path.read_bytes()
    edit(place, "DELETE FROM ledger_events WHERE number = 1")
    with pytest.raises(LedgerError, match=r"was changed behind"):
        rekey(place)
    assert path.read_bytes() == before


def test_there_must_be_a_ledger_to_give_a_key_to(database: str) -> None:
    with pytest.raises(InvalidInput, match="no ledger"):
        rekey(database)


def test_a_ledger_of_version_1_gets_a_key_when_it_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    shutil.copy(ROOT / "tests" / "golden" / "ledger-1.db", file)
    before = rows(str(file), "SELECT * FROM ledger_events ORDER BY number")
    with Ledger(file) as ledger:
        (anchor,) = ledger.anchors()
        assert (anchor.reason, anchor.entries, anchor.chain) == (Reason.UPGRADED, 4, before[-1][-1])
        number = ledger.spend("visits", PureEvent(0.1)).number
        assert number == 5
    assert rows(str(file), "SELECT * FROM ledger_events WHERE number < 5") == before
    with Ledger(file) as ledger:
        assert len(ledger.anchors()) == 1
        edit(str(file), "UPDATE ledger_events SET purpose = 'x' WHERE number = 1")
        with pytest.raises(LedgerError, match="was changed behind"):
            ledger.verify()


def test_a_changed_ledger_of_version_1_gets_none(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    shutil.copy(ROOT / "tests" / "golden" / "ledger-1.db", file)
    edit(str(file), "UPDATE ledger_events SET purpose = 'x' WHERE number = 1")
    with pytest.raises(LedgerError, match=r"Entry 1 .*was changed behind.*Nothing was spent"):
        Ledger(file)
    assert not (tmp_path / "ledger.db.key").exists()
