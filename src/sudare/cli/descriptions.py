"""The command about everybody's rows: describe. Parse, call, print."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from sudare.cli.console import AsJson, out, print_json
from sudare.cli.options import OwnKey, StudyFile, TrustFile, csv_text, keyring, write_text

if TYPE_CHECKING:
    from sudare.estimation import Description


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(describe)


def describe(
    releases: Annotated[
        list[str], typer.Option("--releases", help="Folder, file or address of releases.")
    ],
    study: StudyFile = Path("study.toml"),
    trust: TrustFile = Path("trust.toml"),
    key: OwnKey = Path("key.json"),
    sampling: Annotated[
        bool,
        typer.Option(
            help="Count in the intervals that the rows are a sample from a population, too."
        ),
    ] = False,
    level: Annotated[
        float, typer.Option(help="Probability with which an interval holds its number.")
    ] = 0.95,
    pairs: Annotated[
        bool, typer.Option(help="Print correlations and two-way tables, too.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--out", help="Write the table as an HTML page.")
    ] = None,
    tidy: Annotated[
        Path | None, typer.Option("--csv", help="Write a CSV with one line for each number.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A table 1 of everybody's rows, from releases that have been paid for: no further ε.

    Means, standard deviations and shares of every column, the outcome in each category, and with
    [bold]--pairs[/bold] correlations and two-way tables. Every number has an interval for the
    noise, or says why it is hidden.

    [bold]Example:[/bold] sudare describe --releases shared --out table1.html
    """
    from sudare import site
    from sudare.study import read_study

    described = read_study(study)
    checked = site.collect(releases, keyring(trust, key), described)
    made = site.describe_releases(
        checked, described, level=level, sampling=sampling, pairs=pairs or None
    )
    if page is not None:
        write_text(page, site.render_description(made))
    if tidy is not None:
        write_text(tidy, csv_text(site.CSV_HEADER, site.csv_rows(made.description)))
    if as_json:
        print_json(msgspec.to_builtins(made))
        return
    out.print(made.sentence, style="bold")
    out.print(_table(made.description))
    if pairs:
        out.print(_pairs(made.description))
    for note in made.description.notes:
        out.print(note, style="dim")
    for refusal in made.refusals:
        out.print(f"Not used: {refusal.what}: {refusal.reason}", style="yellow")
    for path in (page, tidy):
        if path is not None:
            out.print(f"Wrote {path}.")


def _table(found: "Description") -> Table:
    from sudare import site

    table = Table("column", "level", f"of all {found.n} rows", site.outcome_title(found))
    percent, last = found.outcome.positive is not None, ""
    for line in site.table_lines(found):
        among = "" if line.outcome is None else site.shown(line.outcome, percent)
        column, last = "" if line.column == last else line.column, line.column
        table.add_row(column, line.level, site.shown(line.quantity, line.percent), among)
    return table


def _pairs(found: "Description") -> Table:
    from sudare import site

    table = Table("columns", "levels", "correlation, or share of all rows")
    for pair in found.correlations:
        table.add_row(f"{pair.first}, {pair.second}", "", site.shown(pair.correlation, False))
    for both in found.two_way:
        for cell in both.cells:
            levels = f"{cell.first}, {cell.second}"
            table.add_row(f"{both.first}, {both.second}", levels, site.shown(cell.share, True))
    return table
