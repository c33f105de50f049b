"""The record of a ledger: complete, chained, signed, and silent about people."""

import json
from pathlib import Path
from typing import Any

import pytest

from sudare import site
from sudare.exchange import Keyring, new_key
from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import GaussianEvent, PureEvent
from sudare.ledger import Ledger
from sudare.site import read_record, write_record

KEY = new_key()
RING = Keyring({"Clinic A": KEY.public})
LOG = {
    "moment": "2026-01-02T03:04:05+00:00",
    "asked": "release",
    "study": "0123456789ab",
    "answered": "refused",
    "reason": None,
    "detail": "row 17 of rows.csv holds 4711",
}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Ledger(tmp_path_factory.mktemp("record") / "ledger.db") as made:
        made.open("visits", "ab" * 32, 3.0, 1e-6)
        made.open("stays", "cd" * 32, 2.5)
        receipt = made.spend("visits", GaussianEvent(0.4), purpose="release for study hearts")
        made.keep(receipt, b"the release")
        made.spend("stays", PureEvent(0.7), purpose="a pool's answer")
        yield made


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def joined(found: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in found).encode()


def test_a_record_says_what_the_ledger_says(book: Ledger) -> None:
    found = read_record(write_record(book, KEY), RING)
    assert {each.dataset: each for each in found.accounts} == {
        name: book.account(name) for name in book.datasets()
    }
    assert found.receipts == book.receipts()
    assert found.signer == "Clinic A"
    assert len(found.digests) == 1


def test_the_log_of_a_federation_goes_in_without_its_details(book: Ledger, tmp_path: Path) -> None:
    log = tmp_path / "federation.log"
    log.write_text((json.dumps(LOG) + "\n") * 3)
    data = write_record(book, KEY, log)
    assert read_record(data, RING).answered == 3
    assert b"rows.csv" not in data
    log.write_text("nonsense\n")
    with pytest.raises(InvalidInput, match="line 1: this is not the log"):
        write_record(book, KEY, log)


def test_nothing_of_the_ledgers_secrets_or_fingerprints_is_in_it(book: Ledger) -> None:
    data = write_record(book, KEY)
    secret = json.loads(Path(f"{book._database.key_path}").read_text())["secret"]
    for hidden in (secret, "ab" * 32, "cd" * 32):
        assert hidden.encode() not in data
    assert b"the release" not in data


def test_every_change_of_a_line_is_noticed(book: Ledger) -> None:
    whole = lines(write_record(book, KEY))
    for number in range(len(whole) - 1):
        changed = [dict(line) for line in whole]
        changed[number]["purpose"] = "another"
        with pytest.raises(InvalidInput, match=rf"Line {number + 1} was changed|not the record"):
            read_record(joined(changed))
        shorter = whole[:number] + whole[number + 1 :]
        with pytest.raises(InvalidInput):
            read_record(joined(shorter))
    with pytest.raises(InvalidInput, match="end of the record"):
        read_record(joined(whole[:-2]))
    assert read_record(joined(whole)).link == whole[-2]["link"]


def test_a_chain_that_is_computed_anew_lacks_the_signature(book: Ledger) -> None:
    """Whoever has the file can write hashes; only the signer can sign the last of them."""
    honest = write_record(book, KEY)
    other = site.write_record(book)
    with pytest.raises(InvalidInput, match="not signed"):
        read_record(other, RING)
    forged = other + honest.splitlines()[-1] + b"\n"
    if read_record(other).link != read_record(honest).link:  # the moment may be the same second
        with pytest.raises(InvalidInput, match="another record"):
            read_record(forged, RING)
    stranger = write_record(book, new_key())
    with pytest.raises(InvalidInput, match="not in the keyring"):
        read_record(stranger, RING)
    assert read_record(stranger).signer is None


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"{}", b'{"kind": "sudare-record/2"}', b"[" * 100_000, b"nonsense\n"],
)
def test_other_files_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not the record"):
        read_record(data)


def test_entries_that_cost_more_than_the_cap_are_told(book: Ledger) -> None:
    """A ledger refuses them; a record can be written by anybody."""
    from sudare.site import _record

    whole = [dict(line) for line in lines(write_record(book))]
    for line in whole:
        line.pop("link")
        if line.get("name") == "stays":
            line["epsilon"] = 0.1
    link, text = "", ""
    for line in whole:
        link = _record._link(link, line)
        text += json.dumps(line | {"link": link}) + "\n"
    over = {each.dataset: each.overdrawn for each in read_record(text.encode()).accounts}
    assert over["stays"]
    assert not over["visits"]
