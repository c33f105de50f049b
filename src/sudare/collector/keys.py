"""The collector's secrets: ticket keys, the key that wraps them, and the operator's token.

A ticket key is 32 random bytes and serves a range of serials, so that it can be replaced: tickets
issued before keep theirs. The store holds ticket keys as they are, or, when the operator gives a
key of their own (from the environment), wrapped by AES-256-GCM under that: then a copy of the store
forges nothing. Of the operator's token the store holds a hash only.
"""

import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sudare import checks
from sudare.counting.tickets import KEY_BYTES

_NONCE_BYTES = 12
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
    """What is kept of a token. Tokens are random and long: there is nothing to guess quickly."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def same_token(token: str, kept: bytes) -> bool:
    """Whether a token is the one whose hash is kept; takes equally long for all."""
    return hmac.compare_digest(token_hash(token), kept)


def _cipher(key: bytes) -> AESGCM:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise checks.InvalidInput(f"Expected the collector's key to be {KEY_BYTES} secret bytes")
    return AESGCM(key)
