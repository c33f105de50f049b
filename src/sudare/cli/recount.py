"""Counting retained reports again. Parse, call, print."""

from math import isnan
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sudare.cli.console import AsJson, out, print_json
from sudare.foundations import checks


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(recount)


def recount(
    folder: Annotated[Path, typer.Argument(help="Where 'sudare collect --retain' kept reports.")],
    survey: Annotated[
        Path | None, typer.Option(help="The survey's TOML file, if it is not in the folder.")
    ] = None,
    engine: Annotated[str, typer.Option(help="duckdb, or spark for very many.")] = "duckdb",
    users: Annotated[
        int | None, typer.Option(help="How many people took part (harmony, tree).", min=1)
    ] = None,
    beta: Annotated[float, typer.Option(help="Probability with which intervals may fail.")] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Count retained reports again, from their files alone.

    A report that stands in two files counts once. The collector's own counts should come out.

    [bold]Example:[/bold] sudare recount reports --json
    """
    from sudare.collector import ENGINES, SURVEY_FILE
    from sudare.collector import recount as count_again
    from sudare.counting import estimate, read_survey, smooth

    if engine not in ENGINES:
        raise checks.InvalidInput(f"Expected engine to be one of {', '.join(ENGINES)}")
    chosen = read_survey(survey or folder / SURVEY_FILE)
    tally = count_again(folder, chosen, "spark" if engine == "spark" else "duckdb")
    shares = estimate(tally, chosen, users=users, beta=beta)
    rows = [
        {**row, "smoothed": None if isnan(calm) else float(calm)}
        for row, calm in zip(shares.to_dicts(), smooth(shares), strict=True)
    ]
    if as_json:
        print_json({"survey": chosen.name, "reports": int(tally.reporters.sum()), "rounds": rows})
        return
    out.print(f"{chosen.name}: {int(tally.reporters.sum()):,} reports")
    table = Table("round", "reporters", "share", "interval", "smoothed")
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.3f}"
        interval = f"{row['low']:.3f} … {row['high']:.3f}"
        smoothed = "" if row["smoothed"] is None else f"{row['smoothed']:.3f}"
        table.add_row(str(row["round"]), f"{row['reporters']:,}", share, interval, smoothed)
    out.print(table)
