"""Commands about releases: make one, verify some, explain one. Parse, call, print."""

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sudare.cli.console import AsJson, busy, err, number, on_interrupt, out, print_json, printable
from sudare.cli.options import (
    AGAIN,
    LedgerUrl,
    MaybeRows,
    OwnKey,
    StudyFile,
    TrustFile,
    Unattended,
    keyring,
    tell_reading,
    whether_charged,
)
from sudare.foundations import checks
from sudare.foundations.privacy import account

if TYPE_CHECKING:
    from sudare.site import ReleasePlan

REFUSED = 3


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.command()(release)
    app.command()(verify)
    app.command()(explain)


def release(
    data: MaybeRows = None,
    study: StudyFile = Path("study.toml"),
    url: LedgerUrl = "ledger.db",
    key: Annotated[Path, typer.Option(help="Your signing key.")] = Path("key.json"),
    party: Annotated[str, typer.Option(help="Your organisation's name.")] = "",
    to: Annotated[
        str,
        typer.Option("--out", help="A folder, or any fsspec address such as s3://bucket/study."),
    ] = "releases",
    preview: Annotated[
        bool, typer.Option("--preview", help="Read no row: show what would be released.")
    ] = False,
    rows: Annotated[int, typer.Option(help="With --preview: how many rows you have.")] = 1000,
    unattended: Unattended = False,
    as_json: AsJson = False,
) -> None:
    """Publish one private, signed release of your rows; the ledger is charged first.

    Asked again for the same data and study, it writes the same release and spends nothing.
    """
    from sudare import site
    from sudare.exchange import load_key
    from sudare.ledger import Ledger
    from sudare.study import read_study

    described = read_study(study)
    if preview:
        _show_preview(site.ReleasePlan.of(described, rows), as_json)
        return
    if data is None or not party:
        raise checks.InvalidInput("Expected a data file and --party NAME (or --preview)")
    signing = load_key(key)
    if os.name == "posix" and key.stat().st_mode & 0o077:
        err.print(
            f"Warning: others on this machine can use {key} and sign in your name: chmod 600 {key}",
            style="yellow",
            soft_wrap=True,
        )
    if not unattended:
        tell_reading(data, described)
    with Ledger(url) as book:
        common: dict[str, Any] = {"party": party, "place": to}
        if unattended:
            # A library's warning about some numbers would tell of them; so would a stage.
            with warnings.catch_warnings(action="ignore"), on_interrupt(lambda: AGAIN):
                done = site.publish_unattended(data, described, book, signing, **common)
        else:
            with on_interrupt(whether_charged(book)), busy(f"Releasing {data}") as pause:

                def warn(planned: "ReleasePlan") -> None:
                    if planned.hardly_useful:
                        pause()
                        _warn(planned)

                done = site.publish(data, described, book, signing, before=warn, **common)
    if as_json:
        print_json(
            {
                "address": done.address,
                "repeated": done.repeated,
                "entry": done.receipt.number,
                "sentence": done.sentence,
            }
        )
        return
    again = " (it existed: nothing new was spent)" if done.repeated else ""
    out.print(f"Released to {done.address}{again}.")
    out.print(done.sentence)


def _warn(planned: "ReleasePlan") -> None:
    """Before ε is spent on next to nothing; a person is asked."""
    worst = max(planned.in_units, key=lambda each: each.noise_std / each.scale, default=None)
    noise = ""
    if worst is not None and worst.noise_std >= worst.scale:
        noise = (
            f" The noise on the {worst.unit} alone would be {worst.noise_std:.3g}, where a value "
            f"differs from the centre by {worst.scale:.3g}."
        )
    err.print(
        f"Warning: from {planned.n} rows others can learn next to nothing.{noise} "
        f"ε = {planned.study.privacy.epsilon:g} is spent all the same.",
        style="yellow",
        soft_wrap=True,
    )
    if err.is_terminal and sys.stdin.isatty() and not typer.confirm("Spend it?", err=True):
        raise checks.InvalidInput("Nothing was spent")


