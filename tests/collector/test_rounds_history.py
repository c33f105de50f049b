"""Published rounds in memory."""

import threading

from sudare.collector._clock import schedule
from sudare.collector._rounds import History
from sudare.collector.stores import Row
from tests.collector.kit import START, a_survey

BEGIN = START.timestamp()


def row(t: int, revision: int = 0, raw: float = 0.25) -> Row:
    return Row(t, BEGIN + t, 9, t + revision, raw, 0.1, 0.9, 0.3, revision)


def history(rounds: int = 500) -> History:
    return History(schedule(a_survey(rounds=rounds)))


def test_new_and_revised() -> None:
    kept = history()
    assert kept.put([row(0), row(1)]) == {0, 1}
    assert kept.put([row(0), row(1, 1), row(2)]) == {1, 2}
    assert kept.put([row(1, 1)]) == set()
    assert len(kept) == 3
    assert kept.reporters(0, 3) == [0, 2, 2]
    assert [each.revision for each in kept.rounds(slice(None))] == [0, 1, 0]


def test_what_is_told() -> None:
    kept = history()
    kept.put([row(0, raw=float("nan")), row(1, raw=1.5), row(2, raw=-0.5)])
    first, second, third = kept.rounds(slice(None))
    assert (first.raw, first.share, first.smoothed) == (None, None, 0.3)
    assert (second.raw, second.share, third.raw, third.share) == (1.5, 1.0, -0.5, 0.0)
    assert (third.opens, third.closes) == ("2026-01-01T00:03:20.000Z", "2026-01-01T00:05:00.000Z")
    assert third.published == "2026-01-01T00:00:02.000Z"


def test_it_grows() -> None:
    kept = history()
    for t in range(300):
        kept.put([row(t)])
    assert [each.round for each in kept.rounds(slice(298, None))] == [298, 299]
    assert [each.round for each in kept.rounds([5, 7])] == [5, 7]
    assert kept.rounds(slice(300, None)) == ()
    assert kept.rounds([]) == ()


def test_readers_never_see_half_a_revision() -> None:
    """`reporters` and `revision` are written together."""
    kept, done = history(), threading.Event()
    kept.put([row(0)])

    def revise() -> None:
        for revision in range(1, 3000):
            kept.put([row(0, revision)])
        done.set()

    writer = threading.Thread(target=revise)
    writer.start()
    while not done.is_set():
        (seen,) = kept.rounds([0])
        assert seen.reporters == seen.revision
    writer.join()
