"""Joins and answers: what is not exactly right is refused, by name, and by nothing else."""

import math
import secrets
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.exchange import new_key, sign
from sudare.pooling import PoolInvalid, make_join, moment_of, open_answer
from sudare.pooling._messages import (
    ANSWER,
    JOIN,
    LARGEST_MESSAGE,
    Answer,
    Join,
    open_join,
    sign_answer,
    sign_join,
)
from tests.pooling import pools
from tests.pooling.pools import Pool
from tests.pooling.test_masks import LOW_ORDER

MEMBERS = pools.parties(3)
POOL = Pool(MEMBERS, pools.plan(MEMBERS, kind="logistic"))
POOL.run()
A = MEMBERS[0]
JOINED = POOL.files["Clinic A.join"]
ANSWERED = POOL.files["Clinic A-0.answer"]
LATER = POOL.files["Clinic A-1.answer"]


def join(data: bytes) -> Any:
    return open_join(data, POOL.terms, POOL.keyring)


def answer(data: bytes) -> Any:
    return open_answer(data, POOL.terms, POOL.keyring)


def joined(**changed: Any) -> bytes:
    """A join of Clinic A, rightly signed, in which something is wrong."""
    return sign_join(msgspec.structs.replace(join(JOINED).said, **changed), A.key)


def answered(data: bytes = ANSWERED, **changed: Any) -> bytes:
    return sign_answer(msgspec.structs.replace(answer(data).said, **changed), A.key)


def test_what_was_signed_comes_back() -> None:
    said = join(JOINED)
    assert (said.key, said.data, said.said.rows) == (A.fingerprint, JOINED, 20)
    assert said.said.plan == POOL.terms.digest
    first, later = answer(ANSWERED).said, answer(LATER).said
    assert (first.session, len(first.words), first.theta) == (0, 10, ())
    assert (later.session, len(later.words), len(later.theta)) == (1, 9, 3)
    assert first.roster == later.roster == POOL.board().roster.digest
    assert moment_of(first.moment).utcoffset() is not None


