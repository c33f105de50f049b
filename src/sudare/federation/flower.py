"""The Flower adapter: a ClientApp and a ServerApp that carry questions and answers, nothing more.

Tested with Flower 1.41 (the extra `sudare[flower]`). What a node answers, and from what, is decided
in `sudare.federation.answer`, by the sudare that the node has installed.

An app travels to the nodes as code, and whoever starts a run can send another. To keep code that
others sent away from data, run the SuperNode as a user of its own and name, in its environment,
a command that answers as the user who may read them (`SUDARE_NODE_COMMAND`); docs/how-to/
federation-production.md.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sudare.federation._answering import answer
from sudare.federation._messages import Answer, to_bytes
from sudare.federation._node import COMMAND_VARIABLE, find_node
from sudare.federation._serving import Outcome, run, settings_from

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Environment under which Flower reports to nobody and installs nothing."""
_RECORD = "sudare"
_KEY = "bytes"
_QUERY = "query"
_POLL_SECONDS = 0.5


def quiet_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for Flower's commands: what `QUIET` says, unless it says otherwise."""
    # Flower finds its own commands by the path.
    folders = [str(Path(sys.executable).parent), environment.get("PATH", "")]
    path = os.pathsep.join(filter(None, folders))
    return QUIET | dict(environment) | {"PATH": path}


def client_app() -> "ClientApp":
    """The node's side, for an app folder that `sudare federation init` wrote."""
    from flwr.clientapp import ClientApp

    app = ClientApp()
    app.query()(_reply)
    return app


def server_app() -> "ServerApp":
    """The server's side, for an app folder that `sudare federation init` wrote."""
    from flwr.serverapp import ServerApp

    app = ServerApp()
    app.main()(_main)
    return app


def answer_here(question: bytes, options: Mapping[str, Any]) -> bytes:
    """The answer by this process, or by the command that its environment names.

    Never raises: Flower sends an exception's words to the server.
    """
    try:
        if command := os.environ.get(COMMAND_VARIABLE):
            done = subprocess.run(
                shlex.split(command), input=question, stdout=subprocess.PIPE, check=True
            )
            return done.stdout
        return answer(question, find_node(options))
    except Exception as problem:
        print(f"sudare: this node cannot answer: {type(problem).__name__}", file=sys.stderr)
        return to_bytes(Answer(status="failed", reason="node"))


class FlowerEngine:
    """Flower's grid as an engine of `sudare.federation.run`."""

    def __init__(self, grid: "Grid") -> None:
        self._grid = grid

    def nodes(self) -> list[int]:
        return list(self._grid.get_node_ids())

    def ask(
        self, question: bytes, nodes: Collection[int], seconds: float, grace: float
    ) -> dict[int, bytes]:
        from flwr.app import Message

        end = last = time.monotonic() + seconds
        asked = list(nodes)
        messages = [
            Message(_record(question), dst_node_id=node, message_type=_QUERY, ttl=seconds)
            for node in asked
        ]
        sent = zip(self._grid.push_messages(messages), asked, strict=True)
        # By the question: an error that the engine itself writes does not name the node.
        waiting = {identity: node for identity, node in sent if identity}
        answers: dict[int, bytes] = {}
        while waiting and time.monotonic() < end:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None and (data := _content(reply)) is not None:
                    answers[node] = data
                    end = min(last, time.monotonic() + grace)
            if waiting:
                time.sleep(_POLL_SECONDS)
        return answers


def _reply(message: "Message", context: "Context") -> "Message":
    from flwr.app import Message

    data = answer_here(_content(message) or b"", context.node_config)
    return Message(_record(data), reply_to=message)


def _main(grid: "Grid", context: "Context") -> None:
    terms, settings = settings_from(context.run_config)
    outcome = run(FlowerEngine(grid), terms, settings)
    _tell(outcome)


def _tell(outcome: Outcome) -> None:
    """For whoever reads the run's log; the last line is for scripts."""
    print(outcome.summary)
    phases = {"release": outcome.releases, "pool": outcome.pools, "blend": outcome.blends}
    for title, words in phases.items():
        for node, word in words.items():
            print(f"{title} of node {node}: {word}")
    print(f"outcome {outcome.to_json()}", flush=True)


def _record(data: bytes) -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({_RECORD: ConfigRecord({_KEY: data})})


def _content(message: "Message") -> bytes | None:
    """The bytes a message carries; None for an error, or a message of something else."""
    if not message.has_content():
        return None
    data = message.content.config_records.get(_RECORD, {}).get(_KEY)
    return data if isinstance(data, bytes) else None
