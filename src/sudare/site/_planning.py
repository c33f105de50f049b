"""What to expect of learning together, before anyone commits: a simulation and two known costs.

Rows lie on the unit sphere, log-odds are linear with ‖θ‖ = 5, and all parties draw from one law.
Real data differ in every one of these points: the plan says whether the idea can work at this size
and price, not what it will give.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.blending import HedgedBlend, oracle_price
from sudare.charts import Series, curves, standalone
from sudare.foundations import checks
from sudare.foundations.randomness import Generator, seeded
from sudare.learners import MomentsClassifier
from sudare.releases import MomentsRelease

Array = NDArray[np.float64]
_STEEPNESS = 5.0
_TEST_ROWS = 4000
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Expected:
    """Shares of right predictions at one ε, averaged over the runs."""

    epsilon: float
    own: float
    blend: float
    pooled: float
    blend_error: float
    """Standard error of `blend − own`."""


@dataclass(frozen=True)
class LearningPlan:
    """The whole plan; the ε asked for is among the points."""

    rows: int
    features: int
    parties: int
    epsilon: float
    delta: float
    runs: int
    points: tuple[Expected, ...]
    noise_share: float
    """Noise on a pooled mean of y·x against a typical entry of it at the ε asked for."""
    aggregation_cost: float
    """What choosing among the parties' models costs in log loss a row: log M/(n + 1)."""

    @property
    def chosen(self) -> Expected:
        return next(point for point in self.points if point.epsilon == self.epsilon)

    @property
    def verdict(self) -> str:
        """One sentence."""
        point = self.chosen
        gain, gap = point.blend - point.own, point.pooled - point.own
        if gain <= 2 * point.blend_error:
            return "At this size and price, expect no visible gain over your own model."
        return (
            f"If all parties were alike: about {100 * gain:.1f} points more than your own model, "
            f"of the {100 * gap:.1f} that all rows in one place would give. Real parties are not, "
            "and gain less: with --study you get a range."
        )

    def to_svg(self) -> str:
        """Own, blend and pooled against ε, on a logarithmic axis."""
        x = [float(np.log2(point.epsilon)) for point in self.points]
        chart = curves(
            [
                Series("own", x, [point.own for point in self.points], "own"),
                Series("blend", x, [point.blend for point in self.points], "blend"),
                Series("pooled", x, [point.pooled for point in self.points], "party"),
            ],
            "expected share correct against ε",
            "ε",
            "share correct",
            names=[f"{point.epsilon:g}" for point in self.points],
        )
        return standalone(chart)


def plan_learning(
    *,
    rows: int,
    features: int,
    epsilon: float,
    parties: int,
    delta: float = 1e-6,
    runs: int = 5,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> LearningPlan:
    """Simulate `parties` organisations with so many rows and features each."""
    checks.count(rows=rows, features=features, runs=runs)
    checks.count(minimum=2, parties=parties)
    checks.positive(epsilon=epsilon)
    checks.proportion(delta=delta)
    if rows < 10:
        raise checks.InvalidInput(f"Expected rows={rows} >= 10: fewer cannot judge a blend")
    if rows * parties * features > 2e8:
        raise checks.InvalidInput("Expected a smaller plan: rows·parties·features above 2e8")
    rng, epsilons = seeded(seed), [epsilon * factor for factor in _FACTORS]
    found = np.empty((runs, len(epsilons), 3))
    noise_std = 0.0
    for run in range(runs):
        theta = rng.normal(size=features)
        theta *= _STEEPNESS / np.linalg.norm(theta)
        held = [_draw(rows, theta, rng) for _ in range(parties)]
        test = _draw(_TEST_ROWS, theta, rng)
        pooled: float | None = None
        for k, price in enumerate(epsilons):
            releases = [
                _release(*party, price, delta, f"party {number}", rng)
                for number, party in enumerate(held[1:])
            ]
            contract = releases[0].contract
            own = HedgedBlend([], contract=contract).fit(*held[0])
            blend = HedgedBlend(releases).fit(*held[0])
            if pooled is None:
                every = [np.concatenate(part) for part in zip(*held, strict=True)]
                pooled = _right(HedgedBlend([], contract=contract).fit(*every), test)
            found[run, k] = _right(own, test), _right(blend, test), pooled
            if price == epsilon:
                noise_std = releases[0].noise_std
            progress(run * len(epsilons) + k + 1, runs * len(epsilons))
    return LearningPlan(
        rows,
        features,
        parties,
        epsilon,
        delta,
        runs,
        tuple(_expected(price, found[:, k]) for k, price in enumerate(epsilons)),
        noise_std * np.sqrt(parties - 1) / ((parties - 1) * rows * 0.35 / np.sqrt(features)),
        oracle_price("logistic", 1.0, learners=parties - 1, rows=rows),
    )


def _expected(epsilon: float, found: Array) -> Expected:
    own, blend, pooled = found.mean(axis=0).tolist()
    differences = found[:, 1] - found[:, 0]
    error = float(differences.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else np.inf
    return Expected(epsilon, own, blend, pooled, error)


def _draw(rows: int, theta: Array, rng: Generator) -> tuple[Array, Array]:
    table = rng.normal(size=(rows, len(theta)))
    table /= np.linalg.norm(table, axis=1)[:, None]
    labels = np.where(rng.random(rows) < 1 / (1 + np.exp(-(table @ theta))), 1.0, -1.0)
    labels[:2] = 1.0, -1.0  # so that a small party never holds one class only
    return table, labels


def _release(
    table: Array, labels: Array, epsilon: float, delta: float, party: str, rng: Generator
) -> MomentsRelease:
    learner = MomentsClassifier(
        epsilon, delta=delta, row_norm=1.0, classes=(-1.0, 1.0), rng=int(rng.integers(2**31))
    )
    made = learner.fit(table, labels).release(party)
    assert isinstance(made, MomentsRelease)
    return made


def _right(model: HedgedBlend, test: tuple[Array, Array]) -> float:
    return float((model.predict(test[0]) == test[1]).mean())
