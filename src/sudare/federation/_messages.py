"""What a federation's server may ask and what a node may answer: four questions, few words.

Both travel as MessagePack bytes, so that any engine can carry them. A question names the study and
its terms; a node compares them with its own and answers from its own, so they can only agree or be
refused. An answer holds a signed release, a signed join or answers of a pool, the word "done", or a
reason out of a short list: nothing in it is made from rows but what was paid for.
"""

from typing import Annotated, Any, Literal

import msgspec

from sudare.foundations import checks
from sudare.pooling import LARGEST_MESSAGE
from sudare.study import Study

PROTOCOL = "sudare-federation/1"
LARGEST_QUESTION = 256 << 20
"""Bytes: room for the moments of five hundred features from forty parties, and for a pool of three
sessions with two hundred features from three hundred."""
LARGEST_ANSWER = LARGEST_MESSAGE + (1 << 16)
"""Bytes: no release, and no list of a pool's answers, has more."""
MOST_RELEASES = 10_000
MOST_ANSWERS = 10 * MOST_RELEASES
MOST_SESSIONS = 100

Reason = Literal["protocol", "study", "terms", "policy", "pool", "node"]
REASONS: dict[Reason, str] = {
    "protocol": "the question is not one this node knows",
    "study": "the node takes part in another study, or in another version of this one",
    "terms": "the question names other terms than the node's study does",
    "policy": "the node's policy does not allow it",
    "pool": "the node cannot go on with this pool; its own log says why",
    "node": "the node could not; its own log says why",
}


class QuestionTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a question is about, in the server's words; a node compares them with its own."""

    study: str
    """Digest of the study."""
    name: str
    task: str
    model: str
    epsilon: float
    delta: float


class _Question(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="step"
):
    """What a server may ask a node, about one study."""

    terms: QuestionTerms


class ReleaseQuestion(_Question, frozen=True, kw_only=True, tag="release"):
    """Phase 1: hand over your release."""

    protocol: str = PROTOCOL


class BlendQuestion(_Question, frozen=True, kw_only=True, tag="blend"):
    """Phase 2: here is everyone's; blend them with your rows."""

    releases: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_RELEASES)]
    protocol: str = PROTOCOL


class PoolJoinQuestion(_Question, frozen=True, kw_only=True, tag="pool-join"):
    """A pool begins: hand over your join."""

    protocol: str = PROTOCOL


class PoolAnswerQuestion(_Question, frozen=True, kw_only=True, tag="pool-answer"):
    """A pool goes on: here is all that was handed over so far; answer what can be answered."""

    joins: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_RELEASES)]
    answers: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_ANSWERS)]
    protocol: str = PROTOCOL


Question = ReleaseQuestion | BlendQuestion | PoolJoinQuestion | PoolAnswerQuestion


class Metric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How well the others' releases, averaged, predict a node's rows: a noisy number."""

    measure: Literal["share wrong", "squared error"]
    value: float
    noise_std: float
    rows: int
    epsilon: float
    """What it cost each of the rows."""


class Answer(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """All that ever leaves a node.

    What is not said is left out, so that a server without pools can read a node that has them.
    """

    status: Literal["released", "joined", "answered", "pooled", "done", "refused", "failed"]
    reason: Reason | None = None
    release: bytes | None = None
    join: bytes | None = None
    answers: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_SESSIONS)] = ()
    """Of a pool, one for each session that the node could answer by now."""
    metric: Metric | None = None
    protocol: str = PROTOCOL


def terms_of(study: Study) -> QuestionTerms:
    """The terms of a study, as a question names them."""
    return QuestionTerms(
        study=study.digest(),
        name=study.name,
        task=study.task,
        model=study.privacy.model,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
    )


def to_bytes(message: Question | Answer) -> bytes:
    """A message for the wire."""
    return msgspec.msgpack.encode(message)


def read_question(data: bytes) -> Question:
    """The question in these bytes; raises only `InvalidInput`."""
    if len(data) > LARGEST_QUESTION:
        raise checks.InvalidInput(f"Expected a question of at most {LARGEST_QUESTION >> 20} MB")
    question: Question = _read(data, Question)
    return question


def read_answer(data: bytes) -> Answer:
    """The answer in these bytes; raises only `InvalidInput`."""
    if len(data) > LARGEST_ANSWER:
        raise checks.InvalidInput(f"Expected an answer of at most {LARGEST_ANSWER >> 20} MB")
    answer: Answer = _read(data, Answer)
    if (answer.status == "released") != (answer.release is not None):
        raise checks.InvalidInput("Expected a release with the word released, and only there")
    if (answer.status == "joined") != (answer.join is not None):
        raise checks.InvalidInput("Expected a join with the word joined, and only there")
    if answer.answers and answer.status not in ("answered", "pooled"):
        raise checks.InvalidInput("Expected answers with the words answered and pooled only")
    return answer


def _read(data: bytes, kind: Any) -> Any:
    try:
        message = msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # Its own words would quote what others wrote.
        raise checks.InvalidInput("Expected a message of a sudare federation") from None
    if message.protocol != PROTOCOL:
        raise checks.InvalidInput(f"Expected a message of the protocol {PROTOCOL}")
    return message
