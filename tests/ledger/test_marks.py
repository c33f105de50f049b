"""Chances: every threshold is stated with the probability that it is passed by accident."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from sudare.foundations.checks import PrivacyError
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger, rekey
from sudare.ledger._keys import new_key
from sudare.ledger._marks import Prints, _common

KEY = new_key()


def prints(rows: list[bytes], reading: str = "r") -> Prints:
    return Prints(KEY, reading, rows)


def distinct(low: int, high: int) -> list[bytes]:
    return [f"row {i}".encode() for i in range(low, high)]


def test_rows_in_any_order_have_one_digest_and_one_row_more_another() -> None:
    rows = [*distinct(0, 30), b"row 3", b"row 3"]
    one = prints(rows)
    assert prints(rows[::-1]).digest == one.digest
    assert prints([*rows, b"row 3"]).digest != one.digest  # how often counts
    assert prints(rows[:-1]).digest != one.digest
    assert prints(rows, "other columns").digest != one.digest
    assert Prints(new_key(), "r", rows).digest != one.digest
    assert b"row 3" not in one.once
    assert len(one.once) == 29


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ((0, 1000), 1.0),
        ((3, 1004), 0.99),
        ((200, 1200), 0.8),
        ((0, 3000), 1.0),  # all of them, and more people
        ((0, 200), 1.0),  # a part of them
        ((900, 1900), None),  # a tenth in common: below what chance may do in other tables
        ((5000, 6000), None),
        ((0, 10), None),  # too few to tell
    ],
)
def test_nearly_the_same_rows_are_told_from_others(
    ours: tuple[int, int], expected: float | None
) -> None:
    mark = prints(distinct(0, 1000)).mark("people", "v")
    share = prints(distinct(*ours)).share(mark)
    assert share == (expected if expected is None else pytest.approx(expected, abs=0.06))


@pytest.mark.parametrize("cells", [30, 300, 3000])
def test_other_people_of_the_same_law_are_not_taken_for_the_same(cells: int) -> None:
    # The worst case is about one row in each cell: there 1/e of all single rows are in common.
    rng = seeded(5)
    for _ in range(20):
        one, two = (
            [str(cell).encode() for cell in rng.integers(cells, size=n)] for n in (300, 350)
        )
        assert prints(two).share(prints(one).mark("people", "v")) is None


def test_a_coincidence_has_the_stated_chance() -> None:
    # P(at least k of 40) for a share of 1/e: 1.8e-7 for 31, 9.9e-7 for 30; 5e-7 is the limit.
    sample = distinct(0, 40)
    assert _common(sample, set(sample[:31])) == 31 / 40
    assert _common(sample, set(sample[:30])) is None
    assert _common([], {b"x"}) is None


@pytest.mark.parametrize("rows", [1, 400, 5000])
def test_the_size_of_a_mark_does_not_depend_on_the_rows(rows: int) -> None:
    mark = prints(distinct(0, rows)).mark("people", "v")
    assert len(mark.sketch) == 2 * 8 * 512
    assert len(mark.digest) == 64
    assert len(mark.count) == 4
    parts = re.findall(".{16}", mark.sketch)
    assert len(set(parts)) == 512


@pytest.mark.parametrize("rows", [1, 40, 400, 511, 20_000])
def test_without_the_key_a_sketch_does_not_tell_how_many_rows_occur_once(rows: int) -> None:
    # The smallest of many digests are small, and those of few rows are in order before the rest.
    mark = prints(distinct(0, rows)).mark("people", "v")
    numbers = np.frombuffer(bytes.fromhex(mark.sketch), ">u8") / 2.0**64
    # Each test fails for uniform numbers with a chance below 1e-6: 4.9 standard deviations.
    assert abs(numbers.mean() - 0.5) < 4.9 * np.sqrt(1 / 12 / 512)
    rises = (np.diff(numbers) > 0).mean()
    assert abs(rises - 0.5) < 4.9 * np.sqrt(1 / 12 / 511)
    assert not (np.diff(numbers[:20]) > 0).all()  # 1 in 20!


def test_two_versions_of_the_same_rows_are_hidden_in_different_ways() -> None:
    same = distinct(0, 40)
    one, two = prints(same).mark("people", "v"), prints([*same, b"more"]).mark("people", "w")
    parts = [set(re.findall(".{16}", mark.sketch)) for mark in (one, two)]
    assert not parts[0] & parts[1]
    assert prints(same).share(two) == pytest.approx(40 / 41, abs=0.03)


def test_the_secret_is_not_in_the_database(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a.db") as ledger:
        ledger.open("people", "ab" * 32, 1.0)
        ledger.add_mark(ledger.prints("r", distinct(0, 20)).mark("people", "ab" * 32))
        (mark,) = ledger.all_marks()
        marking = ledger._key().marking
    assert marking.hex().encode() not in (tmp_path / "a.db").read_bytes()
    assert marking not in (tmp_path / "a.db").read_bytes()
    # With all that is in the database, rows cannot be tried out.
    guess = np.frombuffer(bytes.fromhex(mark.sketch), "S8")
    assert len(guess) == 512
    rekey(tmp_path / "a.db")
    with Ledger(tmp_path / "a.db") as ledger:
        assert ledger.prints("r", distinct(0, 20)).digest == mark.digest  # a new key, same rows


def test_after_a_lost_key_rows_are_known_by_bytes_only(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a.db") as ledger:
        ledger.open("people", "ab" * 32, 1.0)
        ledger.add_mark(ledger.prints("r", distinct(0, 20)).mark("people", "ab" * 32))
    (tmp_path / "a.db.key").unlink()
    rekey(tmp_path / "a.db")
    with Ledger(tmp_path / "a.db") as ledger:
        (mark,) = ledger.all_marks()
        assert ledger.prints("r", distinct(0, 20)).digest != mark.digest
        assert ledger.known("ab" * 32) == ("people", "ab" * 32)


def test_other_contents_of_the_same_people_share_a_budget(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a.db") as ledger:
        ledger.open("people", "a" * 64, 1.0)
        ledger.admit("people", "b" * 64)
        ledger.admit("people", "c" * 64, "a" * 64)
        ledger.admit("people", "c" * 64, "a" * 64)
        assert ledger.known("b" * 64) == ("people", "b" * 64)
        assert ledger.known("c" * 64) == ("people", "a" * 64)
        assert ledger.known("d" * 64) is None
        assert ledger.open("people", "b" * 64, 1.0).epsilon == 1.0
        with pytest.raises(PrivacyError, match="already in the ledger as 'people'"):
            ledger.open("others", "b" * 64, 1.0)
        with pytest.raises(PrivacyError, match="never moved"):
            ledger.open("people", "b" * 64, 2.0)
        assert ledger.verify() == 0
        assert ledger.all_marks() == []  # of contents, not of rows


def test_a_key_file_without_that_secret_is_written_as_before() -> None:
    assert b"recognition" not in msgspec.json.encode(KEY)
