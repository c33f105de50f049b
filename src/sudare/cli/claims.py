"""Commands about privacy claims: add them up, try to refute them. Parse, call, print."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sudare.cli.console import AsJson, Seed, number, out, print_json, progress
from sudare.foundations import checks

REFUTED = 3


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.command()(account)
    app.command()(audit)


def account(
    events: Annotated[
        list[str],
        typer.Argument(
            help="What was released: pure:EPSILON, gaussian:MU, concentrated:RHO, "
            "approximate:EPSILON,DELTA or local:EPSILON. Add x20 for twenty of them.",
            metavar="EVENT",
        ),
    ],
    delta: Annotated[float, typer.Option(help="Probability with which ε may fail.")] = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Add up what several releases about the same people cost together.

    [bold]Example:[/bold] sudare account pure:0.1x20 gaussian:0.3 --delta 1e-6
    """
    from sudare.foundations import privacy

    guarantee = privacy.account(privacy.parse(events), delta)
    points = sorted({0.0, 1e-12, 1e-9, 1e-6, 1e-3, delta})
    curve = [(point, guarantee.epsilon(point)) for point in points]
    if as_json:
        print_json(
            {
                "events": json.loads(privacy.encode(guarantee.events)),
                "delta": delta,
                "epsilon": number(guarantee.epsilon()),
                "sentence": str(guarantee),
                "curve": [{"delta": d, "epsilon": number(e)} for d, e in curve],
            }
        )
        return
    out.print(str(guarantee))
    table = Table("δ", "ε")
    for d, e in curve:
        table.add_row(f"{d:g}", f"{e:.4g}", style="bold" if d == delta else None)
    out.print(table)


def audit(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            help="Cases by name, or a Python file of your own. All known cases if none is named.",
            metavar="[CASE | FILE.py]...",
        ),
    ] = None,
    list_cases: Annotated[bool, typer.Option("--list", help="Show the known cases.")] = False,
    runs: Annotated[
        int | None, typer.Option(help="Runs on each of the two inputs.", min=100)
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of each bound.")] = 0.999,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Try to refute a privacy claim by running the mechanism on two neighbouring inputs.

    The known cases are mistakes found in published formulas, each with its correction. A file of
    your own defines [bold]mechanism(data, runs, rng)[/bold], [bold]first[/bold],
    [bold]second[/bold], [bold]epsilon[/bold] and, if any, [bold]delta[/bold].
    """
    from sudare.audit import catalogue, load_case
    from sudare.foundations.randomness import as_generator

    known = catalogue()
    if list_cases:
        _show_cases(known, as_json)
        return
    chosen = []
    for name in cases or known:
        if name.endswith(".py"):
            chosen.append(load_case(Path(name)))
        elif name in known:
            chosen.append(known[name])
        else:
            raise checks.InvalidInput(
                f"Unknown case {name!r}: see 'sudare audit --list', or name a .py file"
            )
    rng = as_generator(seed)
    found = []
    with progress() as tick:
        for case in chosen:
            finding = case.run(
                runs=runs,
                rng=rng,
                confidence=confidence,
                progress=partial(tick, case.title),
            )
            found.append((case, finding))
    if as_json:
        print_json(
            [{"case": case.name, "expected": case.expected, **f.to_dict()} for case, f in found]
        )
    else:
        for case, finding in found:
            style, word = ("red", "refuted") if finding.violated else ("green", "not refuted")
            out.print(Text.assemble((case.title, "bold"), f" ({case.name}): ", (word, style)))
            out.print(Padding(Text(case.what, style="dim"), (0, 0, 0, 2)))
            out.print(Padding(Text(finding.verdict), (0, 0, 1, 2)))
    # A published mistake that is caught is good news; anything else refuted is not.
    if any(finding.violated and case.expected != "caught" for case, finding in found):
        raise typer.Exit(REFUTED)


def _show_cases(known: Any, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"case": c.name, "title": c.title, "what": c.what, "expected": c.expected}
                for c in known.values()
            ]
        )
        return
    table = Table("case", "what is audited", "expected")
    for case in known.values():
        table.add_row(case.name, case.title, case.expected)
    out.print(table)
