"""What ties a ledger together: every cap, entry and release under a key that is kept elsewhere.

An entry's link is an HMAC-SHA256 of the link before it and of its own fields, so entries can be
neither edited, removed, inserted nor reordered without the key. Caps and releases carry tags of
their own, and the key file's mark says how many of each there were.

An *anchor* is where the key begins to vouch: when the ledger was made, when one of version 1 (whose
chain had no key) was opened first, or when it was given a new key. It is a line of `ledger_meta`
that fixes everything that was there at that moment, and that can never be removed unnoticed.
"""

import hashlib
import hmac
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from sudare.ledger._databases import LedgerError, Transaction
from sudare.ledger._keys import LedgerKey, Mark, feed

CHANGED = "{} the ledger was changed behind sudare's back: restore a backup. Nothing was spent"
_ENTRIES = (
    "SELECT number, dataset, event, purpose, request, moment, chain "
    "FROM ledger_events ORDER BY number"
)
_DATASETS = "SELECT name, fingerprint, epsilon, delta, opened, seal FROM ledger_datasets"
_RELEASES = (
    "SELECT request, seal FROM ledger_releases "
    "UNION ALL SELECT request || '#' || part, seal FROM ledger_parts"
)


class Reason(Enum):
    """Why a key began to vouch for a ledger."""

    MADE = "made"
    UPGRADED = "upgraded"
    """Until then the chain had no key."""
    REKEYED = "rekeyed"
    """Everything was in order under the key before."""
    REKEYED_UNCHECKED = "rekeyed-unchecked"
    """The key before was lost, or did not fit, or the ledger was behind its mark."""


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that was there when a key began to vouch for it."""

    reason: Reason
    moment: str
    key: str
    """Which key: `LedgerKey.identity`."""
    entries: int
    chain: str
    """Of the last entry."""
    content: str
    """Digest of all entries."""
    datasets: dict[str, str]
    """Digest of each data set's line."""
    releases: dict[str, str]
    """Seal of each release."""


def link(key: LedgerKey, chain: str, number: int, *fields: str) -> str:
    """What ties an entry to all before it."""
    return key.tag("entry", chain, str(number), *fields)


def dataset_seal(key: LedgerKey, fingerprint_key: str, *row: str) -> str:
    return key.tag("data set", fingerprint_key, *row)


def release_seal(key: LedgerKey, request: str, payload: bytes) -> str:
    """A digest of the release, and a tag that ties it to its request."""
    digest = hashlib.sha256(payload).hexdigest()
    return f"{digest}:{key.tag('release', request, digest)}"


def is_sealed(payload: bytes, seal: str) -> bool:
    """Whether a release is the one of this seal, which itself was checked by `verify`."""
    return hashlib.sha256(payload).hexdigest() == seal.partition(":")[0]


def meta(step: Transaction) -> dict[str, str]:
    """What the ledger says about itself; what is not text was never written here."""
    lines = step.rows("SELECT name, value FROM ledger_meta")
    found = {name: value for name, value in lines if isinstance(value, str)}
    if not found.keys() >= {"version", "fingerprint-key"}:
        raise LedgerError("The ledger is damaged: restore it from a backup. Nothing was spent")
    return found


def anchors(lines: dict[str, str]) -> list[Anchor]:
    """All anchors, oldest first."""
    try:
        return [
            msgspec.json.decode(text.partition(" ")[2], type=Anchor) for text in _anchored(lines)
        ]
    except msgspec.MsgspecError:
        raise LedgerError(CHANGED.format("An anchor of")) from None


def add_anchor(step: Transaction, key: LedgerKey, reason: Reason) -> None:
    """Let the key vouch for all that is there now."""
    lines, rows = meta(step), step.rows(_ENTRIES)
    anchor = Anchor(
        reason=reason,
        moment=now(),
        key=key.identity,
        entries=len(rows),
        chain=rows[-1][-1] if rows else "",
        content=_digest(*(field for row in rows for field in row[1:])),
        datasets={row[0]: _digest(*row) for row in step.rows(_DATASETS)},
        releases=dict(step.rows(_RELEASES)),
    )
    text, before = msgspec.json.encode(anchor).decode(), _anchored(lines)
    sealed = _anchor_tag(key, lines, before, text)
    step.run("INSERT INTO ledger_meta VALUES (?, ?)", f"anchor-{len(before)}", f"{sealed} {text}")


def verify(step: Transaction, key: LedgerKey, path: Path) -> Mark:
    """Check everything that the key vouches for, and that nothing seen before is missing."""
    lines = meta(step)
    last = _last_anchor(lines, key, path)
    names = _verify_datasets(step, key, last, lines["fingerprint-key"])
    at_mark, entries, chain = _verify_entries(step, key, last, names)
    found = Mark(
        anchors=len(_anchored(lines)),
        datasets=len(names),
        entries=entries,
        releases=_verify_releases(step, key, last),
        chain=chain,
        policies=_policies(lines),
    )
    if not found.covers(key.mark) or at_mark != key.mark.chain:
        raise LedgerError(
            f"The ledger was put back to an earlier state, or cut short, behind sudare's back: "
            f"{path} has seen {key.mark.entries} entries of {key.mark.datasets} data sets and "
            f"{key.mark.releases} releases, and of these, or of its policies, some are gone. Put "
            "back the latest copy of the ledger; if there is none, sudare ledger rekey accepts it "
            "as it stands, and puts that on record. Nothing was spent"
        )
    return found


