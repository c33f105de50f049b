"""Several collectors over one database: each report once, whoever takes it."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from sudare.collector import Collector, StoreUnavailable, bind_store, open_store
from sudare.collector.stores.postgres import PostgreSQL
from sudare.counting import Method
from sudare.counting._reports import RECORD
from sudare.foundations.checks import InvalidInput
from tests.collector.kit import (
    COUNTED,
    REPEATED,
    TOO_LATE,
    WRONG_MARK,
    Clock,
    a_collector,
    a_survey,
    due,
    packed,
)
from tests.support.waiting import eventually

COLLECTORS = 3


def together(work: Callable[[int], object], workers: int = COLLECTORS) -> list:
    """At the same time, as nearly as threads can."""
    gate = threading.Barrier(workers)

    def begin(number: int) -> object:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(begin, range(workers)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("method", ["glance", "rappor"])
def test_reports_that_reach_two_collectors(database: str, clock: Clock, method: Method) -> None:
    """Each in an order and in groups of its own: every report counts once, with its first bit."""
    survey = a_survey(method, rounds=1)
    collectors = [a_collector(database, survey, clock) for _ in range(COLLECTORS)]
    tickets = collectors[0].issue(900)
    everything = np.frombuffer(packed(tickets), RECORD)

    def send(number: int) -> Counter[tuple[int, int]]:
        rng, told = np.random.default_rng(number), Counter[tuple[int, int]]()
        mine = rng.permutation(np.repeat(everything, 2))
        for part in np.array_split(mine, 12):
            for serial, verdict in zip(
                part["serial"].tolist(), collectors[number].count(part.tobytes()), strict=True
            ):
                told[serial, int(verdict)] += 1
        return told

    told = sum(together(send), Counter[tuple[int, int]]())
    for own in tickets:
        assert told[own.serial, COUNTED] == 1
        assert told[own.serial, REPEATED] == 2 * COLLECTORS - 1
    clock.set(1.2)
    (round_,) = collectors[1].publish_due()
    assert (round_.reporters, round_.raw is not None and round_.raw > 1) == (900, True)
    for collector in collectors:
        collector.publish_due()
        assert collector.history() == (round_,)
        collector.close()


def test_no_report_slips_into_a_closed_round(database: str, clock: Clock) -> None:
    """Rounds close while reports arrive: what was acknowledged, and nothing else, is published."""
    survey = a_survey("rappor", rounds=6)
    collectors = [a_collector(database, survey, clock) for _ in range(COLLECTORS)]
    tickets = collectors[0].issue(240)
    done = threading.Event()

    def work(number: int) -> list[tuple[int, int]]:
        if number == 0:
            for step in range(6 * 4 + 6):
                clock.set(step / 4)
                collectors[0].publish_due()
            done.set()
            return []
        counted, mine = [], tickets[number::2]
        while not done.is_set():
            t = collectors[number].schedule.current(clock.now)
            if t is not None:
                told = collectors[number].count(due(survey, mine, t))
                counted += [(t, 1)] * int((told == COUNTED).sum())
                assert set(told.tolist()) <= {COUNTED, REPEATED, TOO_LATE}
        return counted

    counted = Counter[int]()
    for told in together(work):
        for t, number in told:
            counted[t] += number
    for collector in collectors:
        collector.publish_due()
        assert [each.reporters for each in collector.history()] == [counted[t] for t in range(6)]
        assert all(each.revision == 0 for each in collector.history())
        collector.close()
    assert sum(counted.values()) > 100


def test_all_close_the_same_rounds(database: str, clock: Clock) -> None:
    """Whoever comes first publishes; all tell the same, each of them once."""
    collectors = [a_collector(database, a_survey(rounds=40), clock) for _ in range(COLLECTORS)]
    clock.set(50.0)
    told = together(lambda number: collectors[number].publish_due())
    assert told[0] == told[1] == told[2]
    assert [each.round for each in told[0]] == list(range(40))
    for collector in collectors:
        assert collector.publish_due() == []
        collector.close()


def test_tickets_of_several_collectors(database: str, clock: Clock) -> None:
    """No serial twice, also while a key is replaced; each collector knows all keys at once."""
    survey = a_survey("rappor")
    collectors = [a_collector(database, survey, clock) for _ in range(COLLECTORS)]

    def work(number: int) -> list:
        tickets = []
        for step in range(12):
            tickets += collectors[number].issue(3)
            if step == 6:
                collectors[number].rotate_key()
        return tickets

    issued = together(work)
    serials = [own.serial for tickets in issued for own in tickets]
    assert len(set(serials)) == len(serials) == 36 * COLLECTORS
    for number, collector in enumerate(collectors):
        others = issued[(number + 1) % COLLECTORS]
        assert (collector.count(packed(others)) == COUNTED).all()
        collector.refresh()
        assert collector.status().tickets == 36 * COLLECTORS
        forged = np.frombuffer(packed(others), RECORD).copy()
        forged["serial"] += 1
        assert WRONG_MARK in collector.count(forged.tobytes())
        collector.close()


def test_first_starts_at_the_same_time(database: str) -> None:
    """One survey, one start, one key."""
    bare = a_survey(start=None, round_seconds=None)

    def begin(number: int) -> tuple:
        store = open_store(database)
        survey = bind_store(store, bare, round_seconds=10.0, now=1e9 + number)
        ranges = store.ranges()
        store.close()
        return survey, ranges

    first, *others = together(begin)
    assert all(other == first for other in others)


def test_refusals_and_enrolment_are_everybodys(database: str, clock: Clock) -> None:
    first, second = (a_collector(database, a_survey(), clock) for _ in range(2))
    first.refused("rate_limited", 2)
    second.refused("rate_limited", 3)
    second.set_enrolment(False)
    second.refresh()
    first.refresh()
    assert first.status().refused == {"rate_limited": 5}
    assert not first.status().enrolment
    for collector in (first, second):
        collector.close()


def cut(address: str) -> None:
    """Every collector's connection is ended by the server."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND application_name = 'sudare collector'"
        )


