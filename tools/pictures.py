"""Draw the pictures of the README and the manual from seeded runs: `python -m tools.pictures`.

Words after it pick some of them: `python -m tools.pictures epsilon-learn count`.
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sudare.charts import Series, curves, standalone
from sudare.counting import (
    Survey,
    empty_tally,
    error_chart,
    estimate,
    open_office,
    plan,
    signals,
    simulate,
    smooth,
)
from sudare.foundations.mechanisms import draw_masks
from sudare.foundations.randomness import seeded
from sudare.site import LearningPlan, plan_learning

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def learning() -> str:
    """Own model, blend and pooled ceiling against ε: a hundred organisations of fifty rows."""
    return plan_learning(rows=50, features=10, epsilon=1.0, parties=100, runs=10).to_svg()


def counting() -> str:
    """A day and a half of households at home: truth, estimate with its band, smoothed."""
    rounds, users, rng = 36, 20_000, seeded(4)
    hours = np.arange(rounds)
    shares = 0.55 + 0.35 * np.cos((hours - 2) / 24 * 2 * np.pi)
    survey = Survey(name="at-home", rounds=rounds, epsilon=2.0, method="masks", slots=2)
    office, serials = open_office(survey, bytes(32)), np.arange(users)
    bits, masks = rng.random((users, rounds)) < shares, draw_masks(survey.law, users, rng)
    tally = empty_tally(survey)
    for slot in range(survey.slots):
        cells = office.cells(serials, np.full(users, slot))
        tally = tally.add(cells, bits[serials, cells] ^ masks[:, slot].astype(bool))
    found = estimate(tally, survey)
    x = hours.astype(float).tolist()
    chart = curves(
        [
            Series(
                "estimate",
                x,
                found.share.tolist(),
                "party",
                found.low.tolist(),
                found.high.tolist(),
            ),
            Series("smoothed", x, smooth(found).tolist(), "blend"),
            Series("truth", x, bits.mean(axis=0).tolist(), "own"),
        ],
        "share of households at home, by the hour",
        "hour",
        "share at home",
    )
    return standalone(chart)


def beliefs() -> str:
    """How far a belief in a statement about one person can rise, at most, against ε."""
    epsilons = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]

    def risen(belief: float) -> list[float]:
        return [1 / (1 + (1 - belief) / belief * math.exp(-e)) for e in epsilons]

    x = [math.log2(e) for e in epsilons]
    series = [
        Series("from 1 in 2", x, risen(0.5), "own"),
        Series("from 1 in 10", x, risen(0.1), "blend"),
        Series("from 1 in 100", x, risen(0.01), "party"),
    ]
    title = "the most a belief about one person can rise, against ε"
    names = [f"{e:g}" for e in epsilons]
    return standalone(curves(series, title, "ε", "belief afterwards, at most", names=names))


def epsilon_for_learning() -> str:
    """Blends of few and of many organisations against ε, between own model and pooled ceiling."""
    few, many = (
        plan_learning(rows=50, features=10, epsilon=1.0, parties=parties, runs=10)
        for parties in (10, 100)
    )
    x = [math.log2(point.epsilon) for point in many.points]

    def curve(told: LearningPlan, which: str) -> list[float]:
        return [float(getattr(point, which)) for point in told.points]

    series = [
        Series("own model", x, curve(many, "own"), "own"),
        Series("blend of 10", x, curve(few, "blend"), "plain"),
        Series("blend of 100", x, curve(many, "blend"), "blend"),
        Series("100 pooled", x, curve(many, "pooled"), "party"),
    ]
    names = [f"{point.epsilon:g}" for point in many.points]
    title = "share of right predictions against ε, ten and a hundred organisations of fifty rows"
    return standalone(curves(series, title, "ε", "share", names=names))


def epsilon_for_counting() -> str:
    """What `sudare plan count --users 10000 --rounds 50 --plot` draws."""
    epsilons = (0.5 * 16 ** (i / 12) for i in range(13))
    return error_chart([plan(10_000, 50, epsilon) for epsilon in epsilons])


def two_prices() -> str:
    """One run of the same survey of one signal at two prices."""
    truth = signals.sine(48, low=0.3, high=0.7)
    x = [float(t) for t in range(48)]
    series = []
    for epsilon, kind in ((1.0, "party"), (4.0, "blend")):
        best = plan(20_000, 48, epsilon).best.survey
        run = simulate(best, truth, 20_000, rng=3, blocks=True)
        series.append(Series(f"ε = {epsilon:g}", x, run.raw[0].tolist(), kind))
    series.append(Series("truth", x, truth.tolist(), "own"))
    title = "estimated share over 48 rounds at two prices, 20,000 users"
    return standalone(curves(series, title, "round", "share"))


PICTURES: dict[str, Callable[[], str]] = {
    "learn": learning,
    "count": counting,
    "epsilon-belief": beliefs,
    "epsilon-learn": epsilon_for_learning,
    "epsilon-count": epsilon_for_counting,
    "epsilon-curve": two_prices,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        (IMAGES / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")
