"""Commands about models: plan, blend, predict, report. Parse, call, print."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from sudare.cli.console import AsJson, busy, on_interrupt, out, print_json, progress
from sudare.cli.options import (
    LedgerUrl,
    OwnKey,
    Rows,
    StudyFile,
    TrustFile,
    Unattended,
    csv_text,
    keyring,
    tell_reading,
    write_inside,
)
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.site import Story

REFUSED = 3
PREDICTION, PROBABILITY = "prediction", "probability"


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.command()(blend)
    app.command()(predict)
    app.command()(report)


def blend(
    data: Rows,
    releases: Annotated[
        list[str], typer.Option("--releases", help="Folder, file or address of releases.")
    ],
    party: Annotated[str, typer.Option(help="Your organisation's name.")],
    key: OwnKey = Path("key.json"),
    url: LedgerUrl = "ledger.db",
    released_nothing: Annotated[
        bool,
        typer.Option("--released-nothing", help="None of these releases is yours."),
    ] = False,
    study: StudyFile = Path("study.toml"),
    trust: TrustFile = Path("trust.toml"),
    to: Annotated[Path, typer.Option("--out", help="Where to write it.")] = Path("model.json"),
    unattended: Unattended = False,
    as_json: AsJson = False,
) -> None:
    """Blend verified releases with your own rows into a model that stays with you.

    Your own release is left out, as your rows would count twice. It is recognised by your signing
    key and by your ledger, whatever name it bears.
    """
    from sudare import site
    from sudare.exchange import load_key
    from sudare.ledger import Ledger
    from sudare.study import read_study

    described = read_study(study)
    named = load_key(key).public.fingerprint if key.exists() else None
    known = "://" in url or Path(url).exists()
    checked = site.collect(releases, keyring(trust, key, party), described)
    valid = any(each.trusted is not None for each in checked)
    if valid and named is None and not known and not released_nothing:
        raise checks.InvalidInput(
            f"There is neither your signing key {key} nor your ledger {url}, so that your own "
            "release could be taken for another's: name one with --key or --ledger, or say "
            "--released-nothing"
        )
    receipts: frozenset[str] = frozenset()
    if known:
        with Ledger(url) as book:
            receipts = site.own_receipts(data, book)

    def stopped() -> str:
        there = "is as it was" if to.exists() else "was not written"
        return f"{to} {there}; a blend spends nothing."

    if unattended:
        # Warnings, and how the blend turned out, depend on the rows.
        with warnings.catch_warnings(action="ignore"), on_interrupt(stopped):
            made = site.blend_unattended(
                data, described, checked, party=party, key=named, receipts=receipts
            )
        write_inside(to, made.to_bytes().decode())
        if as_json:
            print_json({"model": str(to)})
        else:
            out.print(f"Wrote {to}.")
        return
    tell_reading(data, described)
    with on_interrupt(stopped), progress() as tick:
        model = site.blend(
            data, described, checked, party=party, key=named, receipts=receipts, progress=tick
        )
    write_inside(to, model.to_bytes().decode())
    story = model.story
    if as_json:
        print_json(msgspec.to_builtins(story) | {"model": str(to)})
    else:
        _show_story(story, to)
    if story.refusals and not story.parties:
        raise typer.Exit(REFUSED)


def _show_story(story: "Story", to: Path) -> None:
    out.print(story.sentence, style="bold")
    table = Table("model", "weight")
    for name, weight in sorted(story.weights.items(), key=lambda item: -item[1])[:8]:
        table.add_row(name, f"{weight:.1%}")
    out.print(table)
    for refusal in story.refusals:
        out.print(f"Not used: {refusal.what}: {refusal.reason}", style="yellow")
    found = story.assessment
    if found is not None:
        out.print(
            f"On {found.rows} rows, each held out once ({found.folds} folds), {found.measure}: "
            f"own {found.own.value:.3f}, blend {found.blend.value:.3f}; "
            f"gain {found.gain.value:+.3f} "
            f"({found.gain.low:+.3f} to {found.gain.high:+.3f})."
        )
    out.print(f"Wrote {to}. Next: sudare report {to}")


def predict(
    model: Annotated[Path, typer.Argument(help="A model that 'sudare blend' wrote.")],
    data: Rows,
    to: Annotated[Path, typer.Option("--out", help="Where to write the predictions.")] = Path(
        "predictions.csv"
    ),
    names: Annotated[
        str | None,
        typer.Option("--id", help="Column of the data that names its rows: written first."),
    ] = None,
) -> None:
    """Predict for new rows; writes one line for each, in their order.

    The file is for its owner alone: it was made from rows without noise, as the model was.
    """
    from sudare import site
    from sudare.study import texts_of

    made = site.load_model(model)
    tell_reading(data, made.study)
    header: list[str] = []
    columns: list[list[object]] = []
    if names is not None:
        if names in (PREDICTION, PROBABILITY):
            raise checks.InvalidInput(f"The column {names!r} is one of the answers: rename it")
        header.append(names)
        columns.append([*texts_of(data, names)])
    with busy(f"Reading {data}"):
        predicted = made.predict(data)
    header.append(PREDICTION)
    columns.append(predicted.tolist())
    if made.study.task == "classification":
        header.append(PROBABILITY)
        with busy(f"Reading {data}"):
            columns.append(made.predict_proba(data)[:, 1].tolist())
    write_inside(to, csv_text(header, zip(*columns, strict=True)))
    out.print(f"Wrote {len(predicted)} predictions to {to}.")


def report(
    model: Annotated[Path, typer.Argument(help="A model that 'sudare blend' wrote.")],
    to: Annotated[Path, typer.Option("--out", help="Where to write the page.")] = Path(
        "report.html"
    ),
    coefficients: Annotated[
        Path | None, typer.Option(help="Also write the coefficients as a CSV, averaged by weight.")
    ] = None,
) -> None:
    """Write a report for people: what was blended, what it gained, what was promised to whom."""
    from sudare import site

    made = site.load_model(model)
    write_inside(to, site.render(made))
    if coefficients is not None:
        rows = ((e.feature, e.unit, e.effect, e.odds_ratio, e.unseen) for e in made.effects())
        header = ["feature", "unit", "effect", "odds_ratio", "unseen"]
        write_inside(coefficients, csv_text(header, rows))
    out.print(f"Wrote {to}: open it in a browser, or print it.")
