"""What the collector says, and what it does not."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from sudare.collector import monitoring


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    kept = {n: logging.getLogger(n).handlers[:] for n in ("sudare.collector", "_granian")}
    yield
    for name, handlers in kept.items():
        logging.getLogger(name).handlers[:] = handlers


def test_json_lines_for_programs() -> None:
    stream = io.StringIO()
    monitoring.configure(stream=stream)
    monitoring.say("published", "Round 3 published", round=3, reporters=12)
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "event": "published", "message": "Round 3 published", "round": 3,
        "reporters": 12,
    }  # fmt: skip


def test_plain_lines_for_people() -> None:
    stream = Terminal()
    monitoring.configure(stream=stream)
    monitoring.say("published", "Round 3 published", round=3)
    monitoring.say("store", "The store is full", logging.WARNING)
    first, second = stream.getvalue().splitlines()
    assert first.endswith("  Round 3 published")
    assert second.endswith("  warning: The store is full")


def test_the_format_can_be_chosen() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    monitoring.configure("json", stream=terminal)
    monitoring.say("a", "b")
    assert json.loads(terminal.getvalue())["event"] == "a"
    monitoring.configure("text", "warning", stream=pipe)
    monitoring.say("a", "not worth it")
    monitoring.say("a", "worth it", logging.ERROR)
    assert len(pipe.getvalue().splitlines()) == 1


def test_a_fault_is_told_without_its_message() -> None:
    stream = io.StringIO()
    monitoring.configure(stream=stream)
    try:
        raise KeyError("serial 4711 of somebody")
    except KeyError as problem:
        monitoring.fault("count", problem)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["kind"], line["where"]) == ("fault", "KeyError", "count")
    assert line["path"][0].startswith("test_monitoring_logs.py:")
    assert "4711" not in stream.getvalue()


def test_the_servers_own_words_are_in_the_same_shape() -> None:
    stream = io.StringIO()
    monitoring.configure(stream=stream)
    granian = logging.getLogger("_granian")
    granian.info("Listening")
    try:
        raise ValueError("serial 4711 of somebody")
    except ValueError:
        granian.error("Application callable raised an exception", exc_info=True)
    line = json.loads(stream.getvalue())
    assert line["event"] == "server"
    assert "4711" not in stream.getvalue()
