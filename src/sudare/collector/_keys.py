"""The collector's secrets: ticket keys, the key that wraps them, and the operator's token.

A ticket key is 32 random bytes and serves a range of serials, so that it can be replaced: tickets
issued before keep theirs. The store holds ticket keys as they are, or, when the operator gives a
key of their own (from the environment), wrapped by AES-256-GCM under that: then a copy of the store
forges nothing. Of the operator's token the store holds a hash only.

A report's ticket is checked here too: by its mark, under the key of its range.
"""

import hashlib
import hmac
import secrets

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from sudare.collector.stores import Store
from sudare.counting import KEY_BYTES, Survey, Ticket, TicketOffice, open_office
from sudare.foundations import checks

_NONCE_BYTES = 12
_SALT_BYTES = 16
_SLOW = b"scrypt-14-8-1:"
_PURPOSE = b"sudare collector: ticket key"


def new_key() -> bytes:
    """A ticket key."""
    return secrets.token_bytes(KEY_BYTES)


def wrap(ticket_key: bytes, key: bytes | None) -> bytes:
    """A ticket key as the store keeps it."""
    if key is None:
        return ticket_key
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _cipher(key).encrypt(nonce, ticket_key, _PURPOSE)


def unwrap(kept: bytes, key: bytes | None) -> bytes:
    """The ticket key; refused unless `key` is the one it was wrapped with."""
    bare = len(kept) == KEY_BYTES
    if key is None:
        if bare:
            return kept
        raise checks.InvalidInput(
            "The store's ticket keys are wrapped: give the collector's key with which it was made"
        )
    cipher = _cipher(key)
    if bare:
        raise checks.InvalidInput(
            "The store was made without a collector's key: start it without one"
        )
    try:
        return cipher.decrypt(kept[:_NONCE_BYTES], kept[_NONCE_BYTES:], _PURPOSE)
    except InvalidTag:
        raise checks.InvalidInput(
            "The collector's key is not the one with which the store was made"
        ) from None


def new_token() -> str:
    """An operator's token, of 256 random bits."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    """What is kept of a token: a slow hash, as an operator may have chosen one that is short."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return _SLOW + salt + _slowly(token, salt)


def same_token(token: str, kept: bytes) -> bool:
    """Whether a token is the one whose hash is kept; takes equally long for all."""
    if not kept.startswith(_SLOW):  # of an earlier version
        return hmac.compare_digest(hashlib.sha256(_bytes(token)).digest(), kept)
    salt = kept[len(_SLOW) : len(_SLOW) + _SALT_BYTES]
    return hmac.compare_digest(_slowly(token, salt), kept[len(_SLOW) + _SALT_BYTES :])


def is_slow(kept: bytes) -> bool:
    """Whether a token's hash is of the kind made today."""
    return kept.startswith(_SLOW)


def quick_hash(token: str, key: bytes) -> bytes:
    """To know a token again within one process, under a key that is never written down."""
    return hashlib.blake2b(_bytes(token), key=key, digest_size=32).digest()


def _slowly(token: str, salt: bytes) -> bytes:
    """About 50 ms and 16 MB."""
    return hashlib.scrypt(_bytes(token), salt=salt, n=1 << 14, r=8, p=1, dklen=32)


def _bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


def _cipher(key: bytes) -> AESGCM:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise checks.InvalidInput(f"Expected the collector's key to be {KEY_BYTES} secret bytes")
    return AESGCM(key)


Whole = NDArray[np.int64]


class TicketKeys:
    """The keys of a survey's tickets in use, one for each range of serials."""

    def __init__(self, survey: Survey, store: Store, key: bytes | None) -> None:
        self._survey, self._store, self._key = survey, store, key
        self._firsts = np.zeros(0, np.uint64)
        self._secrets: list[bytes] = []
        self._offices: list[TicketOffice] = []
        self._read()
        if self._secrets and not self._secrets[-1]:
            self.rotate()  # restored from a copy without keys

    def issue(self, count: int) -> list[Ticket]:
        """Tickets that nobody has; their numbers are durable."""
        number, secret = self._store.issue(count)
        if secret not in self._secrets:
            self._read()
        office = self._offices[self._secrets.index(secret)]
        return office.issue_many(np.arange(number, number + count))

    def derived(self, purpose: bytes) -> bytes:
        """A key for something else, the same for all who know the first ticket key."""
        found = next((each for each in self._secrets if each), None)
        first = new_key() if found is None else unwrap(found, self._key)
        return hmac.digest(first, purpose, "sha256")

    def rotate(self) -> None:
        """Make tickets with a new key from the next block on."""
        self._store.add_range(wrap(new_key(), self._key), self._survey.rounds)
        self._read()

    def check(
        self, serials: NDArray[np.uint64], reports: NDArray[np.void]
    ) -> tuple[Whole, NDArray[np.bool_]]:
        """Each report's cell, −1 for none, and whether its mark is right."""
        cells, good = self._check(serials, reports)
        if self._store.shared and not good.all() and self._read():
            cells, good = self._check(serials, reports)
        return cells, good

    def _check(
        self, serials: NDArray[np.uint64], reports: NDArray[np.void]
    ) -> tuple[Whole, NDArray[np.bool_]]:
        if len(self._offices) == 1:
            return _checked(self._offices[0], serials, reports)
        which = np.searchsorted(self._firsts, serials, side="right") - 1
        cells, good = np.full(serials.size, -1), np.zeros(serials.size, np.bool_)
        for number in np.unique(which).tolist():
            mine = which == number
            cells[mine], good[mine] = _checked(self._offices[number], serials[mine], reports[mine])
        return cells, good

    def _read(self) -> bool:
        """Whether another collector has brought in a key that was not known here."""
        ranges = self._store.ranges()
        if [each.secret for each in ranges] == self._secrets:
            return False
        self._secrets = [each.secret for each in ranges]
        self._firsts = np.array([each.first for each in ranges], np.uint64)
        # Where a copy left the key out, a new one, by which no ticket is good.
        self._offices = [
            open_office(self._survey, unwrap(secret, self._key) if secret else new_key())
            for secret in self._secrets
        ]
        return True


def _checked(
    office: TicketOffice, serials: NDArray[np.uint64], reports: NDArray[np.void]
) -> tuple[Whole, NDArray[np.bool_]]:
    good = office.authentic(serials, reports["mark"].tobytes(), reports["slot"])
    # Numbers that strangers made up may be too large to have a cell.
    mine = serials if good.all() else np.where(good, serials, 0)
    return office.cells(mine, reports["slot"]), good
