"""Whatever one row holds, at most one encoded row follows from it: by trying all of them.

One record of a small file is arbitrary: hostile bytes in each place, under every separator and
encoding, with gaps left out, unlisted categories, people with several rows, and each kind of
target. All other encoded rows must be the same bits; so must their number, as long as the record is
somebody's who is in no other.
"""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sudare.study import Study, parse_study, read_every_row

STUDY = """
name = "a"
{incomplete}
[columns."größe"]
low = 100
high = 220
centre = 150
scale = 40
[columns.ward]
categories = ["nörd", "süd", "x"]
other = "x"
[target]
column = "ill"
{target}
{person}
[privacy]
epsilon = 1.5
delta = 1e-6
unit = "{unit}"
row_norm = 0.9
"""
TARGETS = {
    "classes": 'classes = ["no", "yes"]',
    "numbers": "low = -3\nhigh = 8",
    "counts": "most = 9",
}
FILES = {
    "utf-8": ("utf-8", b""),
    "utf-8 with a mark": ("utf-8", b"\xef\xbb\xbf"),
    "cp1252": ("cp1252", b""),
    "utf-16": ("utf-16-le", b"\xff\xfe"),
}
NAMES = ["größe", "ward", "ill", "id"]
ROWS = [
    ("170", "nörd", "yes", "1"),
    ("18.5", "süd", "no", "2"),
    ("160", "", "3", "3"),
    ("", "z", "no", "4"),
    ("", "nörd", "yes", "5"),
]
CELLS = (
    b"", b" ", b"\xff", b"\x81", b"\x00\xd8", b"\x00", b"1,5", b"1.5", b'"a""b"', b"y" * 300,
    b"\xe3\x81", b"\x8f\xfc", b"\x1b$B", b"\xef\xbb\xbf1", b"\x0b", b"\xe2\x80\xa8", b"\x1a", b"NA",
    b"1e400", b"-1e400", b"2.5", b"4000000000", b"s\xfcd", b"\xc3\xbc", b"|",
    b";;;;;", b",,,,,", b"\t\t",
)  # fmt: skip


def study(target: str, *, incomplete: bool, person: bool) -> Study:
    return parse_study(
        STUDY.format(
            target=TARGETS[target],
            incomplete='incomplete = "leave out"' if incomplete else "",
            person='[person]\ncolumn = "id"' if person else "",
            unit="patient" if person else "row",
        )
    )


def encoded(path: Path, study: Study) -> Counter[bytes]:
    block = read_every_row(path, study)
    assert block.targets is not None
    rows = study.contract.rows(block.rows)
    assert np.linalg.norm(rows, axis=1).max() <= study.contract.full_norm * (1 + 1e-12)
    assert np.abs(block.targets).max() <= 1
    return Counter(row.tobytes() for row in np.column_stack([block.rows, block.targets]) + 0.0)


@pytest.mark.parametrize(("file", "separator"), list(zip(FILES, ",;\t|", strict=True)))
@pytest.mark.parametrize(
    ("target", "incomplete", "person"),
    [("classes", True, False), ("numbers", True, True), ("counts", False, False)],
)
def test_one_record_moves_one_encoded_row(
    tmp_path: Path, file: str, separator: str, target: str, incomplete: bool, person: bool
) -> None:
    encoding, mark = FILES[file]
    described, path = study(target, incomplete=incomplete, person=person), tmp_path / "rows.csv"
    between, end = separator.encode(encoding), "\n".encode(encoding)
    own = "9".encode(encoding)
    others = [between.join(cell.encode(encoding) for cell in row) for row in ROWS]
    first: Counter[bytes] | None = None
    for place, cell in itertools.product((0, 2, 4), CELLS):
        if encoding == "utf-16-le" and len(cell) % 2:
            cell += b"\0"  # what has another number of bytes moves all that follows: another file
        if cell.startswith(b'"\0'):
            continue  # a quote that is not closed
        whole = [each.encode(encoding) for each in ("170", "süd", "yes")]  # has no gap
        for row in ([*whole, own], [cell] * 3 + [own], [whole[0], cell, cell, own], [cell, own]):
            lines = [separator.join(NAMES).encode(encoding), *others]
            lines.insert(place + 1, between.join(row))
            path.write_bytes(mark + end.join(lines) + end)
            found = encoded(path, described)
            first = found if first is None else first
            assert found.total() == 6
            assert (found - first).total() <= 1


@pytest.mark.parametrize("target", ["classes", "numbers"])
def test_all_rows_of_a_person_move_one_encoded_row(tmp_path: Path, target: str) -> None:
    described, path = study(target, incomplete=True, person=True), tmp_path / "rows.csv"
    others = ["170,nörd,yes,1", "150,süd,3,2", "160,,no,1", ",z,8,2"]
    odd = ["", ",,", "5,5,5,5,5,5", "nan,nan,nan,me", "170,nörd,yes,me", "1e999,z,-7.5,me", ",,,me"]
    mine = [[row] for row in odd]
    mine += [list(rows) for rows in itertools.product(odd[3:], repeat=2)] + [odd[3:] * 3]
    first: Counter[bytes] | None = None
    for place, rows in itertools.product((0, 2, 4), mine):
        if rows == [""]:
            continue  # an empty line is no record
        lines = [",".join(NAMES), *others[:place], *rows, *others[place:]]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = encoded(path, described)
        first = found if first is None else first
        assert found.total() == 3
        assert (found - first).total() <= 1
