"""A node's part in a pool: to the node, the server is a folder that may lie.

Joins and answers that it is shown, and that verify under its own plan and keyring, go into a folder
of the node's own and stay there; everything else is left out. Then the node does what `sudare pool
--unattended` does with that folder. So all that holds there holds here: the ledger is charged once,
before any noise is drawn; the same bytes for whoever asks again; no second list of joins within an
attempt. A server that drops, delays, repeats, mixes or invents can keep a pool from finishing, and
nothing else.

The plan is the node's own file: no question names one.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sudare import site
from sudare.exchange import SigningKey, exists, file_name, load_key, load_keyring, put
from sudare.federation._messages import Answer, PoolAnswerQuestion
from sudare.federation._node import Node
from sudare.ledger import Ledger
from sudare.pooling import ANSWER_SUFFIX, JOIN_SUFFIX, Board, read_board, read_plan
from sudare.storage.lock import InUse, only_one
from sudare.study import Study

_LOOK_SECONDS = 0.05


def give_join(study: Study, node: Node) -> tuple[Answer, str]:
    """This node's join, the same ever after; and a sentence for its own log."""
    key = load_key(node.key)
    pool = _own_pool(study, node, key)
    with _one_at_a_time(node):
        status, board = _work(pool, node, key)
    return Answer(status="joined", join=board.joins[key.public.fingerprint].data), status.sentence


def give_answers(question: PoolAnswerQuestion, study: Study, node: Node) -> tuple[Answer, str]:
    """This node's answers to all sessions that could be answered by now, the same ever after."""
    key = load_key(node.key)
    pool = _own_pool(study, node, key)
    with _one_at_a_time(node):
        unusable = _keep(question, pool)
        status, board = _work(pool, node, key)
    own = key.public.fingerprint
    answers = tuple(one[own].data for one in board.answers if own in one)
    words = [status.sentence]
    if status.charged:
        words.append("The ledger was charged.")
    if unusable:
        words.append(f"Not used: {unusable} of what was shown.")
    done = status.state == "done"
    return Answer(status="pooled" if done else "answered", answers=answers), " ".join(words)


def _own_pool(study: Study, node: Node, key: SigningKey) -> site.Pool:
    """The pool of the node's own plan, in a folder beside its releases."""
    plan, ring, own = read_plan(node.pool), load_keyring(node.trust), key.public
    member = plan.member(own.fingerprint)
    if member is not None and ring.holder(own.fingerprint) is None:
        ring = ring.with_key(member.name, own)  # what is pooled is signed by oneself, too
    return site.Pool(study, plan, ring, node.releases)


def _work(pool: site.Pool, node: Node, key: SigningKey) -> tuple[site.PoolStatus, Board]:
    with Ledger(node.ledger) as ledger:
        # The secret is where `sudare pool` has it: an attempt can go on with either.
        home = Path(node.pool).parent
        status = site.take_part_unattended(node.data, pool, ledger, key, home=home)
    return status, pool.board()


def _keep(question: PoolAnswerQuestion, pool: site.Pool) -> int:
    """Write what verifies, if it is not there; how many did not.

    Two different joins of one signer are both kept: they prove what it did, and stop this attempt.
    """
    shown = [(JOIN_SUFFIX, data) for data in question.joins]
    shown += [(ANSWER_SUFFIX, data) for data in question.answers]
    unusable, held = 0, {data for _, data in pool.files()}
    for kind, data in dict.fromkeys(shown):
        if data in held:
            continue
        board = read_board([(kind, data)], pool.terms, pool.keyring)
        unusable += len(board.problems)
        found = [(key, JOIN_SUFFIX) for key in board.joins]
        for session, answers in enumerate(board.answers):
            found += [(key, f"-s{session}{ANSWER_SUFFIX}") for key in answers]
        for key, suffix in found:
            member = pool.plan.member(key)
            assert member is not None
            name = file_name(member.name, data, suffix)
            if not exists(f"{pool.folder}/{name}"):
                put(pool.folder, name, data)
    return unusable


@contextmanager
def _one_at_a_time(node: Node) -> Iterator[None]:
    """Two questions at once must not make two joins: a second one would end the attempt."""
    while True:
        try:
            lock = only_one(Path(node.pool))
            break
        except InUse:
            time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        os.close(lock)
