"""The operator's commands."""

import json
import os
import pty
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sudare.collector import Collector, bind_store, open_store, schedule
from sudare.collector._settings import Settings
from sudare.counting import read_survey
from tests.support.commands import Done, command
from tests.support.waiting import PATIENCE

SURVEY = """name = "At home"
question = "Is somebody at home?"
rounds = 48
epsilon = 2.0
start = 2026-01-01T00:00:00Z
round_seconds = 60.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "survey.toml").write_text(SURVEY)
    return tmp_path


def opened(folder: Path) -> Collector:
    survey = read_survey(folder / "survey.toml")
    store = open_store(folder / "collector.db")
    return Collector(bind_store(store, survey), store, schedule(survey))


def say(done: Done) -> str:
    return " ".join((done.out + done.err).split())


def test_help_teaches(folder: Path) -> None:
    told = say(command(folder, "collect", "--help"))
    for words in ("SUDARE_OPERATOR_TOKEN", "SUDARE_COLLECTOR_KEY", "SUDARE_STORE", "Example:"):
        assert words in told
    assert "tickets" in say(command(folder, "survey", "--help"))


def test_every_setting_is_an_option(folder: Path) -> None:
    told = command(folder, "collect", "--help").out
    for name in set(Settings.__struct_fields__) - {"survey", "proxies"}:
        assert f"--{name.replace('_', '-')}" in told, name
    assert "--proxy" in told


def test_the_command_line_itself_loads_no_server() -> None:
    """Its options come from the collector's settings; a device has no server installed."""
    program = "import sys, sudare.cli; print(*sorted({each.split('.')[0] for each in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"starlette", "granian", "prometheus_client"} & set(done.stdout.split())


def test_tickets(folder: Path) -> None:
    done = command(folder, "survey", "tickets", "survey.toml", "--count", "3")
    assert done.code == 0
    found = [json.loads(line) for line in done.out.splitlines()]
    assert len({each["serial"] for each in found}) == 3
    digest = read_survey(folder / "survey.toml").digest().hex()
    assert {each["survey"] for each in found} == {digest}
    more = command(folder, "survey", "tickets", "survey.toml", "--count", "50", "--out", "t.jsonl")
    assert "50 tickets written to t.jsonl" in say(more)
    file = folder / "t.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    others = [json.loads(line)["serial"] for line in file.read_text().splitlines()]
    assert len(set(others) | {each["serial"] for each in found}) == 53
    again = command(folder, "survey", "tickets", "survey.toml", "--out", "t.jsonl")
    assert again.code == 2
    assert "is there already" in say(again)
    lost = command(folder, "survey", "tickets", "survey.toml", "--out", "no/t.jsonl")
    assert lost.code == 2
    collector = opened(folder)
    # What was asked for in vain made no ticket either.
    assert collector.status().tickets == 53
    collector.close()


def test_a_new_token(folder: Path) -> None:
    first = command(folder, "survey", "new-token", "survey.toml").out.strip()
    second = command(folder, "survey", "new-token", "survey.toml").out.strip()
    collector = opened(folder)
    assert not collector.check_token(first)
    assert collector.check_token(second)
    collector.close()


def test_a_new_key(folder: Path) -> None:
    before = json.loads(command(folder, "survey", "tickets", "survey.toml").out)
    assert command(folder, "survey", "rotate-key", "survey.toml").code == 0
    after = json.loads(command(folder, "survey", "tickets", "survey.toml").out)
    assert after["serial"] != before["serial"]
    store = open_store(folder / "collector.db")
    assert len(store.ranges()) == 2
    store.close()


def test_back_up_and_restore_as_documented(folder: Path) -> None:
    ticket = json.loads(command(folder, "survey", "tickets", "survey.toml").out)
    words = ["survey", "backup", "--store", "collector.db", "--out", "copy.db", "--with-keys"]
    assert command(folder, *words).code == 0
    assert stat.S_IMODE((folder / "copy.db").stat().st_mode) == 0o600
    command(folder, "survey", "tickets", "survey.toml")  # handed out after the copy
    (folder / "copy.db").rename(folder / "collector.db")
    done = command(folder, "survey", "rotate-key", "--store", "collector.db")
    assert (done.code, "Tickets handed out before stay good" in say(done)) == (0, True)
    again = json.loads(command(folder, "survey", "tickets", "--store", "collector.db").out)
    assert again["mark"] != ticket["mark"]


def test_reopen(folder: Path) -> None:
    """A collector was started on a machine whose clock was far ahead."""
    survey = folder / "survey.toml"
    begun = time.time() - 90
    start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun))
    survey.write_text(SURVEY.replace("2026-01-01T00:00:00Z", start))
    collector = opened(folder)
    collector.clock = lambda: begun + 1000
    assert len(collector.publish_due()) == 16
    collector.close()
    done = command(folder, "survey", "reopen", "survey.toml")
    assert (done.code, say(done)) == (0, "Rounds 1 to 15 are open again.")
    again = command(folder, "survey", "reopen", "survey.toml")
    assert (again.code, "No round is closed" in say(again)) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["collect"], "Expected a survey's TOML file"),
        (["collect", "none.toml"], "Cannot read none.toml"),
        (["collect", "survey.toml", "--workers", "2"], "PostgreSQL"),
        (["collect", "survey.toml", "--beta", "2"], "beta=2.0"),
        (["collect", "survey.toml", "--proxy", "x"], "Expected proxies"),
        (["collect", "survey.toml", "--port", "99999"], "port=99999"),
        (["collect", "survey.toml", "--log-format", "xml"], "log_format"),
        (["collect", "--config", "none.toml"], "Cannot read none.toml"),
        (["collect", "survey.toml", "--store", "redis://x"], "postgresql://"),
        (["survey", "tickets"], "Expected a survey's TOML file"),
        (["survey", "new-token", "survey.toml", "--store", "no/such.db"], "no/such.db"),
    ],
)
def test_a_mistake_is_one_line_and_exit_two(folder: Path, words: list[str], message: str) -> None:
    done = command(folder, *words)
    assert done.code == 2
    assert message in say(done)
    assert "Traceback" not in done.err


def test_on_a_terminal(folder: Path) -> None:
    """Where to look, what is promised, the token once; Ctrl-C ends it well."""
    told = [_on_a_terminal(folder) for _ in range(2)]
    for each in told:
        for words in ("Dashboard http://127.0.0.1:", "/try", "At home: Is somebody at home?"):
            assert words in each
        assert "Ctrl-C" in each
        assert "factor of at most 7.39" in each
    assert "printed once; keep it" in told[0]
    assert "Token" not in told[1]
    token = told[0].partition("Token ")[2].split()[0]
    collector = opened(folder)
    assert collector.check_token(token)
    collector.close()


def _on_a_terminal(folder: Path) -> str:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "sudare", "collect", "survey.toml", "--port", "0"]
    environment = os.environ | {"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    text, until, asked = b"", time.monotonic() + PATIENCE, False
    try:
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other side has closed
                    break
                text += part
            if b"Ctrl-C" in text and not asked:
                asked = True
                process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return " ".join(text.decode().split())
