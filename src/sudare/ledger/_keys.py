"""The key of a ledger: in a file of its own, with a mark of how far the ledger had come.

Entries are chained under the key, so whoever can write to the database and does not have the key
cannot make an entry, a cap or a release that passes. The mark is moved on after every write, and
never back: a database that was put back to an earlier state as a whole is behind it.

The file is beside an SQLite ledger (`ledger.db`, `ledger.db.key`); for PostgreSQL it is in the
user's configuration folder. `SUDARE_LEDGER_KEY` names another place, for both. One file is for one
ledger.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from sudare.ledger._databases import Database, LedgerError
from sudare.storage.files import replace_file

ENVIRONMENT = "SUDARE_LEDGER_KEY"


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far a ledger had come."""

    anchors: int = 0
    datasets: int = 0
    entries: int = 0
    releases: int = 0
    chain: str = ""
    """Of the last entry."""
    policies: int = 0
    """Not written while there are none: key files stay what they are for earlier versions."""

    def covers(self, other: "Mark") -> bool:
        """Whether nothing is missing here that was there; chains are compared elsewhere."""
        return (
            self.anchors >= other.anchors
            and self.datasets >= other.datasets
            and self.entries >= other.entries
            and self.releases >= other.releases
            and self.policies >= other.policies
        )


class LedgerKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a key file holds."""

    kind: Literal["sudare-ledger-key/1"]
    secret: str
    mark: Mark
    recognition: str = ""
    """The secret that rows are recognised by, if it is that of an earlier key."""

    @property
    def marking(self) -> bytes:
        """The secret that rows are recognised by; it stays when the ledger is given a new key."""
        return bytes.fromhex(self.recognition or self.tag("recognition"))

    @property
    def identity(self) -> str:
        """Tells keys apart and says nothing about them."""
        return self.tag("identity")[:16]

    def tag(self, *fields: Any) -> str:
        """HMAC-SHA256 of texts, each with its length."""
        digest = hmac.new(bytes.fromhex(self.secret), digestmod=hashlib.sha256)
        feed(digest, fields)
        return digest.hexdigest()

    def moved_to(self, mark: Mark) -> "LedgerKey":
        return msgspec.structs.replace(self, mark=mark)


def new_key() -> LedgerKey:
    return LedgerKey("sudare-ledger-key/1", secrets.token_hex(32), Mark())


def succeeding(path: Path) -> LedgerKey:
    """A new key for a ledger that may have had one; by the old one's secret rows are recognised."""
    try:
        before = read_key(path)
    except LedgerError:  # damaged: rows are known by the bytes of their files only
        before = None
    marking = "" if before is None else before.marking.hex()
    return msgspec.structs.replace(new_key(), recognition=marking)


def feed(digest: Any, fields: Iterable[Any]) -> None:
    """Texts, each with its length, into a hash."""
    for field in fields:
        # A damaged file can hold anything; what is not text has never been written here.
        part = field.encode() if isinstance(field, str) else b"\xff"
        digest.update(len(part).to_bytes(8, "little") + part)


def location(database: Database) -> Path:
    """Where the key file of this ledger is."""
    given = os.environ.get(ENVIRONMENT)
    return Path(given).absolute() if given else database.key_path


def read_key(path: Path) -> LedgerKey | None:
    """The key in a file, or None where there is no file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=LedgerKey)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise LedgerError(
            f"Cannot read the ledger's key {path}: {problem.strerror}; nothing was spent"
        ) from None
    except msgspec.MsgspecError:
        raise LedgerError(
            f"{path} is not the key of a ledger, or it is damaged: restore it from a backup. "
            "Nothing was spent"
        ) from None


def require_key(path: Path) -> LedgerKey:
    """The key in a file that must be there."""
    if (key := read_key(path)) is None:
        raise LedgerError(
            f"The ledger's key {path} is not there: restore it from a backup, or copy it from "
            "whoever else uses this ledger; if it is lost, sudare ledger rekey makes a new one, "
            "and puts that on record. Nothing was spent"
        )
    return key


def write_key(path: Path, key: LedgerKey) -> None:
    """Write it whole, for its owner only; on disk when this returns."""
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True)
        replace_file(path, msgspec.json.encode(key) + b"\n", 0o600)
    except OSError as problem:
        raise LedgerError(
            f"Cannot write the ledger's key {path}: {problem.strerror}; nothing was spent"
        ) from None


def check_writable(path: Path) -> None:
    """Refuse beforehand where the mark could not be moved on afterwards."""
    if not os.access(path.parent, os.W_OK):
        raise LedgerError(
            f"The folder of the ledger's key {path} is read-only: give yourself the right to write "
            "it; nothing was spent"
        )
