"""A ledger as one file that verifies without it: for an auditor, or a trusted research environment.

Lines of JSON, each tied to the one before by a hash, the last one signed. It holds caps, events,
purposes, receipts and digests of what was released: no row, no released number, no key. Who has the
file can add up the prices again; who trusts the signer knows that nothing was left out or changed.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sudare import __version__
from sudare.exchange import Keyring, ReleaseInvalid, SigningKey, open_signed, sign
from sudare.foundations import checks, privacy
from sudare.ledger import APPROVED, Account, Entry, Ledger
from sudare.storage.files import read_text

FORMAT = "sudare-record/1"
_LOGGED = ("moment", "asked", "study", "answered", "reason")
"""Of a federation's log. Not its detail, which may be about single rows."""
_LARGEST = 256 << 20


@dataclass(frozen=True)
class Record:
    """What a record says, once it was checked."""

    moment: str
    accounts: tuple[Account, ...]
    receipts: frozenset[str]
    """Of every entry; a release states its own on the certificate."""
    digests: frozenset[str]
    """SHA-256 of every file that was released."""
    answered: int
    """Questions of a federation."""
    link: str
    """Of the last line: two people with the same one have the same record."""
    signer: str | None
    """Who of the keyring signed it, if anyone did."""


def write_record(ledger: Ledger, key: SigningKey | None = None, log: Path | None = None) -> bytes:
    """The record of a ledger and of a federation's log, if there is one."""
    lines: list[dict[str, Any]] = [
        {"kind": FORMAT, "moment": _now(), "software": f"sudare {__version__}"}
    ]
    for name in ledger.datasets():
        account = ledger.account(name)
        lines.append(
            {
                "kind": "data set",
                "name": name,
                "epsilon": account.epsilon,
                "delta": account.delta,
                "opened": account.opened,
            }
        )
    lines += [
        {"kind": "key", "moment": each.moment, "after": each.entries, "reason": each.reason.value}
        for each in ledger.anchors()
    ]
    lines += [
        {"kind": "policy", "moment": each.moment, "approvals": each.approvals}
        | {"approvers": each.approvers}
        for each in ledger.policies()[1:]
    ]
    for entry in ledger.record():
        receipt = entry.receipt
        lines.append(
            {
                "kind": "entry",
                "number": receipt.number,
                "dataset": receipt.dataset,
                "event": json.loads(privacy.encode([receipt.event]))[0],
                "purpose": entry.purpose,
                "request": receipt.request,
                "moment": receipt.moment,
                "receipt": receipt.chain,
                "kept": entry.kept,
            }
        )
    if log is not None:
        lines += _logged(log)
    lines.append({"kind": "end", "lines": len(lines)})
    text, link = "", ""
    for line in lines:
        link = _link(link, line)
        text += _encoded(line | {"link": link}) + "\n"
    if key is not None:
        signature = sign(link.encode(), FORMAT, key).decode()
        text += _encoded({"kind": "signature", "signature": signature}) + "\n"
    return text.encode()


def read_record(data: bytes, trusted: Keyring | None = None) -> Record:
    """The record in these bytes, if every link holds.

    With a keyring, it must be signed by somebody in it. Its accounts work out the prices again.
    """
    try:
        if len(data) > _LARGEST:
            raise ValueError
        lines = [json.loads(line) for line in data.decode().splitlines()]
        if not lines or not all(isinstance(line, dict) for line in lines):
            raise ValueError
    except (ValueError, RecursionError):
        raise checks.InvalidInput("This is not the record of a ledger") from None
    if lines[0].get("kind") != FORMAT:
        raise checks.InvalidInput("This is not the record of a ledger, or of a later version")
    signature = lines.pop() if lines[-1].get("kind") == "signature" else None
    link = ""
    for number, line in enumerate(lines, 1):
        stated = line.pop("link", None)
        link = _link(link, line)
        if stated != link:
            raise checks.InvalidInput(f"Line {number} was changed, or one before it is missing")
    if lines[-1] != {"kind": "end", "lines": len(lines) - 1}:
        raise checks.InvalidInput("The end of the record is missing")
    signer = None
    if trusted is not None:
        signer = _signer(signature, link, trusted)
    try:
        return _understood(lines, link, signer)
    except checks.InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise checks.InvalidInput("A line of the record cannot be understood") from None


def _signer(signature: dict[str, Any] | None, link: str, trusted: Keyring) -> str:
    if signature is None:
        raise checks.InvalidInput("The record is not signed: whoever had it may have written it")
    try:
        opened = open_signed(str(signature.get("signature")).encode(), FORMAT, trusted)
    except ReleaseInvalid as problem:
        raise checks.InvalidInput(f"The record's signature: {problem}") from None
    if opened.payload != link.encode():
        raise checks.InvalidInput("The signature is that of another record")
    return opened.name


def _understood(lines: list[dict[str, Any]], link: str, signer: str | None) -> Record:
    caps = {line["name"]: line for line in lines if line["kind"] == "data set"}
    entries: dict[str, list[Entry]] = {name: [] for name in caps}
    receipts, digests = set(), set()
    for count, line in enumerate((each for each in lines if each["kind"] == "entry"), 1):
        if line["number"] != count or line["dataset"] not in caps:
            raise checks.InvalidInput(f"Entry {count} is missing, or belongs to no data set")
        (event,) = privacy.decode(json.dumps([line["event"]]).encode())
        kept = dict(line["kept"])
        released = any(not part.startswith(APPROVED) for part in kept)
        entries[line["dataset"]].append(
            Entry(count, event, str(line["purpose"]), str(line["moment"]), released)
        )
        receipts.add(str(line["receipt"]))
        digests |= {str(digest) for digest in kept.values()}
    accounts = []
    for name, cap in caps.items():
        epsilon, delta = float(cap["epsilon"]), float(cap["delta"])
        if not (0 < epsilon < math.inf and 0 <= delta < 1):
            raise ValueError
        account = Account(name, epsilon, delta, str(cap["opened"]), tuple(entries[name]))
        accounts.append(account)
    answered = sum(line["kind"] == "answer" for line in lines)
    moment = str(lines[0]["moment"])
    return Record(
        moment, tuple(accounts), frozenset(receipts), frozenset(digests), answered, link, signer
    )


def _logged(log: Path) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(read_text(log).splitlines(), 1):
        try:
            said = json.loads(line)
            told = {name: said[name] for name in _LOGGED}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise checks.InvalidInput(
                f"{log}, line {number}: this is not the log of a federation's node"
            ) from None
        if not all(each is None or isinstance(each, str) for each in told.values()):
            raise checks.InvalidInput(f"{log}, line {number}: expected texts")
        yield {"kind": "answer"} | told


def _link(before: str, line: dict[str, Any]) -> str:
    return hashlib.sha256(f"{before}\n{_encoded(line)}".encode()).hexdigest()


def _encoded(line: dict[str, Any]) -> str:
    return json.dumps(line, sort_keys=True, separators=(",", ":"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
