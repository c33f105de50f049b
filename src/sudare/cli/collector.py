"""Commands for running a survey. Parse, call, print."""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from sudare.cli.console import out
from sudare.collector import (
    OPTIONS,
    STORE_VARIABLE,
    Option,
    Secrets,
    Settings,
    read_secrets,
    read_settings,
)
from sudare.foundations import checks

if TYPE_CHECKING:
    from sudare.collector import Addresses, Opened

surveys = typer.Typer(help="Look after a survey whose collector is stopped, or shares PostgreSQL.")


class _Role(Enum):
    """Who a token is for."""

    operator = "operator"
    viewer = "viewer"


_OPTIONS = {each.name: each for each in OPTIONS}
SurveyFile = Annotated[
    str | None, typer.Argument(help=_OPTIONS["survey"].about + ".", metavar="SURVEY.toml")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file with any of these options (port = 8000, …)."),
]


def _declared(option: Option) -> Any:
    """A setting as a typer option; several proxies are named one by one."""
    flag = "--proxy" if option.name == "proxies" else "--" + option.name.replace("_", "-")
    told = option.default if isinstance(option.default, str) else f"{option.default or 0:.10g}"
    default = "" if option.default in (None, ()) else f" (default {told})"
    return typer.Option(flag, help=f"{option.about}{default}.", min=option.least)


def _parameter(option: Option) -> inspect.Parameter:
    """A setting that may be left out."""
    kind: Any = list[str] if option.name == "proxies" else option.type
    annotation = Annotated[kind | None, _declared(option)]
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


StoreUrl = Annotated[str | None, _declared(_OPTIONS["store"])]


def register(app: typer.Typer) -> None:
    """Add these commands to the whole."""
    app.command("collect")(collect)
    app.add_typer(surveys, name="survey", no_args_is_help=True)


def collect(survey: SurveyFile = None, config: ConfigFile = None, **options: Any) -> None:
    """Collect a survey's reports over HTTP, publish every round, show it all on a dashboard.

    A round is published when it is over. Counts are kept in the store; nobody's report is. At the
    first start the operator's token is made, and shown once. Secrets come from the environment
    only: SUDARE_OPERATOR_TOKEN, SUDARE_COLLECTOR_KEY (32 bytes, base64url) and SUDARE_STORE.

    [bold]Example:[/bold] sudare collect at-home.toml --round-seconds 60
    """
    from sudare.collector import monitoring, run

    options["proxies"] = options["proxies"] or None
    settings = read_settings(config, {"survey": survey, **options})
    monitoring.configure(settings.log_format, settings.log_level)
    run(settings, read_secrets(), lambda opened, where: _greet(settings, opened, where))


def _declare_options() -> None:
    """The signature that typer reads, from the table of settings."""
    first = list(inspect.signature(collect).parameters.values())[:2]
    rest = [_parameter(each) for each in OPTIONS if each.name != "survey"]
    signature = inspect.Signature([*first, *rest])
    collect.__signature__ = signature  # type: ignore[attr-defined]
    collect.__annotations__ = {each.name: each.annotation for each in [*first, *rest]}


_declare_options()


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

    from sudare.collector import issued

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
def new_token(
    survey: SurveyFile = None,
    role: Annotated[
        _Role, typer.Option(help="For the operator, or for viewers of a private dashboard.")
    ] = _Role.operator,
    config: ConfigFile = None,
    store: StoreUrl = None,
) -> None:
    """Make a new token and print it, once; the one before of this role is worth nothing then.

    A viewer's token reads the estimates of a private dashboard (sudare collect --dashboard
    private), and nothing else.

    [bold]Example:[/bold] sudare survey new-token --store collector.db --role viewer
    """
    with _opened(survey, config, store) as opened:
        token = opened.collector.new_token("viewer" if role is _Role.viewer else "operator")
    print(token)


@surveys.command("rotate-key")
def rotate_key(
    survey: SurveyFile = None, config: ConfigFile = None, store: StoreUrl = None
) -> None:
    """Make tickets with a new key from now on; those handed out before stay good.

    [bold]Example:[/bold] sudare survey rotate-key --store collector.db
    """
    with _opened(survey, config, store) as opened:
        opened.collector.rotate_key()
    out.print("New tickets are made with a new key. Tickets handed out before stay good.")


@surveys.command("reopen")
def reopen(
    survey: SurveyFile = None,
    corrected: Annotated[
        bool,
        typer.Option("--corrected", help="Also rounds whose estimate was shown: as revised ones."),
    ] = False,
    config: ConfigFile = None,
    store: StoreUrl = None,
) -> None:
    """Open rounds again that a wrong clock has closed before their time.

    Put the clock right first. Reports of these rounds are counted again, and each is published when
    it is over. A round whose estimate was shown stays as it is, unless you say --corrected: then it
    is published again, marked as revised.

    [bold]Example:[/bold] sudare survey reopen at-home.toml
    """
    with _opened(survey, config, store) as opened:
        reopened = opened.collector.reopen(corrected=corrected)
    first, last = reopened[0], reopened[-1]
    which = f"Round {first} is" if first == last else f"Rounds {first} to {last} are"
    out.print(f"{which} open again.")


@surveys.command("backup")
def backup(
    to: Annotated[Path, typer.Option("--out", help="The copy, readable by its owner only.")],
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="With the ticket keys, even if nothing wraps them.")
    ] = False,
    store: StoreUrl = None,
) -> None:
    """Copy a store in a file, also while its collector runs.

    Ticket keys are in the copy if SUDARE_COLLECTOR_KEY wraps them. If not, they are left out unless
    you say --with-keys: whoever reads them can make tickets.

    [bold]Example:[/bold] sudare survey backup --store collector.db --out copy.db
    """
    from sudare.collector import back_up

    place = store or os.environ.get(STORE_VARIABLE)
    if not place:
        raise checks.InvalidInput("Name the store with --store")
    whole = back_up(place, to, with_keys=with_keys)
    out.print(f"Copied to {to}.")
    if not whole:
        out.print(
            "It holds no ticket keys: restored from it, tickets handed out before are worth "
            "nothing. For a copy with them say --with-keys, and keep it secret."
        )


@contextmanager
def _opened(survey: str | None, config: Path | None, store: str | None) -> "Iterator[Opened]":
    """The store, with the survey that is named or, if there is one already, its own."""
    from sudare.collector import open_collector, open_existing

    key = Secrets(read_secrets().key)
    if survey is None and config is None:
        place = store or os.environ.get(STORE_VARIABLE)
        if not place:
            raise checks.InvalidInput(
                "Expected a survey's TOML file, or with --store a store that has its survey"
            )
        opened = open_existing(place, key)
    else:
        opened = open_collector(read_settings(config, {"survey": survey, "store": store}), key)
    try:
        yield opened
    finally:
        opened.collector.close()


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
    return os.open(path, flags, 0o600)


def _greet(settings: Settings, opened: "Opened", where: "Addresses") -> None:
    from sudare.collector import monitoring, promise
    from sudare.counting.wire import survey_id

    survey = opened.survey
    if not out.is_terminal:
        monitoring.say(
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
