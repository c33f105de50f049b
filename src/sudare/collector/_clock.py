"""When rounds open, close and are published, and the clock that says so.

Round t is open from start + t·L to start + (t+1)·L. Its reports are accepted from `skew` before it
opens (devices' clocks run ahead) to `grace` after it closes (reports travel), and its estimate is
published then, before the next round closes. With `late` beyond the grace, reports are still
counted until `late` after the close, and the published round is revised. All seconds.

A machine's clock may be set, or leap, while a collector runs, and a round that is closed too early
is lost. So rounds go by a `SteadyClock`.
"""

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from sudare.counting import Survey
from sudare.foundations import checks

MOST_GRACE = 60.0
MOST_SKEW = 5.0
_YEAR_10000 = 253_402_300_800.0
"""Beyond what dates are written for."""
_SLEW = 0.1
"""How fast the machine's clock is followed, in seconds a second; time services slew no faster."""


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


class SteadyClock:
    """The time of day, by a counter that cannot leap and a judge that is asked now and then.

    The judge is the machine's clock, or for collectors that share a database that database's, so
    that all of them have one. Small differences are followed slowly. One of more than `bound`
    seconds is a leap: time goes on by the counter, `leap` says by how much the judge differs, and
    it ends when the judge agrees again. Which of the two is right, only a person can say.
    """

    def __init__(
        self,
        bound: float,
        *,
        judge: Callable[[], float] | None = None,
        wall: Callable[[], float] = time.time,
        counter: Callable[[], float] | None = None,
    ) -> None:
        checks.positive(bound=bound)
        self.bound = bound
        self._judge, self._wall = judge, wall
        self._counter = counter or _elapsed
        self._offset: float | None = None
        self._looked = 0.0
        self.leap = 0.0
        """How far the judge has leapt from this clock; 0 if it has not."""
        self.apart = 0.0
        """How far the machine's clock is from the judge's, where that is beyond the bound."""

    def __call__(self) -> float:
        if self._offset is None:
            self.look()
        assert self._offset is not None
        return self._counter() + self._offset

    def look(self) -> None:
        """Compare with the judge; to be called about once a second."""
        judge = self._judge or self._wall
        before = self._counter()
        told = judge()
        after = self._counter()
        slow = after - before > self.bound / 2
        if slow and self._offset is not None:
            return  # by when it was told, nobody knows
        at = (before + after) / 2
        if self._offset is None:
            self._offset = told - at
        error = told - (at + self._offset)
        if abs(error) > self.bound:
            self.leap = error
        else:
            self.leap = 0.0
            most = _SLEW * max(0.0, at - self._looked)
            self._offset += min(max(error, -most), most)
        self._looked = at
        if self._judge is not None:
            apart = self._wall() - (self._counter() + self._offset)
            self.apart = apart if abs(apart) > self.bound else 0.0

    def between(self) -> tuple[float, float]:
        """What the time may be: while the judge has leapt, either its or ours."""
        now = self()
        other = now + self.leap
        return min(now, other), max(now, other)


def _elapsed() -> float:
    """Seconds since some instant; where the system can tell, also while the machine slept."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
