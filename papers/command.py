"""The command `python -m papers`. Parse, call, print.

Exit codes: 0 done; 2 something to put right in what was asked.
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

import papers
from papers.running import Progress
from sudare.foundations import checks

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
# Names of files are shown as they are spelled, not read as markup.
out, err = (Console(stderr=stderr, markup=False, emoji=False) for stderr in (False, True))
_STYLES = {"holds": "green", "holds with the correction": "yellow", "does not hold": "red"}


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(help="Figures by name, or all of them.", metavar="[FIGURE... | all]"),
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for pictures, tables and page.")] = Path(
        "sudare-figures"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs: two minutes instead of half an hour.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same numbers every time.", min=0)] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; as many as there are cores if not given.", min=1)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with pima.csv, for the Pima figure.")
    ] = None,
    list_figures: Annotated[bool, typer.Option("--list", help="Show the figures.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Measure the papers' figures again, and say of each whether its claim holds.

    Writes PNG, SVG and CSV files and a page, index.html, that puts every figure next to the
    paper's claim. Figures are drawn by matplotlib: pip install -e '.\\[reproduce]'.

    [bold]Example:[/bold] python -m papers glance-3 --quick --out figures
    """
    if list_figures:
        _list(as_json)
        return
    if not figures:
        raise checks.InvalidInput("Name some figures, or all: see 'python -m papers --list'")
    if data is not None and not data.is_dir():
        raise checks.InvalidInput(f"Expected --data {data} to be a folder")
    size = papers.Size.QUICK if quick else papers.Size.FULL
    setting = papers.Setting(size, seed, data)
    with _progress() as tick:
        report = papers.reproduce(figures, to, setting, jobs=jobs or _cores(), progress=tick)
    if as_json:
        _print_json(report.to_dict())
        return
    for outcome in report.outcomes:
        figure, told = outcome.figure, outcome.conclusion
        verdict = (str(told.verdict), _STYLES[told.verdict])
        out.print(Text.assemble((figure.title, "bold"), f" ({figure.name}): ", verdict))
        for label, sentence in (
            ("Claimed", figure.claim),
            ("Measured", told.measured),
            ("Differs", told.differs),
        ):
            out.print(Padding(Text(f"{label}: {sentence}", style="dim"), (0, 0, 0, 2)))
    for skipped in report.skipped:
        out.print(f"Skipped {skipped.figure.name}: {skipped.reason}", style="yellow")
    out.print(f"Wrote {report.page}: open it in a browser.")


def main() -> None:
    """Run the command; a mistake becomes one line, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal knows ε
    try:
        app(prog_name="python -m papers")
    except (checks.SudareError, OSError) as problem:
        err.print(Text.assemble(("Error:", "red"), f" {problem}"), soft_wrap=True)
        sys.exit(2)


def _list(as_json: bool) -> None:
    known = papers.figures().values()
    if as_json:
        _print_json(
            [
                {"figure": f.name, "title": f.title, "paper": f.paper, "claim": f.claim}
                for f in known
            ]
        )
        return
    table = Table("figure", "what it shows", "from")
    for figure in known:
        table.add_row(figure.name, figure.title, figure.paper)
    out.print(table)


def _cores() -> int:
    """Cores this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar on standard error, where there is a person to see it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Bar(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        tasks = {}

        def tick(title: str, done: int, total: int) -> None:
            if title not in tasks:
                tasks[title] = bar.add_task(title, total=total)
            bar.update(tasks[title], completed=done, total=total)

        yield tick
