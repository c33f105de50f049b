"""How a text file is to be read: encoding, separator, decimal mark.

Three things decide, the first that knows wins:

    the side file    DATA.reading.toml, which its owner writes: nothing is guessed beside it
    the header       with the study's column names: the first encoding and separator under which
                     all of them are there; a file that is separated by ";" may have decimal commas
    the rows         at a desk only, and for the encoding only, where the header is plain ASCII

The header is public, as columns are, so that what unattended jobs make of a file depends on no row.
`reading_told` says what was taken.
"""

import codecs
import csv
import gzip
import io
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from sudare.foundations import checks
from sudare.storage.files import read_text, toml_value, unreadable

BLOCK_BYTES = 1 << 20
SIDE = ".reading.toml"
PARQUET = (".parquet", ".pq")
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STATISTICS = (".sas7bdat", ".xpt", ".sav", ".zsav", ".dta")
QUERY = "duckdb:"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ENCODINGS = ("utf-8", "cp932", "cp1252")
_SEPARATORS = (",", ";", "\t", "|")
_STATEFUL = re.compile(r"iso2022.*|utf_?7|hz|(raw_)?unicode_escape|punycode|idna")
"""Encodings whose bytes can change how later lines are read, or make line ends of other bytes."""
_SHOWN = {"\t": "tabs", "cp932": "Shift-JIS (cp932)", "utf-8-sig": "utf-8"}


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a side file says."""

    encoding: str | None = None
    delimiter: str | None = None
    decimal: Literal[".", ","] | None = None
    sheet: str | None = None
    """Of a workbook; the first by default."""


class Reading(msgspec.Struct, frozen=True):
    """How a text file is read."""

    encoding: str = "utf-8"
    delimiter: str = ","
    commas: bool = False
    """A number may have a comma in place of the point."""

    @property
    def is_plain(self) -> bool:
        return self == Reading()


def is_query(source: object) -> bool:
    """Whether this is "duckdb:FILE?SELECT …", not a file."""
    return isinstance(source, str) and source.startswith(QUERY)


def is_table(path: Path) -> bool:
    """Whether this is a workbook, or a file of a statistics package."""
    return path.suffix.lower() in (*WORKBOOKS, *STATISTICS)


def side_file(path: Path) -> Path:
    """Where the rules for this file are, if there are any."""
    return path.with_name(path.name + SIDE)


def rules_of(path: Path) -> Rules:
    """The rules beside a file."""
    side = side_file(path)
    if not side.is_file():
        return Rules()
    try:
        rules = msgspec.convert(tomllib.loads(read_text(side)), Rules)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as problem:
        raise checks.InvalidInput(
            f"{side} cannot be used: {problem}. Known are encoding, delimiter, decimal and sheet"
        ) from None
    if rules.delimiter is not None and (len(rules.delimiter) != 1 or not rules.delimiter.isascii()):
        raise checks.InvalidInput(f"{side}: expected delimiter to be one character")
    try:
        b"a".decode(rules.encoding or "utf-8", errors="replace")
    except (LookupError, TypeError, ValueError):
        raise checks.InvalidInput(f"{side}: encoding {rules.encoding!r} is not known") from None
    name = codecs.lookup(rules.encoding or "utf-8").name.replace("-", "_")
    if _STATEFUL.fullmatch(name):
        raise checks.InvalidInput(
            f"{side}: in {rules.encoding} one row can change how the next ones are read: convert "
            "the file to UTF-8 first"
        )
    return rules


def reading_of(path: Path, wanted: list[str], *, look: bool) -> Reading:
    """How to read a file that should have these columns; `look` also at its rows."""
    rules, head = rules_of(path), next(blocks(path), b"")
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    given = rules.encoding or marked
    encodings = (given,) if given else _ENCODINGS
    if look and not wanted and not given:
        encodings = (_encoding_of_rows(path),)
    separators = (rules.delimiter,) if rules.delimiter else _SEPARATORS
    pairs = [(encoding, mark) for encoding in encodings for mark in separators]
    found = _first_that_fits(head, wanted, pairs) if wanted else _widest(head, pairs)
    encoding, delimiter = found or (encodings[0], separators[0])
    if look and wanted and not given and encoding == "utf-8":
        encoding = _encoding_of_rows(path)
        if encoding != "utf-8" and not found:
            again = _first_that_fits(head, wanted, [(encoding, mark) for mark in separators])
            encoding, delimiter = again or (encoding, delimiter)
    commas = delimiter == ";" if rules.decimal is None else rules.decimal == ","
    return Reading(encoding, delimiter, commas)


def reading_told(source: str | Path, wanted: list[str]) -> str | None:
    """In words how a text file is read at a desk, where that is not the usual way."""
    path = Path(source)
    if is_query(source) or is_table(path) or path.suffix in PARQUET:
        return None
    reading = reading_of(path, wanted, look=True)
    if reading.is_plain:
        return None
    encoding, mark = (_SHOWN.get(each, each) for each in (reading.encoding, reading.delimiter))
    separated = "separated by tabs" if mark == "tabs" else f"separated by {mark!r}"
    told = f"{path} is read as {encoding}, {separated}"
    told += ", with decimal commas" if reading.commas else ""
    side = side_file(path)
    if side.is_file():
        return f"{told}, as {side.name} says."
    decimal = "," if reading.commas else "."
    keys = {"encoding": reading.encoding, "delimiter": reading.delimiter, "decimal": decimal}
    lines = ", ".join(f"{key} = {toml_value(value)}" for key, value in keys.items())
    told += f". If that is wrong, or to settle it, write into {side.name}: {lines}."
    if reading != reading_of(path, wanted, look=False):
        told += " Without it, jobs with --unattended read it in another way."
    return told


def names_of(path: Path, wanted: list[str]) -> list[str]:
    """The column names of a text file, whatever its rows are like."""
    reading = reading_of(path, wanted, look=True)
    return _names(next(blocks(path), b""), reading.encoding, reading.delimiter)


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except (OSError, EOFError) as problem:
        raise unreadable(path, problem, "it is cut short or damaged") from None


def _first_that_fits(
    head: bytes, wanted: list[str], pairs: list[tuple[str, str]]
) -> tuple[str, str] | None:
    return next((pair for pair in pairs if set(wanted) <= set(_names(head, *pair))), None)


def _widest(head: bytes, pairs: list[tuple[str, str]]) -> tuple[str, str] | None:
    """Where nobody says what the columns are called: under which there are most of them."""
    sound = [pair for pair in pairs if "\ufffd" not in "".join(_names(head, *pair))]
    return max(sound, key=lambda pair: len(_names(head, *pair)), default=None)


def _names(head: bytes, encoding: str, delimiter: str) -> list[str]:
    """The first record of a file that has any."""
    text = head.decode(encoding, errors="replace").lstrip("\ufeff\r\n")
    records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        return next(records, [])
    except csv.Error:
        return []


def _encoding_of_rows(path: Path) -> str:
    """UTF-8 if the whole file is, or is but for some damage; else what its bytes look like."""
    whole, damaged = codecs.getincrementaldecoder("utf-8")(errors="replace"), 0
    sound = 0
    for block in blocks(path):
        if block.isascii():
            continue
        text = whole.decode(block)
        damaged += text.count("\ufffd")
        sound += sum(not letter.isascii() for letter in text) - text.count("\ufffd")
    if damaged <= sound:
        return "utf-8"
    return "cp932" if _is_japanese(path) else "cp1252"


def _is_japanese(path: Path) -> bool:
    """Whether wide letters stand together: a Latin text read so has them one by one."""
    decoder = codecs.getincrementaldecoder("cp932")()
    wide = alone = 0
    try:
        for block in blocks(path):
            text = f" {decoder.decode(block)} "
            for before, letter, after in zip(text, text[1:], text[2:], strict=False):
                if letter > "\u2e80":
                    wide += 1
                    alone += before.isascii() and after.isascii() and (before + after).isalnum()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return 2 * alone < wide
