"""Whole pools in memory: keys, plans, rows, and everything that is signed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare import pooling
from sudare.exchange import Keyring, SigningKey, new_key
from sudare.foundations.randomness import seeded
from sudare.pooling import Board, Member, PoolPlan, PoolTerms, Secret
from sudare.releases import Contract
from tests.statistical import counts_fit

Array = NDArray[np.float64]
STUDY = "ab" * 32
# Bounds far from 1: a wrong unit shows.
CLASSES = Contract(features=2, row_norm=3.0, constant=0.75, classes=("no", "yes"))
NUMBERS = Contract(features=2, row_norm=3.0, constant=0.75, target_bound=50.0)


@dataclass(frozen=True)
class Party:
    """One organisation with its rows."""

    name: str
    key: SigningKey
    table: Array
    targets: Array

    @property
    def fingerprint(self) -> str:
        return self.key.public.fingerprint


def parties(many: int = 3, contract: Contract = CLASSES, rows: int = 20) -> list[Party]:
    """In the order of their keys, as in a plan; rows differ in number."""
    keys = sorted((new_key() for _ in range(many)), key=lambda key: key.public.fingerprint)
    made = []
    for number, key in enumerate(keys):
        rng = seeded(number)
        n = rows + number
        table = 2 * rng.standard_normal((n, contract.features))
        score = table[:, 0] - 0.5
        if contract.classes is None:
            targets = np.clip(10 * score + 5 * rng.standard_normal(n), -50, 50)
        else:
            targets = np.where(score + rng.standard_normal(n) > 0, 1.0, -1.0)
        made.append(Party(f"Clinic {chr(65 + number)}", key, table, targets))
    return made


def plan(who: list[Party], /, contract: Contract = CLASSES, **changed: Any) -> PoolPlan:
    settings: dict[str, Any] = {
        "study": STUDY,
        "contract": contract,
        "epsilon": 1.0,
        "delta": 1e-6,
        "colluders": 0,
        "members": tuple(Member(name=each.name, key=each.fingerprint) for each in who),
        "most_rows": 100_000,
    }
    return PoolPlan(**settings | changed)


def keyring(members: list[Party]) -> Keyring:
    ring = Keyring()
    for each in members:
        ring = ring.with_key(each.name, each.key.public)
    return ring


class Pool:
    """All parties of a plan around one table; every file that anyone signed."""

    def __init__(self, members: list[Party], agreed: PoolPlan) -> None:
        self.members, self.plan = members, agreed
        self.terms = PoolTerms.of(agreed)
        self.keyring = keyring(members)
        self.files: dict[str, bytes] = {}
        self.secrets: dict[str, Secret] = {}
        self.noisy: dict[tuple[str, int], list[int]] = {}
        """What each answered before masking, for tests alone."""

    def board(self) -> Board:
        return pooling.read_board(self.files.items(), self.terms, self.keyring)

    def theta(self, session: int) -> NDArray[np.float64]:
        """Where a session that is evaluated at coefficients is evaluated."""
        found = self.board().theta(session)
        assert found is not None
        return found

    def join(self, *members: Party) -> None:
        for each in members or self.members:
            secret = pooling.make_join(self.terms, each.key, len(each.table), each.name)
            self.secrets[each.name] = secret
            self.files[f"{each.name}.join"] = secret.join

    def answer(self, session: int = 0, *members: Party) -> None:
        board = self.board()
        theta = board.theta(session)
        for each in members or self.members:
            rows, own = len(each.table), each.fingerprint
            secret = self.secrets[each.name]
            pooling.check_answer(board, secret, own, rows, each.name)
            noisy = pooling.noisy_sums(board, session, each.table, each.targets, theta)
            self.noisy[each.name, session] = noisy
            data = pooling.masked_answer(board, session, noisy, theta, secret, each.key)
            self.files[f"{each.name}-{session}.answer"] = data

    def run(self) -> Board:
        self.join()
        for session in range(len(self.terms.sessions)):
            self.answer(session)
        return self.board()


def is_uniform(words: NDArray[np.uint64]) -> bool:
    """Whether words can be uniform: byte by byte, in each of their eight places.

    Uniform words are refused with probability `tests.statistical.FALSE_ALARM` at most.
    """
    places = words.astype("<u8").view(np.uint8).reshape(-1, 8).astype(np.int64)
    counts = np.bincount((places + 256 * np.arange(8)).ravel(), minlength=2048)
    return counts_fit(counts, np.full(2048, 1 / 2048))
