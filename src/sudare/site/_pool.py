"""A pool as one organisation sees it: what was agreed, who has signed what, what is missing."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from msgspec import UNSET

from sudare.exchange import Keyring, exists, get_all
from sudare.foundations import checks
from sudare.pooling import (
    ANSWER_SUFFIX,
    JOIN_SUFFIX,
    Board,
    Kind,
    Member,
    PoolInvalid,
    PoolPlan,
    PoolTerms,
    read_board,
)
from sudare.site._receiving import POOL_FOLDER, POOLED_NAME
from sudare.study import Study

MOST_ROWS = 10_000_000
"""Of one organisation, unless the study says less: more of them would need more noise, to hide the
rounding of longer sums."""
State = Literal["joining", "answering", "done"]


@dataclass(frozen=True)
class PartyStatus:
    """How far one organisation is, by its own clock."""

    name: str
    rows: int | None
    joined: str | None
    answered: tuple[str | None, ...]
    """For each session."""


@dataclass(frozen=True)
class PoolStatus:
    """How far a pool is, what it waits for, and what this run did."""

    state: State
    parties: tuple[PartyStatus, ...]
    session: int
    """The one that is being answered, or the last."""
    waiting: tuple[str, ...]
    """Who has not done what everybody waits for."""
    since: str | None
    """When anything was signed last."""
    problems: tuple[str, ...]
    """Files there that cannot be used, and why."""
    charged: bool = False
    """This run charged the ledger."""
    address: str | None = None
    """Of the pooled release, once there is one."""

    @property
    def sentence(self) -> str:
        """What has happened and what is missing, in words."""
        many, names = len(self.parties), ", ".join(self.waiting)
        if self.state == "done":
            rows = sum(party.rows or 0 for party in self.parties)
            return f"Done: one release of {many} organisations, {rows} rows."
        since = f" (last heard from anyone: {self.since})" if self.since else ""
        if self.state == "joining":
            joined = many - len(self.waiting)
            return f"{joined} of {many} joined: waiting for {names}{since}."
        sessions = len(self.parties[0].answered)
        which = f", session {self.session + 1} of {sessions}" if sessions > 1 else ""
        return f"All joined; answering{which}: waiting for {names}{since}."


@dataclass(frozen=True)
class Pool:
    """A pool as one organisation sees it: what was agreed, whom it trusts, where files go."""

    study: Study
    plan: PoolPlan
    keyring: Keyring
    place: str
    """Folder or address that all share."""

    def __post_init__(self) -> None:
        plan, study = self.plan, self.study
        if plan.study != study.digest():
            raise PoolInvalid("The plan is for another study, or for another version of this one")
        if plan.contract != study.contract or plan.unit != study.privacy.unit:
            raise PoolInvalid("The plan has other bounds, or another unit, than the study")
        if plan.most_count != study.target.most:
            raise PoolInvalid("The plan has another largest count than the study")
        strangers = [m.name for m in plan.members if self.keyring.holder(m.key) is None]
        if strangers:
            raise PoolInvalid(
                f"The plan names keys that are not in your keyring: {', '.join(strangers)}. Check "
                "their fingerprints with them, then: sudare trust add"
            )

    @cached_property
    def terms(self) -> PoolTerms:
        return PoolTerms.of(self.plan)

    @property
    def folder(self) -> str:
        """Where the files of this attempt are."""
        return f"{self.place.rstrip('/')}/{POOL_FOLDER}{self.terms.digest[:12]}"

    def board(self) -> Board:
        """All that was signed so far, as the place shows it now."""
        return read_board(self.files(), self.terms, self.keyring)

    def status(self) -> PoolStatus:
        """How far the pool is; needs no rows and no key, and changes nothing."""
        return pool_status(self, self.board())

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Joins and answers as the place shows them, not verified."""
        if not exists(self.folder):
            return
        entries = max(session.entries for session in self.terms.sessions)
        # Base64 of 64-bit words and of coefficients, and what is around them.
        largest = 4096 + 16 * (entries + 2 * self.plan.contract.dimension)
        yield from get_all(self.folder, (JOIN_SUFFIX, ANSWER_SUFFIX), largest)


def new_plan(
    study: Study,
    keyring: Keyring,
    *,
    colluders: int | None = None,
    alone: float | None = None,
    kind: Kind = "moments",
    epsilon: float | None = None,
    delta: float | None = None,
    attempt: int = 1,
    without: tuple[str, ...] = (),
) -> PoolPlan:
    """The plan of a pool of everybody in a keyring; no row is read.

    `colluders` is by default the largest minority: more than half must be honest.
    """
    if unknown := [name for name in without if name not in dict(keyring)]:
        raise checks.InvalidInput(f"{', '.join(unknown)}: not in the keyring")
    members = sorted(
        (Member(name=name, key=key.fingerprint) for name, key in keyring if name not in without),
        key=lambda member: member.key,
    )
    privacy = study.privacy
    return PoolPlan(
        study=study.digest(),
        contract=study.contract,
        epsilon=privacy.epsilon if epsilon is None else epsilon,
        delta=privacy.delta if delta is None else delta,
        colluders=max(len(members) - 1, 0) // 2 if colluders is None else colluders,
        members=tuple(members),
        alone=alone,
        kind=kind,
        attempt=attempt,
        unit=privacy.unit,
        most_rows=min(privacy.plausible_rows, MOST_ROWS),
        most_count=study.target.most,
        walk="bounded" if kind == "logistic" else UNSET,
    )


def pool_status(pool: Pool, board: Board, *, charged: bool = False) -> PoolStatus:
    """How far a pool is, by what was signed so far."""
    sessions = range(len(pool.terms.sessions))
    parties = []
    for member in sorted(pool.plan.members, key=lambda member: member.name):
        joined = board.joins.get(member.key)
        answers = [board.answers[session].get(member.key) for session in sessions]
        parties.append(
            PartyStatus(
                member.name,
                joined and joined.said.rows,
                joined and joined.said.moment,
                tuple(answer and answer.said.moment for answer in answers),
            )
        )
    moments = [moment for p in parties for moment in (p.joined, *p.answered) if moment]
    session, waiting = board.session, board.missing_joins
    state: State = "joining"
    address = None
    if not waiting and session is not None:
        state, waiting = "answering", board.missing_answers(session)
    elif not waiting:
        state, address = "done", f"{pool.folder}/{POOLED_NAME}"
    last = len(sessions) - 1
    return PoolStatus(
        state,
        tuple(parties),
        last if session is None else session,
        tuple(sorted(waiting)),
        max(moments, default=None),
        board.problems,
        charged,
        address,
    )
