"""Commands for running a survey. Parse, call, print."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from sudare import checks
from sudare.cli.console import out

if TYPE_CHECKING:
    from sudare.collector.opening import Opened
    from sudare.collector.server import Addresses
    from sudare.collector.settings import Settings

surveys = typer.Typer(help="Look after a survey whose collector is stopped, or shares PostgreSQL.")

SurveyFile = Annotated[
    str | None,
    typer.Argument(help="The survey's TOML file; or say it in --config.", metavar="SURVEY.toml"),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file with any of these options (port = 8000, …)."),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="A file (default collector.db), or postgresql://… for several collectors. With a "
        "password, better as SUDARE_STORE in the environment.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.command("collect")(collect)
    app.add_typer(surveys, name="survey", no_args_is_help=True)


def collect(
    survey: SurveyFile = None,
    config: ConfigFile = None,
    store: StoreUrl = None,
    host: Annotated[str | None, typer.Option(help="Where to listen (default 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(help="Which port (default 8000); 0 for any that is free.")
    ] = None,
    health_host: Annotated[
        str | None, typer.Option(help="Where /health and /metrics listen (default 127.0.0.1).")
    ] = None,
    health_port: Annotated[
        int | None, typer.Option(help="And on which port (default: the one after --port).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes (default 1); more need PostgreSQL.", min=1)
    ] = None,
    round_seconds: Annotated[
        float | None,
        typer.Option(help="How long a round is, where the survey does not say. It starts now."),
    ] = None,
    grace_seconds: Annotated[
        float | None,
        typer.Option(help="How long to wait for a round's reports before publishing it."),
    ] = None,
    skew_seconds: Annotated[
        float | None, typer.Option(help="How far clients' clocks may be ahead.")
    ] = None,
    late_seconds: Annotated[
        float | None,
        typer.Option(help="Count reports this late, too, and revise the round (default 0)."),
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="Probability with which intervals may fail (default 0.05).")
    ] = None,
    expected_users: Annotated[
        int | None, typer.Option(help="People you expect, for the predicted error.", min=1)
    ] = None,
    retain: Annotated[
        str | None, typer.Option(help="Keep raw reports in this folder. By default none is kept.")
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="A reverse proxy's address or network, whose X-Forwarded-For counts."),
    ] = None,
    tickets_per_minute: Annotated[
        float | None, typer.Option(help="For each client (default 60); 0 is no limit.")
    ] = None,
    tickets_burst: Annotated[
        int | None, typer.Option(help="At once, for each client (default 20).", min=1)
    ] = None,
    tickets_per_second_overall: Annotated[
        float | None, typer.Option(help="For all together (default 500); 0 is no limit.")
    ] = None,
    reports_per_second: Annotated[
        float | None, typer.Option(help="Requests for each client (default 0: no limit).")
    ] = None,
    reports_burst: Annotated[
        int | None, typer.Option(help="At once, for each client (default 100).", min=1)
    ] = None,
    max_connections: Annotated[
        int | None, typer.Option(help="Open at once (default 4096).", min=1)
    ] = None,
    max_streams: Annotated[
        int | None, typer.Option(help="Live dashboards at once (default 1000).", min=1)
    ] = None,
    max_pending: Annotated[
        int | None, typer.Option(help="Reports that may wait (default 400000).", min=1)
    ] = None,
    header_seconds: Annotated[
        float | None, typer.Option(help="For a request's head, and idle (default 10).")
    ] = None,
    body_seconds: Annotated[
        float | None, typer.Option(help="For a request's body (default 20).")
    ] = None,
    stop_seconds: Annotated[
        float | None, typer.Option(help="For an orderly end, at most (default 10).")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="json, text, or auto: text on a terminal.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info (default), warning or error.")
    ] = None,
) -> None:
    """Collect a survey's reports over HTTP, publish every round, show it all on a dashboard.

    A round is published when it is over. Counts are kept in the store; nobody's report is. At the
    first start the operator's token is made, and shown once. Secrets come from the environment
    only: SUDARE_OPERATOR_TOKEN, SUDARE_COLLECTOR_KEY (32 bytes, base64url) and SUDARE_STORE.

    [bold]Example:[/bold] sudare collect at-home.toml --round-seconds 60
    """
    from sudare.collector import logs
    from sudare.collector.server import run
    from sudare.collector.settings import read_secrets

    given = dict(locals())
    options = {name: given[name] for name in _OPTIONS} | {"proxies": proxy or None}
    settings = _settings(config, options)
    logs.configure(settings.log_format, settings.log_level)
    run(settings, read_secrets(), lambda opened, where: _greet(settings, opened, where))


_OPTIONS = (
    "survey", "store", "host", "port", "health_host", "health_port", "workers", "round_seconds",
    "grace_seconds", "skew_seconds", "late_seconds", "beta", "expected_users", "retain",
    "tickets_per_minute", "tickets_burst", "tickets_per_second_overall", "reports_per_second",
    "reports_burst", "max_connections", "max_streams", "max_pending", "header_seconds",
    "body_seconds", "stop_seconds", "log_format", "log_level",
)  # fmt: skip


@surveys.command("tickets")
def tickets(
    survey: SurveyFile = None,
    count: Annotated[int, typer.Option(help="How many.", min=1, max=10_000_000)] = 1,
    config: ConfigFile = None,
    store: StoreUrl = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="A file for them, readable by its owner only.")
    ] = None,
) -> None:
    """Make tickets for people who log in elsewhere: one JSON object a line.

    Give each to one person only. They are as good as those the collector hands out.

    [bold]Example:[/bold] sudare survey tickets at-home.toml --count 500 --out tickets.jsonl
    """
    import msgspec

    from sudare.collector.messages import issued

    with _opened(survey, config, store) as opened, _output(to) as write:
        left = count
        while left:
            some = min(left, 10_000)
            made = opened.collector.issue(some)
            write(b"".join(msgspec.json.encode(issued(each)) + b"\n" for each in made))
            left -= some
    if to is not None:
        out.print(f"{count:,} tickets written to {to}. Give each to one person only.")


@surveys.command("new-token")
def new_token(survey: SurveyFile = None, config: ConfigFile = None, store: StoreUrl = None) -> None:
    """Make a new operator's token and print it, once; the one before is worth nothing then."""
    with _opened(survey, config, store) as opened:
        token = opened.collector.new_token()
    print(token)


