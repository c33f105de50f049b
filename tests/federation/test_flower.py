"""The adapter without Flower: what it answers, whom it waits for, and what it keeps quiet."""

import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sudare.federation import ReleaseQuestion
from sudare.federation._messages import read_answer, to_bytes
from sudare.federation._node import COMMAND_VARIABLE, NODE_VARIABLE, OPTION
from sudare.federation.flower import (
    QUIET,
    FlowerEngine,
    answer_here,
    client_app,
    quiet_environment,
    server_app,
)
from tests.federation.parties import Hospital, agreed, hospitals


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hospital:
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    monkeypatch.delenv(COMMAND_VARIABLE, raising=False)
    (made,) = hospitals(tmp_path, 1)
    return made


def asked(hospital: Hospital) -> bytes:
    return to_bytes(ReleaseQuestion(terms=agreed(hospital)))


def test_a_node_answers_from_the_file_its_operator_named(
    one: Hospital, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read_answer(answer_here(asked(one), {OPTION: str(one.configuration)}))
    assert first.status == "released"
    monkeypatch.setenv(NODE_VARIABLE, str(one.configuration))
    assert read_answer(answer_here(asked(one), {})) == first


def test_a_node_answers_by_another_users_command(
    one: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = to_bytes(one.ask(asked(one)))
    (tmp_path / "an answer").write_bytes(made)
    # `sudare federation answer` takes the question and gives the answer in the same way.
    monkeypatch.setenv(COMMAND_VARIABLE, f"sh -c 'cat > asked; cat \"{tmp_path}/an answer\"'")
    monkeypatch.chdir(tmp_path)
    assert answer_here(b"question", {}) == made
    assert (tmp_path / "asked").read_bytes() == b"question"


@pytest.mark.parametrize("command", [None, "false", "/no/such/command", "'"])
def test_whatever_happens_nothing_is_raised(
    one: Hospital,
    monkeypatch: pytest.MonkeyPatch,
    command: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command is not None:
        monkeypatch.setenv(COMMAND_VARIABLE, command)
    made = read_answer(answer_here(asked(one), {}))
    assert (made.status, made.reason, made.release) == ("failed", "node", None)
    assert "cannot answer" in capsys.readouterr().err
    assert one.account.entries == ()


def test_flower_is_quiet_unless_told_otherwise() -> None:
    made = quiet_environment({"PATH": "/bin", "X": "1"})
    assert made.items() >= (QUIET | {"X": "1"}).items()
    assert made["FLWR_TELEMETRY_ENABLED"] == "0"
    assert made["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/bin"]
    assert quiet_environment({"FLWR_TELEMETRY_ENABLED": "1"})["FLWR_TELEMETRY_ENABLED"] == "1"


class Content(dict[str, Any]):
    """Stands for Flower's records."""

    @property
    def config_records(self) -> dict[str, Any]:
        return dict(self)


class Message:
    """Stands for Flower's message."""

    def __init__(self, content: Any, **metadata: Any) -> None:
        self.content, self.metadata = content, SimpleNamespace(**metadata)

    def has_content(self) -> bool:
        return self.content is not None


class Grid:
    """A grid on which node 1 answers, 2 breaks, 3 is silent, 4 cannot be asked, 5 says more."""

    def __init__(self) -> None:
        self.pulls = 0

    def get_node_ids(self) -> list[int]:
        return [1, 2, 3, 4, 5]

    def push_messages(self, messages: list[Message]) -> list[str | None]:
        self.ttl = {message.metadata.ttl for message in messages}
        nodes = [message.metadata.dst_node_id for message in messages]
        return [None if node == 4 else f"to {node}" for node in nodes]

    def pull_messages(self, identities: list[str]) -> list[Message]:
        self.pulls += 1
        assert "to 4" not in identities
        if self.pulls > 1:
            return []

        def reply(node: int, content: Any) -> Message:
            # An error comes from the engine itself, which calls itself node 1.
            return Message(content, reply_to_message_id=f"to {node}", src_node_id=1)

        return [
            reply(2, None),
            reply(1, Content(sudare={"bytes": b"yes"})),
            reply(5, Content(sudare={"bytes": "text"})),
            reply(9, Content(sudare={"bytes": b"nobody asked"})),
        ]


class Passing:
    """Time that passes only while somebody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Passing:
    made = Passing()
    monkeypatch.setattr("sudare.federation.flower.time", made)
    return made


class App:
    """Stands for Flower's apps: keeps what is to be called."""

    def query(self) -> Any:
        return self._keep

    main = query

    def _keep(self, function: Any) -> Any:
        self.call = function
        return function


@pytest.fixture
def flwr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in place of Flower's."""
    kinds: dict[str, dict[str, Any]] = {
        "flwr": {},
        "flwr.app": {"Message": Message, "ConfigRecord": dict, "RecordDict": Content},
        "flwr.clientapp": {"ClientApp": App},
        "flwr.serverapp": {"ServerApp": App},
    }
    for name, members in kinds.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("flwr")
def test_answers_belong_to_those_who_were_asked(passing: Passing) -> None:
    grid: Any = Grid()
    engine = FlowerEngine(grid)
    assert engine.nodes() == [1, 2, 3, 4, 5]
    assert engine.ask(b"?", engine.nodes(), seconds=7, grace=60) == {1: b"yes"}
    assert grid.ttl == {7}
    assert passing.now == 7
    # Node 3 is not waited for to the end when another has answered.
    grid.pulls, passing.now = 0, 0.0
    assert engine.ask(b"?", engine.nodes(), seconds=60, grace=2) == {1: b"yes"}
    assert passing.now == 2


@pytest.mark.usefixtures("flwr")
def test_nothing_that_a_server_configures_reaches_a_node(one: Hospital, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (other,) = hospitals(tmp_path / "theirs", 1)
    app: Any = client_app()
    message = Message(Content(sudare={"bytes": asked(one)}))
    context = SimpleNamespace(
        node_config={OPTION: str(one.configuration)},
        run_config={OPTION: str(other.configuration), NODE_VARIABLE: str(other.configuration)},
    )
    made = read_answer(app.call(message, context).content["sudare"]["bytes"])
    assert made.release == one.ask(asked(one)).release
    assert other.account.entries == ()
    context.node_config = {}  # nor where the node has no configuration
    made = read_answer(app.call(message, context).content["sudare"]["bytes"])
    assert (made.status, made.reason) == ("failed", "node")
    assert other.account.entries == ()


@pytest.mark.usefixtures("flwr")
def test_messages_of_something_else_are_refused(one: Hospital) -> None:
    app: Any = client_app()
    context = SimpleNamespace(node_config={OPTION: str(one.configuration)}, run_config={})
    for content in (None, Content(), Content(other={"bytes": b"x"}), Content(sudare={})):
        made = read_answer(app.call(Message(content), context).content["sudare"]["bytes"])
        assert (made.status, made.reason) == ("refused", "protocol")


@pytest.mark.usefixtures("flwr")
def test_the_server_tells_what_became_of_each(
    one: Hospital, passing: Passing, capsys: pytest.CaptureFixture[str]
) -> None:
    app: Any = server_app()
    terms = agreed(one)
    config: dict[str, Any] = {name: getattr(terms, name) for name in terms.__struct_fields__}
    config |= {"min-nodes": 1, "phase-seconds": 20.0}
    app.call(Grid(), SimpleNamespace(run_config=config))
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines[0] == "0 of 5 nodes released, 0 of 0 blended"
    assert "release of node 3: no answer" in lines
    assert json.loads(last.removeprefix("outcome "))["releases"]["1"].startswith("failed: ")


@pytest.mark.usefixtures("flwr")
def test_the_server_tells_what_became_of_a_pool(
    one: Hospital, passing: Passing, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("sudare.federation._serving.time", passing)
    app: Any = server_app()
    terms = agreed(one)
    config: dict[str, Any] = {name: getattr(terms, name) for name in terms.__struct_fields__}
    config |= {"min-nodes": 1, "phase-seconds": 20.0, "pool": True}
    app.call(Grid(), SimpleNamespace(run_config=config))
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines[0] == "0 of 5 nodes pooled, 0 of 0 blended"
    assert "pool of node 3: no answer" in lines
    assert json.loads(last.removeprefix("outcome "))["releases"] == {}
