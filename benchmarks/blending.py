"""Time and memory of blending on one core (processor seconds).

Mirror averaging beside the least it could do: computing every learner's score and loss on every
row, in the same blocks. Thirty columns and an intercept; a thousand learners over a million rows
are fitted as a user would, from releases; a hundred thousand learners over a thousand rows start
from their coefficients. HedgedBlend is timed on moments releases, receiving them included.
Aims: at most twice the time of scores and losses, and at most 300 MB beyond the table.
HedgedBlend: 2 s for 100 releases, 50 own rows and 20 columns; 60 s for 1,000 releases, 10,000 own
rows and 30 columns.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks.table import Row, against
from sudare import blending
from sudare.blending import OwnRows
from sudare.blending._losses import LossName, loss_blocks, theory_temperature
from sudare.blending.mirror import init, mirror_weights
from sudare.blending.mirror import run as run_blocks
from sudare.foundations.privacy import PureEvent
from sudare.foundations.randomness import seeded
from sudare.learners import MomentsClassifier
from sudare.releases import Contract, LearnerRelease

FEATURES = 30
LOSSES: tuple[LossName, ...] = ("logistic", "squared")


class Case(NamedTuple):
    """Own rows and targets, and learners scattered about the truth."""

    contract: Contract
    table: NDArray[np.float64]
    targets: NDArray[np.float64]
    coefficients: NDArray[np.float64]


def run(quick: bool) -> list[Row]:
    """Every case, ours and the yardstick taking turns."""
    with threadpool_limits(1):
        rows: list[Row] = []
        for loss in LOSSES:
            rows += _from_releases(loss, 1_000, 100_000 if quick else 1_000_000, 2)
            rows += _from_coefficients(loss, 10_000 if quick else 100_000, 1_000, 7)
        rows.append(_hedged(parties=100, n=50, features=20, seconds=2, repeat=3))
        if not quick:
            rows.append(_hedged(parties=1_000, n=10_000, features=30, seconds=60, repeat=1))
        return rows


def _from_releases(loss: LossName, learners: int, n: int, repeat: int) -> Iterator[Row]:
    case = _case(loss, learners, n)
    model = blending.MirrorAveraging(_releases(case))
    name = f"mirror averaging, {loss} loss, {learners:,} learners × {n:,} rows"
    ours, least = _turns(
        lambda: model.fit(case.table, case.targets), lambda: _least(case, loss), repeat=repeat
    )
    yield against(name, ours, "s", "scores and losses", least, "<= 2")
    tracemalloc.start()
    model.fit(case.table, case.targets)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    yield Row(name=f"{name}: extra memory", value=peak, unit="MB", aim="<= 300 MB", ok=peak <= 300)


def _from_coefficients(loss: LossName, learners: int, n: int, repeat: int) -> Iterator[Row]:
    case = _case(loss, learners, n)
    bound = case.contract.target_bound or 1.0
    temperature = theory_temperature(loss, bound=bound, learners=learners, rows=n)

    def weigh() -> None:
        mirror_weights(run_blocks(init(learners), _blocks(case, loss, 1 / temperature)))

    name = f"mirror averaging, {loss} loss, {learners:,} learners × {n:,} rows"
    ours, least = _turns(weigh, lambda: _least(case, loss), repeat=repeat)
    yield against(name, ours, "s", "scores and losses", least, "<= 2")


def _hedged(*, parties: int, n: int, features: int, seconds: float, repeat: int) -> Row:
    rng = seeded(n)
    truth = rng.standard_normal(features)
    truth *= 5 / np.linalg.norm(truth)

    def rows(size: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        table = rng.standard_normal((size, features))
        table /= np.linalg.norm(table, axis=1, keepdims=True)
        return table, rng.random(size) < 1 / (1 + np.exp(-table @ truth))

    release = MomentsClassifier(1.0, delta=1e-5, row_norm=1.0, classes=(False, True), rng=rng)
    releases = [release.fit(*rows(50)).release(f"party {m}") for m in range(parties)]
    own = rows(n)
    model = blending.HedgedBlend(releases)
    (best,) = _turns(lambda: model.fit(*own), repeat=repeat)
    return Row(
        name=f"HedgedBlend, {parties:,} releases, {n:,} own rows, {features} columns",
        value=best,
        unit="s",
        aim=f"<= {seconds:g} s",
        ok=best <= seconds,
    )


def _turns(*calls: Callable[[], object], repeat: int) -> list[float]:
    """Best processor seconds of each, taking turns; all run on one thread, on a shared machine."""
    best = [inf] * len(calls)
    for _ in range(repeat):
        for i, call in enumerate(calls):
            start = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - start)
    return best


def _least(case: Case, loss: LossName) -> None:
    for _ in _blocks(case, loss):
        pass


def _blocks(case: Case, loss: LossName, scale: float = 1.0) -> Iterator[NDArray[np.float64]]:
    bound = case.contract.target_bound or 1.0
    rows = OwnRows(case.contract, case.table)
    return loss_blocks(rows, case.targets, case.coefficients, loss, bound, scale)


def _case(loss: LossName, learners: int, n: int) -> Case:
    rng = seeded(n)
    bounds: dict[str, Any] = (
        {"classes": (-1.0, 1.0)} if loss == "logistic" else {"target_bound": 1.0}
    )
    contract = Contract(features=FEATURES, row_norm=1.0, constant=0.25, **bounds)
    table = rng.standard_normal((n, FEATURES))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    truth = rng.standard_normal(contract.dimension)
    truth *= (8.0 if loss == "logistic" else 1.0) / np.linalg.norm(truth)
    noise = rng.standard_normal((learners, contract.dimension))
    coefficients = truth + 0.3 * np.linalg.norm(truth) * noise
    scores = table @ truth[:-1] + 0.25 * truth[-1]
    if loss == "logistic":
        targets = np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    else:
        targets = np.clip(scores + 0.1 * rng.standard_normal(n), -1.0, 1.0)
    return Case(contract, table, targets, coefficients)


def _releases(case: Case) -> list[LearnerRelease]:
    return [
        LearnerRelease(
            party=f"party {m}",
            contract=case.contract,
            n=1_000,
            event=PureEvent(1.0),
            noise_std=1.0,
            coefficients=tuple(theta.tolist()),
            radius=100.0,
            slack=0.0,
        )
        for m, theta in enumerate(case.coefficients)
    ]
