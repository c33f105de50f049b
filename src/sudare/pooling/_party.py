"""One organisation's part: join with a key of its own, answer with masked sums.

Pure: no files, no ledger. The caller must have the ledger charged, durably, between `check_answer`
and `noisy_sums`, keep the bytes that `masked_answer` returns before anyone sees them, and hand out
those same bytes ever after. A second draw under the same masks would show the difference of the two
draws, and average their noise.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from sudare.exchange import SigningKey
from sudare.foundations import checks
from sudare.pooling._board import Board
from sudare.pooling._masks import mask, masked, new_secret
from sudare.pooling._messages import Answer, Join, PoolInvalid, sign_answer, sign_join
from sudare.pooling._sessions import PoolTerms
from sudare.pooling._sums import session_steps

Array = NDArray[np.float64]


class Secret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an organisation keeps to itself between joining and its last answer; never printed."""

    plan: str
    """Digest of the plan."""
    private: bytes
    """X25519 key; nothing once the last answer is made."""
    rows: int
    dataset: str
    """Fingerprint of the rows under the ledger's own key: other rows, or another ledger, differ."""
    join: bytes
    """The signed join that goes with it."""

    def __repr__(self) -> str:
        return f"Secret({self.plan[:12]})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """For tracebacks that show variables: msgspec's own would print the key."""
        return [("plan", self.plan[:12])]

    @property
    def public(self) -> bytes:
        """The X25519 key that belongs to the secret one; nothing once that is destroyed."""
        if not self.private:
            return b""
        return X25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self, order="sorted")


def read_secret(data: bytes) -> Secret:
    """A kept secret; raises `InvalidInput` for anything else."""
    try:
        secret = msgspec.json.decode(data, type=Secret)
        if secret.private:
            X25519PrivateKey.from_private_bytes(secret.private)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        raise checks.InvalidInput(
            "The secret of this pool cannot be read: a new attempt is needed. Nothing was spent"
        ) from None
    return secret


def make_join(terms: PoolTerms, key: SigningKey, rows: int, dataset: str) -> Secret:
    """A fresh key for this attempt, and the signed join that names it. Free of charge."""
    if not 0 < rows <= terms.plan.most_rows:
        raise checks.InvalidInput(
            f"Expected between 1 and {terms.plan.most_rows} rows, as the plan says"
        )
    private = new_secret()
    join = Join(
        plan=terms.digest,
        public=private.public_key().public_bytes_raw(),
        rows=rows,
        moment=_now(),
    )
    return Secret(
        plan=terms.digest,
        private=private.private_bytes_raw(),
        rows=rows,
        dataset=dataset,
        join=sign_join(join, key),
    )


def check_answer(board: Board, secret: Secret, own: str, rows: int, dataset: str) -> None:
    """Refuse, before anything is spent, what would go wrong when answering."""
    if secret.plan != board.terms.digest:
        raise PoolInvalid("The secret here belongs to another plan. Nothing was spent")
    if missing := board.missing_joins:
        raise PoolInvalid(f"Not everybody has joined: {', '.join(missing)} did not")
    joined = board.joins.get(own)
    if joined is None or joined.data != secret.join or joined.said.public != secret.public:
        raise PoolInvalid(
            "The join that stands there in your name was not made here: it was made on another "
            "machine, or the secret here was replaced. Nothing was spent"
        )
    if rows != secret.rows or dataset != secret.dataset:
        raise PoolInvalid(
            "Your rows, or your ledger, are not those you joined with: put them back, or begin a "
            "new attempt. Nothing was spent"
        )
    board.check_rosters()
    board.terms.check_rows(board.roster.rows)


def noisy_sums(
    board: Board, session: int, table: Array, targets: Array, theta: Array | None
) -> list[int]:
    """Own sums with own share of the noise, in steps. The ledger has been charged."""
    here, plan = board.terms.sessions[session], board.terms.plan
    scale = board.count_scale(session) if here.kind == "poisson" else None
    steps = session_steps(here, plan.contract, table, targets, theta, scale)
    return here.shares(theta).add_to(steps.tolist())


def masked_answer(
    board: Board,
    session: int,
    noisy: Sequence[int],
    theta: Array | None,
    secret: Secret,
    key: SigningKey,
) -> bytes:
    """The signed answer: noisy sums under masks that cancel in the sum of all."""
    terms, own = board.terms, key.public.fingerprint
    private = X25519PrivateKey.from_private_bytes(secret.private)
    hidden = masked(noisy, mask(private, terms.plan, board.roster, own, session, len(noisy)))
    answer = Answer(
        plan=terms.digest,
        roster=board.roster.digest,
        session=session,
        vector=hidden.astype("<u8").tobytes(),
        theta=() if theta is None else tuple(theta.tolist()),
        moment=_now(),
    )
    return sign_answer(answer, key)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
