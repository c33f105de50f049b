"""Opening a collector as its settings and secrets say, with the operator's token and its clock."""

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from sudare.collector._binding import bind_store, started
from sudare.collector._clock import Schedule, SteadyClock, schedule
from sudare.collector._engine import Collector
from sudare.collector._settings import Secrets, Settings
from sudare.collector.stores import Store, StoreUnavailable, open_store
from sudare.counting import Survey, read_survey
from sudare.foundations import checks
from sudare.storage.postgres import is_address

if TYPE_CHECKING:
    from sudare.collector._retention import Retention


_RETRY_SECONDS = 1.0
_BOUND = 2.0


class Opened(NamedTuple):
    """A collector over its store, which whoever opened it closes."""

    collector: Collector
    schedule: Schedule
    survey: Survey
    """With its start."""
    started_now: bool
    """The survey named no start, and has been given one."""
    token: str | None
    """The operator's, if it was made just now; it is not kept anywhere."""


def open_collector(
    settings: Settings, secrets: Secrets, *, make_token: bool = False, patience: float = 0.0
) -> Opened:
    """Open the store, set it up if it is empty, and take over the operator's token.

    With `make_token`, a store that has no token yet gets one. A database that is only starting up
    is waited for, for as many seconds as `patience`. A store that this made is gone again if it
    could not be set up.
    """
    asked = read_survey(settings.survey)
    store = _patiently(settings.store, patience)
    empty = True
    try:
        empty = not store.meta()
        clock = SteadyClock(settings.clock_seconds, judge=store.clock if store.shared else None)
        now = clock()
        if empty:  # before the store is bound to what cannot be
            _times(settings, started(asked, settings.round_seconds, now))
        survey = bind_store(
            store, asked, key=secrets.key, round_seconds=settings.round_seconds, now=now
        )
        times = _times(settings, survey)
        collector = Collector(
            survey,
            store,
            times,
            key=secrets.key,
            beta=settings.beta,
            clock=clock,
            retain=_retention(settings, survey),
        )
        token = _token(collector, secrets, make_token)
    except BaseException:
        if empty:
            store.discard()
        store.close()
        raise
    return Opened(collector, times, survey, empty and asked.start is None, token)


def _times(settings: Settings, survey: Survey) -> Schedule:
    grace, skew, late = settings.grace_seconds, settings.skew_seconds, settings.late_seconds
    return schedule(survey, grace=grace, skew=skew, late=late)


def open_existing(place: str, secrets: Secrets) -> Opened:
    """A store that has a survey, without the survey's file: to look after it, not to serve it."""
    if not is_address(place) and not Path(place).exists():
        raise checks.InvalidInput(f"There is no store {place}")
    store = open_store(place)
    try:
        kept = store.meta().get("survey")
        if kept is None:
            raise checks.InvalidInput(f"{place} holds no survey: name the survey's file, too")
        survey = msgspec.json.decode(kept, type=Survey)
        clock = SteadyClock(_BOUND, judge=store.clock if store.shared else None)
        times = schedule(survey)
        collector = Collector(survey, store, times, key=secrets.key, clock=clock)
    except BaseException:
        store.close()
        raise
    return Opened(collector, times, survey, False, None)


def _patiently(place: str, patience: float) -> Store:
    until = time.monotonic() + patience
    while True:
        try:
            return open_store(place)
        except StoreUnavailable as problem:
            if time.monotonic() >= until:
                raise
            from sudare.collector import monitoring  # brings in what only servers need

            monitoring.say(
                "store", f"Waiting for the store: {problem}", logging.WARNING, reason=str(problem)
            )
            time.sleep(min(_RETRY_SECONDS, max(0.0, until - time.monotonic())))


def _token(collector: Collector, secrets: Secrets, make_token: bool) -> str | None:
    if secrets.token is not None:
        if not collector.check_token(secrets.token) or collector.has_old_token():
            collector.set_token(secrets.token)
        return None
    return collector.new_token() if make_token and not collector.has_token() else None


def _retention(settings: Settings, survey: Survey) -> "Retention | None":
    if settings.retain is None:
        return None
    from sudare.collector._retention import Retention

    return Retention(settings.retain, survey)
