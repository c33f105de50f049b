"""The golden store: a survey half done, as version 0.1.0 left it.

    survey-1.toml      the survey
    collector-1.db     the store after `begin`
    collector-1.json   every ticket, and every round as it was published or would have been

`python -m tests.collector.stores.golden` writes the last two again, with other keys. Nobody should
have to: stores in the field keep to what they hold.
"""

import tempfile
from pathlib import Path

import msgspec
import numpy as np

from sudare.collector import Collector, open_store, schedule
from sudare.collector._messages import issued
from sudare.counting import RECORD, Ticket, read_survey
from tests.collector.kit import Clock, due
from tests.support import ROOT

GOLDEN = ROOT / "tests" / "golden"
STORE, TOLD = GOLDEN / "collector-1.db", GOLDEN / "collector-1.json"
SURVEY = read_survey(GOLDEN / "survey-1.toml")
KEY, TOKEN = bytes(range(32)), "the operator's token"


def opened(place: Path, clock: Clock) -> Collector:
    return Collector(SURVEY, open_store(str(place)), schedule(SURVEY), key=KEY, clock=clock)


def reports(tickets: list[Ticket], round_: int) -> bytes:
    """Of everybody whose turn it is; a third says yes."""
    records = np.frombuffer(due(SURVEY, tickets, round_), RECORD).copy()
    records["bit"] = records["serial"] % 3 == 0
    return records.tobytes()


def begin(collector: Collector, clock: Clock) -> list[Ticket]:
    """Two ticket keys, three rounds published, half of the fourth counted."""
    tickets = collector.issue(40)
    collector.rotate_key()
    tickets += collector.issue(20)
    collector.set_token(TOKEN)
    collector.set_enrolment(False)
    for round_ in range(3):
        clock.set(round_ + 0.4)
        collector.count(reports(tickets, round_))
        clock.set(round_ + 1.2)
        collector.publish_due()
    clock.set(3.4)
    collector.count(reports(tickets[::2], 3))
    return tickets


def finish(collector: Collector, clock: Clock, tickets: list[Ticket]) -> list[Ticket]:
    """The rest of the survey, with five tickets more, which come back."""
    more = collector.issue(5)
    for round_ in range(3, SURVEY.rounds):
        clock.set(round_ + 0.5)
        collector.count(reports([*tickets, *more], round_))
        clock.set(round_ + 1.2)
        collector.publish_due()
    return more


def main() -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "collector.db")
        collector = opened(place, clock)
        tickets = begin(collector, clock)
        collector.close()
        STORE.write_bytes(place.read_bytes())
        collector = opened(place, clock)
        tickets += finish(collector, clock, tickets)
        told = {"tickets": [issued(own) for own in tickets], "rounds": collector.history()}
        collector.close()
    TOLD.write_bytes(msgspec.json.encode(told).replace(b"},{", b"},\n{") + b"\n")


if __name__ == "__main__":
    main()
