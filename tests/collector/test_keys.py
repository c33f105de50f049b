"""Secrets: what is kept forges nothing, and only the right key opens it."""

import pytest

from sudare.collector import _keys as keys
from sudare.foundations.checks import InvalidInput

MASTER = bytes(range(32))


def test_without_a_key_of_the_operators() -> None:
    own = keys.new_key()
    assert len(own) == 32
    assert own != keys.new_key()
    assert keys.unwrap(keys.wrap(own, None), None) == own


def test_wrapped() -> None:
    own = keys.new_key()
    kept = keys.wrap(own, MASTER)
    assert own not in kept
    assert kept != keys.wrap(own, MASTER)
    assert keys.unwrap(kept, MASTER) == own


@pytest.mark.parametrize("place", [0, 12, 30, -1])
def test_a_changed_bit_is_noticed(place: int) -> None:
    kept = bytearray(keys.wrap(keys.new_key(), MASTER))
    kept[place] ^= 1
    with pytest.raises(InvalidInput, match="not the one"):
        keys.unwrap(bytes(kept), MASTER)


def test_the_wrong_key_or_none() -> None:
    kept, bare = keys.wrap(keys.new_key(), MASTER), keys.new_key()
    with pytest.raises(InvalidInput, match="not the one with which"):
        keys.unwrap(kept, bytes(32))
    with pytest.raises(InvalidInput, match="are wrapped: give"):
        keys.unwrap(kept, None)
    with pytest.raises(InvalidInput, match="without a collector's key"):
        keys.unwrap(bare, MASTER)
    with pytest.raises(InvalidInput, match="32 secret bytes"):
        keys.wrap(bare, b"short")


def test_tokens() -> None:
    token = keys.new_token()
    kept = keys.token_hash(token)
    assert len(token) == 43
    assert token != keys.new_token()
    assert token.encode() not in kept
    assert keys.same_token(token, kept)
    for wrong in ("", token[:-1], token + "x", token.swapcase(), "\ud800", "é"):
        assert not keys.same_token(wrong, kept)
