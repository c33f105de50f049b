"""Reports on the wire."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.counting import Report, unpack
from sudare.foundations.checks import InvalidInput

REPORTS = st.builds(
    Report,
    serial=st.integers(0, 2**48 - 1),
    slot=st.integers(0, 2**32 - 1),
    bit=st.integers(0, 1),
    mark=st.binary(min_size=16, max_size=16),
)


@given(st.lists(REPORTS, max_size=20))
def test_packed_reports_come_back(reports):
    batch = unpack(b"".join(report.pack() for report in reports))
    assert batch.serials.tolist() == [report.serial for report in reports]
    assert batch.slots.tolist() == [report.slot for report in reports]
    assert batch.bits.tolist() == [report.bit for report in reports]
    assert batch.marks == b"".join(report.mark for report in reports)


def test_a_record_is_29_bytes_in_the_order_described():
    packed = Report(0x010203, 0x0405, 1, bytes(range(16))).pack()
    assert packed.hex() == "030201" + "00" * 5 + "05040000" + "01" + bytes(range(16)).hex()


def test_marks_that_end_in_zeros_keep_them():
    batch = unpack(Report(1, 0, 0, bytes(16)).pack() * 2)
    assert batch.marks == bytes(32)


@pytest.mark.parametrize("length", [1, 28, 30, 57])
def test_records_cut_short(length):
    with pytest.raises(InvalidInput, match="whole records of 29 bytes"):
        unpack(bytes(length))


@pytest.mark.parametrize("bit", [2, 255])
def test_bits_that_are_none(bit):
    good = bytearray(Report(1, 0, 1, bytes(16)).pack() * 2)
    good[29 + 12] = bit
    with pytest.raises(InvalidInput) as refusal:
        unpack(bytes(good))
    assert str(refusal.value) == "Expected bits to hold only 0 and 1"


def test_nothing_is_a_batch():
    batch = unpack(b"")
    assert batch.serials.size == batch.slots.size == batch.bits.size == len(batch.marks) == 0


@given(REPORTS)
def test_json_goes_round_and_refuses_more(report):
    text = msgspec.json.encode(report)
    assert msgspec.json.decode(text, type=Report) == report
    more = msgspec.json.encode({**msgspec.json.decode(text), "name": "x"})
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(more, type=Report)


@given(st.binary(max_size=200))
def test_any_bytes_are_unpacked_or_refused(data):
    try:
        batch = unpack(data)
    except InvalidInput:
        return
    assert np.isin(batch.bits, (0, 1)).all()
