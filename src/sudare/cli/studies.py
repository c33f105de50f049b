"""Commands about studies: write one, check one, and data under it. Parse, call, print."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.console import AsJson, err, out, print_json
from sudare.cli.options import MaybeRows, write_text
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.study import Guess

UNFIT = 3
_SHOWN = 40

study = typer.Typer(help="Write and check the public contract of a study.")


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.add_typer(study, name="study", no_args_is_help=True)


@study.command("new")
def study_new(
    columns: Annotated[
        list[str], typer.Argument(help="Column names, or a data file whose header names them.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The column to predict; the last by default.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--columns", help="Of a file: only these, separated by commas."),
    ] = None,
    look: Annotated[
        bool,
        typer.Option(
            "--look",
            help="Read the file's rows for kinds and frequent categories. Whoever sees the study "
            "sees them, too.",
        ),
    ] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Ask about each column, one by one.")] = False,
    to: Annotated[Path, typer.Option("--out", help="Where to write it.")] = Path("study.toml"),
) -> None:
    """Write a commented study to fill in, from column names alone.

    Bounds of well-known columns (age, blood pressure, sex) are proposed by their names, from a
    public dictionary: check them. No row is read unless you say --look.

    [bold]Example:[/bold] sudare study new age pressure ill --out heart.toml
    """
    from sudare.study import draft_study, guess, header, look_at

    if to.exists():
        raise checks.InvalidInput(f"{to} exists: choose another name with --out")
    file = columns[0] if len(columns) == 1 and _is_data(columns[0]) else None
    names = columns if file is None else header(file)
    if only is not None:
        names = _chosen(only, names, target)
    said: dict[str, Guess] = {}
    if look:
        if file is None:
            raise checks.InvalidInput("Expected a data file with --look")
        err.print(
            "Warning: with --look, kinds of columns and categories that at least 20 rows have are "
            "read from rows without noise, and a study is published. Keep only what is general "
            "knowledge.",
            style="yellow",
            soft_wrap=True,
        )
        said = look_at(file, names)
    more: dict[str, Any] = {}
    if ask:
        names, target, said, more = _ask(names, target, said)
    write_text(to, draft_study(names, target, said, **more))
    unknown = [
        name for name in names if (found := said.get(name) or guess(name)) is None or _open(found)
    ]
    if unknown:
        out.print(f"Fill in what is not known by its name: {', '.join(unknown)}.")
    out.print(
        f"Wrote {to}. Check every bound against general knowledge, never against the data, then: "
        f"sudare study check {to}"
    )


def _is_data(text: str) -> bool:
    return text.startswith("duckdb:") or Path(text).exists()


def _open(found: "Guess") -> bool:
    return found.low is None and not found.categories


def _chosen(only: str, names: list[str], target: str | None) -> list[str]:
    chosen = [each.strip() for each in only.split(",") if each.strip()]
    if target is not None and target not in chosen:
        chosen.append(target)
    if unknown := [each for each in chosen if each not in names]:
        raise checks.InvalidInput(
            f"Expected columns of the file; it has no {', '.join(map(repr, unknown))}"
        )
    return chosen


def _ask(
    names: list[str], target: str | None, known: dict[str, "Guess"]
) -> tuple[list[str], str, dict[str, "Guess"], dict[str, Any]]:
    """What is to be in the study, in conversation; Enter takes what is proposed."""
    from sudare.study import guess

    out.print("Answer from general knowledge, not from the data: a study is published.")
    name = typer.prompt("What is the study called", default="my-study")
    predicted = typer.prompt("Which column is to be predicted", default=target or names[-1])
    if predicted not in names:
        raise checks.InvalidInput(f"Expected one of the columns: {', '.join(names)}")
    kept, said = [], {}
    for each in names:
        found = known.get(each) or guess(each)
        if each != predicted and not typer.confirm(f"Is {each!r} in the study", default=True):
            continue
        kept.append(each)
        said[each] = _ask_column(each, found)
    unit = typer.prompt("Whose is a row (patient, customer, …)", default="patient")
    epsilon = typer.prompt("ε, the price of one release", default=1.0, type=float)
    return kept, predicted, said, {"name": name, "unit": unit, "epsilon": epsilon}


def _ask_column(name: str, found: "Guess | None") -> "Guess":
    from sudare.study import Guess

    proposed = found or Guess()
    kind = "categories" if proposed.categories else "number"
    kind = typer.prompt(f"  {name}: number or categories", default=kind)
    if kind.strip().lower().startswith("c"):
        shown = ", ".join(map(str, proposed.categories)) or "no, yes"
        labels = typer.prompt("    which, separated by commas", default=shown)
        return Guess(categories=tuple(each.strip() for each in labels.split(",") if each.strip()))
    unit = f" ({proposed.unit})" if proposed.unit else ""
    low = typer.prompt(f"    lowest plausible value{unit}", default=proposed.low, type=float)
    high = typer.prompt(f"    highest plausible value{unit}", default=proposed.high, type=float)
    middle = (low + high) / 2 if proposed.centre is None else proposed.centre
    if not low < middle < high:
        middle = (low + high) / 2
    centre = typer.prompt("    a typical value", default=middle, type=float)
    return msgspec.structs.replace(proposed, categories=(), low=low, high=high, centre=centre)


@study.command("check")
def study_check(
    path: Annotated[Path, typer.Argument(help="The study's TOML file.", metavar="STUDY")],
    data: MaybeRows = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show every problem, however many there are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain every problem of a study, and of a data file under it: row, column, what to do.

    No value is shown, and yet what is said of the data is made from rows without noise: it is not
    to be shared. Ends with 3 if the data do not fit.
    """
    from sudare.study import check_data, read_study

    described = read_study(path)
    found = None if data is None else check_data(data, described)
    if as_json:
        print_json(
            {
                "study": described.name,
                "digest": described.digest(),
                "task": described.task,
                "features": [feature.name for feature in described.features],
                "rows": None if found is None else found.rows,
                "data": None if found is None else msgspec.to_builtins(found),
            }
        )
        raise typer.Exit(UNFIT if found is not None and not found.fits else 0)
    about = f": {described.task} of {described.target.column!r}"
    out.print(Text.assemble((described.name, "bold"), about))
    table = Table("feature", "from column", "0 stands for", "1 more stands for")
    for feature in described.features:
        is_flag = feature.category is not None or feature.name.endswith(" missing")
        table.add_row(
            feature.name,
            feature.column,
            "" if is_flag else f"{feature.centre:g}",
            "" if is_flag else f"{feature.scale:g}",
        )
    out.print(table)
    out.print(f"Digest {described.digest()[:16]}…: the same file gives all parties the same.")
    if found is not None:
        _show_check(str(data), found, every, described.privacy.unit)
        if not found.fits:
            raise typer.Exit(UNFIT)