def verify_unkeyed(step: Transaction) -> None:
    """Check a ledger of version 1, whose chain had no key."""
    fingerprint_key, names = meta(step)["fingerprint-key"], set()
    for *row, seal in step.rows(_DATASETS):
        if _unkeyed(fingerprint_key, 0, *row) != seal:
            raise LedgerError(CHANGED.format("The cap of a data set in"))
        names.add(row[0])
    chain = ""
    for count, (number, dataset, *fields, written) in enumerate(step.rows(_ENTRIES), 1):
        chain = _unkeyed(chain, number, dataset, *fields)
        if number != count or chain != written or dataset not in names:
            raise LedgerError(CHANGED.format(f"Entry {count} of"))
    _verify_owners(step)


def position(step: Transaction) -> Mark:
    """How far the ledger has come, unchecked."""
    last = step.rows("SELECT number, chain FROM ledger_events ORDER BY number DESC LIMIT 1")
    number, chain = last[0] if last else (0, "")
    return Mark(
        anchors=len(_anchored(meta(step))),
        datasets=_count(step, "ledger_datasets"),
        entries=number,
        releases=_count(step, "ledger_releases") + _count(step, "ledger_parts"),
        chain=chain,
        policies=_policies(meta(step)),
    )


def _policies(lines: dict[str, str]) -> int:
    return sum(name.startswith("policy-") for name in lines)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _last_anchor(lines: dict[str, str], key: LedgerKey, path: Path) -> Anchor:
    found, texts = anchors(lines), _anchored(lines)
    if not found:
        raise LedgerError(CHANGED.format("The beginning of"))
    if found[-1].key != key.identity:
        raise LedgerError(
            f"{path} is not the key of this ledger: it belongs to another one, or the ledger was "
            "given a new key since. Put the right file there, or name it in SUDARE_LEDGER_KEY; if "
            "it is lost, sudare ledger rekey makes a new one. Nothing was spent"
        )
    written, _, text = texts[-1].partition(" ")
    if not hmac.compare_digest(_anchor_tag(key, lines, texts[:-1], text), written):
        raise LedgerError(CHANGED.format("An anchor of"))
    return found[-1]


def _verify_datasets(
    step: Transaction, key: LedgerKey, last: Anchor, fingerprint_key: str
) -> set[str]:
    names = set()
    for *row, seal in step.rows(_DATASETS):
        name = row[0]
        if name in last.datasets:
            sound = _digest(*row, seal) == last.datasets[name]
        else:
            sound = dataset_seal(key, fingerprint_key, *row) == seal
        if not sound:
            raise LedgerError(CHANGED.format("The cap of a data set in"))
        names.add(name)
    if not names >= last.datasets.keys():
        raise LedgerError(CHANGED.format("A data set of"))
    return names


def _verify_entries(
    step: Transaction, key: LedgerKey, last: Anchor, names: set[str]
) -> tuple[str, int, str]:
    """The chain at the key's mark, the number of entries, and the chain at the end."""
    rows = step.rows(_ENTRIES)
    old = rows[: last.entries]
    if (
        len(old) != last.entries
        or _digest(*(field for row in old for field in row[1:])) != last.content
    ):
        raise LedgerError(CHANGED.format("An entry of"))
    chain, chains = "", [""]
    for count, (number, dataset, *fields, written) in enumerate(rows, 1):
        anchored = count <= last.entries
        chain = written if anchored else link(key, chain, number, dataset, *fields)
        if number != count or chain != written or dataset not in names:
            raise LedgerError(CHANGED.format(f"Entry {count} of"))
        chains.append(chain)
    at_mark = chains[key.mark.entries] if key.mark.entries < len(chains) else ""
    return at_mark, len(rows), chain


def _verify_releases(step: Transaction, key: LedgerKey, last: Anchor) -> int:
    _verify_owners(step)
    found = dict(step.rows(_RELEASES))
    for request, seal in found.items():
        if request in last.releases:
            sound = last.releases[request] == seal
        else:
            digest = str(seal).partition(":")[0]
            sound = seal == f"{digest}:{key.tag('release', request, digest)}"
        if not sound:
            raise LedgerError(CHANGED.format("A release in"))
    if not found.keys() >= last.releases.keys():
        raise LedgerError(CHANGED.format("A release of"))
    return len(found)


def _verify_owners(step: Transaction) -> None:
    if step.rows(
        "SELECT 1 FROM (SELECT request FROM ledger_releases UNION SELECT request FROM ledger_parts)"
        " AS kept WHERE request NOT IN (SELECT request FROM ledger_events)"
    ):
        raise LedgerError(CHANGED.format("The end of"))


def _anchored(lines: dict[str, str]) -> list[str]:
    """The texts of all anchors, oldest first; one that is missing ends the list."""
    found: list[str] = []
    while (name := f"anchor-{len(found)}") in lines:
        found.append(lines[name])
    return found


def _anchor_tag(key: LedgerKey, lines: dict[str, str], before: list[str], text: str) -> str:
    return key.tag("anchor", lines["fingerprint-key"], *before, text)


def _count(step: Transaction, table: str) -> int:
    return int(step.rows(f"SELECT count(*) FROM {table}")[0][0])


def _digest(*fields: Any) -> str:
    digest = hashlib.sha256()
    feed(digest, fields)
    return digest.hexdigest()


def _unkeyed(chain: str, number: int, *fields: Any) -> str:
    """A link as version 1 made it."""
    digest = hashlib.sha256(f"{chain}\n{number}".encode())
    feed(digest, fields)
    return digest.hexdigest()
