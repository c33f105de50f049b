"""The command that signs a release again. Parse, call, print."""

from pathlib import Path
from typing import Annotated

import typer

from sudare.cli.console import AsJson, out, print_json
from sudare.cli.options import LedgerUrl


def register(app: typer.Typer) -> None:
    """Add this command to the whole."""
    app.command()(resign)


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
