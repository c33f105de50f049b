"""Commands about the ledger. Parse, call, print."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from sudare.cli import records
from sudare.cli.console import AsJson, err, number, out, print_json
from sudare.cli.options import (
    LedgerUrl,
    Rows,
    StudyFile,
    tell_reading,
)
from sudare.foundations import checks

ledger = typer.Typer(help="Open, show, export, check and rekey the privacy budget of data sets.")


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    records.register(ledger)
    app.add_typer(ledger, name="ledger", no_args_is_help=True)


@ledger.command("open")
def ledger_open(
    name: Annotated[str, typer.Argument(help="What the data set is called in the ledger.")],
    data: Rows,
    epsilon: Annotated[float, typer.Option(help="Cap on ε, for all releases together.")],
    delta: Annotated[float, typer.Option(help="Cap on δ.")] = 1e-6,
    url: LedgerUrl = "ledger.db",
    study: StudyFile = Path("study.toml"),
    same: Annotated[
        bool,
        typer.Option(
            "--same-people", help="Newer rows of the people of this data set: the same budget."
        ),
    ] = False,
    others: Annotated[
        bool,
        typer.Option(
            "--these-are-other-people", help="However alike their rows are to those of others here."
        ),
    ] = False,
) -> None:
    """Give a data set its privacy budget. A cap is never moved.

    The budget belongs to people: the same rows in another file, or nearly the same, get no second
    one. Rows are compared as the study reads them; nothing of them can be read from the ledger.
    """
    from sudare import site
    from sudare.ledger import Ledger
    from sudare.study import read_study

    if same and others:
        raise checks.InvalidInput("Choose one of --same-people and --these-are-other-people")
    described = read_study(study) if study.exists() else None
    if described is None:
        err.print(
            f"Warning: without {study}, only this very file is recognised until it is released "
            "from. Name the study with --study.",
            style="yellow",
            soft_wrap=True,
        )
    if described is not None:
        tell_reading(data, described)
    people: Any = "same" if same else "others" if others else "unknown"
    with Ledger(url) as book:
        account = site.open_data(data, described, book, name, epsilon, delta, people=people)
    out.print(
        f"{name!r} may spend ε = {account.epsilon:g} at δ = {account.delta:g}; "
        f"left: {account.remaining:.6g}."
    )


@ledger.command("show")
def ledger_show(url: LedgerUrl = "ledger.db", as_json: AsJson = False) -> None:
    """Show what has been spent, on what, and what is left."""
    accounts, anchors = read_ledger(url)
    if as_json:
        print_json([account_dict(each, anchors) for each in accounts])
        return
    for anchor in anchors:
        if told := _anchor_told(anchor):
            out.print(told)
    for account in accounts:
        title = (
            f"{account.dataset}: ε = {account.remaining:.6g} of {account.epsilon:g} left "
            f"at δ = {account.delta:g}"
        )
        table = Table("no.", "when (UTC)", "what", "event", "released", title=title)
        for entry in account.entries:
            kind, cost = _told(entry.event)
            released = "yes" if entry.released else "not yet"
            table.add_row(
                str(entry.number), entry.moment[:16], entry.purpose, f"{kind} {cost}", released
            )
        out.print(table)
        if account.entries:
            out.print(str(account.spent))
            for line in _cost_told(account):
                out.print(line)
    if not accounts:
        out.print("No data set has been opened: sudare ledger open NAME DATA --epsilon 1")


@ledger.command("rekey")
def ledger_rekey(url: LedgerUrl = "ledger.db") -> None:
    """Give a ledger a new key, accepting it as it stands; that is put on record.

    For a key that is lost or known to too many, or a ledger put back from an older backup. What was
    spent since that backup is unknown to it: do not spend it again.
    """
    from sudare.ledger import rekey

    _check_there(url)
    told = _anchor_told(rekey(url))
    out.print(told)
    out.print("Keep a copy of the key file where the ledger's backups are not.")


def _check_there(url: str) -> None:
    if "://" not in url and not Path(url).exists():
        raise checks.InvalidInput(f"There is no ledger at {url}: sudare ledger open makes one")


def read_ledger(url: str) -> tuple[list[Any], list[Any]]:
    """The accounts of a ledger, and its anchors."""
    from sudare.ledger import Ledger

    _check_there(url)
    with Ledger(url) as book:
        return [book.account(name) for name in book.datasets()], book.anchors()


def _anchor_told(anchor: Any) -> str:
    """What should be known about a ledger's key; nothing, if it has had it from the beginning."""
    when = f"{anchor.moment[:16]} (UTC), after entry {anchor.entries}"
    return {
        "made": "",
        "upgraded": f"This ledger has a key since {when}: what came before is vouched for only by "
        "the chain without a key that it had.",
        "rekeyed": f"This ledger was given a new key at {when}; under the one before, everything "
        "was in order.",
        "rekeyed-unchecked": f"This ledger was given a new key at {when}, and the one before did "
        "not vouch for it: it was lost, or entries were missing.",
    }[anchor.reason.value]


def _cost_told(account: Any) -> list[str]:
    """The number that the cap is held to, beside that of the sentence, and why they differ."""
    if account.overdrawn:
        return [f"Enforced: {account.overdrawn}."]
    cost = account.enforced
    how = {
        "alone": "one entry, by itself",
        "sum": "the sum of all ε",
        "gaussian": "the Gaussian curve at an eighth of δ",
        "renyi": "Rényi divergences at one of two orders, at a sixteenth of δ each",
        "added up": "all ε and all δ added up",
    }[cost.rule]
    return [
        f"Enforced: ε = {cost.epsilon:.6g}, by {how}. The cap is held to this number, which also "
        "covers prices chosen after seeing earlier releases; the sentence above holds if all "
        "prices were fixed beforehand."
    ]


def account_dict(account: Any, anchors: list[Any]) -> dict[str, Any]:
    """An account as JSON."""
    from sudare.foundations import privacy

    return {
        "dataset": account.dataset,
        "cap": {"epsilon": account.epsilon, "delta": account.delta},
        "opened": account.opened,
        "spent_epsilon": number(account.spent.epsilon()) if account.entries else 0.0,
        "enforced_epsilon": number(account.enforced.epsilon),
        "enforced_by": account.enforced.rule,
        "remaining_epsilon": account.remaining,
        "keys": [
            {"since": each.moment, "after_entry": each.entries, "reason": each.reason.value}
            for each in anchors
        ],
        "entries": [
            {
                "number": entry.number,
                "moment": entry.moment,
                "purpose": entry.purpose,
                "released": entry.released,
                "event": json.loads(privacy.encode([entry.event]))[0],
            }
            for entry in account.entries
        ],
    }


def _told(event: Any) -> tuple[str, str]:
    """A privacy event in a word and its numbers."""
    kind = type(event).__name__.removesuffix("Event").lower()
    fields = ("epsilon", "delta", "mu", "rho", "log_ratio", "failure")
    return kind, ", ".join(f"{f}={getattr(event, f):.4g}" for f in fields if hasattr(event, f))
