"""Messages: to the wire and back, and what is refused on the way."""

from typing import Any

import msgspec
import pytest

from sudare.exchange import LARGEST_RELEASE
from sudare.federation import (
    Answer,
    BlendQuestion,
    Metric,
    PoolAnswerQuestion,
    PoolJoinQuestion,
    ReleaseQuestion,
)
from sudare.federation import _messages as messages
from sudare.federation._messages import (
    PROTOCOL,
    REASONS,
    read_answer,
    read_question,
    terms_of,
    to_bytes,
)
from sudare.foundations.checks import InvalidInput
from tests.site.clinics import classes

TERMS = terms_of(classes())
METRIC = Metric(measure="share wrong", value=0.25, noise_std=0.1, rows=40, epsilon=0.5)


@pytest.mark.parametrize(
    "question",
    [
        ReleaseQuestion(terms=TERMS),
        BlendQuestion(terms=TERMS, releases=(b"\x00\xff", b"")),
        PoolJoinQuestion(terms=TERMS),
        PoolAnswerQuestion(terms=TERMS, joins=(b"\x00\xff", b""), answers=(b"\xff",)),
    ],
)
def test_questions_read_back(question: Any) -> None:
    assert read_question(to_bytes(question)) == question


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status="released", release=b"\x00\xff"),
        Answer(status="done"),
        Answer(status="done", metric=METRIC),
        Answer(status="joined", join=b"\x00\xff"),
        Answer(status="answered"),
        Answer(status="answered", answers=(b"\x00", b"\xff")),
        Answer(status="pooled", answers=(b"\x00", b"\xff")),
        *(Answer(status="refused", reason=reason) for reason in REASONS),
    ],
)
def test_answers_read_back(answer: Answer) -> None:
    assert read_answer(to_bytes(answer)) == answer


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "released"},
        {"status": "done", "release": b"x"},
        {"status": "thinking"},
        {"status": "joined"},
        {"status": "done", "join": b"x"},
        {"status": "joined", "join": b"x", "answers": [b"x"]},
        {"status": "failed", "answers": [b"x"]},
        {"status": "answered", "answers": [b"x"] * 101},
        {"status": "refused", "reason": "because"},
        {"status": "done", "rows": [1, 2]},
        {"status": "done", "protocol": "sudare-federation/2"},
    ],
)
def test_other_answers_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        read_answer(msgspec.msgpack.encode({"protocol": PROTOCOL} | fields))


def test_other_questions_are_refused() -> None:
    known = msgspec.to_builtins(ReleaseQuestion(terms=TERMS))
    assert read_question(msgspec.msgpack.encode(known))
    for changed in (
        known | {"path": "/etc/passwd"},
        known | {"step": "train"},
        known | {"protocol": "sudare-federation/2"},
        known | {"terms": known["terms"] | {"data": "other.csv"}},
        known | {"terms": known["terms"] | {"epsilon": "4"}},
    ):
        with pytest.raises(InvalidInput) as refused:
            read_question(msgspec.msgpack.encode(changed))
        assert "passwd" not in str(refused.value)


def test_sizes_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "LARGEST_QUESTION", 1 << 20)
    monkeypatch.setattr(messages, "LARGEST_ANSWER", 1 << 20)
    long = b"x" * (2 << 20)
    with pytest.raises(InvalidInput, match="at most 1 MB"):
        read_question(to_bytes(BlendQuestion(terms=TERMS, releases=(long,))))
    with pytest.raises(InvalidInput, match="at most 1 MB"):
        read_answer(to_bytes(Answer(status="released", release=long)))


def test_a_pool_of_a_hundred_with_two_hundred_features_fits() -> None:
    entries = 201 + 201 * 202 // 2 + 2
    one = b"x" * (8 * entries * 4 // 3 + 4096)
    answers = (one,) * 3
    assert LARGEST_RELEASE <= messages.LARGEST_ANSWER
    assert read_answer(to_bytes(Answer(status="pooled", answers=answers))).answers == answers
    whole = PoolAnswerQuestion(terms=TERMS, joins=(b"x" * 600,) * 100, answers=answers * 100)
    assert read_question(to_bytes(whole)) == whole


def test_a_server_without_pools_reads_what_a_node_says_elsewhere() -> None:
    fields = {"status", "reason", "release", "metric", "protocol"}
    for made in (Answer(status="done", metric=METRIC), Answer(status="refused", reason="node")):
        assert msgspec.msgpack.decode(to_bytes(made)).keys() <= fields


def test_releases_have_an_end() -> None:
    most = BlendQuestion(terms=TERMS, releases=(b"x",) * messages.MOST_RELEASES)
    assert read_question(to_bytes(most)) == most
    with pytest.raises(InvalidInput):
        read_question(to_bytes(BlendQuestion(terms=TERMS, releases=(*most.releases, b"x"))))


def test_terms_tell_one_study_from_another() -> None:
    assert terms_of(classes()) == TERMS
    assert TERMS.study == classes().digest()
    assert terms_of(classes(epsilon=3.0)) != TERMS
