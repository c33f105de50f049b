"""The tour: a first look with made-up people. Parse, call, print."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sudare.cli.console import Seed, progress


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(demo)


def demo(
    seed: Seed = 7,
    to: Annotated[Path, typer.Option("--out", help="Folder for the files it makes.")] = Path(
        "sudare-demo"
    ),
) -> None:
    """A tour with made-up people: learn together, count, audit. Takes about a minute."""
    from sudare.demo import run

    with progress() as tick:
        # All that it prints is its own, with markup.
        run(Console(), seed=seed, progress=tick, folder=to)
