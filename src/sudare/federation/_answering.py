"""A node answers: from its own configuration, once per study and data, in few words.

What leaves is the signed release that the ledger was charged for, the signed join or the charged
answers of a pool, the word "done", a metric if the node's policy pays for one, or a reason out of a
closed list. Why something failed is written to the node's own log, and no message there holds a
row's values. Asked again, a node hands out what it kept and spends nothing; asked for anything else
than its own study at its own terms, it refuses.

Status, reason and the presence of a metric are the same for all tables of the same columns and
number of rows that were opened in the ledger: a node takes every row as it is
(`sudare.study.read_every_row`), and "done" says that the question was dealt with, not how well
rows and releases agreed (docs/theory/observables.md).
"""

import logging
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sudare import site
from sudare.exchange import (
    Keyring,
    ReleaseInvalid,
    SigningKey,
    file_name,
    load_key,
    load_keyring,
    put,
)
from sudare.federation._messages import (
    REASONS,
    Answer,
    BlendQuestion,
    PoolAnswerQuestion,
    PoolJoinQuestion,
    Question,
    Reason,
    ReleaseQuestion,
    read_question,
    terms_of,
    to_bytes,
)
from sudare.federation._metrics import tell_metric
from sudare.federation._node import Node, read_node
from sudare.federation._pools import give_answers, give_join
from sudare.foundations import checks
from sudare.ledger import Ledger
from sudare.pooling import PoolInvalid
from sudare.storage.files import replace_file
from sudare.study import Study, read_study

_log = logging.getLogger("sudare.federation")


class Refused(checks.SudareError):
    """A question that this node does not answer."""

    def __init__(self, reason: Reason) -> None:
        self.reason: Reason = reason
        super().__init__(REASONS[reason])


def answer(data: bytes, configuration: str | Path) -> bytes:
    """The answer to a question, both as bytes; raises nothing that says anything about data.

    It leaves at a whole multiple of the policy's `answer_seconds` after the question came.
    """
    begun = time.monotonic()
    try:
        node = read_node(configuration)
    except checks.SudareError as problem:
        _log.error("%s", problem)
        return to_bytes(Answer(status="failed", reason="node"))
    try:
        return to_bytes(_answer(data, node))
    finally:
        if step := node.policy.answer_seconds:
            time.sleep(step - (time.monotonic() - begun) % step)


def _answer(data: bytes, node: Node) -> Answer:
    question: Question | None = None
    made = Answer(status="failed", reason="node")
    try:
        question = _read(data)
        study = read_study(node.study)
        _check(question, study, node)
        match question:
            case ReleaseQuestion():
                made, detail = _release(study, node)
            case PoolJoinQuestion():
                made, detail = give_join(study, node)
            case PoolAnswerQuestion():
                made, detail = give_answers(question, study, node)
            case BlendQuestion():
                made, detail = _blend(question, study, node)
    except Refused as problem:
        made, detail = Answer(status="refused", reason=problem.reason), str(problem)
    except PoolInvalid as problem:
        made, detail = Answer(status="refused", reason="pool"), str(problem)
    except Exception as problem:
        detail = _own_words(problem)
    _write_log(node, question, made, detail)
    return made


def _own_words(problem: Exception) -> str:
    """What may be logged of it: words that are not ours may quote a row."""
    return str(problem) if isinstance(problem, checks.SudareError) else type(problem).__name__


def _read(data: bytes) -> Question:
    try:
        return read_question(data)
    except checks.InvalidInput:
        raise Refused("protocol") from None


def _check(question: Question, study: Study, node: Node) -> None:
    """The server's words against our own: they agree, or nothing happens."""
    own = terms_of(study)
    if question.terms.study != own.study:
        raise Refused("study")
    if question.terms != own:
        raise Refused("terms")
    match question:
        case ReleaseQuestion():
            allowed = node.policy.release
        case BlendQuestion():
            allowed = node.policy.blend
        case _:
            allowed = node.policy.pool and node.pool != ""
    if not allowed:
        raise Refused("policy")


def _release(study: Study, node: Node) -> tuple[Answer, str]:
    with Ledger(node.ledger) as ledger:
        done = site.publish_unattended(
            node.data,
            study,
            ledger,
            load_key(node.key),
            party=node.party,
            place=node.releases,
        )
        release = ledger.kept(done.receipt.request)
    detail = "the stored release, nothing spent" if done.repeated else "a new release, charged"
    return Answer(status="released", release=release), detail


def _blend(question: BlendQuestion, study: Study, node: Node) -> tuple[Answer, str]:
    """Verify, keep what is valid among the earlier ones, and blend from there.

    What is kept stays: a server that sends less than before takes nothing away. What becomes of
    the blend is for the node's own log: the server, which chose the releases, hears "done".
    """
    keyring, key = load_keyring(node.trust), load_key(node.key)
    refused = _keep(question.releases, keyring, study, node)
    checked = _collect(keyring, key, study, node)
    found = sorted(checked + refused, key=lambda each: Path(each.address).name)
    try:
        own = key.public.fingerprint
        model = site.blend_unattended(node.data, study, found, party=node.party, key=own)
        # Made from rows without noise: for its owner's eyes.
        replace_file(Path(node.model), model.to_bytes(), 0o600)
        detail = f"blended {len(model.story.parties)} releases, refused {len(refused)}"
    except Exception as problem:
        detail = f"no model: {_own_words(problem)}"
    if not node.policy.metric_epsilon:
        return Answer(status="done"), detail
    try:
        metric = tell_metric(study, found, node, key)
    except Exception as problem:
        return Answer(status="done"), f"{detail}; no metric: {_own_words(problem)}"
    return Answer(status="done", metric=metric), f"{detail}; told a metric"


def _keep(
    releases: Sequence[bytes], keyring: Keyring, study: Study, node: Node
) -> list[site.Checked]:
    """Write valid releases where they are kept; the others, with what is wrong with them."""
    refused = []
    for data in dict.fromkeys(releases):
        try:
            party = site.verify(data, keyring, study).release.party
        except ReleaseInvalid as problem:
            refused.append(site.Checked(file_name("refused", data), None, str(problem)))
        else:
            put(node.releases, file_name(party, data), data)
    return refused


def _collect(keyring: Keyring, key: SigningKey, study: Study, node: Node) -> list[site.Checked]:
    """All that is kept, verified anew: a key may have left the keyring."""
    if "://" not in node.releases:
        Path(node.releases).mkdir(parents=True, exist_ok=True)
    if keyring.holder(key.public.fingerprint) is None:
        with suppress(checks.InvalidInput):  # the name may be somebody else's
            keyring = keyring.with_key(node.party, key.public)  # a pool is signed by oneself, too
    return site.collect([node.releases], keyring, study)


def _write_log(node: Node, question: Question | None, made: Answer, detail: str) -> None:
    """One line of JSON: when, what was asked, what was answered, and why, for the operator."""
    digest = "" if question is None else question.terms.study
    line = {
        "moment": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": "?" if question is None else type(question).__struct_config__.tag,
        # Whatever a server calls a study goes no further than this pattern.
        "study": digest[:12] if re.fullmatch(r"[0-9a-f]{64}", digest) else "?",
        "answered": made.status,
        "reason": made.reason,
        "detail": detail,
    }
    text = msgspec.json.encode(line).decode()
    _log.info("%s", text)
    with suppress(OSError), Path(node.log).open("a", encoding="utf-8") as file:
        file.write(text + "\n")
