"""Live counts over HTTP: a survey's collector, over one file or over a shared database.

settle, Collector   judges reports, counts them durably, issues tickets, closes rounds
open_store          an SQLite file, or PostgreSQL for several collectors at once
schedule            when rounds open, close and are published
"""

from sudare.collector.clock import Schedule, schedule
from sudare.collector.engine import Collector, Round, Status, StoreUnavailable, Verdict, settle
from sudare.collector.stores import Store, open_store

__all__ = [
    "Collector",
    "Round",
    "Schedule",
    "Status",
    "Store",
    "StoreUnavailable",
    "Verdict",
    "open_store",
    "schedule",
    "settle",
]
