"""A node's own configuration: the only place a node takes anything from but the question's words.

Data, study, ledger, key, keyring and policy are named in a TOML file of the organisation's own,
found through the node's environment or its operator's options. Nothing a server sends, and nothing
in an app that it distributes, is ever read as a path, a name or a number of the policy.
"""

import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sudare.foundations import checks
from sudare.storage.files import read_text

NODE_VARIABLE = "SUDARE_NODE"
"""Environment variable that names the configuration; {partition} is filled in simulations."""
COMMAND_VARIABLE = "SUDARE_NODE_COMMAND"
"""Environment variable with a command that answers in this process's place, as another user."""
OPTION = "sudare-node"
"""The same, as a key of the engine's own node configuration."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the node does when it is asked."""

    release: bool = True
    """Hand over the release, making it on the first occasion."""
    blend: bool = True
    pool: bool = True
    """Join and answer in the pool whose plan the node names."""
    answer_seconds: float = 5.0
    """Answers leave at whole multiples of this after the question: work takes longer on some data
    than on others, and whoever asks has a clock. 0 answers at once."""
    metric_epsilon: float = 0.0
    """ε of a noisy metric published after blending; 0 says only "done"."""
    metric_times: int = 1
    """How many different metrics may ever be published in this study; each is charged for."""


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a node needs to answer; paths are relative to the file that names them."""

    party: str
    data: str
    study: str = "study.toml"
    ledger: str = "ledger.db"
    key: str = "key.json"
    trust: str = "trust.toml"
    releases: str = "releases"
    """Folder or address where the own and all verified releases of others are kept; what belongs to
    a pool, in a folder inside it."""
    pool: str = ""
    """The plan of a pool; its folder also holds the secret of the attempt. Nothing: no pool."""
    model: str = "model.json"
    log: str = "federation.log"
    policy: Policy = Policy()

    def __post_init__(self) -> None:
        if not (self.party.strip() and self.party.isprintable()):
            raise checks.InvalidInput("Expected party to be a printable name")
        policy = self.policy
        checks.non_negative(
            answer_seconds=policy.answer_seconds, metric_epsilon=policy.metric_epsilon
        )
        if not math.isfinite(policy.answer_seconds) or policy.answer_seconds > 3600:
            raise checks.InvalidInput("Expected answer_seconds of at most an hour")
        checks.count(minimum=0, metric_times=policy.metric_times)
        checks.between(0, 1000, metric_times=policy.metric_times)


def read_node(path: str | Path) -> Node:
    """The configuration in a TOML file, its paths made absolute."""
    text = read_text(path)
    try:
        node = msgspec.convert(tomllib.loads(text), Node)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError, RecursionError) as problem:
        raise checks.InvalidInput(f"{path} is not a node's configuration: {problem}") from None
    folder = Path(path).absolute().parent
    places = ["data", "study", "ledger", "key", "trust", "releases", "model", "log"]
    if node.pool:
        places.append("pool")
    return msgspec.structs.replace(
        node, **{name: _absolute(folder, getattr(node, name)) for name in places}
    )


def find_node(options: Mapping[str, Any] | None = None) -> Path:
    """Where this node's configuration is: by its operator's option, or by its environment."""
    given = options or {}
    named = given.get(OPTION) or os.environ.get(NODE_VARIABLE)
    if not isinstance(named, str) or not named:
        raise checks.InvalidInput(
            f"No configuration of this node: set {NODE_VARIABLE} to its path "
            "where the node is started"
        )
    if "{partition}" in named:  # a simulation: one environment, many nodes
        named = named.replace("{partition}", str(int(given.get("partition-id", -1))))
    return Path(named)


def _absolute(folder: Path, place: str) -> str:
    return place if "://" in place else str(folder / place)
