"""What others see of a node in a pool is the same for all neighbouring tables, or was paid for.

As in test_answering_observables.py: one row of two tables is arbitrary. The other members of the
pool answer as the protocol says, or with numbers that are no sums of rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sudare import site
from sudare.exchange import Keyring, new_key
from sudare.federation import BlendQuestion, PoolAnswerQuestion, PoolJoinQuestion
from sudare.federation._messages import read_answer, terms_of
from sudare.pooling import Board, PoolTerms, make_join, masked_answer, noisy_sums, read_board
from sudare.study import read_every_row
from tests.federation.test_answering_observables import (
    CANARY,
    GARBAGE,
    LINES,
    PAIRS,
    ROWS,
    Consortium,
    Node,
    few,
    make,
)


class Members:
    """The others of a pool, without files or ledgers: they join, and answer all that is asked."""

    def __init__(self, consortium: Consortium, lie: int) -> None:
        self.study, self._lie = consortium.study, lie
        self.own = consortium.key.public.fingerprint
        self._keys = {name: new_key() for name in ("Other", "Third")}
        self.ring = Keyring({name: key.public for name, key in self._keys.items()})
        self._all = self.ring.with_key("Own", consortium.key.public)
        kind: Any = "logistic" if self.study.task == "classification" else "moments"
        plan = site.new_plan(self.study, self._all, kind=kind)
        self._terms, self.plan = PoolTerms.of(plan), plan.to_toml()
        self._block = read_every_row(consortium.folder / "other.csv", self.study)
        rows = len(self._block.rows)
        self._secrets = {
            name: make_join(self._terms, key, rows, "any") for name, key in self._keys.items()
        }
        self.joins = tuple(secret.join for secret in self._secrets.values())

    def board(self, joins: Sequence[bytes], answers: Sequence[bytes]) -> Board:
        files = [(".join", data) for data in joins] + [(".answer", data) for data in answers]
        return read_board(files, self._terms, self._all)

    def answer(self, joins: Sequence[bytes], answers: Sequence[bytes]) -> list[bytes]:
        board = self.board(joins, answers)
        session, targets = board.session, self._block.targets
        assert session is not None
        assert targets is not None
        theta = board.theta(session) if session else None
        made = []
        for name, key in self._keys.items():
            noisy = noisy_sums(board, session, self._block.rows, targets, theta)
            noisy = [each + self._lie for each in noisy]
            made.append(masked_answer(board, session, noisy, theta, self._secrets[name], key))
        return made


@dataclass
class Pooling:
    """A node that takes part in a pool, and what others see of it."""

    node: Node
    members: Members

    def __post_init__(self) -> None:
        folder = self.node.folder
        (folder / "pool.toml").write_text(self.members.plan)
        (folder / "trust.toml").write_text(self.members.ring.to_toml())
        node = folder / "node.toml"
        node.write_text('pool = "pool.toml"\n' + node.read_text())

    def answers(self) -> dict[str, Any]:
        """All answers but for their contents, which look uniform or were paid for."""
        terms, members = terms_of(self.members.study), self.members
        first = self.node.ask(PoolJoinQuestion(terms=terms))
        joined = read_answer(first)
        assert joined.join is not None
        joins, answers = (joined.join, *members.joins, *GARBAGE), [*GARBAGE]
        told = []
        for _ in range(5):
            question = PoolAnswerQuestion(terms=terms, joins=joins, answers=tuple(answers))
            data = self.node.ask(question)
            made = read_answer(data)
            told.append((len(data), made.status, made.reason, [len(a) for a in made.answers]))
            if made.status != "answered":
                break
            answers += [*made.answers[-1:]]
            answers += members.answer(joins, answers)
        blended = self.node.ask(BlendQuestion(terms=terms, releases=()))
        return {
            "joined": (len(first), members.board(joins, ()).joins[members.own].said.rows),
            "told": told,
            "blended": (len(blended), self.node.public(read_answer(blended))),
            "kept": self.kept(),
            "charged": self.node.charged(),
        }

    def kept(self) -> list[str]:
        paths = (self.node.folder / "releases").rglob("*")
        return sorted(re.sub(r"-[0-9a-f]{12}", "-*", path.name) for path in paths)


@pytest.fixture(scope="module", params=["classes from moments", "numbers from moments"])
def pooling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make(tmp_path_factory.mktemp("pooling"), request.param)


@pytest.mark.soak(tries=f"{PAIRS} pairs of tables")
@few
@given(LINES, LINES, st.sampled_from([0, 2**45, 2**61]), st.booleans())
@example(b"120,50,m,yes,x", b"120,50,m,no,x", 0, True)
@example(b"120,50,m,yes,x", b"120,50,m," + CANARY.encode() + b",x", 0, False)
@example(b"inf,nan,,,", b",,,,", 0, False)
@example(b"120,50,m,yes,x", b"120,50,m," + CANARY.encode() + b",x", 2**61, False)
@example(b"50,29", b"nan,", 0, False)
def test_answers_in_a_pool_are_the_same_for_all_neighbours(
    pooling: Consortium, one: bytes, other: bytes, lie: int, one_class: bool
) -> None:
    members = Members(pooling, lie)
    nodes = [pooling.node(row, one_class=one_class) for row in (one, other)]
    first, second = (Pooling(node, members).answers() for node in nodes)
    assert first == second
    assert first["joined"][1] == ROWS
    # The impossible sum of liars is refused, whoever the honest rows are about.
    assert first["told"][-1][1:3] == (("refused", "pool") if lie else ("pooled", None))
    assert first["blended"][1]["status"] == "done"
    assert len(first["charged"]) == (1 if lie else 2)  # the answers; a metric about the sum
    for node in nodes:
        assert CANARY not in (node.folder / "federation.log").read_text()


def test_names_of_files_are_the_only_hashes(pooling: Consortium) -> None:
    pool = Pooling(pooling.node(b"120,50,m,yes,x"), Members(pooling, 0))
    pool.answers()
    kept = pool.kept()
    sessions = 3 if pooling.study.task == "classification" else 1
    expected = [f"{name}-*.join" for name in ("Other", "Own", "Third")]
    expected += [
        f"{name}-*-s{session}.answer"
        for name in ("Other", "Own", "Third")
        for session in range(sessions)
    ]
    assert kept == sorted([*expected, "pool-*", "pooled.release"])
    assert Path(pool.node.folder / "model.json").exists()