def verify(
    places: Annotated[list[str], typer.Argument(help="Release files, folders or addresses.")],
    trust: TrustFile = Path("trust.toml"),
    key: OwnKey = Path("key.json"),
    study: Annotated[
        Path | None, typer.Option("--study", help="Also check them against this study.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check releases: who signed, for which study, and whether the price adds up."""
    from sudare import site

    described = None
    if study is not None:
        from sudare.study import read_study  # not above: a signature is checked without tables

        described = read_study(study)
    found = site.collect(places, keyring(trust, key), described)
    if not found:
        raise checks.InvalidInput("No release was found there")
    if as_json:
        print_json([_checked_dict(each) for each in found])
    else:
        table = Table("file", "signed by", "rows", "ε", "verdict")
        for each in found:
            shown = _checked_dict(each)
            style = "green" if each.problem is None else "red"
            table.add_row(
                printable(Path(each.address).name),
                str(shown["signer"] or ""),
                str(shown["rows"] or ""),
                "" if shown["epsilon"] is None else f"{shown['epsilon']:g}",
                Text(each.problem or "valid", style),
            )
        out.print(table)
    if any(each.problem is not None for each in found):
        raise typer.Exit(REFUSED)


def explain(
    path: Annotated[str, typer.Argument(help="A release file.", metavar="RELEASE")],
    trust: TrustFile = Path("trust.toml"),
    key: OwnKey = Path("key.json"),
    as_json: AsJson = False,
) -> None:
    """Say in words what a release holds and what it promises.

    The price is computed from the release. What its certificate says of how it was made is its
    signer's claim: 'sudare verify --study' checks that.
    """
    from sudare import site
    from sudare.releases import Pooled

    found = site.collect([path], keyring(trust, key))
    if not found:
        raise checks.InvalidInput(f"{path}: no release is there")
    checked = found[0]
    if checked.trusted is None:
        raise checks.InvalidInput(f"{path}: {checked.problem}")
    certificate, made = checked.trusted.signed.certificate, checked.trusted.release
    # A pool's certificate is computed from the plan that all have signed, not read.
    pooled = isinstance(made, Pooled)
    if as_json:
        claimed = {"parameters": certificate.parameters, "parameters_checked": pooled}
        print_json(_checked_dict(checked) | claimed)
        return
    signer = "each of them" if pooled else repr(checked.trusted.signer)
    # A pool's sessions are all in its file, whatever is blended of them.
    numbers = certificate.parameters.get("numbers", made.numbers) if pooled else made.numbers
    story = (
        f" (signed by {signer}) released {numbers} numbers made from "
        f"{made.n} rows on {certificate.moment[:10]}, by {certificate.software}."
    )
    out.print(Text.assemble((made.party, "bold"), story))
    # Not the sentence on the certificate, which its signer may word freely: the event's own.
    out.print(str(account([made.event], certificate.delta)))
    claim = "what its signer says decided the noise (not checked here)"
    table = Table("what decided the noise" if pooled else claim, "")
    for name, value in certificate.parameters.items():
        table.add_row(name, str(value))
    out.print(table)


def _show_preview(planned: "ReleasePlan", as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "rows": planned.n,
                "numbers": planned.numbers,
                "noise_std": planned.noise_std,
                "radius": planned.radius,
                "in_units": [
                    each._asdict() | {"scale": number(each.scale)} for each in planned.in_units
                ],
                "hardly_useful": planned.hardly_useful,
                "sentence": planned.sentence,
            }
        )
        return
    out.print(
        f"From {planned.n} rows, {planned.numbers} numbers would be released, each with noise of "
        f"standard deviation about {planned.noise_std:.3g} (in the release's own units). No row "
        "was read."
    )
    if planned.in_units:
        table = Table("feature", "noise on", "standard deviation")
        for each in planned.in_units:
            table.add_row(each.feature, each.unit, f"{each.noise_std:.3g}")
        out.print(table)
    if planned.hardly_useful:
        out.print("Others could learn next to nothing from it.", style="yellow")
    out.print(planned.sentence)


def _checked_dict(checked: Any) -> dict[str, Any]:
    trusted = checked.trusted
    return {
        "address": checked.address,
        "valid": checked.problem is None,
        "problem": checked.problem,
        "signer": trusted and trusted.signer,
        "party": trusted and trusted.release.party,
        "rows": trusted and trusted.release.n,
        "epsilon": trusted and trusted.signed.certificate.epsilon,
        "delta": trusted and trusted.signed.certificate.delta,
    }
