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
"""

from sudare.counting.client import Client
from sudare.counting.estimation import Estimates, estimate
from sudare.counting.reporter import FileStore, MemoryStore, Reporter, StateStore
from sudare.counting.reports import Batch, Report, unpack
from sudare.counting.smoothing import smooth
from sudare.counting.survey import METHODS, Method, Survey, parse_survey, read_survey
from sudare.counting.tally import Tally, empty_tally, read_tally
from sudare.counting.tickets import Ticket, TicketOffice, open_office
from sudare.counting.wire import CollectorError

__all__ = [
    "METHODS",
    "Batch",
    "Client",
    "CollectorError",
    "Estimates",
    "FileStore",
    "MemoryStore",
    "Method",
    "Report",
    "Reporter",
    "StateStore",
    "Survey",
    "Tally",
    "Ticket",
    "TicketOffice",
    "empty_tally",
    "estimate",
    "open_office",
    "parse_survey",
    "read_survey",
    "read_tally",
    "smooth",
    "unpack",
]
