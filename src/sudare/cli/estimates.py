"""The command about a model of everybody's rows: estimate. Parse, call, print."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.table import Table

from sudare.cli.console import AsJson, out, print_json
from sudare.cli.options import OwnKey, StudyFile, TrustFile, csv_text, keyring, write_text

if TYPE_CHECKING:
    from sudare.estimation import Model


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(estimate)


def estimate(
    releases: Annotated[
        list[str],
        typer.Argument(help="Folder, file or address of releases.", metavar="RELEASES..."),
    ],
    study: StudyFile = Path("study.toml"),
    trust: TrustFile = Path("trust.toml"),
    key: OwnKey = Path("key.json"),
    level: Annotated[
        float, typer.Option(help="Probability with which an interval holds its number.")
    ] = 0.95,
    method: Annotated[
        Literal["auto", "together", "sites"],
        typer.Option(
            help="together: one law for everybody's rows. sites: sites differ, and the mean over "
            "them is told (linear models, three releases or more). auto: sites if nobody pooled."
        ),
    ] = "auto",
    page: Annotated[
        Path | None, typer.Option("--html", help="Write an HTML page with forest plots.")
    ] = None,
    table: Annotated[
        bool, typer.Option("--table1", help="Put a table 1 of the same rows on the page, too.")
    ] = False,
    tidy: Annotated[
        Path | None, typer.Option("--csv", help="Write a CSV with one line for each coefficient.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A model of everybody's rows with honest intervals, from releases that have been paid for.

    Coefficients, odds or rate ratios, standard errors, intervals and p-values that count the noise
    as well as sampling, in the study's units, or "hidden by the noise" where it is. Linear models
    come from moments, logistic and Poisson ones from a pool of that kind. No further ε is spent.

    [bold]Example:[/bold] sudare estimate shared --html odds.html --csv odds.csv
    """
    from sudare import site
    from sudare.study import read_study

    described = read_study(study)
    ring = keyring(trust, key)
    checked = site.collect(releases, ring, described)
    made = site.estimate_releases(checked, described, ring, level=level, method=method, table=table)
    if page is not None:
        write_text(page, site.render_estimate(made, described))
    if tidy is not None:
        write_text(tidy, csv_text(site.CSV_HEADER_ESTIMATES, site.estimate_rows(made.model)))
    if as_json:
        print_json(msgspec.to_builtins(made))
        return
    out.print(made.sentence, style="bold")
    out.print(_table(made.model))
    for note in made.model.notes:
        out.print(note, style="dim")
    for refusal in made.refusals:
        out.print(f"Not used: {refusal.what}: {refusal.reason}", style="yellow")
    for path in (page, tidy):
        if path is not None:
            out.print(f"Wrote {path}.")


def _table(model: "Model") -> Table:
    from sudare import site
    from sudare.estimation import RATIOS

    percent = f"({100 * model.level:g} %)"
    ratio = RATIOS.get(model.family)
    head = ["column", "compared", *([f"{ratio} {percent}"] if ratio else [])]
    head += [f"coefficient {percent}", "std. error", "z" if model.sites is None else "t", "p"]
    lines = site.estimate_lines(model)
    some = any(line.between for line in lines)
    table = Table(*head, *(["between sites"] if some else []))
    for line in lines:
        cells = [line.term, line.compared, *([line.ratio] if ratio else [])]
        cells += [line.estimate, line.std_error, line.z, line.p]
        table.add_row(*cells, *([line.between] if some else []))
    return table
