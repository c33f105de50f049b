"""Commands about pools: agree on a plan, take part, see how far it is. Parse, call, print."""

import dataclasses
import math
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from sudare.cli.console import AsJson, err, on_interrupt, out, print_json
from sudare.cli.options import (
    AGAIN,
    LedgerUrl,
    MaybeRows,
    StudyFile,
    TrustFile,
    Unattended,
    keyring,
    tell_reading,
    whether_charged,
    write_text,
)
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.exchange import Keyring
    from sudare.pooling import PoolPlan, PoolTerms
    from sudare.site import Pool, PoolStatus

REFUSED, WAITING = 3, 4
_RUN = "run"
_NAMELESS = "yourself"
_MOST_COLUMNS = 4
"""Of answers, one for each session."""
PlanFile = Annotated[Path, typer.Option("--plan", help="The plan that all parties share.")]
KeyFile = Annotated[Path, typer.Option("--key", help="Your signing key.")]


class _Group(TyperGroup):
    """`sudare pool DATA` takes part; a word that names a command is that command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help"):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group,
    help="One noise for everybody: sum what all parties know, and nobody sees a part of it.\n\n"
    "[bold]1.[/bold] One party writes the plan from the keyring: sudare pool new\n\n"
    "[bold]2.[/bold] Everybody gets the same plan, compares its digest, and runs: sudare pool DATA "
    "--place SHARED\n\n"
    "Run that again and again: it joins, answers and finishes, and says what it waits for. Others: "
    "--preview (before), --status (who is missing), --watch (until it is done).",
    rich_markup_mode="rich",
    epilog="Exit codes: 0 done · 2 something to put right · 3 refused · 4 waiting for others.",
)


def register(whole: typer.Typer) -> None:
    """Add these commands to the whole."""
    whole.add_typer(app, name="pool")


@app.command("new")
def pool_new(
    study: StudyFile = Path("study.toml"),
    trust: TrustFile = Path("trust.toml"),
    key: KeyFile = Path("key.json"),
    party: Annotated[
        str, typer.Option(help="Your organisation's name, if the keyring does not have your key.")
    ] = "",
    colluders: Annotated[
        int | None,
        typer.Option(help="How many may conspire against the others; just under half by default."),
    ] = None,
    alone: Annotated[
        float | None,
        typer.Option(help="ε that holds even if nobody else is honest, or the masks are broken."),
    ] = None,
    kind: Annotated[
        Literal["moments", "logistic", "poisson", "gradients"],
        typer.Option(
            help="moments: one sum. logistic: two more, of the gradient and curvature of a "
            "logistic regression of all rows. poisson: the same for counts. gradients: thirty "
            "small sums, steps towards a regression of all rows; for many features (about 30 or "
            "more)."
        ),
    ] = "moments",
    epsilon: Annotated[
        float | None, typer.Option(help="Price; that of the study by default.")
    ] = None,
    attempt: Annotated[int, typer.Option(help="2 after an attempt that cannot finish.", min=1)] = 1,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave out this party of the keyring.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="Where to write it.")] = Path("pool.toml"),
    as_json: AsJson = False,
) -> None:
    """Write the plan of a pool of everybody in your keyring. No row is read.

    [bold]Example:[/bold] sudare pool new --colluders 2 --alone 3
    """
    from sudare import site
    from sudare.pooling import PoolTerms
    from sudare.study import read_study

    if to.exists():
        raise checks.InvalidInput(f"{to} exists: choose another name with --out")
    plan = site.new_plan(
        read_study(study),
        _keyring(trust, key, party),
        colluders=colluders,
        alone=alone,
        kind=kind,
        epsilon=epsilon,
        attempt=attempt,
        without=tuple(without or ()),
    )
    terms = PoolTerms.of(plan)
    write_text(to, plan.to_toml())
    if as_json:
        print_json({"plan": str(to)} | _preview(terms))
        return
    out.print(f"Wrote {to}. Everybody needs this file.")
    _show_preview(terms)


@app.command(_RUN)
def pool_run(
    data: MaybeRows = None,
    plan: PlanFile = Path("pool.toml"),
    study: StudyFile = Path("study.toml"),
    url: LedgerUrl = "ledger.db",
    key: KeyFile = Path("key.json"),
    trust: TrustFile = Path("trust.toml"),
    place: Annotated[
        str, typer.Option(help="Folder or address that all parties share.")
    ] = "releases",
    preview: Annotated[
        bool, typer.Option("--preview", help="Read no row: show noise, price and what holds when.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Read no row: show who has joined and answered.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Do it again and again until it is done.")
    ] = False,
    every: Annotated[
        float, typer.Option(help="With --watch: seconds between two looks.", min=0.1)
    ] = 60.0,
    unattended: Unattended = False,
    as_json: AsJson = False,
) -> None:
    """Take part: join, answer or finish, whichever can be done now. The word run may be left out.

    Run it again until it says that it is done; the same answer costs nothing a second time.

    [bold]Example:[/bold] sudare pool rows.csv --place ../shared
    """
    from sudare import site
    from sudare.exchange import load_key
    from sudare.ledger import Ledger
    from sudare.pooling import PoolInvalid, PoolTerms, read_plan
    from sudare.study import read_study

    agreed = read_plan(plan)
    if preview:
        terms = PoolTerms.of(agreed)
        if as_json:
            print_json(_preview(terms))
        else:
            _show_preview(terms)
        return
    try:
        pool = site.Pool(read_study(study), agreed, _keyring(trust, key, "", agreed), place)
        if status:
            _finish(pool.status(), pool, as_json)
            return
        if data is None:
            raise checks.InvalidInput("Expected a data file (or --preview, or --status)")
        signing = load_key(key)
        if not unattended:
            tell_reading(data, pool.study)
        take_part = site.take_part_unattended if unattended else site.take_part
        silence = warnings.catch_warnings(action="ignore" if unattended else None)
        with silence, Ledger(url) as book:
            # How far it is may depend on rows: for jobs, the same is said whenever it is.
            charged = whether_charged(book)

            def state() -> str:
                return AGAIN if unattended else f"{charged()} {pool.status().sentence}"

            told = None
            with on_interrupt(state):
                while True:
                    found = take_part(data, pool, book, signing, home=plan.absolute().parent)
                    if not watch or found.state == "done":
                        break
                    if found.sentence != told:
                        told = found.sentence
                        err.print(told, style="dim", soft_wrap=True)
                    time.sleep(every)
    except PoolInvalid as problem:
        err.print(Text.assemble(("Refused:", "red"), f" {problem}"), soft_wrap=True)
        raise typer.Exit(REFUSED) from None
    _finish(found, pool, as_json)


def _keyring(trust: Path, key: Path, party: str, plan: "PoolPlan | None" = None) -> "Keyring":
    """Whom we trust, ourselves among them under the name that the plan has, or will have."""
    from sudare.exchange import load_key

    if key.exists() and plan is not None:
        member = plan.member(load_key(key).public.fingerprint)
        party = "" if member is None else member.name
    ring = keyring(trust, key, party or _NAMELESS)
    if plan is None and _NAMELESS in dict(ring):
        raise checks.InvalidInput(f"{trust} does not have your own key: say --party NAME")
    return ring


def _finish(found: "PoolStatus", pool: "Pool", as_json: bool) -> None:
    """Say how far it is; done ends with 0, waiting with its own code."""
    if as_json:
        print_json(dataclasses.asdict(found) | {"sentence": found.sentence})
    else:
        _show_status(found, pool)
    if found.state != "done":
        raise typer.Exit(WAITING)


def _show_status(found: "PoolStatus", pool: "Pool") -> None:
    sessions = len(found.parties[0].answered)
    many = sessions > _MOST_COLUMNS
    answers = [f"answered {k + 1}" for k in range(sessions)] if sessions > 1 else ["answered"]
    heads = ["sessions", "last answer (UTC)"] if many else answers
    table = Table("party", "rows", "joined (UTC)", *heads, title=_name(pool.terms))
    for party in found.parties:
        cells = [_short(moment) for moment in party.answered]
        if many:
            done = [moment for moment in party.answered if moment]
            cells = [f"{len(done)} of {sessions}", _short(max(done, default=None))]
        rows = "" if party.rows is None else str(party.rows)
        table.add_row(party.name, rows, _short(party.joined), *cells)
    out.print(table)
    for problem in found.problems:
        out.print(f"Not used: {problem}", style="yellow", soft_wrap=True)
    terms = pool.terms
    if found.charged:
        out.print(
            f"Answered. The ledger was charged ε = {terms.epsilon(terms.plan.honest):.3g} if "
            f"{terms.plan.honest} of you are honest, {terms.epsilon_alone:.3g} if only you are.",
            soft_wrap=True,
        )
    out.print(found.sentence, style="bold", soft_wrap=True)
    if found.state == "done":
        out.print(f"The result: {found.address}", soft_wrap=True)
        out.print("Next: sudare blend DATA --party NAME --releases that file")
    elif found.state == "answering":
        out.print(
            "If somebody is gone for good, this attempt cannot finish: "
            f"sudare pool new --attempt {terms.plan.attempt + 1} --without NAME; it costs ε again.",
            soft_wrap=True,
        )


def _name(terms: "PoolTerms") -> str:
    return f"plan {terms.digest[:12]}"


def _short(moment: str | None) -> str:
    return "" if moment is None else moment[:16].replace("T", " ")


def _preview(terms: "PoolTerms") -> dict[str, Any]:
    from sudare.pooling import parameters

    return {
        "digest": terms.digest,
        "parties": [member.name for member in terms.plan.members],
        "epsilon": terms.plan.epsilon,
        "delta": terms.plan.delta,
        "parameters": parameters(terms),
        "noise_gain": None if terms.plan.kind == "gradients" else _gain(terms),
        "curve": [{"honest": each.honest, "epsilon": each.epsilon} for each in terms.curve],
    }


def _gain(terms: "PoolTerms") -> float:
    """How many times more noise separate releases at this price would bring together."""
    from sudare.foundations.gaussian import gaussian_mu

    plan = terms.plan
    separate = 2 / gaussian_mu(plan.epsilon, plan.delta) * math.sqrt(len(plan.members))
    return separate / terms.noise_std


def _show_preview(terms: "PoolTerms") -> None:
    plan, many = terms.plan, len(terms.plan.members)
    out.print(Text.assemble("Digest, to compare by phone: ", (terms.digest[:12], "bold")))
    numbers = sum(session.entries for session in terms.sessions)
    split = f"they get {plan.split[0]:.0%} of the budget, and two steps towards a model the rest"
    gain = {
        "moments": f"{many} separate releases at the same ε, added up, would have about "
        f"{_gain(terms):.1f} times as much",
        "logistic": split,
        "poisson": split,
        "gradients": "each is a step towards a regression of all rows",
    }[plan.kind]
    what = "Each sum has" if plan.kind == "gradients" else "The moments have"
    out.print(
        f"{many} organisations sum {numbers} numbers in {len(terms.sessions)} "
        f"session{'s' * (len(terms.sessions) > 1)}. {what} noise of standard deviation "
        f"{terms.noise_std:.3g} (in their own units); {gain}. No row was read.",
        soft_wrap=True,
    )
    if len(terms.sessions) > 1:
        out.print(
            f"Everybody runs 'sudare pool DATA' at least {len(terms.sessions) + 1} times, or once "
            "with --watch. All of it is charged with the first answer.",
            soft_wrap=True,
        )
    table = Table("if so many are honest", f"ε (δ = {plan.delta:g})", "")
    for each in terms.curve:
        notes = []
        if each.honest == plan.honest:
            notes.append(f"the plan promises {plan.epsilon:g}")
        if each.honest == 1:
            notes.append("only you; also if the masks are ever broken")
        table.add_row(str(each.honest), f"{each.epsilon:.3g}", "; ".join(notes))
    out.print(table)