def _show_check(data: str, found: Any, every: bool, unit: str) -> None:
    if found.reading is not None:
        out.print(found.reading, style="yellow")
    counts = Table(
        "column", "missing", "below its bounds", "above", "other", "do not fit", title="The data"
    )
    for each in found.columns:
        numbers = (each.missing, each.below, each.above, each.others, each.misfits)
        counts.add_row(each.column, *(str(number or "") for number in numbers))
    out.print(counts)
    for warning in found.warnings:
        told = f"{warning.column}: {warning.what}. {warning.suggestion}"
        out.print(f"Look at this: {told}", style="yellow")
    if found.problems:
        problems = Table("row", "column", "what", "what may help")
        shown = found.problems if every else found.problems[:_SHOWN]
        for each in shown:
            row = "" if each.row is None else str(each.row)
            problems.add_row(row, each.column, each.what, each.suggestion)
        out.print(problems)
        if len(shown) < len(found.problems):
            out.print(f"… and {len(found.problems) - len(shown)} more: --all shows them.")
        out.print(
            f"{data} does not fit: {_many(len(found.problems), 'thing')} to put right in "
            f"{_many(found.rows, 'row')}. Rows are counted from 1, without the header.",
            style="bold",
        )
    else:
        of = "" if found.persons is None else f" of {_many(found.persons, unit)}"
        out.print(f"{data} fits: {_many(found.rows, 'row')}{of}.", style="bold")
    out.print(f"What is said of the data here was {found.note}.")


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
