"""Commands of an organisation: keys, studies, ledgers, releases. Parse, call, print."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from sudare import checks
from sudare.console import AsJson, number, out, print_json, progress

keys = typer.Typer(help="Make a key that signs your releases.")
trusted = typer.Typer(help="Decide whose releases to accept.")
study = typer.Typer(help="Write and check the public contract of a study.")
ledger = typer.Typer(help="Open, show and export the privacy budget of data sets.")

REFUSED = 3

StudyFile = Annotated[Path, typer.Option("--study", help="The study's TOML file.")]
LedgerUrl = Annotated[
    str, typer.Option("--ledger", help="A file, or postgresql://… for a ledger that a team shares.")
]
TrustFile = Annotated[Path, typer.Option("--trust", help="Keyring: whose releases are accepted.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.add_typer(keys, name="keys", no_args_is_help=True)
    app.add_typer(trusted, name="trust", no_args_is_help=True)
    app.add_typer(study, name="study", no_args_is_help=True)
    app.add_typer(ledger, name="ledger", no_args_is_help=True)
    app.command()(release)
    app.command()(verify)
    app.command()(explain)
    app.command()(blend)
    app.command()(predict)
    app.command()(report)


@keys.command("new")
def keys_new(path: Annotated[Path, typer.Argument(help="Where to write the secret key.")]) -> None:
    """Make a signing key. The file is secret; the line printed is for the others."""
    from sudare.exchange import new_key

    key = new_key()
    key.save(path)
    out.print(f"Secret key written to {path}: keep it to yourself, and keep a copy.")
    out.print(f"Fingerprint, to read to others: [bold]{key.public.spoken}[/bold]")
    out.print("Public key, to hand to others:")
    print(key.public.to_text())


@trusted.command("add")
def trust_add(
    name: Annotated[str, typer.Argument(help="What you call the party.")],
    key: Annotated[str, typer.Argument(help="Their public key: the line, or a file with it.")],
    trust: TrustFile = Path("trust.toml"),
) -> None:
    """Trust a party's key, after checking its fingerprint with them.

    [bold]Example:[/bold] sudare trust add "Clinic A" clinic-a.pub --trust trust.toml
    """
    from sudare.exchange import Keyring, load_keyring, public_key

    text = key if key.lstrip().startswith("{") else _read(Path(key))
    made = public_key(text)
    ring = (load_keyring(trust) if trust.exists() else Keyring()).with_key(name, made)
    _write(trust, ring.to_toml())
    out.print(f"{trust} now trusts {name!r}. Fingerprint: [bold]{made.spoken}[/bold]")
    out.print("Compare it with theirs, over the phone or in person.")


@trusted.command("list")
def trust_list(trust: TrustFile = Path("trust.toml"), as_json: AsJson = False) -> None:
    """Show whom you trust."""
    from sudare.exchange import load_keyring

    ring = load_keyring(trust)
    if as_json:
        print_json([{"name": name, "fingerprint": key.fingerprint} for name, key in ring])
        return
    table = Table("party", "fingerprint")
    for name, key in ring:
        table.add_row(name, key.spoken)
    out.print(table)


@study.command("new")
def study_new(
    columns: Annotated[
        list[str], typer.Argument(help="Column names, or a CSV file whose header names them.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The column to predict; the last by default.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="Where to write it.")] = Path("study.toml"),
) -> None:
    """Write a commented study to fill in, from column names alone.

    [bold]Example:[/bold] sudare study new age pressure ill --out heart.toml
    """
    from sudare.study import draft_study, header

    names = header(columns[0]) if len(columns) == 1 and Path(columns[0]).exists() else columns
    if to.exists():
        raise checks.InvalidInput(f"{to} exists: choose another name with --out")
    _write(to, draft_study(names, target))
    out.print(
        f"Wrote {to}. Fill in the bounds from general knowledge, then: sudare study check {to}"
    )


@study.command("check")
def study_check(
    path: Annotated[Path, typer.Argument(help="The study's TOML file.", metavar="STUDY")],
    data: Annotated[
        Path | None, typer.Argument(help="A data file to try it on; no value is shown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain every problem of a study, and of a data file under it."""
    from sudare.study import read_blocks, read_study

    described = read_study(path)
    rows = None
    if data is not None:
        rows = sum(len(block.rows) for block in read_blocks(data, described))
    if as_json:
        print_json(
            {
                "study": described.name,
                "digest": described.digest(),
                "task": described.task,
                "features": [feature.name for feature in described.features],
                "rows": rows,
            }
        )
        return
    out.print(f"[bold]{described.name}[/bold]: {described.task} of {described.target.column!r}")
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
    if rows is not None:
        out.print(f"{data} fits: {rows} rows.")


