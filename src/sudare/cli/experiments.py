"""The command that measures the papers' figures again. Parse, call, print."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sudare import checks
from sudare.cli.console import AsJson, out, print_json, progress

_STYLES = {"holds": "green", "holds with the correction": "yellow", "does not hold": "red"}


def register(app: typer.Typer) -> None:
    """Add the command to the whole."""
    app.command()(reproduce)


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
    as_json: AsJson = False,
) -> None:
    """Measure the papers' figures again, and say of each whether its claim holds.

    Writes PNG, SVG and CSV files and a page, index.html, that puts every figure next to the
    paper's claim. Figures are drawn by matplotlib: pip install 'sudare\\[reproduce]'.

    [bold]Example:[/bold] sudare reproduce glance-3 --quick --out figures
    """
    from sudare import experiments

    if list_figures:
        _list(as_json)
        return
    if not figures:
        raise checks.InvalidInput("Name some figures, or all: see 'sudare reproduce --list'")
    if data is not None and not data.is_dir():
        raise checks.InvalidInput(f"Expected --data {data} to be a folder")
    size = experiments.Size.QUICK if quick else experiments.Size.FULL
    setting = experiments.Setting(size, seed, data)
    with progress() as tick:
        report = experiments.reproduce(figures, to, setting, jobs=jobs or _cores(), progress=tick)
    if as_json:
        print_json(report.to_dict())
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


def _list(as_json: bool) -> None:
    from sudare.experiments import figures

    known = figures().values()
    if as_json:
        print_json(
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
