"""Simulating, reporting and tallying on one core, beside OpenDP, multi-freq-ldpy and numpy.

Aims: figure 3 of Ono et al. whole (4 curves, 8 values of ε, 10,000 runs each, 50 rounds, 10,000
users) in 20 s; 50 million reports a second simulated user by user; 100,000 reports a second out of
`Reporter`, one call each, with its state kept in memory; packed reports tallied at 0.3 of the rate
at which numpy decodes and counts them. Simulations are timed in processor seconds, the rest by
taking turns with the peer. multi-freq-ldpy runs in an environment and a process of its own.
"""

import time
from collections.abc import Callable, Iterator
from math import inf, nan

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.table import Row, against, best_of, compare
from sudare.counting import (
    RECORD,
    MemoryStore,
    Reporter,
    Survey,
    empty_tally,
    open_office,
    plan,
    simulate,
    unpack,
)
from sudare.counting.signals import constant
from sudare.foundations.randomness import seeded

ROUNDS, USERS = 50, 10_000
KEY = bytes(32)


def run(quick: bool) -> list[Row]:
    """Rates of ours and of the peers'."""
    return [
        _figure_3(300 if quick else 10_000),
        *(_by_user(slots, 20 if quick else 400) for slots in (1, 2, 10)),
        _tree(2 if quick else 20),
        _planning(),
        *_reports(10 if quick else 100),
        *_tallies(10**5 if quick else 10**6, 3 if quick else 15),
    ]


def _figure_3(runs: int) -> Row:
    start = time.process_time()
    for method in ("glance", "harmony"):
        for share in (0.5, 0.9995):
            for epsilon in range(1, 9):
                survey = _survey(method, float(epsilon))
                simulate(survey, constant(ROUNDS, share), USERS, runs=runs, rng=epsilon)
    # A quick run does less, and is told as the whole.
    seconds = (time.process_time() - start) * 10_000 / runs
    return Row(name="figure 3, whole", value=seconds, unit="s", aim="<= 20 s", ok=seconds <= 20)


def _by_user(slots: int, runs: int) -> Row:
    bits = (seeded(1).random((USERS, ROUNDS)) < 0.5).astype(np.uint8)
    survey = _survey("masks", 4.0, slots)
    seconds = _cpu(lambda: simulate(survey, bits, runs=runs, rng=1), 3)
    rate = slots * USERS * runs / seconds / 1e6
    name = f"simulated user by user, {slots} slot{'s' * (slots > 1)}"
    return Row(name=name, value=rate, unit="M reports/s", aim=">= 50", ok=rate >= 50)


def _tree(runs: int) -> Row:
    survey = Survey(name="t", rounds=1024, epsilon=1.0, method="tree", changes=1)
    seconds = _cpu(lambda: simulate(survey, constant(1024, 0.5), USERS, runs=runs, rng=1), 1)
    return Row(name="tree, 1,024 rounds, 10,000 users", value=1e3 * seconds / runs, unit="ms a run")


def _planning() -> Row:
    epsilons = iter(np.linspace(1, 8, 1000).tolist())
    seconds = best_of(lambda: plan(USERS, ROUNDS, next(epsilons)), 5, 0.0)
    return Row(name="a plan of all methods", value=1e3 * seconds, unit="ms")


