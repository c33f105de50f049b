"""What has been signed so far under a plan: who joined, who answered, what the sums are.

A board is made from signed files in any order. The folder is not trusted: it may delete, delay or
repeat files, and show different ones to different people. None of that can make a wrong sum. Masks
cancel only among answers that name the same roster; each is signed; and what does not fit is
refused by name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sudare.exchange import Keyring
from sudare.learners import logistic_from_moments
from sudare.pooling._descent import Descent
from sudare.pooling._estimate import newton_step
from sudare.pooling._masks import Roster, Seat, add_up
from sudare.pooling._messages import (
    PoolInvalid,
    SignedAnswer,
    SignedJoin,
    moment_of,
    open_answer,
    open_join,
)
from sudare.pooling._poisson import count_scale, poisson_from_moments, prior_stds
from sudare.pooling._sessions import FARTHEST_THETA, PoolTerms
from sudare.pooling._sums import (
    CountScale,
    MomentSums,
    agreed_theta,
    read_gradient,
    read_moments,
    read_newton,
)
from sudare.pooling._walk import bounded_step, logistic_start

Array = NDArray[np.float64]
_Signed = TypeVar("_Signed", SignedJoin, SignedAnswer)
JOIN_SUFFIX, ANSWER_SUFFIX = ".join", ".answer"
_SAME_THETA = 1e-6
"""Two machines' coefficients that differ by no more come from the same sums."""
_SKEW = timedelta(minutes=10)
"""Clocks may differ by so much."""


class NewtonStep(NamedTuple):
    """Noisy sums of a Newton or Poisson session, in units of rows at most 1 long, and counts."""

    start: Array
    """θ₀, the coefficients they were taken at."""
    score: Array
    hessian: Array
    noise_std: float
    """Of each number of the score."""
    hessian_noise_std: float
    """Of the Hessian off its diagonal; √2 times that on it."""


