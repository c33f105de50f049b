"""A mark for each report: the published function, the same in one call, and worth nothing else."""

import struct

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from sudare.counting import RECORD, MemoryStore, Reporter, Survey, open_office, parse_survey
from sudare.counting._marks import sip, slot_marks
from sudare.counting._tickets import KEY_BYTES, MARK_BYTES
from sudare.foundations import checks
from sudare.foundations.randomness import seeded

KEY = bytes(range(KEY_BYTES))
METHODS = {"masks": {"slots": 4}, "rappor": {}, "tree": {"changes": 3}}
MASK = 2**64 - 1


def a_survey(method: str, **more: object) -> Survey:
    fields = {"name": "s", "rounds": 13, "epsilon": 2.0, "method": method, **METHODS[method]}
    return msgspec.convert(fields | more, Survey)


def naive(key: bytes, message: bytes) -> bytes:
    """SipHash-2-4-128 once more, byte strings in and out."""

    def turn(x: int, b: int) -> int:
        return ((x << b) | (x >> (64 - b))) & MASK

    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE]
    v += [k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def mix(times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for (block,) in struct.iter_unpack("<Q", padded):
        v[3] ^= block
        mix(2)
        v[0] ^= block
    v[2] ^= 0xEE
    mix(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    mix(4)
    return struct.pack("<QQ", low, v[0] ^ v[1] ^ v[2] ^ v[3])


def test_it_is_the_published_function() -> None:
    """The first of its authors' test vectors: key 00 … 0f, an empty message."""
    key = bytes(range(16))
    first, second = np.frombuffer(key, "<u8").reshape(2, 1)
    expected = "a3817f04ba25a8e66df67214c7550293"
    assert naive(key, b"").hex() == expected
    assert sip(first, second, [np.uint64(0)]).astype("<u8").tobytes().hex() == expected


def test_many_in_one_call() -> None:
    rng = seeded(3)
    marks = [rng.bytes(MARK_BYTES) for _ in range(50)]
    slots = rng.integers(0, 2**32, 50)
    found = slot_marks(b"".join(marks), slots)
    for at, (mark, slot) in enumerate(zip(marks, slots.tolist(), strict=True)):
        assert found[16 * at : 16 * at + 16] == naive(mark, struct.pack("<Q", slot))


@pytest.mark.parametrize("method", METHODS)
def test_a_report_cannot_be_made_from_another(method: str) -> None:
    survey = a_survey(method, marks="slots")
    office = open_office(survey, KEY)
    ticket = office.issue(5)
    reporter = Reporter.enrol(survey, ticket, MemoryStore(), seeded(1))
    reports = [each for t in range(13) if (each := reporter.report(t, 1)) is not None]
    assert len(reports) > 1
    assert reporter.reports() == reports
    records = np.frombuffer(b"".join(each.pack() for each in reports), RECORD)

    def good(records: NDArray[np.void]) -> list[bool]:
        told = office.authentic(records["serial"], records["mark"].tobytes(), records["slot"])
        return [bool(each) for each in told]

    assert all(good(records))
    assert len({each.mark for each in reports} | {ticket.mark}) == len(reports) + 1
    forged = records.copy()
    forged["slot"] = np.roll(records["slot"], 1)
    assert not any(good(forged))
    forged = records.copy()
    forged["mark"] = np.void(ticket.mark)
    assert not any(good(forged))
    forged = records.copy()
    forged["serial"] += 1
    assert not any(good(forged))


@pytest.mark.parametrize("method", METHODS)
def test_a_survey_without_marks_keeps_its_digest_and_its_tickets(method: str) -> None:
    plain, marked = a_survey(method), a_survey(method, marks="slots")
    assert plain.digest() != marked.digest()
    assert b"marks" not in msgspec.json.encode(plain)
    assert parse_survey(marked.to_toml()) == marked
    assert parse_survey(plain.to_toml()) == plain
    ticket = open_office(plain, KEY).issue(5)
    assert ticket.mark_of(plain, 1) == ticket.mark
    good = open_office(plain, KEY).authentic([ticket.serial] * 2, ticket.mark * 2, [0, 1])
    assert good.all()


def test_a_choice_that_is_none() -> None:
    with pytest.raises(checks.InvalidInput, match="marks"):
        Survey(name="s", rounds=3, epsilon=1.0, marks="one")  # type: ignore[arg-type]
