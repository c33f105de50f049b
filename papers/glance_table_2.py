"""Glance, table 2: the notation, and what sudare calls it.

The names are tried out on a small survey of recorded bits, so that the table cannot grow stale.
"""

import numpy as np

from papers.figure import (
    Conclusion,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    TextTable,
    computed,
)
from sudare.counting import Survey, simulate
from sudare.foundations.randomness import seeded

ROWS = (
    ("[K]", "the numbers 1 to K", "range(K): sudare counts rounds from 0"),
    ("N", "number of users", "users"),
    ("T", "number of rounds", "Survey.rounds"),
    ("v_{n,t}", "bit of user n in round t", "a cell of the matrix that simulate() takes"),
    ("V", "all bits", "that matrix, one row a user"),
    ("z_{n,t}", "what user n reports in round t, or NULL", "Report.bit; NULL is no report at all"),
    ("Z", "all reports", "Tally: reports and ones of each round are all that is kept"),
    ("μ_t", "share of ones in round t", "Simulation.truth, estimated by Estimates.share"),
)
_USERS, _ROUNDS = 400, 5
SHARES, REPORTS = "μ_t is the share of ones", "every user reports once"


def tasks(setting: Setting) -> list[int]:
    return setting.seeds("glance-table-2", 1)


def measure(seed: int) -> list[Sample]:
    rng = seeded(seed)
    bits = (rng.random((_USERS, _ROUNDS)) < 0.3).astype(np.uint8)
    survey = Survey(name="table", rounds=_ROUNDS, epsilon=2.0)
    told = simulate(survey, bits, runs=3, rng=rng)
    same = bool(np.array_equal(told.truth, bits.mean(axis=0)))
    once = bool((told.reporters.sum(axis=1) == _USERS).all() and survey.rounds == _ROUNDS)
    return [computed("names", SHARES, 0.0, same), computed("names", REPORTS, 0.0, once)]


def table(results: Results) -> TextTable:
    return TextTable(("symbol", "meaning", "in sudare"), ROWS)


def conclude(results: Results) -> Conclusion:
    right = {name: bool(results.at("names", name, 0.0).value) for name in (SHARES, REPORTS)}
    return Conclusion(
        f"Each of the {len(ROWS)} symbols has a name in sudare, and on recorded bits they mean the "
        "same.",
        "Silence is no NULL in sudare but the absence of a report, and single reports are not "
        "kept: two counts a round are all that an estimate needs.",
        tuple(
            Finding(name, "so", "so" if held else "not so", held) for name, held in right.items()
        ),
    )


FIGURE = Figure(
    name="glance-table-2",
    title="Notation",
    paper="Ono, Fukuchi, Akimoto and Sakuma, table 2",
    claim="N users hold a bit in each of T rounds, report some of them at random, and μ_t is the "
    "share of ones in round t.",
    columns=("panel", "name", "x", "value"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    table=table,
)
