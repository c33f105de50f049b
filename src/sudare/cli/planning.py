"""What learning together may give, before anyone commits. Parse, call, print; no data is read."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table

from sudare.cli.console import AsJson, err, out, print_json, progress
from sudare.cli.options import write_text
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.site import Expectation, LearningPlan

_NAMES = {
    "separate": "separate releases",
    "pooled": "a pool",
    "everything": "all rows in one place",
}


def plan_learn(
    study: Annotated[
        Path | None, typer.Option(help="The study's TOML file: its columns and terms.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Rows of each party, as in 120,80,300.", show_default=False)
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Rows that each party holds.")] = None,
    parties: Annotated[
        int | None, typer.Option(help="Organisations taking part, yours included.")
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Features of a row, where there is no study yet.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Price of one release; that of the study by default.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Probability with which ε may fail; the study's, or 1e-6."),
    ] = None,
    colluders: Annotated[
        int | None, typer.Option(help="Of a pool, with --study; just under half by default.", min=0)
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Simulated consortia; 100 with a study, 5 without.", min=2),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Without --study: a picture of accuracy against ε, as an SVG file."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same numbers every time.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """What learning together may give: a range, simulated for your study, sizes and price.

    With --study it simulates many consortia of all kinds with the study's columns and your sizes,
    and says what most of them gain. Without, one ideal consortium whose parties are all alike. No
    data is read.

    [bold]Example:[/bold] sudare plan learn --study study.toml --sizes 120,80,300
    """
    if study is None:
        if sizes is not None or colluders is not None:
            raise checks.InvalidInput("--sizes and --colluders belong to --study")
        _ideal(rows, features, epsilon, parties, delta, runs, plot, seed, as_json)
        return
    if features is not None or plot is not None:
        raise checks.InvalidInput("--features and --plot are for plans without --study")
    _of_study(study, _sizes(sizes, parties, rows), epsilon, delta, colluders, runs, seed, as_json)


def _sizes(sizes: str | None, parties: int | None, rows: int | None) -> tuple[int, ...]:
    if sizes is None:
        if parties is None or rows is None:
            raise checks.InvalidInput("Expected --sizes 120,80,300, or --parties and --rows")
        return (rows,) * parties
    if parties is not None or rows is not None:
        raise checks.InvalidInput("Expected --sizes, or --parties and --rows, but not both")
    try:
        return tuple(int(part) for part in sizes.split(","))
    except ValueError:
        raise checks.InvalidInput(
            "Expected --sizes to be whole numbers with commas between, as in 120,80,300"
        ) from None


def _of_study(
    path: Path,
    sizes: tuple[int, ...],
    epsilon: float | None,
    delta: float | None,
    colluders: int | None,
    runs: int | None,
    seed: int,
    as_json: bool,
) -> None:
    from sudare.site import expect, seconds_needed
    from sudare.study import read_study

    agreed, runs = read_study(path), 100 if runs is None else runs
    changed = {"epsilon": epsilon, "delta": delta}
    changed = {name: value for name, value in changed.items() if value is not None}
    if epsilon is not None:
        checks.positive(epsilon=epsilon)
    if delta is not None:
        checks.proportion(delta=delta)
    terms = msgspec.structs.replace(agreed.privacy, **changed)
    agreed = msgspec.structs.replace(agreed, privacy=terms)
    if not as_json:
        seconds = seconds_needed(agreed, sizes, runs)
        err.print(f"Simulating {runs} consortia: about {max(seconds, 1):.0f} s.", style="dim")
    with progress() as tick:
        found = expect(
            agreed,
            sizes,
            colluders=colluders,
            runs=runs,
            seed=seed,
            progress=lambda done, total: tick("simulating", done, total),
        )
    if as_json:
        print_json(_told(found))
    else:
        _show(found)


def _told(found: "Expectation") -> dict[str, Any]:
    ways = {
        way: {"low": g.low, "half": g.half, "high": g.high, "mean": g.mean, "each": g.each}
        for way, g in found.gains.items()
    }
    return {
        "study": found.study.name,
        "epsilon": found.study.privacy.epsilon,
        "delta": found.study.privacy.delta,
        "sizes": found.sizes,
        "runs": found.runs,
        "seed": found.seed,
        "unit": found.unit,
        "own": found.own,
        "gains": ways,
        "verdict": found.verdict,
    }


def _show(found: "Expectation") -> None:
    out.print(found.verdict, style="bold", soft_wrap=True)
    title = f"gained over the own model, in points of {found.unit}"
    table = Table("with", "a tenth gain less", "half gain less", "a tenth gain more", title=title)
    for way, gains in found.gains.items():
        table.add_row(_NAMES[way], *(_signed(g) for g in (gains.low, gains.half, gains.high)))
    out.print(table)
    largest, least = max(found.sizes), min(found.sizes)
    each = f"{least}" if least == largest else f"{least} to {largest}"
    out.print(
        f"{found.runs} made-up consortia of {len(found.sizes)} parties with {each} rows, at "
        f"ε = {found.study.privacy.epsilon:g}; the gain is that of one party, drawn at random, on "
        "new rows of its own site. They differ in how columns spread, how rare categories are, how "
        "much the columns say, and how far sites differ. Nobody knows which of them is yours: "
        "where in the range you are, only a release or a pool will show.",
        soft_wrap=True,
    )
    if "pooled" not in found.gains:
        out.print("A pool needs three parties and a delta above 0.", soft_wrap=True)


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _ideal(
    rows: int | None,
    features: int | None,
    epsilon: float | None,
    parties: int | None,
    delta: float | None,
    runs: int | None,
    plot: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    from sudare.site import plan_learning

    if rows is None or features is None or epsilon is None or parties is None:
        raise checks.InvalidInput(
            "Expected --study and --sizes, or else --rows, --features, --epsilon and --parties"
        )
    with progress() as tick:
        found = plan_learning(
            rows=rows,
            features=features,
            epsilon=epsilon,
            parties=parties,
            delta=1e-6 if delta is None else delta,
            runs=5 if runs is None else runs,
            seed=seed,
            progress=lambda done, total: tick("simulating", done, total),
        )
    if plot is not None:
        write_text(plot, found.to_svg())
    if as_json:
        print_json(dataclasses.asdict(found) | {"verdict": found.verdict})
        return
    _show_ideal(found)


def _show_ideal(found: "LearningPlan") -> None:
    out.print(found.verdict, style="bold", soft_wrap=True)
    table = Table("ε", "own model", "blend", "all rows pooled")
    for point in found.points:
        table.add_row(
            f"{point.epsilon:g}",
            f"{point.own:.1%}",
            f"{point.blend:.1%}",
            f"{point.pooled:.1%}",
            style="bold" if point.epsilon == found.epsilon else None,
        )
    out.print(table)
    out.print(
        f"Mean of {found.runs} simulated consortia with {found.parties} parties of {found.rows} "
        f"rows, all from one law. Pooled noise is about {found.noise_share:.0%} of a typical "
        "signal; choosing among the parties' models by own rows costs at most "
        f"{found.aggregation_cost:.3f} in log loss.",
        soft_wrap=True,
    )
