"""What the collector says while it runs: JSON lines, or plain ones where a person reads along.

No line holds an address, a secret, a serial number or anything that was sent. An unexpected fault
is told by its kind and the places in the code it went through, without its message, which may quote
data.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any, Literal

Format = Literal["auto", "json", "text"]
Level = Literal["debug", "info", "warning", "error"]
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
    """One line: what happened, in a word for programs and in words for people."""
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
