"""The survey that a store serves; an empty store is set up."""

import math
import time
from datetime import UTC, datetime

import msgspec

from sudare.collector import _keys as keys
from sudare.collector._clock import schedule
from sudare.collector.stores import FORGOTTEN, Store
from sudare.counting import Survey
from sudare.foundations import checks


def bind_store(
    store: Store,
    survey: Survey,
    *,
    key: bytes | None = None,
    round_seconds: float | None = None,
    now: float | None = None,
) -> Survey:
    """The survey that this store serves.

    An empty store is set up for `survey`; if that has no start, it starts now, with rounds of
    `round_seconds`, and the store remembers it. Otherwise the store's own survey is given back, and
    refused if it is another than `survey`, apart from a start that `survey` leaves open.
    """
    kept = store.meta().get("survey")
    if kept is None:
        begun = started(survey, round_seconds, time.time() if now is None else now)
        values = {
            "survey": msgspec.json.encode(begun, order="sorted"),
            "enrolment": b"open",
            FORGOTTEN: b"0",
        }
        store.initialise(values, keys.wrap(keys.new_key(), key))
        kept = store.meta()["survey"]  # another collector may have been first
    serves = msgspec.json.decode(kept, type=Survey)
    same = survey
    if survey.start is None:
        times = {"start": serves.start, "round_seconds": serves.round_seconds}
        same = msgspec.structs.replace(survey, **times)
    if same.digest() != serves.digest():
        other = " of another description" if serves.name == survey.name else ""
        raise checks.InvalidInput(
            f"{store.place} belongs to the survey {serves.name!r}{other}, not to {survey.name!r}: "
            "give each survey a store of its own"
        )
    return serves


def started(survey: Survey, round_seconds: float | None, now: float) -> Survey:
    """The survey with its start: now, if it names none."""
    if survey.start is not None:
        return survey
    if round_seconds is None:
        raise checks.InvalidInput(
            "Expected the survey's start and round_seconds, or round_seconds to start it now"
        )
    start = datetime.fromtimestamp(math.ceil(now * 1000) / 1000, UTC)
    begun = msgspec.structs.replace(survey, start=start, round_seconds=round_seconds)
    schedule(begun)  # before the store is bound to times that cannot be
    return begun
