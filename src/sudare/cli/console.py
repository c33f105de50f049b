"""What all commands share: where they print, and how."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

out = Console()
err = Console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Draw the same numbers every time. Without it, secure randomness.", min=0),
]


@contextmanager
def progress() -> Iterator[Any]:
    """A progress bar on standard error, where there is a person to see it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def tick(title: str, done: int, total: int) -> None:
            if title not in tasks:
                tasks[title] = bar.add_task(title, total=total)
            bar.update(tasks[title], completed=done, total=total)

        yield tick


def number(value: float) -> float | str:
    """JSON has no infinity."""
    return value if value != float("inf") else "inf"


def print_json(value: object) -> None:
    """For scripts: indented, and strict."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
