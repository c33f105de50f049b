"""Commands about the record of a ledger: export it, check it without the ledger. Parse, call,
print."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sudare.cli.console import AsJson, number, out, print_json
from sudare.cli.options import LedgerUrl, write_text
from sudare.foundations import checks
from sudare.storage.files import read_bytes

REFUSED = 3


def register(ledger: typer.Typer) -> None:
    """Add these commands to those of the ledger."""
    ledger.command("export")(export)
    ledger.command("check")(check)
    ledger.command("policy")(policy)


def export(
    to: Annotated[Path, typer.Argument(help="Where to write it: a file, or a folder for --crate.")],
    url: LedgerUrl = "ledger.db",
    key: Annotated[
        Path, typer.Option(help="Your signing key, if it is there: the record is signed with it.")
    ] = Path("key.json"),
    log: Annotated[
        Path | None, typer.Option(help="The log of a federation's node, to go into the record.")
    ] = None,
    crate: Annotated[
        bool, typer.Option("--crate", help="An RO-Crate for a trusted research environment.")
    ] = False,
    party: Annotated[str, typer.Option(help="With --crate: your organisation's name.")] = "",
    study: Annotated[
        Path | None, typer.Option("--study", help="With --crate: the study's TOML file.")
    ] = None,
) -> None:
    """Write the whole ledger as one hash-chained file that verifies without it, for an auditor.

    It holds caps, prices, purposes, receipts and digests: nothing of any person. A name that ends
    in .json gets what 'sudare ledger show --json' prints instead.

    [bold]Example:[/bold] sudare ledger export record.jsonl
    """
    from sudare import site
    from sudare.cli.setup import account_dict, read_ledger
    from sudare.exchange import load_key
    from sudare.ledger import Ledger

    accounts, anchors = read_ledger(url)
    if to.suffix == ".json" and not crate:
        told = [account_dict(each, anchors) for each in accounts]
        write_text(to, json.dumps(told, indent=2) + "\n")
        out.print(f"Wrote {to}.")
        return
    with Ledger(url) as book:
        data = site.write_record(book, load_key(key) if key.exists() else None, log)
    if crate:
        if not party:
            raise checks.InvalidInput("Expected --party NAME: the crate says whose ledger it is")
        for path in site.write_crate(to, data, party, study):
            out.print(f"Wrote {path}")
        return
    write_text(to, data.decode())
    last = site.read_record(data).link
    out.print(f"Wrote {to}. Its last link, to read to others: {last[:16]}")
    if not key.exists():
        out.print("It is not signed: whoever has it could write another. Name a key with --key.")


def check(
    path: Annotated[Path, typer.Argument(help="A record that 'sudare ledger export' wrote.")],
    trust: Annotated[
        Path | None,
        typer.Option("--trust", help="Keyring: the record must be signed by somebody in it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the record of a ledger, without the ledger: every link, every price, every cap.

    [bold]Example:[/bold] sudare ledger check record.jsonl --trust trust.toml
    """
    from sudare import site
    from sudare.exchange import load_keyring

    found = site.read_record(read_bytes(path), None if trust is None else load_keyring(trust))
    over = [each.dataset for each in found.accounts if each.entries and each.overdrawn]
    if as_json:
        print_json(
            {
                "within_caps": not over,
                "moment": found.moment,
                "link": found.link,
                "signer": found.signer,
                "answers": found.answered,
                "datasets": [
                    {
                        "dataset": each.dataset,
                        "cap": {"epsilon": each.epsilon, "delta": each.delta},
                        "entries": len(each.entries),
                        "enforced_epsilon": number(each.enforced.epsilon),
                    }
                    for each in found.accounts
                ],
            }
        )
        if over:
            raise typer.Exit(REFUSED)
        return
    table = Table("data set", "entries", "ε spent", "of", "δ")
    for each in found.accounts:
        spent = f"{each.enforced.epsilon:.6g}"
        row = (each.dataset, str(len(each.entries)), spent, f"{each.epsilon:g}", f"{each.delta:g}")
        table.add_row(*row)
    out.print(table)
    by = "Its signature was not checked" if found.signer is None else f"Signed by {found.signer!r}"
    caps = f"over the cap of {', '.join(over)}" if over else "within every cap"
    out.print(f"Every link holds; the prices are {caps}. {by}. Last link: {found.link[:16]}")
    if over:
        raise typer.Exit(REFUSED)


def policy(
    approvals: Annotated[
        int | None, typer.Option(help="How many must approve a release before it is charged.")
    ] = None,
    approver: Annotated[
        list[str] | None,
        typer.Option(help="A public key of one who may, in a file that is called after them."),
    ] = None,
    url: LedgerUrl = "ledger.db",
    as_json: AsJson = False,
) -> None:
    """Show, or set, whose approval a release needs before the ledger is charged.

    What it was before stays on record, and 'sudare ledger export' shows all of it.

    [bold]Example:[/bold] sudare ledger policy --approvals 1 --approver "Dr Mori.pub"
    """
    from sudare.cli.people import named_keys
    from sudare.cli.setup import read_ledger
    from sudare.ledger import Ledger, Policy

    read_ledger(url)  # refuses where there is none
    with Ledger(url) as book:
        if approvals is not None or approver:
            keys = {name: key.to_text() for name, key in named_keys(approver or [])}
            book.set_policy(Policy(1 if approvals is None else approvals, keys))
        found = book.policies()[-1]
    if as_json:
        print_json({"approvals": found.approvals, "approvers": sorted(found.approvers)})
        return
    if found.approvals == 0:
        out.print("Releases need nobody's approval.")
        return
    names = ", ".join(found.approvers)
    out.print(f"Since {found.moment[:16]} (UTC) a release needs {found.approvals} of: {names}.")