@ledger.command("open")
def ledger_open(
    name: Annotated[str, typer.Argument(help="What the data set is called in the ledger.")],
    data: Annotated[Path, typer.Argument(help="Its file.")],
    epsilon: Annotated[float, typer.Option(help="Cap on ε, for all releases together.")],
    delta: Annotated[float, typer.Option(help="Cap on δ.")] = 1e-6,
    url: LedgerUrl = "ledger.db",
) -> None:
    """Give a data set its privacy budget. A cap is never moved."""
    from sudare.ledger import Ledger
    from sudare.study import raw_content

    with Ledger(url) as book:
        account = book.open(name, book.fingerprint(raw_content(data)), epsilon, delta)
    out.print(
        f"{name!r} may spend ε = {account.epsilon:g} at δ = {account.delta:g}; "
        f"left: {account.remaining:.6g}."
    )


@ledger.command("show")
def ledger_show(url: LedgerUrl = "ledger.db", as_json: AsJson = False) -> None:
    """Show what has been spent, on what, and what is left."""
    accounts = _accounts(url)
    if as_json:
        print_json([_account_dict(each) for each in accounts])
        return
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
    if not accounts:
        out.print("No data set has been opened: sudare ledger open NAME DATA --epsilon 1")


@ledger.command("export")
def ledger_export(
    to: Annotated[Path, typer.Argument(help="Where to write the JSON.")],
    url: LedgerUrl = "ledger.db",
) -> None:
    """Write the whole ledger as JSON, for an auditor."""
    _write(to, json.dumps([_account_dict(each) for each in _accounts(url)], indent=2) + "\n")
    out.print(f"Wrote {to}.")


