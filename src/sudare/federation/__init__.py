"""The steps of a study over a federation engine: every node stays its own master.

Phase 1 asks every node for its signed release, phase 2 hands all of them to every node, which
verifies them against its own keyring and blends them with its own rows. In place of phase 1, or
after it, a pool (`sudare.pooling`) can be carried: joins, then answers, until every node has the
sum. `answer` is the node's side and `run` the server's, both without any engine;
`sudare.federation.flower` carries them over Flower.
"""

from sudare.federation._answering import answer
from sudare.federation._messages import (
    LARGEST_QUESTION,
    Answer,
    BlendQuestion,
    Metric,
    PoolAnswerQuestion,
    PoolJoinQuestion,
    QuestionTerms,
    ReleaseQuestion,
    terms_of,
)
from sudare.federation._node import NODE_VARIABLE, Node, Policy, find_node, read_node
from sudare.federation._scaffold import write_app, write_node
from sudare.federation._serving import Engine, Outcome, Settings, run

__all__ = [
    "LARGEST_QUESTION",
    "NODE_VARIABLE",
    "Answer",
    "BlendQuestion",
    "Engine",
    "Metric",
    "Node",
    "Outcome",
    "Policy",
    "PoolAnswerQuestion",
    "PoolJoinQuestion",
    "QuestionTerms",
    "ReleaseQuestion",
    "Settings",
    "answer",
    "find_node",
    "read_node",
    "run",
    "terms_of",
    "write_app",
    "write_node",
]
