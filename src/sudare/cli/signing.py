"""Commands that sign: a release again, another person's request. Parse, call, print."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sudare.cli.console import AsJson, out, print_json
from sudare.cli.options import LedgerUrl
from sudare.foundations import checks
from sudare.foundations.privacy import account


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.command()(approve)
    app.command()(resign)


def approve(
    path: Annotated[Path, typer.Argument(help="What 'sudare release' asked for: a .request file.")],
    key: Annotated[Path, typer.Option(help="Your signing key.")] = Path("key.json"),
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts.")] = False,
) -> None:
    """Approve a release as the second person, before the ledger is charged.

    Shows study, data set, rows and price, and signs them. The approval is a file beside the
    request: put it where the release looks for it, and let them run 'sudare release' again.

    [bold]Example:[/bold] sudare approve approvals/3f9c.request --key boss.json
    """
    from sudare import site
    from sudare.exchange import load_key

    asked = site.read_request(path)
    table = Table("what is asked for", "")
    for name in ("study", "digest", "dataset", "party", "rows", "epsilon", "delta"):
        table.add_row(name, str(getattr(asked, name)))
    out.print(table)
    out.print(str(account([asked.event], asked.delta)))
    signing = load_key(key)
    if not yes and not (sys.stdin.isatty() and typer.confirm("Approve it?")):
        raise checks.InvalidInput("Not approved: nobody said yes (--yes says it without asking)")
    out.print(f"Approved: {site.approve(path, signing)}")


def resign(
    party: Annotated[str, typer.Option(help="Your organisation's name, as it should be.")],
    entry: Annotated[
        int | None, typer.Argument(help="Its number in 'sudare ledger show', if there are several.")
    ] = None,
    url: LedgerUrl = "ledger.db",
    key: Annotated[Path, typer.Option(help="Your signing key, as it is now.")] = Path("key.json"),
    to: Annotated[str, typer.Option("--out", help="A folder, or any fsspec address.")] = "releases",
    as_json: AsJson = False,
) -> None:
    """Sign a kept release again, for a lost key or a wrong name: the same numbers, at no cost.

    The ledger keeps both. Take the old file away where you can, and give the others your new key;
    whoever holds both files uses the later one.

    [bold]Example:[/bold] sudare resign --party "Clinic A" --key new.json
    """
    from sudare import site
    from sudare.exchange import load_key
    from sudare.ledger import Ledger

    signing = load_key(key)
    with Ledger(url) as book:
        done = site.resign(book, signing, party=party, place=to, entry=entry)
    if as_json:
        told = {"address": done.address, "entry": done.receipt.number, "repeated": done.repeated}
        print_json(told)
        return
    out.print(f"Signed again: {done.address}. The numbers are the same, and nothing was spent.")
