"""What an organisation signs: that it joins, and its masked vector for each session.

Both are JWS (RFC 7515, EdDSA) by the keys that sign releases, over MessagePack. A join is free and
says nothing of the rows but their number. An answer looks uniform on its own, and is charged to the
ledger all the same: once all honest organisations have answered, any one that has not can take the
others' sum for itself.
"""

import math
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sudare.exchange import Keyring, ReleaseInvalid, SigningKey, open_signed, sign
from sudare.foundations import checks
from sudare.pooling._masks import Words, is_proper
from sudare.pooling._sessions import PoolTerms, Session

JOIN, ANSWER = "sudare-pool-join/1", "sudare-pool-answer/1"
LARGEST_MESSAGE = 64 << 20
"""Bytes: room for the sums of two thousand features."""


class PoolInvalid(checks.SudareError):
    """A join, an answer or a pooled release that must not be used; the message says why."""


class Join(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """I take part, with this key and so many rows."""

    plan: str
    public: bytes
    """X25519 key for this attempt."""
    rows: int
    moment: str


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """My sums for a session, with my share of the noise, masked."""

    plan: str
    roster: str
    session: int
    vector: bytes
    """Little-endian 64-bit words."""
    theta: tuple[float, ...] = ()
    """Where a Newton or gradient session was evaluated."""
    moment: str

    @property
    def words(self) -> Words:
        return np.frombuffer(self.vector, dtype="<u8").astype(np.uint64)


class SignedJoin(NamedTuple):
    """A join whose signature was checked."""

    key: str
    data: bytes
    said: Join


class SignedAnswer(NamedTuple):
    """An answer whose signature was checked."""

    key: str
    data: bytes
    said: Answer


def sign_join(join: Join, key: SigningKey) -> bytes:
    return sign(msgspec.msgpack.encode(join), JOIN, key)


def sign_answer(answer: Answer, key: SigningKey) -> bytes:
    return sign(msgspec.msgpack.encode(answer), ANSWER, key)


def open_join(data: bytes, terms: PoolTerms, keyring: Keyring) -> SignedJoin:
    """The join in these bytes, if a member signed it for this plan; raises only `PoolInvalid`."""
    key, name, said = _open(data, JOIN, Join, terms, keyring)
    if not 0 < said.rows <= terms.plan.most_rows:
        raise PoolInvalid(f"{name} states {said.rows} rows; the plan allows {terms.plan.most_rows}")
    if not is_proper(said.public):
        raise PoolInvalid(
            f"The join of {name} holds no proper X25519 key: what it masks could be read by anyone"
        )
    return SignedJoin(key, data, said)


def open_answer(data: bytes, terms: PoolTerms, keyring: Keyring) -> SignedAnswer:
    """The answer in these bytes, if a member signed it for this plan; raises only `PoolInvalid`."""
    key, name, said = _open(data, ANSWER, Answer, terms, keyring)
    if not 0 <= said.session < len(terms.sessions):
        raise PoolInvalid(f"{name} answers session {said.session}, which the plan does not have")
    session = terms.sessions[said.session]
    if len(said.vector) != 8 * session.entries:
        raise PoolInvalid(f"The answer of {name} does not hold {session.entries} numbers")
    if not _is_digest(said.roster):
        raise PoolInvalid(f"The answer of {name} names no roster")
    if not _is_theta(said.theta, session):
        raise PoolInvalid(f"The answer of {name} was evaluated where the plan does not allow it")
    return SignedAnswer(key, data, said)


def moment_of(text: str) -> datetime:
    """When something was signed, by its signer's clock."""
    return datetime.fromisoformat(text)


def _open(
    data: bytes, kind: str, struct: Any, terms: PoolTerms, keyring: Keyring
) -> tuple[str, str, Any]:
    try:
        opened = open_signed(data, kind, keyring, LARGEST_MESSAGE)
    except ReleaseInvalid as problem:
        raise PoolInvalid(str(problem)) from None
    member = terms.plan.member(opened.fingerprint)
    if member is None:
        raise PoolInvalid(f"Signed by {opened.name!r}, who is not in the plan")
    try:
        said = msgspec.msgpack.decode(opened.payload, type=struct)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise PoolInvalid(f"What {member.name} signed cannot be read") from None
    if not _is_moment(said.moment):
        raise PoolInvalid(f"What {member.name} signed has no proper time")
    if said.plan != terms.digest:
        raise PoolInvalid(
            f"What {member.name} signed belongs to another plan: another study, attempt or price"
        )
    return member.key, member.name, said


def _is_moment(text: str) -> bool:
    """In the one form that `_party` writes: it can be printed, and compared as it stands."""
    try:
        return moment_of(text).astimezone(UTC).isoformat(timespec="seconds") == text
    except (ValueError, OverflowError):
        return False


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _is_theta(theta: tuple[float, ...], session: Session) -> bool:
    if session.kind == "moments":
        return not theta
    # NaN and infinity are longer than anything, too.
    return len(theta) == session.dimension and math.hypot(*theta) <= session.longest_theta
