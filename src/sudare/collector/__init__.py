"""Live counts over HTTP: a survey's collector, over one file or over a shared database.

Collector    validates reports, counts them durably, issues tickets, closes rounds
open_store   an SQLite file, or PostgreSQL for several collectors at once
bind_store   the survey that a store serves; sets up an empty store
schedule     when rounds open, close and are published
run          serves a survey until it gets a signal to stop

What serves, simulates clients or counts again brings in its libraries when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sudare.collector._binding import bind_store
from sudare.collector._clock import Schedule, schedule
from sudare.collector._engine import (
    Collector,
    Round,
    Status,
    StoreUnavailable,
    Verdict,
)
from sudare.collector._opening import Opened, open_collector, open_existing
from sudare.collector._settings import (
    OPTIONS,
    STORE_VARIABLE,
    Option,
    Secrets,
    Settings,
    read_secrets,
    read_settings,
)
from sudare.collector.stores import Store, open_store

if TYPE_CHECKING:
    from sudare.collector._backup import back_up
    from sudare.collector._board import promise
    from sudare.collector._load import Load, simulate_clients
    from sudare.collector._messages import issued
    from sudare.collector._retention import ENGINES, SURVEY_FILE, recount
    from sudare.collector._server import Addresses, run

__all__ = [
    "ENGINES",
    "OPTIONS",
    "STORE_VARIABLE",
    "SURVEY_FILE",
    "Addresses",
    "Collector",
    "Load",
    "Opened",
    "Option",
    "Round",
    "Schedule",
    "Secrets",
    "Settings",
    "Status",
    "Store",
    "StoreUnavailable",
    "Verdict",
    "back_up",
    "bind_store",
    "issued",
    "open_collector",
    "open_existing",
    "open_store",
    "promise",
    "read_secrets",
    "read_settings",
    "recount",
    "run",
    "schedule",
    "simulate_clients",
]

_LATER = {
    "_backup": ("back_up",),
    "_board": ("promise",),
    "_load": (
        "Load",
        "simulate_clients",
    ),
    "_messages": ("issued",),
    "_retention": (
        "ENGINES",
        "SURVEY_FILE",
        "recount",
    ),
    "_server": (
        "Addresses",
        "run",
    ),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
