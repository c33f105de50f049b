"""Events as text: golden, round trips, and everything that must be refused."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.foundations.privacy import (
    Event,
    LocalEvent,
    PureEvent,
    decode,
    encode,
)
from tests.events import ALL, EVENTS, GOLDEN, whole

# Serialised events


@pytest.mark.parametrize("text", GOLDEN, ids=lambda text: text.split('"')[3])
def test_golden_texts(text: str) -> None:
    event = GOLDEN[text]
    assert encode([event]).decode() == whole([text])
    assert decode(whole([text])) == (event,)
    assert decode(whole([text]).encode()) == (event,)


def test_every_kind_has_its_golden_text() -> None:
    assert {type(event) for event in ALL} == set(Event.__args__)
    assert encode(ALL).decode() == whole(GOLDEN)
    assert decode(encode(ALL)) == tuple(ALL)
    assert decode("[]") == ()


@given(st.lists(EVENTS, max_size=4))
def test_events_read_back_to_the_last_bit(events: list[Any]) -> None:
    back = decode(encode(events))
    assert back == tuple(events)
    for one, two in zip(events, back, strict=True):
        assert type(one) is type(two)
        numbers = [name for name in one.__struct_fields__ if type(getattr(one, name)) is float]
        assert numbers
        for name in numbers:
            assert getattr(one, name).hex() == getattr(two, name).hex()
    assert encode(back) == encode(events)


def test_defaults_may_be_left_out() -> None:
    assert decode('[{"kind":"pure/1","epsilon":1}]') == (PureEvent(1.0),)
    assert decode('[{"epsilon":1,"kind":"local/1"}]') == (LocalEvent(1.0),)


PURE = '"kind":"pure/1","epsilon":1'
REFUSED = {
    "unknown kind": '[{"kind":"laplace/1","epsilon":1}]',
    "unknown version": '[{"kind":"pure/2","epsilon":1}]',
    "no version": '[{"kind":"pure","epsilon":1}]',
    "no kind": '[{"epsilon":1}]',
    "kind of wrong type": '[{"kind":1,"epsilon":1}]',
    "kind with space": '[{"kind":"pure/1 ","epsilon":1}]',
    "class path": '[{"kind":"sudare.foundations.privacy.PureEvent","epsilon":1}]',
    "class name": '[{"kind":"PureEvent","epsilon":1}]',
    "class field": f'[{{{PURE},"__class__":"os.system"}}]',
    "python object": '[{"py/object":"os.system","py/reduce":["ls"]}]',
    "reduce": '[{"__reduce__":["os.system",["ls"]]}]',
    "unknown field": f'[{{{PURE},"delta":0.1}}]',
    "field of another kind": '[{"kind":"gaussian/1","epsilon":1}]',
    "missing parameter": '[{"kind":"approximate/1","epsilon":1}]',
    "zero": '[{"kind":"pure/1","epsilon":0}]',
    "negative": '[{"kind":"pure/1","epsilon":-1}]',
    "underflow": '[{"kind":"pure/1","epsilon":1e-400}]',
    "overflow": '[{"kind":"pure/1","epsilon":1e400}]',
    "long overflow": '[{"kind":"pure/1","epsilon":' + "9" * 5000 + "}]",
    "nan": '[{"kind":"pure/1","epsilon":NaN}]',
    "infinity": '[{"kind":"pure/1","epsilon":Infinity}]',
    "null": '[{"kind":"pure/1","epsilon":null}]',
    "boolean": '[{"kind":"pure/1","epsilon":true}]',
    "text": '[{"kind":"pure/1","epsilon":"1"}]',
    "list": '[{"kind":"pure/1","epsilon":[1]}]',
    "delta of one": '[{"kind":"approximate/1","epsilon":1,"delta":1}]',
    "unknown neighbours": f'[{{{PURE},"neighbours":"swap"}}]',
    "neighbours of wrong type": f'[{{{PURE},"neighbours":1}}]',
    "local pure": f'[{{{PURE},"neighbours":"local"}}]',
    "central local": '[{"kind":"local/1","epsilon":1,"neighbours":"add-remove"}]',
    "blank unit": f'[{{{PURE},"unit":" "}}]',
    "unit of wrong type": f'[{{{PURE},"unit":null}}]',
    "assumptions of wrong type": f'[{{{PURE},"assumptions":"bounded"}}]',
    "assumption of wrong type": f'[{{{PURE},"assumptions":[1]}}]',
    "not a list": f"{{{PURE}}}",
    "list of lists": f"[[{{{PURE}}}]]",
    "list of numbers": "[1]",
    "list of null": "[null]",
    "null alone": "null",
    "number alone": "1",
    "empty": "",
    "truncated": f'[{{{PURE}}}, {{"kind":"pu',
    "trailing": f"[{{{PURE}}}] []",
    "single quotes": "[{'kind':'pure/1','epsilon':1}]",
    "comment": f"[{{{PURE}}}] // ok",
    "nested lists": "[" * 200_000,
    "nested objects": '[{"kind":' * 200_000,
    "nested unknown field": f'[{{{PURE},"x":' + "[" * 200_000 + "]" * 200_000 + "}]",
    "nested assumptions": f'[{{{PURE},"assumptions":' + "[" * 200_000,
    "lone surrogate": f'[{{{PURE},"unit":"\ud800"}}]',
    "byte order mark": f"\ufeff[{{{PURE}}}]",
}


@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="Not a list of privacy events"):
        decode(REFUSED[name])


def test_bytes_that_are_not_text_are_refused() -> None:
    for data in (b"\xff\xfe", b'[{"kind":"pure/1","epsilon":1,"unit":"\xff"}]', b"\x80\x04."):
        with pytest.raises(InvalidInput):
            decode(data)


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=re.escape("pure/2")):
        decode(REFUSED["unknown version"])


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def drop(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    del data[start : start + chance.randint(1, 20)]


def insert(data: bytearray, chance: random.Random) -> None:
    pieces = [
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"-",
        b"0",
        b"e9",
        b"null",
        b"\x00",
        b"\xff",
    ]
    at = chance.randrange(len(data))
    data[at:at] = chance.choice(pieces)


def repeat(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    data[start:start] = data[start : start + chance.randint(1, 60)]


MUTATIONS: list[Callable[[bytearray, random.Random], None]] = [cut, flip, drop, insert, repeat]
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1e400,
    10**30,
    "",
    "pure/1",
    "os.system",
    [],
    {},
    [[]],
    {"kind": "pure/1"},
]


def assert_refused_or_whole(data: bytes) -> bool:
    """Nothing but InvalidInput may be raised, and what is read must be events in order."""
    try:
        events = decode(data)
    except InvalidInput:
        return True
    assert decode(encode(events)) == events
    assert all(isinstance(event, Event) for event in events)
    return False


def test_mutated_texts_raise_nothing_else() -> None:
    chance = random.Random(20)
    refused = 0
    for _ in range(3000):
        data = bytearray(encode(ALL))
        for _ in range(chance.randint(1, 3)):
            if data:
                chance.choice(MUTATIONS)(data, chance)
        refused += assert_refused_or_whole(bytes(data))
    assert 2000 < refused < 3000


def test_mutated_structures_raise_nothing_else() -> None:
    chance = random.Random(21)
    refused = 0
    for _ in range(2000):
        events = json.loads(encode(ALL))
        event = chance.choice(events)
        field = chance.choice([*event, "extra", "__class__"])
        if chance.random() < 0.2:
            event.pop(field, None)
        else:
            event[field] = chance.choice(ODD)
        refused += assert_refused_or_whole(json.dumps(events).encode())
    assert 1000 < refused < 2000


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda t: t.encode("utf-16"))))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    assert assert_refused_or_whole(data)
