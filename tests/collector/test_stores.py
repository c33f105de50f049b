"""The contract of every store: what a collector may rely on, on a file and on a server."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

from sudare.collector.stores import Group, Progress, Row, Store, open_store, tally
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import COUNTED, REPEATED, TOO_LATE

START = Progress(0, 0, b"")


@contextmanager
def opened(place: str) -> Iterator[Store]:
    store = open_store(place)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with opened(place) as store:
        store.initialise({"survey": b"{}"}, b"secret")
        yield store


def group(
    serials: Any, *, banks: Any = 0, rounds: Any = 5, bits: Any = 1, raw: Any = None
) -> Group:
    """Reports that count in the cell of their round."""
    numbers = np.array(serials, np.uint64)
    where = np.broadcast_to(rounds, numbers.shape).astype(np.int64)
    what = np.broadcast_to(bits, numbers.shape).astype(np.uint8)
    among = banks if isinstance(banks, int) else np.array(banks, np.int64)
    return Group(among, numbers, where, where, what, raw)


def sums(store: Store, *cells: int) -> list[tuple[int, int]]:
    reporters, ones = store.counts(np.array(cells))
    return list(zip(reporters.tolist(), ones.tolist(), strict=True))


def a_row(t: int, revision: int = 0, **more: Any) -> Row:
    return Row(t, 1e9 / 7 + t, 10, 3, 1 / 3, 0.1, 2 / 3, 0.7 / 3, revision)._replace(**more)


def close(store: Store, rows: list[Row], progress: Progress) -> None:
    with store.closing() as closing:
        closing.record(rows, progress)


class TestFounding:
    def test_empty(self, place: str) -> None:
        with opened(place) as store:
            assert (store.meta(), store.ranges(), store.progress()) == ({}, [], START)
            assert store.refusals() == {}
            assert store.rows(0, 10) == []
            assert sums(store, 0, 7) == [(0, 0), (0, 0)]

    def test_once(self, store: Store) -> None:
        store.initialise({"survey": b"another"}, b"other")
        assert store.meta() == {"survey": b"{}"}
        assert store.ranges() == [(0, 0, b"secret")]

    def test_values_are_replaced_and_kept(self, store: Store, place: str) -> None:
        for value in (b"1", b"", b"\x00\xff"):
            store.set_meta("token", value)
            assert store.meta() == {"survey": b"{}", "token": value}
        store.close()
        with opened(place) as again:
            assert again.meta() == {"survey": b"{}", "token": b"\x00\xff"}


class TestIssuing:
    def test_no_number_twice(self, store: Store, place: str) -> None:
        assert store.issue(3) == (0, b"secret")
        assert store.issue(1) == (3, b"secret")
        store.close()
        with opened(place) as again:
            assert again.issue(5) == (4, b"secret")
            assert again.ranges() == [(0, 9, b"secret")]

    def test_a_new_key_begins_with_a_block(self, store: Store) -> None:
        store.issue(9)
        store.add_range(b"second", 4)
        assert store.issue(2) == (12, b"second")
        assert store.ranges() == [(0, 9, b"secret"), (12, 14, b"second")]
        with store.closing() as closing:
            assert closing.issued == 11

    def test_a_key_never_used_is_replaced(self, store: Store) -> None:
        store.add_range(b"second", 4)
        assert store.ranges() == [(0, 0, b"second")]
        store.issue(8)
        store.add_range(b"third", 4)
        store.add_range(b"fourth", 4)
        assert store.ranges() == [(0, 8, b"second"), (8, 8, b"fourth")]


class TestCounting:
    def test_each_report_once(self, store: Store) -> None:
        assert store.count(group([7, 8, 7], bits=[1, 0, 0])).tolist() == [
            COUNTED,
            COUNTED,
            REPEATED,
        ]
        assert store.count(group([8, 9, 7], bits=1)).tolist() == [REPEATED, COUNTED, REPEATED]
        assert store.count(group([9])).tolist() == [REPEATED]
        assert sums(store, 5, 4) == [(3, 2), (0, 0)]

    def test_far_serials(self, store: Store) -> None:
        far = [0, 2**32 - 1, 2**32, 2**33 + 1]
        assert store.count(group(far)).tolist() == [COUNTED] * 4
        assert store.count(group([*far, 1])).tolist() == [REPEATED] * 4 + [COUNTED]

    def test_kept_when_closed(self, store: Store, place: str) -> None:
        store.count(group([1, 2], banks=[6, 7], rounds=[5, 6]))
        store.count(group([1]))
        store.close()
        with opened(place) as again:
            assert sums(again, 5, 6) == [(2, 2), (1, 1)]
            assert again.used(0, np.array([1, 2], np.uint64)).tolist() == [True, False]
            both = again.count(group([1, 2, 1, 2], banks=[6, 6, 7, 7], rounds=[5, 5, 6, 6]))
            assert both.tolist() == [REPEATED, COUNTED, COUNTED, REPEATED]

    def test_banks_are_apart(self, store: Store) -> None:
        rounds = [5, 6, 5, 6]
        told = store.count(
            group([1, 1, 1, 2], banks=[6, 7, 6, 7], rounds=rounds, bits=[1, 0, 0, 1])
        )
        assert told.tolist() == [COUNTED, COUNTED, REPEATED, COUNTED]
        assert sums(store, 5, 6) == [(1, 1), (2, 1)]
        known = store.used(np.array([6, 7, 6, 8]), np.array([1, 1, 2, 1], np.uint64))
        assert known.tolist() == [True, True, False, False]

    def test_many_cells_in_a_group(self, store: Store) -> None:
        rounds = [999_999, 0, 999_999, 500]
        store.count(group([1, 2, 3, 4], rounds=rounds, bits=[1, 0, 0, 1]))
        assert sums(store, 0, 500, 999_999) == [(1, 0), (1, 1), (2, 1)]

    def test_a_sealed_round_takes_nothing(self, store: Store) -> None:
        store.count(group([1], rounds=5))
        close(store, [], Progress(6, 6, b""))
        told = store.count(group([1, 2, 2, 3], rounds=[5, 5, 5, 6]))
        assert told.tolist() == [REPEATED, TOO_LATE, TOO_LATE, COUNTED]
        assert sums(store, 5, 6) == [(1, 1), (1, 1)]
        assert store.count(group([2], rounds=6)).tolist() == [COUNTED]

    def test_banks_of_sealed_rounds_are_forgotten(self, store: Store, place: str) -> None:
        """But for the last two that had any."""
        store.count(group([1, 1, 1, 1, 1], banks=[2, 3, 4, 6, 7], rounds=[1, 2, 3, 5, 6]))
        store.count(group([1], rounds=6))
        with store.closing() as closing:
            assert closing.forgotten == 0
        heard = [a_row(t, reporters=int(t in (1, 2, 3, 5))) for t in range(6)]
        close(store, heard, Progress(6, 6, b""))
        store.tidy()
        banks, serials = np.array([2, 3, 4, 6, 7, 0]), np.ones(6, np.uint64)
        kept = [False, False, True, True, True, True]
        assert store.used(banks, serials).tolist() == kept
        store.close()
        with opened(place) as again:
            assert again.used(banks, serials).tolist() == kept
            with again.closing() as closing:
                assert closing.forgotten == 3

    def test_raw_reports_of_those_that_count(self, store: Store) -> None:
        raw = np.array([(b"a",), (b"b",), (b"c",)], [("letter", "S1")])
        store.count(group([1, 2, 1], raw=raw))
        store.count(group([2, 1, 3], raw=raw))
        store.count(group([3], raw=raw[:1]))
        kept = store.raw(1 << 20)
        assert b"".join(data for _, data in kept) == b"abc"
        assert store.raw(1) == kept[:1]
        store.drop_raw([kept[0][0]])
        assert store.raw(1 << 20) == kept[1:]

    @pytest.mark.parametrize("tidy", [False, True])
    def test_like_a_simple_set(
        self, place: str, tidy: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Random groups, closed and opened in between, folded at once or never."""
        monkeypatch.setattr("sudare.collector.stores.sqlite._FOLD_BYTES", 0 if tidy else 1 << 30)
        rng, seen = np.random.default_rng(3), set[tuple[int, int]]()
        counts: dict[int, tuple[int, int]] = {}
        for opening in range(3):
            with opened(place) as store:
                store.initialise({"survey": b"{}"}, b"secret")
                for _ in range(15):
                    size = int(rng.integers(1, 60))
                    rounds = rng.integers(3, 6, size)
                    banks = 0 if opening == 1 else rounds + 1
                    serials = rng.integers(0, 300, size) + 70_000 * rng.integers(0, 3, size)
                    bits = rng.integers(0, 2, size)
                    told = store.count(group(serials, banks=banks, rounds=rounds, bits=bits))
                    for i in range(size):
                        key = (0 if opening == 1 else int(rounds[i]) + 1, int(serials[i]))
                        assert told[i] == (REPEATED if key in seen else COUNTED)
                        if key not in seen:
                            seen.add(key)
                            n, y = counts.get(rounds[i], (0, 0))
                            counts[rounds[i]] = (n + 1, y + int(bits[i]))
                    if tidy:
                        store.tidy()
                assert sums(store, 3, 4, 5) == [counts[t] for t in (3, 4, 5)]


