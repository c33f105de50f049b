"""Continual counting under user-level local differential privacy.

Users hold one bit a round; the collector learns the share of ones in every round before the next
begins. Pure state machines, all but the `Client`: no network, no database.

    Survey           the public description: rounds, ε for the whole horizon, method
    TicketOffice     who reports in which rounds (the collector's side)
    Reporter         one user's side: a bit in, a report or nothing out
    Client           a reporter that talks to a collector over HTTP
    Tally            what the collector keeps: two counts a round
    estimate         shares with intervals that hold for all rounds at once
    smooth           a calmer curve from the same counts
    plan, simulate   which method and how many users; the whole survey, made up

What plans and simulates brings in scipy and more, so it is imported when it is asked for: a device
goes without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sudare.counting._client import Client
from sudare.counting._estimation import Estimates, estimate, estimate_rounds
from sudare.counting._reporter import FileStore, MemoryStore, Reporter, StateStore
from sudare.counting._reports import PACKED, RECORD, Batch, Report, unpack
from sudare.counting._survey import MAX_ROUNDS, METHODS, Method, Survey, parse_survey, read_survey
from sudare.counting._tally import Tally, empty_tally, read_tally
from sudare.counting._tickets import (
    KEY_BYTES,
    MARK_BYTES,
    MAX_SERIAL,
    Ticket,
    TicketOffice,
    open_office,
)
from sudare.counting.smoothing import smooth
from sudare.counting.wire import CollectorError, survey_id

if TYPE_CHECKING:
    from sudare.counting._charts import error_chart
    from sudare.counting._planning import (
        Plan,
        epsilon_needed,
        largest_error_bound,
        plan,
        users_needed,
    )
    from sudare.counting._prediction import predict_error
    from sudare.counting._simulation import Simulation, simulate

__all__ = [
    "KEY_BYTES",
    "MARK_BYTES",
    "MAX_ROUNDS",
    "MAX_SERIAL",
    "METHODS",
    "PACKED",
    "RECORD",
    "Batch",
    "Client",
    "CollectorError",
    "Estimates",
    "FileStore",
    "MemoryStore",
    "Method",
    "Plan",
    "Report",
    "Reporter",
    "Simulation",
    "StateStore",
    "Survey",
    "Tally",
    "Ticket",
    "TicketOffice",
    "empty_tally",
    "epsilon_needed",
    "error_chart",
    "estimate",
    "estimate_rounds",
    "largest_error_bound",
    "open_office",
    "parse_survey",
    "plan",
    "predict_error",
    "read_survey",
    "read_tally",
    "simulate",
    "smooth",
    "survey_id",
    "unpack",
    "users_needed",
]

_LATER = {
    "_charts": ("error_chart",),
    "_planning": (
        "Plan",
        "epsilon_needed",
        "largest_error_bound",
        "plan",
        "users_needed",
    ),
    "_prediction": ("predict_error",),
    "_simulation": (
        "Simulation",
        "simulate",
    ),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