def test_a_lost_connection_is_opened_again(database: str, clock: Clock) -> None:
    collector = a_collector(database, a_survey("rappor"), clock)
    tickets = collector.issue(10)
    collector.count(packed(tickets[:5]))
    cut(database)
    with pytest.raises(StoreUnavailable, match=r"postgresql://127\.0\.0\.1/postgres: "):
        collector.count(packed(tickets))
    assert not collector.status().reachable
    told = collector.count(packed(tickets)).tolist()
    assert told == [REPEATED] * 5 + [COUNTED] * 5
    assert collector.status().reachable
    collector.close()


def test_a_connection_lost_while_closing_publishes_nothing(database: str, clock: Clock) -> None:
    collector = a_collector(database, a_survey(), clock)

    def close() -> None:
        with collector.store.closing() as closing:
            cut(database)
            closing.record([], closing.progress._replace(published=1))

    with pytest.raises(StoreUnavailable):
        close()
    assert collector.store.progress().published == 0
    collector.close()


def test_collectors_that_wait_for_each_other(
    database: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadlock ends one of the transactions; it is tried again, and counts once."""
    collector = a_collector(database, a_survey("rappor"), clock)
    tickets, real = collector.issue(4), PostgreSQL._count
    met: list[int] = []

    def unlucky(store, group):
        if not met:
            met.append(1)
            raise psycopg.errors.DeadlockDetected
        return real(store, group)

    monkeypatch.setattr(PostgreSQL, "_count", unlucky)
    assert (collector.count(packed(tickets)) == COUNTED).all()
    assert met
    collector.close()


def test_no_password_in_messages() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        open_store("postgresql://me:canary@127.0.0.1:1/db")
    assert "canary" not in str(caught.value)
    for wrong in ("postgresql://me:canary@[127.0.0.1/db", "postgresql://me:canary@host:port/db"):
        with pytest.raises(InvalidInput, match="an address like") as refused:
            open_store(wrong)
        assert "canary" not in str(refused.value)


def test_collectors_count_in_rows_of_their_own(database: str, clock: Clock) -> None:
    collectors: list[Collector] = [
        a_collector(database, a_survey("rappor"), clock) for _ in range(COLLECTORS)
    ]
    tickets = collectors[0].issue(COLLECTORS)
    for collector, own in zip(collectors, tickets, strict=True):
        collector.count(packed([own]))
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT shard, reporters FROM collector_counts").fetchall()
    assert sorted(rows) == [(0, 1), (1, 1), (2, 1)]
    for collector in collectors:
        collector.close()


def test_collectors_are_counted(database: str) -> None:
    first = open_store(database)
    assert first.collectors() == 1
    second = open_store(database)
    assert (first.collectors(), second.collectors()) == (2, 2)
    second.close()
    eventually(lambda: first.collectors() == 1)
    first.close()


def test_the_databases_clock(database: str) -> None:
    store = open_store(database)
    times = [store.clock() for _ in range(3)]
    assert times == sorted(times)
    assert abs(times[0] - time.time()) < 3600
    store.close()
