"""The command that hands a model on. Parse, call, print."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.console import AsJson, out, print_json
from sudare.cli.options import csv_text, write_inside
from sudare.foundations import checks


class Format(StrEnum):
    """What a model can be written as."""

    CSV = "csv"
    ONNX = "onnx"


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(export)


def export(
    model: Annotated[Path, typer.Argument(help="A model that 'sudare blend' wrote.")],
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where to write it; by default the model's name, with the format's ending.",
        ),
    ] = None,
    kind: Annotated[
        Format | None,
        typer.Option("--format", help="By default what --out ends in, or csv."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model for other programs: a tidy CSV of every term, or an ONNX graph.

    The CSV has every component with its weight, intercepts included, in the study's own units: R or
    a spreadsheet predicts from it as sudare does (docs: Judge a model and hand it on). The graph
    takes the study's raw columns; it needs pip install 'sudare\\[export]'. Both were made from your
    own rows without noise: keep them inside.

    [bold]Example:[/bold] sudare export model.json --out model.onnx
    """
    from sudare import site

    made = site.load_model(model)
    ending = to.suffix.lower().lstrip(".") if to is not None else ""
    if kind is None and ending not in ("", *Format):
        raise checks.InvalidInput(
            f"A model can be written as csv or onnx, not as {ending}: name it so, or add --format"
        )
    chosen = kind or Format(ending or "csv")
    path = to or Path(f"{model.stem}.{chosen}")
    if chosen == Format.ONNX:
        write_inside(path, site.to_onnx(made))
    else:
        write_inside(path, csv_text(site.TERMS_HEADER, site.term_rows(made)))
    many = len(made.components)
    if as_json:
        print_json({"file": str(path), "format": chosen.value, "components": many})
        return
    out.print(f"Wrote {path}.")
    if many > 1:
        out.print(
            f"The blend mixes {many} linear models: a program that predicts with it needs all of "
            "them, with their weights."
        )
    out.print("It was made from rows without noise: keep it inside.", style="bold")
