"""Masks: why a single organisation's vector shows nothing until all are added up.

Each pair of organisations agrees on a secret by X25519, from keys made for this attempt alone, and
expands it into one stream of 64-bit numbers a session. Of the two, the one with the smaller signing
key adds the stream and the other subtracts it, modulo 2⁶⁴: in the sum of all vectors every stream
cancels, and in any smaller sum at least one is left, which looks uniform to whoever does not hold a
key of the pair.

What a stream is derived from (study, plan, roster, session, the two organisations, its length) is
part of the key derivation, so that no two uses ever share one.
"""

import hashlib
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from sudare.pooling._plan import FORMAT, PoolPlan

Words = NDArray[np.uint64]


class Seat(NamedTuple):
    """One organisation in the roster: its signing key, its key for this attempt, its rows."""

    key: str
    public: bytes
    rows: int


class Roster(NamedTuple):
    """Who joined, with which keys: what all must have seen alike for masks to cancel."""

    plan: str
    """Digest of the plan."""
    seats: tuple[Seat, ...]
    """In the order of their signing keys."""

    @property
    def digest(self) -> str:
        """Identifies the roster; different for everybody who was shown another one."""
        seats = [[seat.key, seat.public.hex(), seat.rows] for seat in self.seats]
        return hashlib.sha256(_canonical([FORMAT, "roster", self.plan, seats])).hexdigest()

    @property
    def rows(self) -> int:
        """Of all organisations together."""
        return sum(seat.rows for seat in self.seats)


def new_secret() -> X25519PrivateKey:
    """A key for one attempt, from the system's randomness."""
    return X25519PrivateKey.generate()


def mask(
    secret: X25519PrivateKey, plan: PoolPlan, roster: Roster, own: str, session: int, entries: int
) -> Words:
    """What this organisation adds to its vector: all its streams, each with its sign."""
    total, digest = np.zeros(entries, dtype=np.uint64), roster.digest
    for seat in roster.seats:
        if seat.key == own:
            continue
        low, high = sorted((own, seat.key))
        about = [roster.plan, digest, session, low, high, entries]
        stream = _stream(_agree(secret, seat.public), plan.study, _canonical(about), entries)
        total = total + stream if own == low else total - stream
    return total


def masked(steps: Sequence[int], mask: Words) -> Words:
    """A vector as it is published: whole numbers and their mask, modulo 2⁶⁴."""
    words = np.array([step % 2**64 for step in steps], dtype=np.uint64)
    return words + mask


def add_up(vectors: Sequence[Words]) -> NDArray[np.int64]:
    """The sum of all vectors, modulo 2⁶⁴, as numbers from −2⁶³ on."""
    return reduce(np.add, vectors).view(np.int64)


def is_proper(public: bytes) -> bool:
    """Whether these bytes are an X25519 key that makes secrets: 32 bytes, and not of low order.

    With one of the few points of low order every secret key gives the same number, zero, which the
    library refuses; so it is enough to try one secret key.
    """
    try:
        _agree(X25519PrivateKey.from_private_bytes(bytes(32)), public)
    except ValueError:
        return False
    return True


def _agree(secret: X25519PrivateKey, public: bytes) -> bytes:
    """What two organisations share. Every key of a roster `is_proper`: see `open_join`."""
    return secret.exchange(X25519PublicKey.from_public_bytes(public))


def _stream(shared: bytes, study: str, about: bytes, entries: int) -> Words:
    info = f"{FORMAT} mask".encode() + b"\0" + about
    key = HKDF(SHA256(), 32, salt=bytes.fromhex(study), info=info).derive(shared)
    stream = Cipher(AES256(key), CTR(bytes(16))).encryptor().update(bytes(8 * entries))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")
