"""The server's side: ask every node for its release, hand all of them to every node, and tell.

The server holds no key, no keyring and no data. It carries signed bytes that it cannot change
unnoticed; whom to believe is each node's own decision. Nodes that are missing, slow, refuse or
break are noted and left out, and never stop the others; whoever comes later joins the next run.

A pool needs all of its organisations, so there the server asks again: everybody is shown all that
was handed over so far, until every node that joined has the sum or nothing new comes. Asked again,
a node gives the same bytes and pays nothing. The server knows neither the plan nor who is in it.
"""

import logging
import time
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from sudare.exchange import file_name, put
from sudare.federation._messages import (
    REASONS,
    Answer,
    BlendQuestion,
    Metric,
    PoolAnswerQuestion,
    PoolJoinQuestion,
    Question,
    QuestionTerms,
    ReleaseQuestion,
    read_answer,
    to_bytes,
)
from sudare.foundations import checks

_log = logging.getLogger("sudare.federation")
_PATIENCE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_POOLED = "pooled"


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
    """Go on then, with those who have answered; a pool ends when nothing new came for so long."""
    grace_seconds: float = 600.0
    """Go on when somebody has answered, and nobody else for so long: for nodes that are alike."""
    place: str = ""
    """Folder or address where the server also writes releases it received; nowhere if empty."""
    pool: bool = False
    """Carry a pool instead of asking for releases."""
    also_release: bool = False
    """With a pool: ask for releases, too, which every node pays for separately."""

    def __post_init__(self) -> None:
        checks.count(min_nodes=self.min_nodes)
        checks.non_negative(wait_seconds=self.wait_seconds)
        checks.positive(phase_seconds=self.phase_seconds, grace_seconds=self.grace_seconds)


@dataclass
class Outcome:
    """What became of every node in each phase; for people, and as JSON for scripts."""

    releases: dict[int, str] = field(default_factory=dict)
    """Phase 1: "released", "refused: …", "failed: …" or "no answer"."""
    pools: dict[int, str] = field(default_factory=dict)
    """The pool: "pooled" (the node has the sum), "answered" or "joined" (it waits for others),
    "refused: …", "failed: …" or "no answer"."""
    blends: dict[int, str] = field(default_factory=dict)
    """Phase 2: "done", "refused: …", "failed: …" or "no answer"."""
    metrics: dict[int, Metric] = field(default_factory=dict)
    seconds: float = 0.0
    """From the first question to the last answer, or the end of waiting for it."""

    @property
    def summary(self) -> str:
        told = []
        if self.releases or not self.pools:
            told.append(f"{_tally(self.releases, 'released')} released")
        if self.pools:
            told.append(f"{_tally(self.pools, 'pooled')} pooled")
        blended = sum(word == "done" for word in self.blends.values())
        return f"{', '.join(told)}, {blended} of {len(self.blends)} blended"

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def run(engine: Engine, terms: QuestionTerms, settings: Settings) -> Outcome:
    """All phases, with whoever is there. Raises only if nobody is."""
    outcome = Outcome()
    nodes = _gather(engine, settings)
    begun = time.monotonic()
    releases: tuple[bytes, ...] = ()
    if settings.also_release or not settings.pool:
        answers = _ask(engine, to_bytes(ReleaseQuestion(terms=terms)), nodes, settings)
        outcome.releases = {node: _word(answers.get(node)) for node in nodes}
        releases = tuple(
            dict.fromkeys(made.release for made in answers.values() if made.release is not None)
        )
        _log.info("%d of %d nodes released", len(releases), len(nodes))
        if settings.place:
            for data in releases:
                put(settings.place, file_name("release", data), data)
    if settings.pool:
        outcome.pools = _Pool(engine, terms, settings).carry()
    if releases or _POOLED in outcome.pools.values():
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


class _Pool:
    """A pool that is carried: what each node handed over, in bytes that mean nothing here."""

    def __init__(self, engine: Engine, terms: QuestionTerms, settings: Settings) -> None:
        self._engine, self._terms, self._settings = engine, terms, settings
        self._joins: dict[int, bytes] = {}
        self._answers: dict[int, tuple[bytes, ...]] = {}
        self._words: dict[int, str] = {}
        self._refused: set[int] = set()

    def carry(self) -> dict[int, str]:
        """Ask until every node that joined has the sum, or nothing new comes; a word for each."""
        last, pause, idle = time.monotonic(), _PATIENCE_SECONDS, False
        while True:
            seen, nodes = self._progress, sorted(self._engine.nodes())
            self._ask_to_join([node for node in nodes if self._may_be_missed(node, idle)])
            self._ask_to_answer([node for node in nodes if node in self._joins])
            if self._finished or (nodes and self._refused.issuperset(nodes)):
                break
            idle = self._progress == seen
            if not idle:
                last, pause = time.monotonic(), _PATIENCE_SECONDS
                continue
            left = last + self._settings.phase_seconds - time.monotonic()
            if left <= 0 or self._refused & self._joins.keys():  # all or nothing
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return self._words

    def _may_be_missed(self, node: int, idle: bool) -> bool:
        """Whether to ask for its join (again). Whoever answers has seen all joins it needs: a node
        that says nothing is not waited for then, unless nothing else goes on."""
        asked = node in self._words
        return node not in self._joins and (idle or not asked or not self._answers)

    @property
    def _pooled(self) -> set[int]:
        return {node for node, word in self._words.items() if word == _POOLED}

    @property
    def _progress(self) -> tuple[int, int, int]:
        answers = sum(len(each) for each in self._answers.values())
        return len(self._joins), answers, len(self._pooled)

    @property
    def _finished(self) -> bool:
        """By joins: a node that came back may have another number."""
        finished = {self._joins[node] for node in self._pooled}
        return bool(finished) and finished.issuperset(self._joins.values())

    def _ask_to_join(self, nodes: Collection[int]) -> None:
        question = PoolJoinQuestion(terms=self._terms)
        for node, made in self._ask(question, nodes, {"joined"}).items():
            if made.join is not None:
                self._joins[node] = made.join

    def _ask_to_answer(self, nodes: Collection[int]) -> None:
        # The same bytes for everybody. A node's list only grows: nobody takes anything back.
        question = PoolAnswerQuestion(
            terms=self._terms,
            joins=tuple(dict.fromkeys(self._joins.values())),
            answers=tuple(dict.fromkeys(a for own in self._answers.values() for a in own)),
        )
        for node, made in self._ask(question, nodes, {"answered", _POOLED}).items():
            if len(made.answers) > len(self._answers.get(node, ())):
                self._answers[node] = made.answers
            if made.status == "answered" and not made.answers:
                self._words[node] = "joined"

    def _ask(
        self, question: Question, nodes: Collection[int], proper: Set[str]
    ) -> dict[int, Answer]:
        """What those say who have neither refused nor finished already."""
        asked = sorted(set(nodes) - self._refused - self._pooled)
        if not asked:
            return {}
        answers = _ask(self._engine, to_bytes(question), asked, self._settings)
        for node, made in answers.items():
            if made.status not in proper | {"refused", "failed"}:
                answers[node] = Answer(status="failed", reason="protocol")
        self._words |= {node: _word(answers.get(node)) for node in asked}
        self._refused |= {node for node, made in answers.items() if made.status == "refused"}
        return answers


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


def _tally(words: Mapping[int, str], word: str) -> str:
    return f"{sum(each == word for each in words.values())} of {len(words)} nodes"


def _word(answer: Answer | None) -> str:
    if answer is None:
        return "no answer"
    return f"{answer.status}: {REASONS[answer.reason]}" if answer.reason else answer.status
