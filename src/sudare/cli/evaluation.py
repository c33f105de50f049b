"""The command that judges a model on labelled rows. Parse, call, print."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from sudare.cli.console import AsJson, out, print_json, progress
from sudare.cli.options import Rows, tell_reading

if TYPE_CHECKING:
    from sudare.site import Evaluation, Model


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(evaluate)


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model that 'sudare blend' wrote.")],
    data: Rows,
    threshold: Annotated[
        float, typer.Option(help="Rows with a larger probability are called the second class.")
    ] = 0.5,
    level: Annotated[
        float, typer.Option(help="Probability with which an interval holds its number.")
    ] = 0.95,
    resamples: Annotated[
        int, typer.Option(help="How often rows are drawn again for the intervals.", min=1)
    ] = 1000,
    seed: Annotated[int, typer.Option(help="The same intervals every time.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """How good a model is on labelled rows: each measure with a bootstrap interval.

    Classes: AUC, Brier score, log loss, calibration, and what a threshold makes of it. Numbers:
    RMSE, MAE, R² and calibration. Best are a calibration slope of 1 and an intercept of 0; a slope
    below 1 says that predictions are too extreme. Rows should be such as the model was not made
    from; those without a label are left out. All of it stays inside.

    [bold]Example:[/bold] sudare evaluate model.json labelled.csv --threshold 0.3
    """
    from sudare import site

    made = site.load_model(model)
    tell_reading(data, made.study)
    with progress() as tick:
        found = site.evaluate(
            made,
            data,
            threshold=threshold,
            level=level,
            resamples=resamples,
            seed=seed,
            progress=partial(tick, "drawing rows again"),
        )
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _show(made, found)


def _show(model: "Model", found: "Evaluation") -> None:
    from sudare import site

    title = f"{found.rows} rows, {100 * found.level:g} % intervals from {found.resamples} resamples"
    out.print(title, style="bold")
    if found.left_out:
        out.print(f"{found.left_out} rows without a label were left out.")
    table = Table("measure", "value", "from", "to")
    for name, measure in found.measures.items():
        table.add_row(site.WORDS[name], *map(_shown, (measure.value, measure.low, measure.high)))
    out.print(table)
    if None in [end for m in found.measures.values() for end in (m.value, m.low, m.high)]:
        out.print("–: infinite, or too few rows to tell.")
    if found.caution:
        out.print(found.caution, style="yellow")
    target, told = model.study.target, found.confusion
    if told is None:
        out.print(
            f"Targets count as the study says: within {target.low:g} and {target.high:g}.",
        )
    else:
        assert target.classes is not None
        first, second = map(str, target.classes)
        counts = Table(f"{target.column} is", f"called {first}", f"called {second}")
        counts.add_row(first, str(told.first_as_first), str(told.first_as_second))
        counts.add_row(second, str(told.second_as_first), str(told.second_as_second))
        out.print(counts)
        out.print(f"Called {second} above a probability of {told.threshold:g}.")
    out.print(f"This was {found.note}.", style="bold")


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
