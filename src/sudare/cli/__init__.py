"""The `sudare` command: parse, call, print.

Exit codes: 0 done; 1 a fault of sudare's own; 2 something to put right in what was asked;
3 done, and the answer is no (an audited claim is false); 4 waiting for others (a pool).
"""

import io
import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sudare import __version__
from sudare.cli import (
    collector,
    counting,
    descriptions,
    evaluation,
    federation,
    models,
    pool,
    recount,
    releases,
    setup,
)
from sudare.cli.console import AsJson, Seed, err, number, out, print_json, progress
from sudare.foundations import checks

app = typer.Typer(
    name="sudare",
    help="Learn and count together without anyone seeing anyone's data.",
    epilog="Exit codes: 0 done · 1 a fault of sudare's own · 2 something to put right · "
    "3 done, and the answer is no · 4 waiting for others.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
REFUTED = 3


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"sudare {__version__}")
        raise typer.Exit


@app.command()
def demo(
    seed: Seed = 7,
    to: Annotated[Path, typer.Option("--out", help="Folder for the files it makes.")] = Path(
        "sudare-demo"
    ),
) -> None:
    """A tour with made-up people: learn together, count, audit. Takes about a minute."""
    from sudare.demo import run

    with progress() as tick:
        # All that it prints is its own, with markup.
        run(Console(), seed=seed, progress=tick, folder=to)


@app.command()
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


@app.command()
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


collector.register(app)
recount.register(app)
setup.register(app)
federation.register(app)
releases.register(app)
pool.register(app)
counting.register(app)
models.register(app, counting.plans)
descriptions.register(app)
evaluation.register(app)


def main() -> None:
    """Run the command; a mistake, or a disk that fails, becomes one line, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal knows ε
    try:
        try:
            app()
        finally:
            if sys.stdout:  # None where a shell has closed it
                sys.stdout.flush()
    except checks.SudareError as problem:
        _fail(str(problem))
    except ModuleNotFoundError as problem:
        missing = (problem.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        _fail(f"This needs {missing}, which is not installed: pip install {_EXTRAS[missing]}")
    except BrokenPipeError:
        # The reader of our output has gone: nothing is wrong and nobody is left to tell.
        sys.stderr.close()
        sys.exit(0)
    except OSError as problem:
        with suppress(OSError):
            sys.stdout.close()  # what could not be printed would fail again at the very end
        _fail(f"{problem.filename or 'Cannot print'}: {problem.strerror or 'it cannot be used'}")


_EXTRAS = dict.fromkeys(
    ("dp_accounting", "fsspec", "narwhals", "opendp", "pyarrow", "scipy", "sklearn"),
    "'sudare[learn]'",
) | dict.fromkeys(("granian", "prometheus_client", "starlette"), "'sudare[collect]'")
"""The libraries of the extras, and how to get them."""


def _fail(problem: str) -> NoReturn:
    with suppress(OSError):
        err.print(Text.assemble(("Error:", "red"), f" {problem}"), soft_wrap=True)
    sys.exit(2)


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