class TestPublishing:
    def test_rows_are_kept_to_the_last_bit(self, store: Store, place: str) -> None:
        rows = [
            a_row(0),
            a_row(1, raw=np.nan, smoothed=np.nan),
            a_row(2, low=5e-324, high=1 - 2**-53),
        ]
        close(store, rows, Progress(3, 2, b"\x00state"))
        store.close()
        with opened(place) as again:
            # As texts, in which NaN is like itself.
            assert repr(again.rows(0, 9)) == repr(rows)
            assert repr(again.rows(1, 2)) == repr(rows[1:2])
            assert again.progress() == (3, 2, b"\x00state")

    def test_a_revision_replaces(self, store: Store) -> None:
        close(store, [a_row(0), a_row(1)], Progress(2, 0, b""))
        close(store, [a_row(0, 1), a_row(2)], Progress(3, 1, b""))
        assert store.rows(0, 9) == [a_row(0, 1), a_row(1), a_row(2)]

    def test_all_or_nothing(self, store: Store) -> None:
        store.count(group([1]))
        with suppress(KeyboardInterrupt), store.closing() as closing:
            closing.record([a_row(0)], Progress(1, 1, b""))
            raise KeyboardInterrupt
        assert (store.progress(), store.rows(0, 9)) == (START, [])
        assert store.count(group([2, 1])).tolist() == [COUNTED, REPEATED]

    def test_closing_sees_what_is_counted(self, store: Store) -> None:
        store.issue(4)
        store.count(group([1, 2], bits=[0, 1]))
        with store.closing() as closing:
            reporters, ones = closing.counts(np.array([5, 6]))
            assert (reporters.tolist(), ones.tolist()) == ([2, 0], [1, 0])
            assert (closing.issued, closing.progress, closing.rows(0, 9)) == (4, START, [])


def test_refusals_add_up(store: Store, place: str) -> None:
    store.refused({"too_late": 2, "malformed": 1})
    store.refused({"too_late": 3})
    store.close()
    with opened(place) as again:
        assert again.refusals() == {"too_late": 5, "malformed": 1}


def test_addresses() -> None:
    with pytest.raises(InvalidInput, match="begins with postgresql://"):
        open_store("mysql://host/db")


@pytest.mark.parametrize("spread", [1, 10**6])
def test_tally(spread: int) -> None:
    rng = np.random.default_rng(0)
    cells, bits = rng.integers(0, 5, 40) * spread, rng.integers(0, 2, 40).astype(np.uint8)
    for size in (1, 2, 40):
        expected = [
            (int(c), int((cells[:size] == c).sum()), int(bits[:size][cells[:size] == c].sum()))
            for c in np.unique(cells[:size])
        ]
        assert tally(cells[:size], bits[:size]) == expected
