"""The two steps of a study over a federation engine: every node stays its own master.

Phase 1 asks every node for its signed release, phase 2 hands all of them to every node, which
verifies them against its own keyring and blends them with its own rows. `answer` is the node's side
and `run` the server's, both without any engine; `sudare.federation.flower` carries them over
Flower.
"""

from sudare.federation.answering import answer
from sudare.federation.messages import Answer, BlendQuestion, Metric, ReleaseQuestion, Terms
from sudare.federation.node import Node, Policy, find_node, read_node
from sudare.federation.scaffold import write_app, write_node
from sudare.federation.serving import Engine, Outcome, Settings, run

__all__ = [
    "Answer",
    "BlendQuestion",
    "Engine",
    "Metric",
    "Node",
    "Outcome",
    "Policy",
    "ReleaseQuestion",
    "Settings",
    "Terms",
    "answer",
    "find_node",
    "read_node",
    "run",
    "write_app",
    "write_node",
]
