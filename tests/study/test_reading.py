import encodings.aliases
import gzip
import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.foundations.checks import InvalidInput
from sudare.study import header, parse_study, raw_content, read_every_row, read_table, reading_told
from sudare.study._reading import Reading, reading_of, side_file

STUDY = parse_study(
    """
    name = "a"
    [columns."größe"]
    low = 100
    high = 220
    [columns.ort]
    categories = ["Köln", "Ulm", "Prüm"]
    [target]
    column = "krank"
    classes = ["nein", "ja"]
    [privacy]
    epsilon = 1.5
    delta = 1e-6
    """
)
PLAIN = parse_study(
    """
    name = "a"
    [columns.x]
    low = -3
    high = 7
    [columns.place]
    categories = ["Genève", "東京都", "大阪府"]
    [target]
    column = "y"
    low = 0
    high = 9
    [privacy]
    epsilon = 1.5
    delta = 1e-6
    """
)
TEXT = "größe{0}ort{0}krank\n171{1}5{0}Köln{0}nein\n163{1}25{0}Ulm{0}ja\n180{0}Prüm{0}ja\n"
NAMES = ["größe", "ort", "krank"]


def expected(folder: Path) -> np.ndarray:
    (folder / "plain.csv").write_text(TEXT.format(",", "."))
    return read_table(folder / "plain.csv", STUDY).rows


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("encoding", "separator", "decimal"),
    [
        ("utf-8", ";", ","),
        ("utf-8", ";", "."),
        ("utf-8", "\t", "."),
        ("utf-8", "|", "."),
        ("utf-8-sig", ",", "."),
        ("utf-8-sig", ";", ","),
        ("utf-16", ",", "."),
        ("utf-16", "\t", "."),
        ("cp1252", ",", "."),
        ("cp1252", ";", ","),
    ],
)
def test_a_file_is_read_as_it_is(
    encoding: str, separator: str, decimal: str, packed: bool, tmp_path: Path
) -> None:
    content = TEXT.format(separator, decimal).encode(encoding)
    path = tmp_path / ("data.csv.gz" if packed else "data.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    rows = expected(tmp_path)
    np.testing.assert_array_equal(read_table(path, STUDY).rows, rows)
    # The header says it all: nothing is left to the rows.
    np.testing.assert_array_equal(read_every_row(path, STUDY).rows, rows)
    assert header(path) == NAMES
    told = reading_told(path, NAMES)
    assert told is not None
    assert encoding.removesuffix("-sig") in told
    assert ("tabs" if separator == "\t" else repr(separator)) in told
    assert ("decimal commas" in told) == (separator == ";")
    assert "Köln" not in told
    assert "--unattended" not in told


def test_the_usual_way_is_not_worth_a_word(tmp_path: Path) -> None:
    expected(tmp_path)
    assert reading_told(tmp_path / "plain.csv", NAMES) is None


@pytest.mark.parametrize(
    ("encoding", "place"), [("cp1252", "Genève"), ("cp932", "東京都"), ("cp932", "大阪府")]
)
def test_rows_tell_the_encoding_where_the_header_is_ascii(
    encoding: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(f"x,place,y\n1,{place},2\n2,{place},3\n".encode(encoding))
    number = PLAIN.columns["place"].categories.index(place)  # type: ignore[union-attr]
    rows = read_table(path, PLAIN).rows
    assert rows[:, 1:].argmax(axis=1).tolist() == [max(number - 1, 0)] * 2
    assert (rows[:, 1:].sum(axis=1) > 0).all() == (number > 0)
    told = reading_told(path, ["x", "place", "y"])
    assert told is not None
    assert encoding in told
    assert 'encoding = "' + encoding in told
    assert "jobs with --unattended read it in another way" in told


def test_rows_decide_nothing_in_unattended_work(tmp_path: Path) -> None:
    path, seen = tmp_path / "data.csv", set()
    for place in ("Genève".encode("cp1252"), "東京都".encode("cp932"), b"\xff\xfe", b"x", b"1,5"):
        path.write_bytes(b"x,place,y\n1," + place.replace(b",", b".") + b",2\n")
        seen.add(reading_of(path, ["x", "place", "y"], look=False))
        assert len(read_every_row(path, PLAIN).rows) == 1
    assert seen == {Reading()}
    for cell in (b"1,5", b"1.5", b"\xe9", b"1.234,5"):
        path.write_bytes(b"x;place;y\n" + cell + b";Ulm;2\n")
        seen.add(reading_of(path, ["x", "place", "y"], look=False))
    assert seen == {Reading(), Reading("utf-8", ";", True)}


def test_a_comma_is_read_cell_by_cell(tmp_path: Path) -> None:
    cells = ["1,5", "1.5", " 1,5 ", "-2,5e-1", "NA", "1.234,5", "1,234,5", "x", ",5"]
    path = tmp_path / "data.csv"
    path.write_text("x;place;y\n" + "".join(f"{cell};Genève;2\n" for cell in cells))
    found = read_every_row(path, PLAIN).rows[:, 0] * np.sqrt(3) * 5 + 2
    gap = 2.0  # the centre
    np.testing.assert_allclose(found, [1.5, 1.5, 1.5, -0.25, gap, gap, gap, gap, 0.5])
    with pytest.raises(InvalidInput, match="'x' holds something that is not a number"):
        read_table(path, PLAIN)


def test_the_side_file_has_the_last_word(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("x#place#y\n1,5#Genève#2\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match="more or fewer fields"):
        read_table(path, PLAIN)
    before = b"".join(raw_content(path))
    side_file(path).write_text('encoding = "latin-1"\ndelimiter = "#"\ndecimal = ","\n')
    assert side_file(path).name == "data.csv.reading.toml"
    for read in (read_table, read_every_row):
        rows, targets = read(path, PLAIN)
        assert rows[0, 0] * np.sqrt(3) * 5 + 2 == pytest.approx(1.5)
        assert targets == pytest.approx([-2.5 / 4.5])
    told = reading_told(path, ["x", "place", "y"])
    assert told is not None
    assert told.endswith("as data.csv.reading.toml says.")
    # Read in another way these are other contents: the ledger must hear of it.
    assert b"".join(raw_content(path)) != before


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ('encoding = "klingon"', "'klingon' is not known"),
        ('encoding = "base64"', "'base64' is not known"),
        ('delimiter = "ab"', "one character"),
        ('decimal = ";"', "Invalid enum value"),
        ("colour = 1", "unknown field `colour`"),
        ("x", "cannot be used"),
        ('encoding = "ascii"', "text that is not ascii"),
    ],
)
def test_a_side_file_that_cannot_be_used_is_explained(
    rules: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,place,y\n1,Genève,2\n")
    side_file(path).write_text(rules)
    with pytest.raises(InvalidInput, match=reason):
        read_table(path, PLAIN)


def test_a_little_damage_does_not_make_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("x,place,y\n1,Genève,2\n1,Genève,2\n".encode() + b"1,Gen\xe8ve,2\n")
    assert reading_of(path, ["x"], look=True).encoding == "utf-8"
    with pytest.raises(InvalidInput, match="'place' holds text that is not UTF-8"):
        read_table(path, PLAIN)


def test_western_text_is_not_taken_for_japanese(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    for text in ("élan réel, été", "Besançon", "Übergrößenträger"):  # éela: valid in Shift-JIS
        path.write_bytes(f"x,place,y\n{text}\n".encode("cp1252"))
        assert reading_of(path, ["x"], look=True).encoding == "cp1252"


def test_a_header_that_is_not_utf8_names_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("年齢;性別\n40;女性\n".encode("cp932"))
    assert header(path) == ["年齢", "性別"]
    path.write_bytes("naïve\tgröße\n1\t2\n".encode("cp1252"))
    assert header(path) == ["naïve", "größe"]


CELL = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(
        [b"1,5", b"1.5", b"Gen\xe8ve", b"\xff\xfe", b"", b"NA", b"1e400", b"nan", b"\x00"]
    ),
).map(lambda cell: cell.translate(None, b'\r\n"'))


@settings(max_examples=60, deadline=None)
@given(st.lists(CELL, min_size=1, max_size=4), st.sampled_from([b";", b",", b"\t"]))
def test_no_row_changes_how_others_are_read(cells: list[bytes], mark: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, good = Path(folder) / "data.csv", [b"2.5", b"Gen\xc3\xa8ve", b"3"]
        seen = []
        for last in (cells, good):
            lines = [[b"x", b"place", b"y"], good, last]
            path.write_bytes(b"".join(mark.join(line) + b"\n" for line in lines))
            block = read_every_row(path, PLAIN)
            assert block.targets is not None
            seen.append(np.column_stack([block.rows, block.targets]))
        if b"".join(cells) or len(cells) > 1:  # an empty line is no record
            assert seen[0].shape == seen[1].shape
        np.testing.assert_array_equal(seen[0][0], seen[1][0])
        assert np.isfinite(seen[0]).all()


STATEFUL = ["iso-2022-jp", "ISO2022_KR", "iso-2022-jp-2004", "utf-7", "hz", "unicode_escape"]


@pytest.mark.parametrize("encoding", [*STATEFUL, "raw_unicode_escape", "idna", "punycode"])
def test_an_encoding_in_which_a_row_changes_the_next_ones_is_refused(
    encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    (tmp_path / "a.csv.reading.toml").write_text(f'encoding = "{encoding}"\n')
    with pytest.raises(InvalidInput, match=r"convert the file to UTF-8|is not known"):
        reading_of(path, ["x"], look=False)


def test_in_all_other_encodings_lines_end_where_they_end_whatever_is_before(
    tmp_path: Path,
) -> None:
    path, refused = tmp_path / "a.csv", 0
    path.write_text("x\n1\n")
    pairs = itertools.product(b"\x1b$B~{+\\n\x81\x8e\xa1\xe0\xf0\xff\x0e)C", repeat=2)
    odd = [bytes(pair) for pair in pairs] + [
        b"\x1b$)C\x0e",
        b"\x1b$(D",
        b"+AAo-",
        b"\\x0a",
        b"\\u000a",
    ]
    for encoding in sorted(set(encodings.aliases.aliases.values())):
        (tmp_path / "a.csv.reading.toml").write_text(f'encoding = "{encoding}"\n')
        try:
            reading_of(path, ["x"], look=False)
        except InvalidInput:
            refused += 1
            continue
        if encoding.startswith(("utf_16", "utf_32")):
            continue  # units of two and four bytes: half a unit is half a record
        end, last = (text.encode(encoding).removeprefix(b"\xef\xbb\xbf") for text in ("\n", "9,8"))
        for cell in odd:
            lines = (cell + end + last).decode(encoding, errors="replace").split("\n")
            assert (len(lines), lines[-1]) == (2, "9,8"), (encoding, cell)
    assert 8 < refused < 25