def test_answers_say_nothing_by_their_form() -> None:
    """Other rows, as many: the same length, and the same header."""
    other = [replace(each, table=0 * each.table + 9.0, targets=-each.targets) for each in MEMBERS]
    again = Pool(other, POOL.plan)
    again.run()
    for name, data in POOL.files.items():
        assert len(data) == len(again.files[name])
        assert data.split(b".")[0] == again.files[name].split(b".")[0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 0}, "Clinic A states 0 rows"),
        ({"rows": -3}, "Clinic A states -3 rows"),
        ({"rows": 100_001}, "Clinic A states 100001 rows"),
        ({"public": b""}, "Clinic A holds no proper X25519 key"),
        ({"public": bytes(31)}, "Clinic A holds no proper X25519 key"),
        ({"public": b"\x01" * 33}, "Clinic A holds no proper X25519 key"),
        ({"plan": "0" * 64}, "Clinic A signed belongs to another plan"),
        ({"plan": ""}, "Clinic A signed belongs to another plan"),
    ],
    ids=str,
)
def test_wrong_joins(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(PoolInvalid, match=message):
        join(joined(**changed))


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_key_that_anyone_can_compute_with_is_refused_before_anything_is_spent(
    point: int,
) -> None:
    with pytest.raises(PoolInvalid, match="Clinic A holds no proper X25519 key"):
        join(joined(public=point.to_bytes(32, "little")))


@pytest.mark.parametrize(
    ("data", "changed", "message"),
    [
        (ANSWERED, {"session": 3}, "Clinic A answers session 3"),
        (ANSWERED, {"session": -1}, "Clinic A answers session -1"),
        (ANSWERED, {"session": 1}, "Clinic A does not hold 9 numbers"),
        (ANSWERED, {"vector": bytes(79)}, "Clinic A does not hold 10 numbers"),
        (ANSWERED, {"vector": bytes(88)}, "Clinic A does not hold 10 numbers"),
        (ANSWERED, {"roster": "x" * 64}, "Clinic A names no roster"),
        (ANSWERED, {"roster": ""}, "Clinic A names no roster"),
        (ANSWERED, {"theta": (1.0, 1.0, 1.0)}, "Clinic A was evaluated where"),
        (LATER, {"theta": ()}, "Clinic A was evaluated where"),
        (LATER, {"theta": (1.0, math.nan, 1.0)}, "Clinic A was evaluated where"),
        (LATER, {"theta": (1.0, -math.inf, math.nan)}, "Clinic A was evaluated where"),
        (LATER, {"theta": (16.0, 0.1, 0.0)}, "Clinic A was evaluated where"),
        (LATER, {"theta": (0.0,) * 4}, "Clinic A was evaluated where"),
        (ANSWERED, {"plan": "0" * 64}, "Clinic A signed belongs to another plan"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_wrong_answers(data: bytes, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(PoolInvalid, match=message):
        answer(answered(data, **changed))


@pytest.mark.parametrize(
    "moment",
    [
        "",
        "yesterday",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00+02:00",
        "2026-01-01T00:00:00.5+00:00",
        "2026-01-01\n00:00:00+00:00",
        "20260101T000000+0000",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_times_have_one_form(moment: str) -> None:
    """Others could play tricks on a terminal, or carry something across."""
    for wrong in (lambda: join(joined(moment=moment)), lambda: answer(answered(moment=moment))):
        with pytest.raises(PoolInvalid, match="Clinic A signed has no proper time"):
            wrong()


@pytest.mark.parametrize(
    "changed", [{"study": "cd" * 32}, {"attempt": 2}, {"epsilon": 2.0}, {"kind": "moments"}]
)
def test_replays_from_another_plan(changed: dict[str, Any]) -> None:
    other = Pool(MEMBERS, pools.plan(MEMBERS, **{"kind": "logistic"} | changed))
    other.join()
    other.answer()
    with pytest.raises(PoolInvalid, match="Clinic A signed belongs to another plan"):
        join(other.files["Clinic A.join"])
    with pytest.raises(PoolInvalid, match="Clinic A signed belongs to another plan"):
        answer(other.files["Clinic A-0.answer"])


def test_strangers() -> None:
    stranger = new_key()
    secret = make_join(POOL.terms, stranger, 20, "x")
    with pytest.raises(PoolInvalid, match="not in the keyring"):
        join(secret.join)
    ring = POOL.keyring.with_key("Clinic Z", stranger.public)
    with pytest.raises(PoolInvalid, match="Signed by 'Clinic Z', who is not in the plan"):
        open_join(secret.join, POOL.terms, ring)


def test_a_join_is_no_answer() -> None:
    for wrong in (lambda: answer(JOINED), lambda: join(ANSWERED)):
        with pytest.raises(PoolInvalid, match="not a signed pool"):
            wrong()
    payload = msgspec.msgpack.encode(join(JOINED).said)
    with pytest.raises(PoolInvalid, match="not a signed pool join"):
        join(sign(payload, "sudare-release/1", A.key))


def test_a_swapped_key_breaks_the_signature() -> None:
    """The folder puts a key of its own into a join that Clinic A has signed."""
    head, _, signature = JOINED.split(b".")
    swapped = joined(public=secrets.token_bytes(32)).split(b".")[1]
    with pytest.raises(PoolInvalid, match="signature is not 'Clinic A'"):
        join(b".".join([head, swapped, signature]))
    other = POOL.files["Clinic B.join"].split(b".")
    for mixed in ([head, other[1], other[2]], [other[0], swapped, other[2]]):
        with pytest.raises(PoolInvalid, match="signature is not"):
            join(b".".join(mixed))


def test_too_large_to_read() -> None:
    with pytest.raises(PoolInvalid, match="larger than 64 MB: no pool answer is"):
        answer(bytes(LARGEST_MESSAGE + 1))


@settings(max_examples=200)
@given(data=st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    for opened in (join, answer):
        with pytest.raises(PoolInvalid):
            opened(data)


@settings(max_examples=300)
@given(data=st.data(), of=st.sampled_from([JOINED, ANSWERED, LATER]))
def test_anything_cut_or_garbled(data: st.DataObject, of: bytes) -> None:
    """No other bytes than those signed are accepted, not even in another writing of base64."""
    start = data.draw(st.integers(0, len(of) - 1))
    stop = data.draw(st.integers(start, len(of)))
    put = data.draw(st.binary(max_size=6) | st.sampled_from([b"=", b".", b"A", b"\n", b" "]))
    changed = of[:start] + put + of[stop:]
    if changed != of:
        for opened in (join, answer):
            with pytest.raises(PoolInvalid):
                opened(changed)


NUMBER = st.integers(-(2**63), 2**64 - 1) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBER | st.text(max_size=8) | st.binary(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=150)
@given(
    changed=st.dictionaries(
        st.sampled_from([*Join.__struct_fields__, *Answer.__struct_fields__, "more"]),
        VALUES,
        min_size=1,
        max_size=3,
    )
)
def test_whatever_a_member_signs(changed: dict[str, Any]) -> None:
    """Rightly signed, of any contents: accepted as it should be, or refused as it should be."""
    for data, kind, opened in ((JOINED, JOIN, join), (ANSWERED, ANSWER, answer)):
        fields = msgspec.structs.asdict(opened(data).said)
        try:
            said = opened(sign(msgspec.msgpack.encode(fields | changed), kind, A.key)).said
        except PoolInvalid:
            continue
        assert said.plan == POOL.terms.digest


@settings(max_examples=100)
@given(payload=st.binary(max_size=100))
def test_whatever_bytes_a_member_signs(payload: bytes) -> None:
    for kind, opened in ((JOIN, join), (ANSWER, answer)):
        with pytest.raises(PoolInvalid, match="Clinic A"):
            opened(sign(payload, kind, A.key))
