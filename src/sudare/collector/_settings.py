"""How a collector is set up: a TOML file, options that override it, secrets from the environment.

Secrets never stand in a file of settings or on a command line, where other users of the machine
could read them:

    SUDARE_COLLECTOR_KEY     the tickets' key, 32 bytes as base64url; without it the store makes and
                             keeps one
    SUDARE_OPERATOR_TOKEN    the operator's token; without it one is made at the first start
    SUDARE_STORE             the store's address, where it holds a password
"""

import base64
import binascii
import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from sudare.counting import KEY_BYTES
from sudare.foundations import checks
from sudare.storage.files import read_text

KEY_VARIABLE = "SUDARE_COLLECTOR_KEY"
TOKEN_VARIABLE = "SUDARE_OPERATOR_TOKEN"
STORE_VARIABLE = "SUDARE_STORE"
_SHORTEST_TOKEN = 20
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Format = Literal["auto", "json", "text"]
Dashboard = Literal["public", "private"]
Level = Literal["debug", "info", "warning", "error"]


def option(about: str, least: int | None = None) -> msgspec.Meta:
    """What `sudare collect --help` says of a setting, and the least it may be."""
    return msgspec.Meta(description=about, extra={"least": least})


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator can choose; each has a value that suits a first try.

    The options of `sudare collect` are made from this: name, type, default and description.
    """

    survey: Annotated[str, option("The survey's TOML file; or say it in --config")]
    store: Annotated[
        str,
        option(
            "A file, or postgresql://… for several collectors. With a password, better as "
            "SUDARE_STORE in the environment"
        ),
    ] = "collector.db"
    host: Annotated[str, option("Where to listen")] = "127.0.0.1"
    port: Annotated[int, option("Which port; 0 for any that is free")] = 8000
    health_host: Annotated[str, option("Where /health and /metrics listen")] = "127.0.0.1"
    health_port: Annotated[
        int | None,
        option("And on which port, by default the one after --port; one more for each worker"),
    ] = None
    workers: Annotated[int, option("Processes; more than one need PostgreSQL", least=1)] = 1

    round_seconds: Annotated[
        float | None, option("How long a round is, where the survey does not say. It starts now")
    ] = None
    grace_seconds: Annotated[
        float | None, option("How long to wait for a round's reports before publishing it")
    ] = None
    skew_seconds: Annotated[float | None, option("How far clients' clocks may be ahead")] = None
    late_seconds: Annotated[float, option("Count reports this late, too, and revise the round")] = (
        0.0
    )
    clock_seconds: Annotated[
        float,
        option("How far the clock may leap, or be from the database's, before publication waits"),
    ] = 2.0
    beta: Annotated[float, option("Probability with which some interval may miss")] = 0.05
    dashboard: Annotated[
        Dashboard,
        option("public, or private: estimates are read with a viewer's or the operator's token"),
    ] = "public"
    expected_users: Annotated[
        int | None,
        option("People you expect, for the predicted error", least=1),
    ] = None
    retain: Annotated[
        str | None, option("Keep raw reports in this folder. By default none is kept")
    ] = None

    proxies: Annotated[
        tuple[str, ...],
        option("A reverse proxy's address or network, whose X-Forwarded-For counts"),
    ] = ()
    tickets_per_minute: Annotated[float, option("For each client; 0 is no limit")] = 60.0
    tickets_burst: Annotated[int, option("At once, for each client", least=1)] = 20
    tickets_per_second_overall: Annotated[float, option("For all together; 0 is no limit")] = 500.0
    # No limit: a relay or a whole household may stand behind one address.
    reports_per_second: Annotated[float, option("Requests for each client; 0 is no limit")] = 0.0
    reports_burst: Annotated[int, option("At once, for each client", least=1)] = 100

    max_connections: Annotated[int, option("Open at once; more wait", least=1)] = 4096
    max_streams: Annotated[int, option("Live dashboards at once", least=1)] = 1000
    max_streams_each: Annotated[int, option("Of these, for each client", least=1)] = 50
    max_bodies: Annotated[
        int, option("Unfinished bodies at once; beyond it whoever has most loses some", least=1)
    ] = 1024
    # A dashboard that has to poll asks twice a round, and many may sit behind one address.
    reads_per_second: Annotated[float, option("Reads for each client; 0 is no limit")] = 100.0
    reads_burst: Annotated[int, option("At once, for each client", least=1)] = 1000
    max_pending: Annotated[
        int, option("Reports that may wait; beyond it clients are asked to try again", least=1)
    ] = 400_000
    header_seconds: Annotated[float, option("For a request's head, and idle")] = 10.0
    body_seconds: Annotated[float, option("For a request's body, in all")] = 20.0
    store_seconds: Annotated[float, option("How long to wait for a store that is starting up")] = (
        60.0
    )
    stop_seconds: Annotated[float, option("For an orderly end, at most")] = 10.0

    log_format: Annotated[Format, option("json, text, or auto: text on a terminal")] = "auto"
    log_level: Annotated[Level, option("debug, info, warning or error")] = "info"

    def __post_init__(self) -> None:
        for name in ("survey", "store", "host", "health_host"):
            if not getattr(self, name).strip():
                raise checks.InvalidInput(f"Expected {name} not to be empty")
        for name in ("port", "health_port"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 65535:
                raise checks.InvalidInput(f"Expected {name}={value} in 0 … 65535")
        checks.proportion(beta=self.beta)
        checks.positive(
            header_seconds=self.header_seconds,
            body_seconds=self.body_seconds,
            stop_seconds=self.stop_seconds,
            clock_seconds=self.clock_seconds,
        )
        checks.non_negative(
            late_seconds=self.late_seconds,
            store_seconds=self.store_seconds,
            tickets_per_minute=self.tickets_per_minute,
            tickets_per_second_overall=self.tickets_per_second_overall,
            reports_per_second=self.reports_per_second,
            reads_per_second=self.reads_per_second,
        )
        for name in ("grace_seconds", "skew_seconds"):
            if getattr(self, name) is not None:
                checks.non_negative(**{name: getattr(self, name)})
        if self.round_seconds is not None:
            checks.positive(round_seconds=self.round_seconds)
        for each in OPTIONS:
            value = getattr(self, each.name)
            if each.least is not None and value is not None:
                checks.count(minimum=each.least, **{each.name: value})
        for proxy in self.proxies:
            parse_network(proxy)
        if self.workers > 1 and not self.shares_store:
            raise checks.InvalidInput(
                f"Expected workers=1 with a SQLite store, not {self.workers}: only one process may "
                "write to it. For more, keep the counts in PostgreSQL: --store postgresql://…"
            )

    @property
    def shares_store(self) -> bool:
        """Several collectors may use the store at once."""
        return self.store.startswith(("postgresql://", "postgres://"))

    @property
    def store_shown(self) -> str:
        """The store without its password."""
        scheme, found, rest = self.store.partition("://")
        if not found:
            return self.store
        # Neither in front of the host nor among what follows it may a password be seen.
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


class Option(NamedTuple):
    """A setting, as the command line needs to know it."""

    name: str
    type: type[str] | type[int] | type[float]
    default: Any
    about: str
    least: int | None


def _option(field: msgspec.structs.FieldInfo) -> Option:
    kind, meta = get_args(field.type)
    plain = next((each for each in (int, float) if kind in (each, each | None)), str)
    default = None if field.default is msgspec.NODEFAULT else field.default
    return Option(field.name, plain, default, meta.description, meta.extra["least"])


OPTIONS = tuple(map(_option, msgspec.structs.fields(Settings)))


class Secrets(msgspec.Struct, frozen=True):
    """What is read from the environment only."""

    key: bytes | None = None
    token: str | None = None

    def __repr__(self) -> str:
        return "Secrets()"


def read_settings(
    config: str | Path | None,
    options: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """A file's settings, overridden by the options that are not None.

    Paths in the file are relative to it. The store comes from the options, else from SUDARE_STORE,
    else from the file.
    """
    environment = os.environ if environment is None else environment
    chosen: dict[str, Any] = {} if config is None else _read(Path(config))
    if environment.get(STORE_VARIABLE):
        chosen["store"] = environment[STORE_VARIABLE]
    chosen |= {name: value for name, value in options.items() if value is not None}
    if "survey" not in chosen:
        raise checks.InvalidInput(
            "Expected a survey's TOML file: name it after 'collect', or as survey in --config"
        )
    try:
        return msgspec.convert(chosen, Settings)
    except msgspec.ValidationError as problem:
        raise checks.InvalidInput(f"In the settings: {problem}") from None


def read_secrets(environment: Mapping[str, str] | None = None) -> Secrets:
    """The secrets in the environment, if there are any."""
    environment = os.environ if environment is None else environment
    key = token = None
    if text := environment.get(KEY_VARIABLE):
        key = _key(text)
    if token := environment.get(TOKEN_VARIABLE) or None:
        if not (len(token) >= _SHORTEST_TOKEN and token.isascii() and token.isprintable()):
            raise checks.InvalidInput(
                f"Expected {TOKEN_VARIABLE} to be at least {_SHORTEST_TOKEN} printable letters"
            )
        if " " in token:
            raise checks.InvalidInput(f"Expected {TOKEN_VARIABLE} without spaces")
    return Secrets(key, token)


def parse_network(text: str) -> Network:
    """An address or a network, as in 10.0.0.0/8."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise checks.InvalidInput(
            f"Expected proxies to be addresses or networks, as in 10.0.0.0/8, not {text!r}"
        ) from None


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise checks.InvalidInput(f"Expected TOML in {path}: {problem}") from None
    for name in ("survey", "store", "retain"):
        value = table.get(name)
        if isinstance(value, str) and value and "://" not in value:
            table[name] = str(path.parent / value)
    return table


def _key(text: str) -> bytes:
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise checks.InvalidInput(
            f"Expected {KEY_VARIABLE} to be {KEY_BYTES} bytes in base64url (43 letters)"
        )
    return key