@dataclass(frozen=True)
class Board:
    """Verified joins and answers of one plan, each organisation at most once."""

    terms: PoolTerms
    joins: dict[str, SignedJoin]
    """By signing key."""
    answers: tuple[dict[str, SignedAnswer], ...]
    """For each session, by signing key."""
    problems: tuple[str, ...] = ()
    """Files that could not be used, and why."""

    @property
    def missing_joins(self) -> tuple[str, ...]:
        """Names of those who have not joined."""
        return self._missing(self.joins)

    def missing_answers(self, session: int) -> tuple[str, ...]:
        """Names of those who have not answered a session."""
        return self._missing(self.answers[session])

    @cached_property
    def roster(self) -> Roster:
        """Who takes part with which keys, once all have joined."""
        if missing := self.missing_joins:
            raise PoolInvalid(f"Not everybody has joined: {', '.join(missing)} did not")
        found = (self.joins[member.key] for member in self.terms.plan.members)
        seats = tuple(Seat(each.key, each.said.public, each.said.rows) for each in found)
        return Roster(self.terms.digest, seats)

    @property
    def session(self) -> int | None:
        """The first session that somebody has not answered; None if all are complete."""
        for number in range(len(self.terms.sessions)):
            if self.missing_answers(number):
                return number
        return None

    def stale_joins(self, now: datetime) -> tuple[str, ...]:
        """Names of those who joined too long ago to be answered, or in the future."""
        oldest = now - timedelta(days=self.terms.plan.fresh_days)
        return tuple(
            self._name(each.key)
            for each in self.joins.values()
            if not oldest <= moment_of(each.said.moment) <= now + _SKEW
        )

    def check_rosters(self) -> None:
        """Refuse answers, of whichever session, to other joins than those here."""
        expected = self.roster.digest
        answers = [each for one in self.answers for each in one.values()]
        if strange := {self._name(a.key): None for a in answers if a.said.roster != expected}:
            raise PoolInvalid(
                f"{', '.join(strange)} answered another list of joins than the one here: somebody "
                "signed two joins, or files were exchanged. Nothing can be read from these answers"
            )

    def sum(self, session: int) -> NDArray[np.int64]:
        """The sum of a session, in steps: everybody's numbers and everybody's noise."""
        if missing := self.missing_answers(session):
            raise PoolInvalid(f"The sum is not complete: {', '.join(missing)} did not answer")
        self.check_rosters()
        answers = self.answers[session]
        thetas = {each.said.theta for each in answers.values()}
        if len(thetas) > 1:
            raise PoolInvalid(
                f"Session {session} was not evaluated at the same coefficients by everybody: it "
                "cannot be added up"
            )
        return add_up([answers[member.key].said.words for member in self.terms.plan.members])

    @cached_property
    def moments(self) -> MomentSums:
        """The first session's sum."""
        return read_moments(self.terms.sessions[0], self.sum(0))

    def count_scale(self, session: int) -> CountScale:
        """In parts of what a Poisson session sums: the largest count and the largest weight.

        In the last session no weight is cut: estimates and their intervals stand on it.
        """
        most = self.terms.plan.most_count
        assert isinstance(most, int)
        if session == len(self.terms.sessions) - 1:
            return CountScale(most, float(most))
        return count_scale(self.moments, self.roster.rows, self._constant, most)

    @property
    def descent(self) -> Descent:
        """The step length of gradient sessions; from public numbers alone, once all have joined."""
        return Descent.of(self.terms, self.roster.rows)

    def theta(self, session: int) -> Array | None:
        """Where a session is evaluated, what all earlier sums point to; nowhere for moments.

        Floats differ between machines in their last digits; so the first answer decides, if its
        coefficients are what these sums give but for rounding. Others are refused: the sum would be
        as private as any, but of no use.
        """
        if not self.terms.sessions[session].longest_theta:
            return None
        own = self._estimate(session)
        for each in self.answers[session].values():
            said = np.array(each.said.theta)
            if np.abs(said - own).max() > _SAME_THETA:
                raise PoolInvalid(
                    f"{self._name(each.key)} evaluated session {session} at other coefficients "
                    "than the sums before it give"
                )
            return said
        return own

    def newton(self, session: int) -> NewtonStep:
        """What a Newton or Poisson session says, once all have answered it: sums, where, with which
        noise."""
        found, terms = self.sum(session), self.terms.sessions[session]
        start = self._evaluated_at(session)
        sums = read_newton(terms, found, start)
        std = terms.shares(start).noise_std(len(self.terms.plan.members))
        most, heaviest = self.count_scale(session) if terms.kind == "poisson" else (1, 1.0)
        return NewtonStep(
            start,
            most * sums.score,
            heaviest * sums.hessian,
            most * std,
            heaviest * std / terms.weight,
        )

    def gradient(self, session: int) -> Array:
        """The sum of a gradient session, once all have answered it."""
        found = read_gradient(self.terms.sessions[session], self.sum(session))
        length, most = float(np.linalg.norm(found)), self.descent.longest_sum
        if length > most:
            raise PoolInvalid(
                f"The sum of session {session} is {length:.3g} long, and no rows with this noise "
                f"give more than {most:.3g}: somebody answered with numbers that are not a sum of "
                "rows. Nobody can tell who"
            )
        return found

    @cached_property
    def visited(self) -> Array:
        """Where each gradient session led; every one began where the one before had ended."""
        sessions = range(len(self.terms.sessions))
        for number in sessions:
            self.theta(number)  # refuses coefficients that do not fit
        return np.array([self._estimate(number + 1) for number in sessions])

    @property
    def _constant(self) -> float:
        """The constant feature of rows at most 1 long."""
        contract = self.terms.plan.contract
        return contract.constant / contract.full_norm

    def _evaluated_at(self, session: int) -> Array:
        return np.array(next(iter(self.answers[session].values())).said.theta)

    def _estimate(self, session: int) -> Array:
        """Where all sessions before this one lead."""
        terms = self.terms
        if terms.plan.kind == "gradients":
            if session == 0:
                return np.zeros(terms.plan.contract.dimension)
            step = self.descent.step / self.roster.rows
            moved = self._evaluated_at(session - 1) - step * self.gradient(session - 1)
            return agreed_theta(moved, FARTHEST_THETA)
        counts = terms.plan.kind == "poisson"
        contract, longest = terms.plan.contract, terms.sessions[1].longest_theta
        if session == 1:
            sums, rows, std, share = self.moments, self.roster.rows, terms.noise_std, self._constant
            if counts:
                most = self.count_scale(session).most
                found = poisson_from_moments(sums, rows, std, share, most)
            elif terms.plan.walk == "bounded":
                found = logistic_start(sums, rows, std, share)
            else:
                found = logistic_from_moments(sums.cross, sums.gram, rows, std, share)
            return agreed_theta(found, longest)
        newton = self.newton(session - 1)
        noise = newton.noise_std, newton.hessian_noise_std
        here = newton.start, newton.score, newton.hessian
        if counts:
            theta = bounded_step(
                *here, noise, self._constant, prior_stds(contract, on_the_way=True)
            )
        elif terms.plan.walk == "bounded":
            theta = bounded_step(*here, noise, self._constant, flattens=True)
        else:
            theta = newton_step(*here, *noise).theta
        return agreed_theta(theta, longest)

    def _missing(self, there: Iterable[str]) -> tuple[str, ...]:
        keys = set(there)
        return tuple(member.name for member in self.terms.plan.members if member.key not in keys)

    def _name(self, key: str) -> str:
        member = self.terms.plan.member(key)
        assert member is not None
        return member.name


def read_board(files: Iterable[tuple[str, bytes]], terms: PoolTerms, keyring: Keyring) -> Board:
    """Sort and verify signed files; a file with a fault is reported, and the others count.

    Raises `PoolInvalid` if one organisation signed two different things in place of one.
    """
    joins: dict[str, SignedJoin] = {}
    answers: tuple[dict[str, SignedAnswer], ...] = tuple({} for _ in terms.sessions)
    problems = []
    for name, data in files:
        try:
            if name.endswith(JOIN_SUFFIX):
                join = open_join(data, terms, keyring)
                _enter(joins, join.key, join, terms, "joins")
            else:
                answer = open_answer(data, terms, keyring)
                _enter(answers[answer.said.session], answer.key, answer, terms, "answers")
        except _Twice:
            raise
        except PoolInvalid as problem:
            problems.append(f"{name}: {problem}")
    return Board(terms, joins, answers, tuple(problems))


class _Twice(PoolInvalid):
    """One key, two contents."""


def _enter(there: dict[str, _Signed], key: str, item: _Signed, terms: PoolTerms, what: str) -> None:
    if key in there and there[key].said != item.said:
        member = terms.plan.member(key)
        assert member is not None
        raise _Twice(
            f"{member.name} signed two different {what} for this plan: ask {member.name}. Its key "
            "may be in other hands; begin a new attempt without it"
        )
    # One content can be signed in several ways: all who saw them keep the same one.
    if key not in there or item.data < there[key].data:
        there[key] = item
