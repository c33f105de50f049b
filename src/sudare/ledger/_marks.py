"""Marks: by what rows a data set is recognised when its file was written anew.

A file that is saved again with other line ends, quotes, an order of its own or more columns has
other bytes and the same people. So beside the fingerprint of the bytes a ledger keeps, for each
*reading* of a data set (the columns and bounds of a study), what the rows come to:

    digest   of all encoded rows, in whatever order: the same rows have the same one
    sketch   the 512 smallest digests among the rows that occur once: two tables that share most of
             their rows share most of these

Both are keyed, and the secret is in the ledger's key file, not in the database: without it a mark
is random numbers, of a length that does not depend on the rows. A sketch is encrypted, too: how
small its digests are tells how many rows occur once, and two of them what they have in common. With
the secret, somebody who guesses a
whole row of a sketch can see that it was there; it is to be kept like the rows.

When are two tables nearly the same people? If rows of both were drawn independently from one law, a
row that occurs once in one table occurs once in the other with a probability of at most 1/e: it is
P(N = 1) of a Poisson number N, whatever its mean. More matches than that explains, with a chance of
10⁻⁶, are the same people's rows. Small tables, and tables of few different rows, show too little.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from sudare.ledger._databases import Transaction
from sudare.ledger._keys import LedgerKey

_SIZE, _DIGITS = 512, 8
_CHANCE = math.exp(-1)
_FALSE_ALARM = 1e-6
_PREFIX = "mark-"


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of one reading of a data set, or of another file with the same contents."""

    dataset: str
    version: str
    """Fingerprint of the bytes that these contents were opened as."""
    content: str = ""
    """Fingerprint of other bytes that hold them, too."""
    reading: str = ""
    digest: str = ""
    sketch: str = ""
    count: str = ""
    """How many of the sketch are rows, encrypted like it; zeros fill it up."""


class Prints:
    """The rows of one table under one reading, as keyed digests."""

    def __init__(self, key: LedgerKey, reading: str, rows: Iterable[bytes]) -> None:
        secret = hashlib.sha256(key.marking + reading.encode()).digest()
        found = sorted(hashlib.blake2b(row, digest_size=16, key=secret).digest() for row in rows)
        whole = hashlib.blake2b(digest_size=32, key=secret)
        for each in found:
            whole.update(each)
        self.reading, self.digest, self._secret = reading, whole.hexdigest(), secret
        self.once = {each[:_DIGITS] for each, many in Counter(found).items() if many == 1}

    def mark(self, dataset: str, version: str) -> Mark:
        """What the ledger keeps of it."""
        smallest = sorted(self.once)[:_SIZE]
        sketch = b"".join(smallest).ljust(_SIZE * _DIGITS, b"\0")
        hidden = self._encrypted(len(smallest).to_bytes(2, "big") + sketch, version, self.digest)
        return Mark(
            dataset=dataset,
            version=version,
            reading=self.reading,
            digest=self.digest,
            sketch=hidden[2:].hex(),
            count=hidden[:2].hex(),
        )

    def share(self, mark: Mark) -> float | None:
        """The share of rows in common with a marked table, if that is no coincidence."""
        hidden = bytes.fromhex(mark.count + mark.sketch)
        shown = self._encrypted(hidden, mark.version, mark.digest)
        count, sketch = int.from_bytes(shown[:2], "big"), shown[2:]
        theirs = [sketch[i * _DIGITS : (i + 1) * _DIGITS] for i in range(count)]
        # Either may be the smaller part of the other. Above its largest, a full sketch is silent.
        top = max(theirs, default=b"") if count == _SIZE else b"\xff" * _DIGITS
        ours = [each for each in sorted(self.once)[:_SIZE] if each <= top]
        shares = [_common(theirs, self.once), _common(ours, set(theirs))]
        return max((share for share in shares if share is not None), default=None)

    def _encrypted(self, data: bytes, *about: str) -> bytes:
        """These bytes under a key stream of their own; encrypted twice they are as before."""
        stream = hashlib.shake_256(self._secret + "\n".join(about).encode()).digest(len(data))
        mixed = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
        return mixed.to_bytes(len(data), "big")


def read(step: Transaction) -> list[Mark]:
    """All marks, oldest first."""
    lines = step.rows("SELECT name, value FROM ledger_meta WHERE name LIKE ?", f"{_PREFIX}%")
    lines.sort(key=lambda line: int(line[0].removeprefix(_PREFIX)))
    return [msgspec.json.decode(value, type=Mark) for _, value in lines]


def add(step: Transaction, mark: Mark) -> None:
    """Keep a mark, once."""
    known = read(step)
    if mark not in known:
        line = msgspec.json.encode(mark).decode()
        step.run("INSERT INTO ledger_meta VALUES (?, ?)", f"{_PREFIX}{len(known)}", line)


def _common(sample: Sequence[bytes], others: set[bytes]) -> float | None:
    """The share of a sample of rows that the others have, or None where chance explains it."""
    many, found = len(sample), sum(each in others for each in sample)
    tail = sum(
        math.comb(many, k) * _CHANCE**k * (1 - _CHANCE) ** (many - k)
        for k in range(found, many + 1)
    )
    return found / many if many and tail <= _FALSE_ALARM / 2 else None
