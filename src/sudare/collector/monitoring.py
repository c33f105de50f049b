"""What an operator can see of a running collector: log lines, figures, and whether all is well.

Log lines are JSON, or plain where a person reads along. None holds an address, a secret, a serial
number or anything that was sent. An unexpected fault is logged by its kind and the places in the
code it went through, without its message, which may quote data.

Figures are in Prometheus' text format, on a listener of their own, so that a proxy that serves the
survey does not show them. Base units, `_total` names for what only rises, and nothing about anyone:
reports are counted by what became of them.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from starlette.types import Receive, Scope, Send

from sudare import __version__
from sudare.collector._messages import SECURITY, body_of
from sudare.collector._settings import Format, Level
from sudare.collector.stores import REASONS

logger = logging.getLogger("sudare.collector")


def configure(style: Format = "auto", level: Level = "info", stream: IO[str] | None = None) -> None:
    """Send the collector's lines to standard error, in JSON unless it is a terminal."""
    stream = stream or sys.stderr
    if style == "auto":
        style = "text" if stream.isatty() else "json"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Json() if style == "json" else _Text())
    for name in ("sudare.collector", "_granian"):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.propagate = False
    logger.setLevel(level.upper())
    # The server's own words: only what is wrong.
    logging.getLogger("_granian").setLevel(logging.ERROR)


def say(event: str, message: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log one line: the event's name for programs, a message for people."""
    logger.log(level, message, extra={"event": event, "fields": fields})


def fault(where: str, problem: BaseException) -> None:
    """An unexpected fault, without its message."""
    frames = traceback.extract_tb(problem.__traceback__)
    path = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    say(
        "fault",
        f"Unexpected {type(problem).__name__} in {where}",
        logging.ERROR,
        kind=type(problem).__name__,
        where=where,
        path=path,
    )


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "server"),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line, ensure_ascii=False)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        return f"{at}  {mark}{record.getMessage()}"


HEALTH_PATHS = ("/health", "/metrics")
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_SIZES = (1, 10, 100, 1_000, 10_000, 50_000)


class Health(msgspec.Struct, frozen=True):
    """Whether reports can be counted at present."""

    status: str
    """ok, paused (reports are counted, but no round is published) or failing"""
    store: str
    clock: str
    """ok, leapt, or apart (from the database's)"""
    uptime_seconds: float


class Metrics:
    """This process's figures."""

    def __init__(self) -> None:
        # No figures that only say when another began.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        gauge("sudare_info", "The version that runs.", ["version"]).labels(__version__).set(1)
        reports = counter("sudare_reports", "Reports by what became of them.", ["outcome"])
        self._outcomes = [reports.labels(outcome) for outcome in REASONS]
        self._refused = counter(
            "sudare_refusals", "Requests that were refused, by reason.", ["reason"]
        )
        self._seconds = histogram(
            "sudare_commit_seconds",
            "How long groups of reports took to become durable.",
            buckets=_SECONDS,
        )
        self._sizes = histogram(
            "sudare_commit_reports", "How many reports became durable together.", buckets=_SIZES
        )
        self._failures = counter(
            "sudare_store_failures", "How often the store could not be written to."
        )
        self._faults = counter("sudare_faults", "Unexpected faults; see the log.")
        self.tickets = counter("sudare_tickets", "Tickets handed out by this process.")
        self.published = counter("sudare_published_rounds", "Rounds published or revised.")
        self.lag = gauge(
            "sudare_publication_lag_seconds",
            "How long after it was due the last round was published.",
        )
        self._started = time.monotonic()

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """A figure that is looked up when it is asked for."""
        Gauge(f"sudare_{name}", about, registry=self.registry).set_function(value)

    def committed(self, verdicts: NDArray[np.uint8], seconds: float) -> None:
        """A group of reports has become durable."""
        self._seconds.observe(seconds)
        self._sizes.observe(verdicts.size)
        if not verdicts.any():
            self._outcomes[0].inc(verdicts.size)
            return
        for outcome, count in zip(
            self._outcomes, np.bincount(verdicts, minlength=len(REASONS)), strict=True
        ):
            if count:
                outcome.inc(int(count))

    def failed(self, expected: bool) -> None:
        """A group of reports has not become durable."""
        (self._failures if expected else self._faults).inc()

    def refused(self, reason: str) -> None:
        """A request was refused before it reached the store."""
        self._refused.labels(reason).inc()

    @property
    def faults(self) -> float:
        """How many unexpected exceptions."""
        return float(self.registry.get_sample_value("sudare_faults_total") or 0.0)

    def text(self) -> tuple[bytes, str]:
        """All figures, and their content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def health(self, reachable: bool, *, leapt: bool = False, apart: bool = False) -> Health:
        """Whether all is well."""
        uptime = round(time.monotonic() - self._started, 3)
        status = "ok" if reachable and not apart else "failing"
        if status == "ok" and leapt:
            status = "paused"
        clock = "apart" if apart else "leapt" if leapt else "ok"
        return Health(status, "ok" if reachable else "failing", clock, uptime)


class HealthApp:
    """The second listener's application: /health and /metrics."""

    def __init__(self, metrics: Metrics, health: Callable[[], Health]) -> None:
        self._metrics = metrics
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body, media = self._answer(scope["method"], scope["path"])
        headers = [
            (b"content-type", media.encode()),
            (b"cache-control", b"no-store"),
            *SECURITY,
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, method: str, path: str) -> tuple[int, bytes, str]:
        if path not in HEALTH_PATHS:
            return 404, body_of("not_found"), "application/json"
        if method not in ("GET", "HEAD"):
            return 405, body_of("wrong_method"), "application/json"
        if path == "/metrics":
            body, media = self._metrics.text()
            return 200, body, media
        health = self._health()
        # Paused is no reason to be started again: a start would believe the clock that leapt.
        status = 503 if health.status == "failing" else 200
        return status, msgspec.json.encode(health), "application/json"
