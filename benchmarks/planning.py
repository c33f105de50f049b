"""Does what `sudare plan learn --study` says beforehand hold on real tables?

The planner is given the study's columns and the real parties' numbers of rows, and simulates 20
consortia of any kind. The measured gain is that of the tables themselves: each site in turn (Pima:
rows dealt out evenly) predicts rows of its own that were left out, with its own model and with the
others' releases or a pool, just under half of the members colluding. Points of share correct, or of
the variance explained; (ε, 1e-5).

A cell holds if the measured gain lies in the stated range, which holds eight of ten simulated
consortia, or within two standard errors of it. One table is one consortium, so two of ten cells
may lie outside. Thirty parties of each table are judged: their errors are one to two points where
sites are small, so that this would show a planner that is far off, and no finer fault.

Ranges of the scenarios are round numbers, and none was fitted to the tables. A trial on them came
before two changes: columns with a `scale` of their own spread about as far as it says, and rare
categories say no more than common ones.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from benchmarks.consortia import DELTA, Consortium, moments
from benchmarks.consortia.pooled import pooled_sum
from benchmarks.consortia.real import HEART, PIMA, Typical, studies
from benchmarks.consortia.sites import TABLES, _tables, site_studies
from benchmarks.consortia.sites import _number as number
from benchmarks.consortia.sites import _path as site_path
from benchmarks.table import Row
from sudare.blending import HedgedBlend
from sudare.releases import Release
from sudare.site import expect
from sudare.study import Study, Target, Terms

EPSILONS = (1.0,)
SEEDS, RUNS = 30, 20
FIRST_SEED = 7300


class Case(NamedTuple):
    """A table, what the planner knows of it, and how it is dealt out."""

    name: str
    study: Study
    sizes: tuple[int, ...]
    deal: Any


def run(quick: bool) -> list[Row]:
    """Every table at every ε."""
    seeds, runs = (4, 4) if quick else (SEEDS, RUNS)
    return [
        row for case in cases() for epsilon in EPSILONS for row in cell(case, epsilon, seeds, runs)
    ]


def cases() -> list[Case]:
    """All tables that are here."""
    found = []
    for each in site_studies():
        path = site_path(each.name)
        assert path is not None
        table = TABLES[each.name]
        sizes = tuple(len(y) for _, y in _tables(each.name, path))
        agreed = _study(each.name, columns=table.columns, target=table.target)
        found.append(Case(each.name, agreed, sizes, each.deal))
    known: dict[str, Typical] = {"Pima over 5": PIMA, "Pima over 10": PIMA}
    known["heart over four hospitals"] = HEART
    for each in studies():
        if each.name in known:
            columns = {name: number(*typical) for name, typical in known[each.name].items()}
            agreed = _study(each.name, columns=columns, target=Target(column="ill", classes=(0, 1)))
            one = each.deal(0)
            sizes = (len(one.own_y), *(len(y) for _, y in one.others))
            found.append(Case(each.name, agreed, sizes, each.deal))
    return found


def cell(case: Case, epsilon: float, seeds: int, runs: int) -> list[Row]:
    """What was said, and what was measured, of separate releases and of a pool."""
    privacy = msgspec.structs.replace(case.study.privacy, epsilon=epsilon)
    said = expect(msgspec.structs.replace(case.study, privacy=privacy), case.sizes, runs=runs)
    measured = [judge(case.deal(FIRST_SEED + seed), epsilon, seed) for seed in range(seeds)]
    made = []
    for way in ("separate", "pooled"):
        gain, error = _gain(measured, way)
        told = said.gains[way]
        # As printed: to a tenth of a point.
        low, high = round(told.low, 1) + 0.0, round(told.high, 1) + 0.0
        half = round(told.half, 1) + 0.0
        inside = low - 2 * error <= gain <= high + 2 * error
        made.append(
            Row(
                name=f"{case.name}, {way}, ε={epsilon:g}",
                value=round(gain, 2),
                unit=f"points ± {error:.2f}",
                baseline=f"said: {low} to {high}, half below {half}",
                baseline_value=round(told.half, 2),
                aim="in the range",
                ok=inside,
            )
        )
    return made


class Judged(NamedTuple):
    """Losses of one party on its own rows left out: wrong, or squared errors."""

    own: float
    separate: float
    pooled: float
    spread: float
    """Mean square of the targets around their middle."""


def judge(consortium: Consortium, epsilon: float, seed: int) -> Judged:
    """One party of the table."""
    colluders = len(consortium.others) // 2
    sums = pooled_sum(consortium, epsilon, seed, colluders=colluders)
    pooled = sums.without((consortium.own_X, consortium.own_y)).release(epsilon)
    ways: list[list[Release]] = [[], [*moments(consortium, epsilon, seed)], [pooled]]
    y = consortium.test_y
    losses = []
    for releases in ways:
        made = HedgedBlend(releases, contract=consortium.contract)
        made.fit(consortium.own_X, consortium.own_y)
        predicted = made.predict(consortium.test_X)
        wrong = predicted != y if consortium.contract.classes else (predicted - y) ** 2
        losses.append(float(np.mean(wrong)))
    spread = 1.0 if consortium.contract.classes else float(np.mean((y - np.mean(y)) ** 2))
    own, separate, together = losses
    return Judged(own, separate, together, spread)


def _gain(measured: list[Judged], way: str) -> tuple[float, float]:
    """In points, with its standard error."""
    gains = np.array([each.own - getattr(each, way) for each in measured])
    unit = 100 / float(np.mean([each.spread for each in measured]))
    return unit * float(gains.mean()), unit * float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _study(name: str, **parts: Any) -> Study:
    return Study(name=name, privacy=Terms(epsilon=1.0, delta=DELTA), **parts)
