"""Bitmaps of used serials, beside plain sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sudare.collector.stores.sqlite import CHUNK, Bank, firsts

SERIALS = st.lists(st.integers(0, 300) | st.integers(0, 10 * 8 * CHUNK), max_size=30)


@given(groups=st.lists(SERIALS, max_size=8), asked=SERIALS)
def test_like_a_set(groups: list[list[int]], asked: list[int]) -> None:
    bank, seen = Bank(), set[int]()
    for group in groups:
        bank.add(np.array(group, np.uint64))
        seen |= set(group)
    assert bank.holds(np.array(asked, np.uint64)).tolist() == [each in seen for each in asked]
    again = Bank()
    for chunk, bits in bank.changed():
        again.load(chunk, bits)
    every = np.array([*seen, *asked], np.uint64)
    assert (again.holds(every) == bank.holds(every)).all()


@given(serials=st.lists(st.integers(0, 9), max_size=20), data=st.data())
def test_firsts(serials: list[int], data: st.DataObject) -> None:
    fresh = data.draw(st.lists(st.booleans(), min_size=len(serials), max_size=len(serials)))
    seen, expected = set[int](), []
    for serial, new in zip(serials, fresh, strict=True):
        expected.append(new and serial not in seen)
        if new:
            seen.add(serial)
    found = firsts(np.array(serials, np.uint64), np.array(fresh, np.bool_))
    assert found.tolist() == expected


def test_a_bank_takes_what_it_needs() -> None:
    bank = Bank()
    assert not bank.holds(np.array([0, 2**47], np.uint64)).any()
    bank.add(np.array([], np.uint64))
    bank.add(np.array([8 * CHUNK * 3 + 1, 5, 5], np.uint64))
    assert bank.size == 4 * CHUNK
    held = bank.holds(np.array([5, 4, 8 * CHUNK * 3 + 1, 2**40], np.uint64))
    assert held.tolist() == [True, False, True, False]
    assert [chunk for chunk, _ in bank.changed()] == [0, 3]
    again = Bank()
    for chunk, bits in bank.changed():
        again.load(chunk, bits)
    assert again.changed() == []
    assert again.holds(np.array([5, 8 * CHUNK * 3 + 1], np.uint64)).all()
    bank.stored()
    assert bank.changed() == []
