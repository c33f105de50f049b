"""When rounds open, close and are published, by the wall clock.

Round t is open from start + t·L to start + (t+1)·L. Its reports are accepted from `skew` before it
opens (devices' clocks run ahead) to `grace` after it closes (reports travel), and its estimate is
published then, before the next round closes. With `late` beyond the grace, reports are still
counted until `late` after the close, and the published round is revised. All seconds.
"""

import math
from datetime import UTC, datetime
from typing import NamedTuple

from sudare.counting import Survey
from sudare.foundations import checks

MOST_GRACE = 60.0
MOST_SKEW = 5.0
_YEAR_10000 = 253_402_300_800.0
"""Beyond what dates are written for."""


class Schedule(NamedTuple):
    """The times of all rounds; an instant is in seconds since 1970 (UTC)."""

    start: float
    round_seconds: float
    rounds: int
    grace: float
    skew: float
    late: float

    def opens(self, round_: int) -> float:
        return self.start + round_ * self.round_seconds

    def closes(self, round_: int) -> float:
        return self.opens(round_ + 1)

    def publishes(self, round_: int) -> float:
        """The first instant at which the round's estimate is due."""
        return self.closes(round_) + self.grace

    def current(self, now: float) -> int | None:
        """The round that is open, before and after the survey none."""
        return self._ended(now) if self.start <= now < self.closes(self.rounds - 1) else None

    def due(self, now: float) -> int:
        """How many rounds should have been published by now."""
        return self._ended(now, self.grace)

    def over(self, now: float) -> int:
        """How many rounds accept no report any more."""
        return self._ended(now, max(self.grace, self.late))

    def begun(self, now: float) -> int:
        """How many rounds accept reports, or have done so."""
        if now + self.skew < self.start:
            return 0
        return min(self._ended(now, -self.skew) + 1, self.rounds)

    def _ended(self, now: float, wait: float = 0.0) -> int:
        """How many rounds closed at least `wait` ago: `closes(t) + wait <= now`, exactly as the
        other methods add, so that what is not yet due is still accepted."""
        guess = math.floor((now - wait - self.start) / self.round_seconds)
        guess = min(max(guess, 0), self.rounds)
        while guess < self.rounds and self.closes(guess) + wait <= now:
            guess += 1
        while guess > 0 and self.closes(guess - 1) + wait > now:
            guess -= 1
        return guess


def schedule(
    survey: Survey, *, grace: float | None = None, skew: float | None = None, late: float = 0.0
) -> Schedule:
    """A survey's schedule; by default a tenth of a round, at most a minute, is left for reports on
    their way, and a twentieth, at most 5 seconds, for clocks that run ahead."""
    if survey.start is None or survey.round_seconds is None:
        raise checks.InvalidInput("Expected a survey with start and round_seconds")
    length = survey.round_seconds
    grace = min(length / 10, MOST_GRACE) if grace is None else grace
    skew = min(length / 20, MOST_SKEW) if skew is None else skew
    checks.non_negative(grace=grace, skew=skew, late=late)
    if grace >= length:
        raise checks.InvalidInput(
            f"Expected grace={grace:g} to be less than a round of {length:g} seconds: a round is "
            "published before the next one closes"
        )
    if skew > length:
        raise checks.InvalidInput(f"Expected skew={skew:g} to be at most a round, {length:g} s")
    start = survey.start.timestamp()
    if not start + (survey.rounds + 1) * length < _YEAR_10000:
        raise checks.InvalidInput(
            f"Expected a survey that ends before the year 10000: {survey.rounds} rounds of "
            f"{length:g} seconds do not"
        )
    return Schedule(start, length, survey.rounds, float(grace), float(skew), float(late))


def iso(instant: float) -> str:
    """An instant for people and programs: UTC, to the millisecond."""
    text = datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
