"""The command that lets made-up people take part in a running collector. Parse, call, print."""

import csv
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.console import AsJson, Seed, err, out, print_json, progress
from sudare.cli.sparks import sparks
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.collector import Load

_SIGNALS = ("constant", "sine", "step", "walk")
_MOST_ROWS = 24
_TOKEN = "SUDARE_OPERATOR_TOKEN"


def simulate_clients(
    url: Annotated[str, typer.Option(help="The collector's address: http://127.0.0.1:8000.")],
    users: Annotated[int, typer.Option(help="How many people to make up.", min=1)],
    signal: Annotated[
        str, typer.Option(help="What they do: constant, sine, step or walk.")
    ] = "sine",
    share: Annotated[float, typer.Option(help="The share of a constant signal.")] = 0.5,
    relay: Annotated[
        bool, typer.Option("--relay", help="Send packed batches of reports, as a relay does.")
    ] = False,
    rounds: Annotated[int | None, typer.Option(help="Stop after so many rounds.", min=1)] = None,
    seed: Seed = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="Write truth and estimates to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Made-up people in a running collector: real HTTP, in the collector's own rounds.

    Each has a ticket and secret coins of their own, reports when it is their turn, and sends again
    what got lost. At the end the truth stands beside what the collector published. Use short rounds
    (sudare collect --round-seconds 1). With the operator's token in SUDARE_OPERATOR_TOKEN all
    tickets are asked for at once; without it, the collector's rate limit sets the pace.

    [bold]Example:[/bold] sudare simulate clients --url http://127.0.0.1:8000 --users 1000 --relay
    """
    from sudare.collector import simulate_clients as simulate
    from sudare.foundations.randomness import as_generator

    if signal not in _SIGNALS:
        raise checks.InvalidInput(f"Expected --signal to be one of {', '.join(_SIGNALS)}")
    rng = as_generator(seed)
    token = os.environ.get(_TOKEN) or None
    if token is None and not as_json:
        err.print(
            "Tickets come one by one, at the pace the collector allows to strangers. To have them "
            f"at once, set {_TOKEN} to the token it printed at its first start.",
            style="dim",
            soft_wrap=True,
        )
    with progress() as tick:
        told = simulate(
            url,
            users,
            lambda length: _shares(signal, share, length, rng),
            rng=rng,
            token=token,
            relay=relay,
            rounds=rounds,
            progress=tick,
        )
    if table is not None:
        _write(told, table)
    if as_json:
        print_json(_record(told))
        return
    _show(told)
    if table is not None:
        out.print(f"Truth and estimates written to {table}.")


def _shares(name: str, share: float, rounds: int, rng: Any) -> Any:
    from sudare.counting import signals

    match name:
        case "constant":
            return signals.constant(rounds, share)
        case "sine":
            return signals.sine(rounds)
        case "step":
            return signals.step(rounds)
        case _:
            return signals.random_walk(rounds, step_std=0.05, rng=rng)


def _rows(told: "Load") -> list[dict[str, Any]]:
    return [
        {
            "round": each.round,
            "truth": float(told.truth[each.round]),
            "estimate": each.raw,
            "low": each.low,
            "high": each.high,
            "smoothed": each.smoothed,
            "reporters": each.reporters,
            "covered": covered,
        }
        for each, covered in zip(told.rounds, told.covered, strict=True)
    ]


def _record(told: "Load") -> dict[str, Any]:
    errors = told.errors
    return {
        "survey": told.survey.name,
        "method": told.survey.method,
        "epsilon": told.survey.epsilon,
        "users": told.users,
        "acknowledged": told.acknowledged,
        "refused": told.refused,
        "resent": told.resent,
        "seconds": told.seconds,
        "mean_error": float(errors.mean()) if errors.size else None,
        "largest_error": float(errors.max()) if errors.size else None,
        "coverage": told.coverage,
        "rounds": _rows(told),
    }


def _show(told: "Load") -> None:
    record = _record(told)
    out.print(
        f"{told.survey.name}: {told.survey.method}, {told.users:,} people, "
        f"ε = {told.survey.epsilon:g}, {len(told.rounds):,} rounds in {told.seconds:.1f} s"
    )
    if not told.rounds:
        out.print("The collector published none of the rounds in time.")
    else:
        _show_rounds(told, record)
    refused = ", ".join(f"{n:,} {reason}" for reason, n in told.refused.items())
    out.print(
        f"{told.acknowledged:,} reports acknowledged, {refused or 'none refused'}, "
        f"{told.resent:,} sent again."
    )


def _show_rounds(told: "Load", record: dict[str, Any]) -> None:
    rows = record["rounds"]
    table = Table("round", "truth", "estimate", "interval", "reporters", "")
    for column in table.columns:
        column.justify = "right"
    for row in rows[:: -(-len(rows) // _MOST_ROWS)]:
        table.add_row(
            f"{row['round']}",
            f"{row['truth']:.3f}",
            "–" if row["estimate"] is None else f"{row['estimate']:.3f}",
            f"{row['low']:.3f} – {row['high']:.3f}",
            f"{row['reporters']:,}",
            "" if row["covered"] else "missed",
        )
    out.print(table)
    out.print("From 0 (▁) to 1 (█):", style="dim")
    for name in ("truth", "estimate", "smoothed"):
        curve = [math.nan if row[name] is None else row[name] for row in rows]
        out.print(f"  {name:9} {sparks(curve)}", highlight=False)
    if record["mean_error"] is not None:
        inside = sum(told.covered)
        out.print(
            Text.assemble(
                "Error: ",
                (f"{record['mean_error']:.3f}", "bold"),
                f" on average, {record['largest_error']:.3f} at most. The truth is inside ",
                (f"{inside:,} of {len(rows):,}", "bold"),
                " intervals.",
            )
        )


def _write(told: "Load", file: Path) -> None:
    rows = _rows(told)
    names = ["round", "truth", "estimate", "low", "high", "smoothed", "reporters", "covered"]
    try:
        with file.open("w", newline="", encoding="utf-8") as text:
            lines = csv.writer(text)
            lines.writerow(names)
            for row in rows:
                # An empty cell where nobody reported.
                lines.writerow("" if row[name] is None else row[name] for name in names)
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {file}: {problem.strerror}") from None
