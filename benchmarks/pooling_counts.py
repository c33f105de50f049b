"""How near a pool of counts comes to the Poisson regression of all rows in one place.

Organisations pool 5,000 rows (kind "poisson": moments, then two sessions of scores and Hessians) at
(ε, 1e-6) if at least M − c are honest. A row is counted by how much of the deviance that a
non-private regression explains beyond the mean count remains explained by the coefficients of the
last session: 1 is as good as all rows in one place, 0 no better than the mean, below 0 worse. The
median and the 10th percentile of the simulated pools.

Counts have the mean .7 and log rates that differ by one between rows that are far apart; they are
cut at 6, or 12. Columns are uniform, or half of them binary with a rare side and half skewed.

The noise is drawn once for all, without shares and masks: M enters by √(M/(M − c)) alone. c is 0,
and just under half, as `sudare pool new` proposes. Seeds from 5200 on; the split of the budget, the
weight, the cut and the priors were chosen on other draws of these laws.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.consortia import Array
from benchmarks.table import Row
from sudare.foundations.randomness import Generator, seeded
from sudare.learners import solve
from sudare.pooling import (
    CountScale,
    Member,
    PoolPlan,
    PoolTerms,
    Session,
    newton_step,
    session_steps,
)
from sudare.pooling._poisson import count_scale, poisson_from_moments, prior_stds
from sudare.pooling._sums import agreed_theta, read_moments, read_newton
from sudare.pooling._walk import bounded_step
from sudare.releases import INTERCEPT_SHARE, Contract

Steps = NDArray[np.int64]
ROWS = 5_000
MEAN = 0.7
EPSILONS = (1.0, 2.0, 5.0)
FIRST_SEED = 5200
SEEDS = 60


class Case(NamedTuple):
    """One column of the table."""

    features: int
    columns: str
    most: int
    members: int
    colluders: int


CASES = [
    Case(d, columns, most, members, colluders)
    for d in (5, 10)
    for columns in ("uniform", "skewed")
    for most, members, colluders in ((6, 10, 0), (6, 10, 4), (6, 100, 49), (12, 10, 0))
]


def run(quick: bool) -> list[Row]:
    """Every case at every ε."""
    seeds, cases = (2, CASES[:2]) if quick else (SEEDS, CASES)
    made = []
    for case in cases:
        found = np.array([judge(case, FIRST_SEED + seed) for seed in range(seeds)])
        for k, epsilon in enumerate(EPSILONS):
            name = (
                f"{case.features} {case.columns} columns, counts up to {case.most}, "
                f"M={case.members}, c={case.colluders}, ε={epsilon:g}"
            )
            median, low = np.quantile(found[:, k], [0.5, 0.1]).tolist()
            made.append(
                Row(
                    name=name,
                    value=median,
                    unit="of the deviance explained",
                    baseline="10th percentile",
                    baseline_value=low,
                )
            )
    return made


def judge(case: Case, seed: int) -> list[float]:
    """What remains explained, at each ε."""
    rng = seeded(seed)
    table, events = _draw(case, rng)
    return [_explained(case, table, events, _pooled(case, table, events, e, rng)) for e in EPSILONS]


def _draw(case: Case, rng: Generator) -> tuple[Array, Array]:
    d = case.features
    x = rng.uniform(-1, 1, (ROWS, d))
    if case.columns == "skewed":
        x = np.clip(rng.exponential(0.4, (ROWS, d)) - 0.8, -1, 1)
        x[:, ::2] = np.where(rng.random((ROWS, (d + 1) // 2)) < 0.2, 1.0, -1.0)
    rates = rng.standard_normal(d)
    score = x @ (rates / np.linalg.norm(rates))
    events = rng.poisson(MEAN * np.exp(score - score.mean()))
    return x / math.sqrt(d), np.minimum(events, case.most).astype(np.float64)


def _terms(case: Case, epsilon: float) -> PoolTerms:
    return PoolTerms.of(
        PoolPlan(
            study="ab" * 32,
            contract=Contract(
                features=case.features, row_norm=1.0, constant=INTERCEPT_SHARE, target_bound=1.0
            ),
            epsilon=epsilon,
            delta=1e-6,
            colluders=case.colluders,
            members=tuple(Member(name=f"m{i}", key=f"{i:043d}") for i in range(case.members)),
            kind="poisson",
            most_count=case.most,
        )
    )


def _pooled(case: Case, table: Array, events: Array, epsilon: float, rng: Generator) -> Array:
    """The coefficients that the last session points to, for rows at most 1 long."""
    terms, scale = _terms(case, epsilon), None
    contract, targets = terms.plan.contract, 2 * events / case.most - 1

    def noisy(session: Session, theta: Array | None) -> Steps:
        steps = session_steps(session, contract, table, targets, theta, scale)
        std = session.shares(theta).scale * math.sqrt(case.members)
        noise: Steps = np.rint(std * rng.standard_normal(len(steps))).astype(np.int64)
        return steps + noise

    sums = read_moments(terms.sessions[0], noisy(terms.sessions[0], None))
    share = contract.constant / contract.full_norm
    theta = poisson_from_moments(sums, ROWS, terms.noise_std, share, case.most)
    for session in terms.sessions[1:]:
        scale = count_scale(sums, ROWS, share, case.most)
        if session is terms.sessions[-1]:
            scale = CountScale(case.most, float(case.most))
        start = agreed_theta(theta, session.longest_theta)
        found = read_newton(session, noisy(session, start), start)
        std = session.shares(start).noise_std(case.members)
        noise = case.most * std, scale.heaviest * std / session.weight
        here = start, case.most * found.score, scale.heaviest * found.hessian
        if session is terms.sessions[-1]:
            theta = newton_step(*here, *noise, prior_stds(contract)).theta
        else:
            theta = bounded_step(*here, noise, share, prior_stds(contract, on_the_way=True))
    return agreed_theta(theta, terms.sessions[1].longest_theta)


def _explained(case: Case, table: Array, events: Array, theta: Array) -> float:
    contract = _terms(case, 1.0).plan.contract
    rows = contract.rows(table) / contract.full_norm
    best = np.zeros(contract.dimension)
    best[-1] = math.log(events.mean()) / rows[0, -1]
    mean = best.copy()
    for _ in range(30):
        means = np.exp(rows @ best)
        best = best + solve((rows * means[:, None]).T @ rows, rows.T @ (events - means))

    def deviance(at: Array) -> float:
        scores = np.clip(rows @ at, -30, 30)
        return float(np.mean(np.exp(scores) - events * scores))

    return (deviance(mean) - deviance(theta)) / (deviance(mean) - deviance(best))