def _reports(repeat: int) -> Iterator[Row]:
    """One call each, every call a report."""
    dp.enable_features("contrib")
    response = dp.m.make_randomized_response_bool(prob=1 / (1 + np.exp(-1.0)))
    ours = opendp = single = longitudinal = inf
    try:
        with peers.multi_freq_ldpy() as peer:
            for _ in range(repeat):
                ours = min(ours, _horizon())
                opendp = min(opendp, best_of(lambda: response(True), 1, 0.005))
                ask = {"epsilon": 1.0, "seconds": 0.005}
                single = min(single, peer.ask(do="one report", **ask))
                longitudinal = min(longitudinal, peer.ask(do="one longitudinal report", **ask))
    except peers.Unavailable as problem:
        yield Row(name=f"not compared: {problem}", value=nan, unit="")
        for _ in range(repeat):
            ours = min(ours, _horizon())
            opendp = min(opendp, best_of(lambda: response(True), 1, 0.005))
    name, rate = "Reporter.report, one call a report", 1e-3 / ours
    for peer_name, seconds in (
        ("OpenDP randomised response", opendp),
        ("multi-freq-ldpy GRR, insecure randomness", single),
        ("multi-freq-ldpy longitudinal GRR, insecure randomness", longitudinal),
    ):
        if seconds < inf:
            yield Row(
                name=name,
                value=rate,
                unit="k reports/s",
                baseline=peer_name,
                baseline_value=1e-3 / seconds,
                ratio=seconds / ours,
                aim="rate >= 100",
                ok=rate >= 100,
            )
    yield Row(name="Reporter.enrol", value=1e-3 / _enrolment(), unit="k users/s")


def _horizon() -> float:
    """Seconds a report: users who report in each of ten rounds, and draw no coin any more."""
    survey = Survey(name="benchmark", rounds=10, epsilon=1.0, method="masks", slots=10)
    office = open_office(survey, KEY)
    reporters = [
        Reporter.enrol(survey, ticket, MemoryStore()) for ticket in office.issue_many(np.arange(20))
    ]
    start = time.perf_counter()
    for t in range(survey.rounds):
        for reporter in reporters:
            reporter.report(t, t & 1)
    return (time.perf_counter() - start) / (len(reporters) * survey.rounds)


def _enrolment() -> float:
    survey = _survey("glance", 1.0)
    tickets = iter(open_office(survey, KEY).issue_many(np.arange(20_000)))
    return best_of(lambda: Reporter.enrol(survey, next(tickets), MemoryStore()), 3, 0.005)


def _tallies(size: int, repeat: int) -> Iterator[Row]:
    """`rappor` needs no secret order, so that numpy has all it takes to do the same."""
    survey = _survey("rappor", 1.0)
    data = _packed(size, ROUNDS)
    office, start = open_office(survey, KEY), empty_tally(survey)

    def ours() -> None:
        batch = unpack(data)
        start.add(office.cells(batch.serials, batch.slots), batch.bits)

    seconds = compare(ours, lambda: _plain(data), repeat)
    rates = [size / each / 1e6 for each in seconds]
    yield against(
        "tally of packed reports", rates[0], "M/s", "numpy decode + bincount", rates[1], ">= 0.3"
    )
    glance = _survey("glance", 1.0)
    their_office, empty = open_office(glance, KEY), empty_tally(glance)
    packed = _packed(size, 1)

    def checked() -> None:
        batch = unpack(packed)
        their_office.authentic(batch.serials, batch.marks)
        empty.add(their_office.cells(batch.serials, batch.slots), batch.bits)

    rate = size / best_of(checked, max(1, repeat // 5)) / 1e6
    yield Row(name="glance: marks checked, rounds looked up, tallied", value=rate, unit="M/s")


def _packed(size: int, slots: int) -> bytes:
    rng = seeded(1)
    records = np.zeros(size, RECORD)
    records["serial"] = rng.integers(0, size, size)
    records["slot"] = rng.integers(0, slots, size)
    records["bit"] = rng.integers(0, 2, size)
    return records.tobytes()


def _plain(data: bytes) -> NDArray[np.int64]:
    records = np.frombuffer(data, RECORD)
    return np.bincount(records["slot"] * np.uint32(2) + records["bit"], minlength=2 * ROUNDS)


def _survey(method: str, epsilon: float, slots: int = 1) -> Survey:
    return Survey(
        name="benchmark",
        rounds=ROUNDS,
        epsilon=epsilon,
        method=method,  # type: ignore[arg-type]
        slots=slots,
    )


def _cpu(fn: Callable[[], object], repeat: int) -> float:
    """Processor seconds of the best call: others may use the machine too."""
    fn()
    best = inf
    for _ in range(repeat):
        start = time.process_time()
        fn()
        best = min(best, time.process_time() - start)
    return best
