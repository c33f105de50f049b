"""Options and files that several commands share."""

import csv
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sudare.cli.console import err
from sudare.foundations import checks
from sudare.storage.files import replace_file

if TYPE_CHECKING:
    from sudare.exchange import Keyring
    from sudare.ledger import Ledger
    from sudare.study import Study

StudyFile = Annotated[Path, typer.Option("--study", help="The study's TOML file.")]
_KINDS = 'CSV, Parquet, Excel, OpenDocument, SAS, SPSS or Stata file, or "duckdb:FILE?SELECT …".'
Rows = Annotated[str, typer.Argument(help=f"Your rows: a {_KINDS}", metavar="DATA")]
MaybeRows = Annotated[str | None, typer.Argument(help=f"Your rows: a {_KINDS}", metavar="[DATA]")]
LedgerUrl = Annotated[
    str, typer.Option("--ledger", help="A file, or postgresql://… for a ledger that a team shares.")
]
TrustFile = Annotated[Path, typer.Option("--trust", help="Keyring: whose releases are accepted.")]

OwnKey = Annotated[
    Path,
    typer.Option(
        "--key", help="Your signing key, if it is there: a pooled release is signed by you, too."
    ),
]

Unattended = Annotated[
    bool,
    typer.Option(
        "--unattended",
        help="For jobs whose success others can see: never fail because of what a row holds; "
        "values that do not fit the study become public constants.",
    ),
]


AGAIN = "Run it again to go on: nothing is charged twice."


def keyring(trust: Path, key: Path, own_name: str = "yourself") -> "Keyring":
    """Whom we trust, ourselves among them if our key is there."""
    from sudare.exchange import load_key, load_keyring

    ring = load_keyring(trust)
    public = load_key(key).public if key.exists() else None
    if public is None or ring.holder(public.fingerprint) is not None:
        return ring
    return ring.with_key(own_name, public)


def tell_reading(data: str, study: "Study") -> None:
    """Say how a text file is read, where that is not the usual way. For a desk: rows may decide."""
    from sudare.study import reading_told

    told = reading_told(data, [*study.columns, study.target.column])
    if told is not None:
        err.print(told, style="yellow", soft_wrap=True)


def whether_charged(book: "Ledger") -> Callable[[], str]:
    """For Ctrl-C: asked later, whether anything was charged since now."""

    def entries() -> int:
        return sum(len(book.account(name).entries) for name in book.datasets())

    before = entries()

    def state() -> str:
        if entries() == before:
            return "Nothing was charged. Run it again to go on."
        return (
            "The ledger has been charged, and what was paid for may not have been written. Run it "
            "again: it costs nothing more."
        )

    return state


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as the text of a CSV file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()


def write_text(path: Path, text: str | bytes, mode: int | None = None) -> None:
    """Write a file whole or not at all: a full disk or a crash leaves the old one as it was.

    `mode` says who may read it; by default whoever could before, or as this process makes files.
    """
    try:
        data = text if isinstance(text, bytes) else text.encode()
        _write(Path(os.path.realpath(path)), data, mode)
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None


def write_inside(path: Path, text: str | bytes) -> None:
    """Write what was made from own rows without noise: for its owner alone, also where a file that
    others could read was there."""
    write_text(path, text, 0o600)


def _write(path: Path, data: bytes, mode: int | None) -> None:
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        path.write_bytes(data)
        return
    if mode is None:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    replace_file(path, data, mode)


def _umask() -> int:
    """What this process leaves out of the rights of new files; it can be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