def release(
    data: Annotated[Path | None, typer.Argument(help="CSV or Parquet file of your rows.")] = None,
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
        _show_preview(site.preview(described, rows), as_json)
        return
    if data is None or not party:
        raise checks.InvalidInput("Expected a data file and --party NAME (or --preview)")
    signing = load_key(key)
    with Ledger(url) as book:
        done = site.publish(data, described, book, signing, party=party, place=to)
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


def verify(
    places: Annotated[list[str], typer.Argument(help="Release files, folders or addresses.")],
    trust: TrustFile = Path("trust.toml"),
    study: Annotated[
        Path | None, typer.Option("--study", help="Also check them against this study.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check releases: who signed, for which study, and whether the price adds up."""
    from sudare import site
    from sudare.exchange import load_keyring
    from sudare.study import read_study

    described = None if study is None else read_study(study)
    found = site.collect(places, load_keyring(trust), described)
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
                Path(each.address).name,
                str(shown["signer"] or ""),
                str(shown["rows"] or ""),
                "" if shown["epsilon"] is None else f"{shown['epsilon']:g}",
                f"[{style}]{each.problem or 'valid'}[/{style}]",
            )
        out.print(table)
    if any(each.problem is not None for each in found):
        raise typer.Exit(REFUSED)


def explain(
    path: Annotated[str, typer.Argument(help="A release file.", metavar="RELEASE")],
    trust: TrustFile = Path("trust.toml"),
    as_json: AsJson = False,
) -> None:
    """Say in words what a release holds and what it promises."""
    from sudare import site
    from sudare.exchange import load_keyring

    found = site.collect([path], load_keyring(trust))
    if not found:
        raise checks.InvalidInput(f"{path}: no release is there")
    checked = found[0]
    if checked.trusted is None:
        raise checks.InvalidInput(f"{path}: {checked.problem}")
    certificate, made = checked.trusted.signed.certificate, checked.trusted.release
    if as_json:
        print_json(_checked_dict(checked) | {"parameters": certificate.parameters})
        return
    out.print(
        f"[bold]{made.party}[/bold] (signed by {checked.trusted.signer!r}) released "
        f"{certificate.parameters.get('numbers')} numbers made from {made.n} rows on "
        f"{certificate.moment[:10]}, by {certificate.software}."
    )
    out.print(certificate.sentence)
    table = Table("what decided the noise", "")
    for name, value in certificate.parameters.items():
        table.add_row(name, str(value))
    out.print(table)


def blend(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file of your rows.")],
    releases: Annotated[
        list[str], typer.Option("--releases", help="Folder, file or address of releases.")
    ],
    study: StudyFile = Path("study.toml"),
    trust: TrustFile = Path("trust.toml"),
    party: Annotated[str, typer.Option(help="Your organisation's name.")] = "us",
    to: Annotated[Path, typer.Option("--out", help="Where to write it.")] = Path("model.json"),
    as_json: AsJson = False,
) -> None:
    """Blend verified releases with your own rows into a model that stays with you."""
    from sudare import site
    from sudare.exchange import load_keyring
    from sudare.study import read_study

    described = read_study(study)
    checked = site.collect(releases, load_keyring(trust), described)
    with progress() as tick:
        model = site.blend(data, described, checked, party=party, progress=tick)
    _write(to, model.to_bytes().decode())
    story = model.story
    if as_json:
        print_json(msgspec.to_builtins(story) | {"model": str(to)})
        return
    out.print(f"[bold]{story.sentence}[/bold]")
    table = Table("model", "weight")
    for name, weight in sorted(story.weights.items(), key=lambda item: -item[1])[:8]:
        table.add_row(name, f"{weight:.1%}")
    out.print(table)
    for refusal in story.refusals:
        out.print(f"Not used: {refusal.what}: {refusal.reason}", style="yellow")
    found = story.assessment
    if found is not None:
        out.print(
            f"On {found.rows} held-out rows, {found.measure}: own {found.own.value:.3f}, "
            f"blend {found.blend.value:.3f}; gain {found.gain.value:+.3f} "
            f"({found.gain.low:+.3f} to {found.gain.high:+.3f})."
        )
    out.print(f"Wrote {to}. Next: sudare report {to}")


def predict(
    model: Annotated[Path, typer.Argument(help="A model that 'sudare blend' wrote.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file with the study's columns.")],
    to: Annotated[Path, typer.Option("--out", help="Where to write the predictions.")] = Path(
        "predictions.csv"
    ),
) -> None:
    """Predict for new rows; writes one line for each, in their order."""
    import csv

    from sudare import site

    made = site.load_model(model)
    predicted = made.predict(data)
    header, columns = ["prediction"], [predicted.tolist()]
    if made.study.task == "classification":
        header.append("probability")
        columns.append(made.predict_proba(data)[:, 1].tolist())
    try:
        with to.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(zip(*columns, strict=True))
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {to}: {problem.strerror}") from None
    out.print(f"Wrote {len(predicted)} predictions to {to}.")


def report(
    model: Annotated[Path, typer.Argument(help="A model that 'sudare blend' wrote.")],
    to: Annotated[Path, typer.Option("--out", help="Where to write the page.")] = Path(
        "report.html"
    ),
    coefficients: Annotated[
        Path | None, typer.Option(help="Also write the coefficients as a tidy CSV.")
    ] = None,
) -> None:
    """Write a report for people: what was blended, what it gained, what was promised to whom."""
    from sudare import site

    made = site.load_model(model)
    _write(to, site.render(made))
    if coefficients is not None:
        lines = ["feature,unit,effect,odds_ratio"]
        for each in made.effects():
            ratio = "" if each.odds_ratio is None else repr(each.odds_ratio)
            lines.append(f'"{each.feature}","{each.unit}",{each.effect!r},{ratio}')
        _write(coefficients, "\n".join(lines) + "\n")
    out.print(f"Wrote {to}: open it in a browser, or print it.")


def plan_learn(
    rows: Annotated[int, typer.Option(help="Rows that each party holds.")],
    features: Annotated[int, typer.Option(help="Features of a row.")],
    epsilon: Annotated[float, typer.Option(help="Price of one release.")],
    parties: Annotated[int, typer.Option(help="Organisations taking part, yours included.")],
    delta: Annotated[float, typer.Option(help="Probability with which ε may fail.")] = 1e-6,
    runs: Annotated[int, typer.Option(help="Simulated consortia.", min=2)] = 5,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture of accuracy against ε to this SVG file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same numbers every time.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """What learning together may give: a simulation at your size and price.

    [bold]Example:[/bold] sudare plan learn --rows 50 --features 10 --epsilon 1 --parties 30
    """
    from sudare.site import plan_learning

    with progress() as tick:
        found = plan_learning(
            rows=rows,
            features=features,
            epsilon=epsilon,
            parties=parties,
            delta=delta,
            runs=runs,
            seed=seed,
            progress=lambda done, total: tick("simulating", done, total),
        )
    if plot is not None:
        _write(plot, found.to_svg())
    if as_json:
        print_json(dataclasses.asdict(found) | {"verdict": found.verdict})
        return
    out.print(f"[bold]{found.verdict}[/bold]")
    table = Table("ε", "own model", "blend", "all rows pooled")
    for point in found.points:
        table.add_row(
            f"{point.epsilon:g}",
            f"{point.own:.1%}",
            f"{point.blend:.1%}",
            f"{point.pooled:.1%}",
            style="bold" if point.epsilon == epsilon else None,
        )
    out.print(table)
    out.print(
        f"Mean of {runs} simulated consortia with {parties} parties of {rows} rows, all from one "
        f"law. Pooled noise is about {found.noise_share:.0%} of a typical signal; choosing among "
        f"the parties' models by own rows costs at most {found.aggregation_cost:.3f} in log loss."
    )


def _show_preview(planned: Any, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "rows": planned.n,
                "numbers": planned.numbers,
                "noise_std": planned.noise_std,
                "radius": planned.radius,
                "sentence": planned.sentence,
            }
        )
        return
    out.print(
        f"From {planned.n} rows, {planned.numbers} numbers would be released, each with noise of "
        f"standard deviation about {planned.noise_std:.3g} (in the release's own units). No row "
        "was read."
    )
    out.print(planned.sentence)


def _accounts(url: str) -> list[Any]:
    from sudare.ledger import Ledger

    if "://" not in url and not Path(url).exists():
        raise checks.InvalidInput(f"There is no ledger at {url}: sudare ledger open makes one")
    with Ledger(url) as book:
        return [book.account(name) for name in book.datasets()]


def _account_dict(account: Any) -> dict[str, Any]:
    from sudare import privacy

    return {
        "dataset": account.dataset,
        "cap": {"epsilon": account.epsilon, "delta": account.delta},
        "opened": account.opened,
        "spent_epsilon": number(account.spent.epsilon()) if account.entries else 0.0,
        "remaining_epsilon": account.remaining,
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
    fields = ("epsilon", "delta", "mu", "rho")
    return kind, ", ".join(f"{f}={getattr(event, f):.4g}" for f in fields if hasattr(event, f))


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


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise checks.InvalidInput(f"Cannot read {path}: {reason}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {path}: {problem.strerror}") from None