@surveys.command("rotate-key")
def rotate_key(
    survey: SurveyFile = None, config: ConfigFile = None, store: StoreUrl = None
) -> None:
    """Make tickets with a new key from now on; those handed out before stay good."""
    with _opened(survey, config, store) as opened:
        opened.collector.rotate_key()
    out.print("New tickets are made with a new key. Tickets handed out before stay good.")


@contextmanager
def _opened(survey: str | None, config: Path | None, store: str | None) -> "Iterator[Opened]":
    from sudare.collector.opening import open_collector
    from sudare.collector.settings import Secrets, read_secrets

    settings = _settings(config, {"survey": survey, "store": store})
    opened = open_collector(settings, Secrets(read_secrets().key))
    try:
        yield opened
    finally:
        opened.collector.close()


def _settings(config: Path | None, options: dict[str, Any]) -> "Settings":
    from sudare.collector.settings import read_settings

    return read_settings(config, options)


@contextmanager
def _output(to: Path | None) -> Iterator[Any]:
    if to is None:
        yield (
            sys.stdout.buffer.write
            if hasattr(sys.stdout, "buffer")
            else (lambda data: sys.stdout.write(data.decode()))
        )
        return
    try:
        # Made before there is anything in it that others should not read; never over another.
        with open(to, "xb", opener=lambda path, flags: _private(path, flags)) as file:
            yield file.write
    except FileExistsError:
        raise checks.InvalidInput(
            f"{to} is there already: tickets are not written over it"
        ) from None
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot write {to}: {problem.strerror}") from None


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags, 0o600)


def _greet(settings: "Settings", opened: "Opened", where: "Addresses") -> None:
    from sudare.collector import logs
    from sudare.collector.board import promise
    from sudare.collector.messages import survey_id

    survey = opened.survey
    if not out.is_terminal:
        logs.say(
            "listening",
            f"Collecting {survey.name!r} at {where.url}",
            url=where.url,
            health_url=where.health_url,
            survey=survey_id(survey),
            store=settings.store_shown,
            operator_token="set"
            if opened.collector.has_token()
            else "none: sudare survey new-token",
        )
        return
    length, many = f"{survey.round_seconds:g} s", f"{survey.rounds:,} rounds"
    out.print(Text.assemble("Dashboard   ", (where.url + "/", "bold cyan underline")))
    out.print(f"Try it      {where.url}/try")
    out.print(f"Health      {where.health_url}/health, {where.health_url}/metrics")
    asked = f": {survey.question}" if survey.question else ""
    out.print(f"Survey      {survey.name}{asked}")
    out.print(f"            {survey.method}, {many} of {length}, ε = {survey.epsilon:g}")
    if opened.started_now:
        out.print(
            f"            Started now, as it named no start; {settings.store_shown} keeps that."
        )
    out.print(f"Promise     {promise(survey)}")
    if opened.token is not None:
        out.print(Text.assemble("Token       ", (opened.token, "bold yellow")))
        out.print("            The operator's; printed once; keep it.")
    out.print("Stop        Ctrl-C")
    out.print()
