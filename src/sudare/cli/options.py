"""Options and files that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from sudare import checks

StudyFile = Annotated[Path, typer.Option("--study", help="The study's TOML file.")]
LedgerUrl = Annotated[
    str, typer.Option("--ledger", help="A file, or postgresql://… for a ledger that a team shares.")
]
TrustFile = Annotated[Path, typer.Option("--trust", help="Keyring: whose releases are accepted.")]


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise checks.InvalidInput(f"Cannot read {path}: {reason}") from None


def write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None
