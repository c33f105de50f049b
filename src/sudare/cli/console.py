"""What all commands share: where they print, and how.

Names of files and parties come from others. They are shown as they are spelled: no markup, and no
character that a terminal would obey.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


class _PlainConsole(Console):
    """Prints strings as they are; what is to be bold is a `rich.text.Text`."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            shown = text if control else "\n".join(map(printable, text.split("\n")))
            yield Segment(shown, style, control)


def printable(text: str) -> str:
    """The text on one line, with a mark in place of every character that is not to be seen."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


out = _PlainConsole()
err = _PlainConsole(stderr=True)

INTERRUPTED = 130
"""How shells count what Ctrl-C has ended."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Draw the same numbers every time. Without it, secure randomness.", min=0),
]


@contextmanager
def progress() -> Iterator[Any]:
    """A progress bar on standard error, where there is a person to see it."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def tick(title: str, done: int, total: int) -> None:
            if title not in tasks:
                tasks[title] = bar.add_task(title, total=total)
            bar.update(tasks[title], completed=done, total=total)

        yield tick


@contextmanager
def busy(title: str) -> Iterator[Callable[[], None]]:
    """Say on standard error, where there is a person to see it, what takes a while, and how long
    it has taken. What it yields ends that, to ask something."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        bar.add_task(title, total=None)
        yield bar.stop


@contextmanager
def on_interrupt(state: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C say in one line what state things are in, and end with 130."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"Stopped. {state()}", style="yellow", soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


def number(value: float) -> float | str:
    """JSON has no infinity."""
    return value if value != float("inf") else "inf"


def print_json(value: object) -> None:
    """For scripts: indented, and strict; the characters that nobody sees are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    print(re.sub(r"[^\n\x20-\x7e]", lambda found: _escaped(found[0]), text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]
