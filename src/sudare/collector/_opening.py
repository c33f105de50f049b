"""Opening a collector as its settings and secrets say, with the operator's token and its clock."""

from typing import TYPE_CHECKING, NamedTuple

from sudare.collector._binding import bind_store
from sudare.collector._clock import Schedule, SteadyClock, schedule
from sudare.collector._engine import Collector
from sudare.collector._settings import Secrets, Settings
from sudare.collector.stores import open_store
from sudare.counting import Survey, read_survey

if TYPE_CHECKING:
    from sudare.collector._retention import Retention


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


def open_collector(settings: Settings, secrets: Secrets, *, make_token: bool = False) -> Opened:
    """Open the store, set it up if it is empty, and take over the operator's token.

    With `make_token`, a store that has no token yet gets one.
    """
    asked = read_survey(settings.survey)
    store = open_store(settings.store)
    try:
        empty = not store.meta()
        clock = SteadyClock(settings.clock_seconds, judge=store.clock if store.shared else None)
        survey = bind_store(
            store, asked, key=secrets.key, round_seconds=settings.round_seconds, now=clock()
        )
        times = schedule(
            survey,
            grace=settings.grace_seconds,
            skew=settings.skew_seconds,
            late=settings.late_seconds,
        )
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
        store.close()
        raise
    return Opened(collector, times, survey, empty and asked.start is None, token)


def _token(collector: Collector, secrets: Secrets, make_token: bool) -> str | None:
    if secrets.token is not None:
        if not collector.check_token(secrets.token):
            collector.set_token(secrets.token)
        return None
    return collector.new_token() if make_token and not collector.has_token() else None


def _retention(settings: Settings, survey: Survey) -> "Retention | None":
    if settings.retain is None:
        return None
    from sudare.collector._retention import Retention

    return Retention(settings.retain, survey)
