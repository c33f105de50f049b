"""The server's side: ask every node for its release, hand all of them to every node, and tell.

The server holds no key, no keyring and no data. It carries signed bytes that it cannot change
unnoticed; whom to believe is each node's own decision. Nodes that are missing, slow, refuse or
break are noted and left out, and never stop the others; whoever comes later joins the next run.
"""

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from sudare.exchange import file_name, put
from sudare.federation._messages import (
    REASONS,
    Answer,
    BlendQuestion,
    Metric,
    QuestionTerms,
    ReleaseQuestion,
    read_answer,
    to_bytes,
)
from sudare.foundations import checks

_log = logging.getLogger("sudare.federation")
_PATIENCE_SECONDS = 1.0


class Engine(Protocol):
    """What a federation engine must offer: who is there, and one question to several of them."""

    def nodes(self) -> Collection[int]:
        """The nodes that are connected now."""

    def ask(
        self, question: bytes, nodes: Collection[int], seconds: float, grace: float
    ) -> Mapping[int, bytes]:
        """The answers that came within `seconds`, and no more than `grace` after another.

        A node that broke or kept silent is not among them.
        """


@dataclass(frozen=True)
class Settings:
    """How a run waits, and for whom."""

    min_nodes: int = 2
    """Begin as soon as so many are connected."""
    wait_seconds: float = 60.0
    """Begin then, with those who are there."""
    phase_seconds: float = 600.0
    """Go on then, with those who have answered."""
    grace_seconds: float = 600.0
    """Go on when somebody has answered, and nobody else for so long: for nodes that are alike."""
    place: str = ""
    """Folder or address where the server also writes what it received; nowhere if empty."""

    def __post_init__(self) -> None:
        checks.count(min_nodes=self.min_nodes)
        checks.non_negative(wait_seconds=self.wait_seconds)
        checks.positive(phase_seconds=self.phase_seconds, grace_seconds=self.grace_seconds)


@dataclass
class Outcome:
    """What became of every node in both phases; for people, and as JSON for scripts."""

    releases: dict[int, str] = field(default_factory=dict)
    """Phase 1: "released", "refused: …", "failed: …" or "no answer"."""
    blends: dict[int, str] = field(default_factory=dict)
    """Phase 2: "done", "refused: …", "failed: …" or "no answer"."""
    metrics: dict[int, Metric] = field(default_factory=dict)
    seconds: float = 0.0
    """From the first question to the last answer, or the end of waiting for it."""

    @property
    def summary(self) -> str:
        released = sum(word == "released" for word in self.releases.values())
        blended = sum(word == "done" for word in self.blends.values())
        told = f"{released} of {len(self.releases)} nodes released"
        return f"{told}, {blended} of {len(self.blends)} blended"

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def run(engine: Engine, terms: QuestionTerms, settings: Settings) -> Outcome:
    """Both phases, with whoever is there. Raises only if nobody is."""
    outcome = Outcome()
    nodes = _gather(engine, settings)
    begun = time.monotonic()
    answers = _ask(engine, to_bytes(ReleaseQuestion(terms=terms)), nodes, settings)
    outcome.releases = {node: _word(answers.get(node)) for node in nodes}
    releases = tuple(
        dict.fromkeys(made.release for made in answers.values() if made.release is not None)
    )
    _log.info("%d of %d nodes released", len(releases), len(nodes))
    if releases:
        if settings.place:
            for data in releases:
                put(settings.place, file_name("release", data), data)
        # Whoever has come in the meantime may blend, too; it releases in the next run.
        nodes = _gather(engine, settings)
        question = to_bytes(BlendQuestion(terms=terms, releases=releases))
        answers = _ask(engine, question, nodes, settings)
        outcome.blends = {node: _word(answers.get(node)) for node in nodes}
        outcome.metrics = {
            node: made.metric for node, made in answers.items() if made.metric is not None
        }
    outcome.seconds = time.monotonic() - begun
    _log.info("%s", outcome.summary)
    return outcome


def settings_from(config: Mapping[str, Any]) -> tuple[QuestionTerms, Settings]:
    """Terms and settings from an engine's flat run configuration, as `init` writes it."""
    try:
        terms = msgspec.convert(_named(config, QuestionTerms), QuestionTerms, strict=False)
        settings = msgspec.convert(_named(config, Settings), Settings, strict=False)
    except msgspec.ValidationError as problem:
        raise checks.InvalidInput(
            f"The run's configuration is not one of a sudare federation: {problem}"
        ) from None
    return terms, settings


def _named(config: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    """Fields by their names with hyphens, as engines spell them."""
    names = getattr(kind, "__struct_fields__", None) or tuple(kind.__dataclass_fields__)
    keys = {name: name.replace("_", "-") for name in names}
    return {name: config[key] for name, key in keys.items() if key in config}


def _gather(engine: Engine, settings: Settings) -> list[int]:
    """The nodes, once there are enough or the wait is over."""
    end = time.monotonic() + settings.wait_seconds
    while len(found := sorted(engine.nodes())) < settings.min_nodes and time.monotonic() < end:
        time.sleep(min(_PATIENCE_SECONDS, settings.wait_seconds))
    if not found:
        raise checks.SudareError("No node is connected: start some, then run it again")
    return found


def _ask(
    engine: Engine, question: bytes, nodes: Collection[int], settings: Settings
) -> dict[int, Answer]:
    answers: dict[int, Answer] = {}
    found = engine.ask(question, nodes, settings.phase_seconds, settings.grace_seconds)
    for node, data in found.items():
        try:
            answers[node] = read_answer(data)
        except checks.InvalidInput:
            answers[node] = Answer(status="failed", reason="protocol")
    return answers


def _word(answer: Answer | None) -> str:
    if answer is None:
        return "no answer"
    return f"{answer.status}: {REASONS[answer.reason]}" if answer.reason else answer.status
