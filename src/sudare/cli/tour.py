"""Made-up people: the tour, and files to follow a tutorial with. Parse, call, print."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sudare.cli.console import Seed, out, progress
from sudare.foundations import checks


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


def simulate_patients(
    path: Annotated[Path, typer.Argument(help="Where to write the CSV file.")],
    count: Annotated[int, typer.Option(help="How many patients.", min=1)] = 100,
    seed: Seed = None,
) -> None:
    """Made-up patients of a made-up hospital, for trying things out.

    Half of them fall ill, the old, the heavy and the smokers more often. All files come from one
    law, so that hospitals differ by chance only.

    [bold]Example:[/bold] sudare simulate patients A.csv --count 60 --seed 1
    """
    from sudare.demo import patients, write_patients
    from sudare.foundations.randomness import as_generator

    if path.exists():
        raise checks.InvalidInput(f"{path} exists: choose another name")
    try:
        write_patients(path, *patients(count, as_generator(seed)))
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None
    out.print(f"Wrote {count:,} made-up patients to {path}.")
