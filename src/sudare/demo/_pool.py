"""A whole pool in memory: the real keys, masks, signatures and sums, with noise from a seed.

Only the shares of noise are simulated: normal draws, rounded, where a pool draws discrete Gaussians
from the system's entropy. A sum made so can be drawn again by anyone who knows the seed; it is
marked as simulated, and is for tables in a tour.
"""

import hashlib
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from sudare.exchange import Keyring, new_key
from sudare.foundations.randomness import Generator
from sudare.pooling import (
    ANSWER_SUFFIX,
    JOIN_SUFFIX,
    Member,
    PoolPlan,
    PoolTerms,
    make_join,
    masked_answer,
    pooled_release,
    read_board,
    session_steps,
)
from sudare.releases import Contract, PooledRelease

Array = NDArray[np.float64]
_STUDY = hashlib.sha256(b"made up").hexdigest()


def simulated_pool(
    parties: Sequence[tuple[Array, Array]],
    contract: Contract,
    epsilon: float,
    delta: float,
    rng: Generator,
) -> PooledRelease:
    """The pooled release of all these rows and labels, −1 or 1, in the order of the parties.

    ε holds if more than half of them are honest, which is what `sudare pool new` writes if it is
    not told otherwise.
    """
    keys = sorted((new_key() for _ in parties), key=lambda key: key.public.fingerprint)
    names = [f"party {number}" for number in range(len(parties))]
    ring, members = Keyring(), []
    for name, key in zip(names, keys, strict=True):
        ring = ring.with_key(name, key.public)
        members.append(Member(name=name, key=key.public.fingerprint))
    terms = PoolTerms.of(
        PoolPlan(
            study=_STUDY,
            contract=contract,
            epsilon=epsilon,
            delta=delta,
            colluders=(len(parties) - 1) // 2,
            members=tuple(members),
        )
    )
    (session,) = terms.sessions
    scale = session.shares().scale
    secrets = [
        make_join(terms, key, len(labels), name)
        for key, name, (_, labels) in zip(keys, names, parties, strict=True)
    ]
    joins = [(JOIN_SUFFIX, secret.join) for secret in secrets]
    board = read_board(joins, terms, ring)
    answers = []
    for (rows, labels), key, secret in zip(parties, keys, secrets, strict=True):
        steps = session_steps(session, contract, rows, labels)
        share = np.rint(rng.normal(0.0, scale, len(steps))).astype(np.int64)
        data = masked_answer(board, 0, (steps + share).tolist(), None, secret, key)
        answers.append((ANSWER_SUFFIX, data))
    release = pooled_release(read_board(joins + answers, terms, ring))
    assert isinstance(release, PooledRelease)
    return msgspec.structs.replace(release, simulated=True)
