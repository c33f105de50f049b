"""Commands for planning and trying out a count. Parse, call, print."""

import csv
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.clients import simulate_clients
from sudare.cli.console import AsJson, Seed, number, out, print_json, progress
from sudare.cli.planning import plan_learn
from sudare.cli.sparks import sparks
from sudare.cli.tour import simulate_patients
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.counting import Plan, Simulation, Survey

plans = typer.Typer(help="Find out beforehand what a count, or learning together, will be worth.")
simulations = typer.Typer(
    help="Made-up people: run a count on them, in here or over HTTP; write a hospital's file."
)

_BAR = 20
_SIGNALS = ("constant", "sine", "step", "walk", "independent")

Users = Annotated[int | None, typer.Option(help="How many people take part.", min=1)]
Rounds = Annotated[int | None, typer.Option(help="How many rounds are counted.", min=1)]
Epsilon = Annotated[
    float | None, typer.Option(help="What one person's reports may reveal, over all rounds.")
]
Changes = Annotated[
    int | None,
    typer.Option(help="Method tree: how often a person's answer changes at most.", min=1),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    plans.command("learn")(plan_learn)
    app.add_typer(plans, name="plan", no_args_is_help=True)
    simulations.command("clients")(simulate_clients)
    simulations.command("patients")(simulate_patients)
    app.add_typer(simulations, name="simulate", no_args_is_help=True)


@plans.callback()
@simulations.callback()
def _group() -> None:
    """Keep `count` a word of its own while it is the only one."""


@plans.command("count")
def plan_count(
    users: Annotated[int, typer.Option(help="How many people take part.", min=1)],
    rounds: Annotated[int, typer.Option(help="How many rounds are counted.", min=1)],
    epsilon: Annotated[
        float, typer.Option(help="What one person's reports may reveal, over all rounds.")
    ],
    share: Annotated[
        float | None,
        typer.Option(
            help="About which share says yes, guessed beforehand: 0.01 for hardly anyone. "
            "Never from reports. Without it, the worst case."
        ),
    ] = None,
    changes: Changes = None,
    error: Annotated[
        float | None,
        typer.Option(help="The error you can live with: how many people or which ε it takes."),
    ] = None,
    beta: Annotated[
        float, typer.Option(help="Probability with which bounds and intervals may fail.")
    ] = 0.05,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture of errors against ε to this SVG file.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write the best one as a survey to this TOML file.")
    ] = None,
    name: Annotated[str, typer.Option(help="With --write: what the survey is called.")] = "",
    question: Annotated[str, typer.Option(help="With --write: what people are asked.")] = "",
    start: Annotated[
        datetime | None,
        typer.Option(
            help="With --write: when round 0 begins, in UTC; without it, with the collector.",
            formats=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ"],
        ),
    ] = None,
    round_seconds: Annotated[
        float | None, typer.Option(help="With --start: how long a round is.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a count will be worth: every method's error, and which is best.

    The error is the largest over all rounds, as a share of people: 0.05 is five in a hundred.

    [bold]Examples:[/bold]

    sudare plan count --users 10000 --rounds 50 --epsilon 4 --error 0.05

    sudare plan count --users 10000 --rounds 48 --epsilon 4 --write survey.toml --name "At home"
    --start 2026-06-01T06:00:00Z --round-seconds 3600
    """
    from sudare.counting import epsilon_needed, plan, users_needed

    told = plan(users, rounds, epsilon, share=share, changes=changes, beta=beta)
    if write is not None:
        _write_survey(told, write, name=name, question=question, start=start, length=round_seconds)
    elif name or question or start is not None or round_seconds is not None:
        raise checks.InvalidInput("Name, question, start and round length go into --write FILE")
    needed: dict[str, Any] = {}
    if error is not None:
        needed["users"] = users_needed(rounds, epsilon, error, share=share)
        needed["epsilon"] = epsilon_needed(users, rounds, error, share=share)
    if plot is not None:
        _plot(told, changes, plot)
    if as_json:
        print_json(_plan_record(told) | ({"error": error, "needed": needed} if needed else {}))
        return
    _show_plan(told)
    if needed:
        _show_needed(told, needed, error)
    if plot is not None:
        out.print(f"Picture written to {plot}.")
    if write is not None:
        begins = "" if start else " It begins when the collector does: give that --round-seconds."
        out.print(f"Survey written to {write}.{begins}")


@simulations.command("count")
def simulate_count(
    survey: Annotated[
        Path | None, typer.Argument(help="A survey's TOML file, instead of the options below.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="glance, masks, rappor, tree, harmony or harmony-signed.")
    ] = "glance",
    rounds: Rounds = None,
    epsilon: Epsilon = None,
    slots: Annotated[
        int, typer.Option(help="Method masks: rounds in which each person reports.", min=1)
    ] = 1,
    changes: Changes = None,
    signal: Annotated[
        str,
        typer.Option(
            help="constant, sine, step, walk or independent; or a CSV file of 0 and 1 with a row "
            "for each person and a column for each round."
        ),
    ] = "constant",
    share: Annotated[float, typer.Option(help="The share of a constant signal.")] = 0.5,
    users: Users = None,
    runs: Annotated[int, typer.Option(help="How often to run it.", min=1)] = 200,
    tickets: Annotated[
        bool, typer.Option(help="Assign rounds by tickets, instead of everybody drawing their own.")
    ] = False,
    seed: Seed = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="Write every run's estimates to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a count would have shown: the whole survey, drawn again and again.

    Exact, not an approximation. An error is the largest over all rounds of one run.

    [bold]Example:[/bold] sudare simulate count --rounds 50 --epsilon 2 --users 10000 --signal sine
    """
    from sudare.counting import simulate
    from sudare.foundations.randomness import as_generator

    rng = as_generator(seed)
    values = _signal(signal, share, rounds, survey, rng)
    chosen = _survey(survey, method, rounds or values.shape[-1], epsilon, slots, changes)
    with progress() as tick:
        told = simulate(
            chosen,
            values,
            users,
            runs=runs,
            rng=rng,
            blocks=tickets,
            progress=partial(tick, "Simulating"),
        )
    if table is not None:
        _write_runs(told, table)
    if as_json:
        print_json(_simulation_record(told))
        return
    _show_simulation(told)
    if table is not None:
        out.print(f"Estimates written to {table}.")


def _survey(
    file: Path | None,
    method: str,
    rounds: int,
    epsilon: float | None,
    slots: int,
    changes: int | None,
) -> "Survey":
    import msgspec

    from sudare.counting import Survey, read_survey

    if file is not None:
        return read_survey(file)
    if epsilon is None:
        raise checks.InvalidInput("Expected --epsilon, or a survey's TOML file")
    return Survey(
        name="simulation",
        rounds=rounds,
        epsilon=epsilon,
        method=method,  # type: ignore[arg-type]  # the survey checks it
        slots=slots,
        changes=changes,
        flips="stretches" if method == "tree" else msgspec.UNSET,
    )


def _signal(name: str, share: float, rounds: int | None, file: Path | None, rng: Any) -> Any:
    from sudare.counting import read_survey, signals

    if name.endswith(".csv"):
        return signals.read_bits(name)
    if name not in _SIGNALS:
        raise checks.InvalidInput(
            f"Expected --signal to be one of {', '.join(_SIGNALS)}, or a .csv file"
        )
    if file is not None:
        rounds = read_survey(file).rounds
    if rounds is None:
        raise checks.InvalidInput("Expected --rounds, or a survey's TOML file")
    match name:
        case "constant":
            return signals.constant(rounds, share)
        case "sine":
            return signals.sine(rounds)
        case "step":
            return signals.step(rounds)
        case "walk":
            return signals.random_walk(rounds, rng=rng)
        case _:
            return signals.independent(rounds, rng=rng)


def _write_survey(
    told: "Plan",
    file: Path,
    *,
    name: str,
    question: str,
    start: datetime | None,
    length: float | None,
) -> None:
    import msgspec

    if not name:
        raise checks.InvalidInput("Expected --name: what the survey is called")
    if (start is None) != (length is None):
        raise checks.InvalidInput(
            "Expected --start and --round-seconds together: when the first round begins, and how "
            "long each is"
        )
    times = {} if start is None else {"start": start.replace(tzinfo=UTC), "round_seconds": length}
    fields: dict[str, Any] = {"name": name, "question": question, **times}
    if told.best.survey.slots > 1 or told.best.survey.method in ("rappor", "tree"):
        fields["marks"] = "slots"  # reports of one person are relayed one by one
    text = msgspec.structs.replace(told.best.survey, **fields).to_toml()
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise checks.InvalidInput(f"{file} is there already: it is not written over") from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {file}: {problem.strerror}") from None


def _plan_record(told: "Plan") -> dict[str, Any]:
    return {
        "users": told.users,
        "rounds": told.rounds,
        "epsilon": told.epsilon,
        "share": told.share,
        "beta": told.beta,
        "best": told.best.survey.method,
        "dense_below": told.dense_below,
        "options": [
            {
                "method": o.survey.method,
                "slots": o.survey.slots,
                "changes": o.survey.changes,
                "flips": o.survey.flips or None,
                "error": number(o.error),
                "half_width": o.half_width,
                "bound": number(o.bound),
                "reports": o.reports,
            }
            for o in told.options
        ],
    }


def _show_plan(told: "Plan") -> None:
    about = "whatever the share" if told.share is None else f"if the share is about {told.share:g}"
    asked = (
        f"{told.users:,} people, {told.rounds:,} rounds, ε = {told.epsilon:g} for all rounds "
        f"together, {about}: "
    )
    out.print(Text.assemble(asked, (told.best.label, "bold"), " is best."))
    table = Table("method", "error", "", "interval", "bound", "reports")
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    longest = min(1.0, told.options[-1].error)
    for option in told.options:
        bar = "█" * max(1, round(_BAR * min(1.0, option.error / longest)))
        table.add_row(
            option.label,
            f"{option.error:.3g}",
            bar,
            f"± {option.half_width:.2g}",
            f"{option.bound:.2g}",
            f"{option.reports:,.0f}",
            style="bold" if option == told.best else None,
        )
    out.print(table)
    out.print(
        "Error: the largest over all rounds, on average. Interval: around each "
        f"estimate. Bound: no round is further off, with probability {1 - told.beta:g}. Reports: "
        "in each round. Harmony is there to compare with.",
        style="dim",
    )
    if 0 < told.dense_below < 0.5:
        out.print(
            f"Shares below {told.dense_below:.2g} or above {1 - told.dense_below:.6g} are easier: "
            "say so with --share if you know it beforehand.",
            style="dim",
        )


def _show_needed(told: "Plan", needed: dict[str, Any], error: float | None) -> None:
    people, epsilon = needed["users"], needed["epsilon"]
    of_people = f"{people:,} people" if people else "more than a thousand million people"
    of_epsilon = f"ε = {epsilon:g}" if epsilon else "no ε that protects anyone"
    out.print(
        Text.assemble(
            f"An expected error of {error:g} takes ",
            (of_people, "bold"),
            f" at ε = {told.epsilon:g}, or ",
            (of_epsilon, "bold"),
            f" with {told.users:,} people.",
        )
    )


def _plot(told: "Plan", changes: int | None, file: Path) -> None:
    from sudare.counting import error_chart, plan

    low, high, points = min(0.5, told.epsilon), max(8.0, told.epsilon), 13
    several = [
        plan(told.users, told.rounds, e, share=told.share, changes=changes, beta=told.beta)
        for e in (low * (high / low) ** (i / (points - 1)) for i in range(points))
    ]
    _write(file, error_chart(several))


def _simulation_record(told: "Simulation") -> dict[str, Any]:
    import numpy as np

    return {
        "method": told.survey.method,
        "rounds": told.survey.rounds,
        "epsilon": told.survey.epsilon,
        "slots": told.survey.slots,
        "users": told.users,
        "runs": len(told.errors),
        "mean_error": told.mean_error,
        "standard_error": None if len(told.errors) == 1 else told.standard_error,
        "error_quantiles": {
            f"{level:g}": float(np.quantile(told.errors, level)) for level in (0.05, 0.5, 0.95)
        },
        "smoothed_mean_error": float(told.smoothed_errors.mean()),
    }


def _show_simulation(told: "Simulation") -> None:
    record = _simulation_record(told)
    spread = record["standard_error"]
    out.print(
        f"{told.survey.method}, {told.users:,} people, {told.survey.rounds:,} rounds, "
        f"ε = {told.survey.epsilon:g}, {record['runs']:,} runs"
    )
    table = Table("largest error over all rounds", "")
    mean = f"{record['mean_error']:.4g}" + (f" ± {spread:.2g}" if spread else "")
    table.add_row("mean", mean, style="bold")
    for level, value in record["error_quantiles"].items():
        table.add_row(f"{float(level):.0%} of runs stay below", f"{value:.4g}")
    table.add_row("mean, smoothed", f"{record['smoothed_mean_error']:.4g}")
    out.print(table)
    out.print("The first run, from 0 (▁) to 1 (█):", style="dim")
    for name, curve in (
        ("truth", told.truth),
        ("estimate", told.raw[0]),
        ("smoothed", told.smoothed[0]),
    ):
        out.print(f"  {name:9} {sparks(curve)}", highlight=False)


def _write_runs(told: "Simulation", file: Path) -> None:
    try:
        with file.open("w", newline="", encoding="utf-8") as text:
            rows = csv.writer(text)
            rows.writerow(["run", "round", "truth", "estimate", "smoothed"])
            for run, (raw, smoothed) in enumerate(zip(told.raw, told.smoothed, strict=True)):
                for t, cells in enumerate(zip(told.truth, raw, smoothed, strict=True)):
                    # An empty cell where nobody reported.
                    rows.writerow([run, t, *("" if v != v else repr(float(v)) for v in cells)])
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {file}: {problem.strerror}") from None


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {file}: {problem.strerror}") from None
