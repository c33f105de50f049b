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
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sudare import checks
from sudare.collector.limits import parse_network
from sudare.collector.logs import Format, Level
from sudare.counting.tickets import KEY_BYTES

KEY_VARIABLE = "SUDARE_COLLECTOR_KEY"
TOKEN_VARIABLE = "SUDARE_OPERATOR_TOKEN"
STORE_VARIABLE = "SUDARE_STORE"
_SHORTEST_TOKEN = 20


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator can choose; each has a value that suits a first try."""

    survey: str
    """The survey's TOML file."""
    store: str = "collector.db"
    """A file (SQLite), or postgresql://… for several collectors."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes any that is free."""
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    """Where /health and /metrics are; the port after `port` by default, and one more for each
    further worker."""
    workers: int = 1
    """Processes; more than one needs PostgreSQL."""

    round_seconds: float | None = None
    """For a survey that names no times: how long a round is. It starts at the first start."""
    grace_seconds: float | None = None
    """How long after its end a round's reports are awaited, before it is published."""
    skew_seconds: float | None = None
    """How far clients' clocks may be ahead."""
    late_seconds: float = 0.0
    """Until when reports are counted after a round's end; a published round is then revised."""
    beta: float = 0.05
    """Probability with which some interval of all rounds may miss."""
    expected_users: int | None = None
    """For the predicted error; without it, the tickets handed out."""
    retain: str | None = None
    """A folder for raw reports. By default none is kept."""

    proxies: tuple[str, ...] = ()
    """Addresses or networks of reverse proxies, whose X-Forwarded-For is believed."""
    tickets_per_minute: float = 60.0
    """For each client; 0 is no limit."""
    tickets_burst: int = 20
    tickets_per_second_overall: float = 500.0
    reports_per_second: float = 0.0
    """For each client, counted in requests; 0 is no limit, as a relay or a whole household may
    stand behind one address."""
    reports_burst: int = 100

    max_connections: int = 4096
    """Open at once; more wait to be accepted."""
    max_streams: int = 1000
    """Live dashboards at once."""
    max_pending: int = 400_000
    """Reports waiting to be counted; beyond it clients are asked to try again."""
    header_seconds: float = 10.0
    """For a request's head to arrive, and for a connection to stay idle."""
    body_seconds: float = 20.0
    """For a request's body to arrive, in all."""
    stop_seconds: float = 10.0
    """At most, from being told to stop to the end."""

    log_format: Format = "auto"
    log_level: Level = "info"

    def __post_init__(self) -> None:
        for name in ("survey", "store", "host", "health_host"):
            if not getattr(self, name).strip():
                raise checks.InvalidInput(f"Expected {name} not to be empty")
        for name in ("port", "health_port"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 65535:
                raise checks.InvalidInput(f"Expected {name}={value} in 0 … 65535")
        checks.count(
            workers=self.workers,
            max_connections=self.max_connections,
            max_streams=self.max_streams,
            max_pending=self.max_pending,
            tickets_burst=self.tickets_burst,
            reports_burst=self.reports_burst,
        )
        checks.proportion(beta=self.beta)
        checks.positive(
            header_seconds=self.header_seconds,
            body_seconds=self.body_seconds,
            stop_seconds=self.stop_seconds,
        )
        checks.non_negative(
            late_seconds=self.late_seconds,
            tickets_per_minute=self.tickets_per_minute,
            tickets_per_second_overall=self.tickets_per_second_overall,
            reports_per_second=self.reports_per_second,
        )
        for name in ("grace_seconds", "skew_seconds"):
            if getattr(self, name) is not None:
                checks.non_negative(**{name: getattr(self, name)})
        if self.round_seconds is not None:
            checks.positive(round_seconds=self.round_seconds)
        if self.expected_users is not None:
            checks.count(expected_users=self.expected_users)
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


class Secrets(msgspec.Struct, frozen=True):
    """What only the environment may tell."""

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


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise checks.InvalidInput(f"Cannot read {path}: {problem.strerror}") from None
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
