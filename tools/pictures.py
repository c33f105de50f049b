"""Draw the pictures of the README and the manual from seeded runs: `python -m tools.pictures`.

Words after it pick some of them: `python -m tools.pictures epsilon-learn count`. The picture of
real sites is drawn from numbers that are kept beside it. `python -m tools.pictures measure-sites`
computes them again: ten minutes, and it needs the tables of benchmarks/consortia/sites.py.
"""

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import pooling_accuracy as judging
from benchmarks.consortia import DELTA
from benchmarks.consortia.sites import TABLES
from sudare.charts import (
    AnyScale,
    LogScale,
    Scale,
    Series,
    curves,
    line,
    points,
    standalone,
    text,
)
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
SITES = IMAGES / "sites.json"
"""Numbers of the picture of real sites."""
SITE_METHODS = {
    "separate": judging.SEPARATE,
    "sum": judging.BLEND,
    "sum, half honest": judging.BLEND_HALF,
    "one place": judging.POOLED,
}
SITE_CURVES = {
    "sum, half honest": ("one sum of all, blended", "blend"),
    "separate": ("separate releases, blended", "party"),
    "one place": ("all rows in one place", "own"),
}


def real_sites() -> str:
    """Gain over own rows alone against ε at the schools of two real tables, from sites.json."""
    kept = json.loads(SITES.read_text(encoding="utf-8"))["tables"]
    shown = {
        name: f"{place}: {kept[name]['rows']:,} pupils, {kept[name]['sites']} schools"
        for name, place in (("Exam", "London"), ("Hsb82", "USA"))
    }
    ends = [
        end
        for name in shown
        for label in SITE_CURVES
        for mean, error in kept[name][label].values()
        for end in (mean - error, mean + error)
    ]
    low, high = math.floor(min(ends)), math.ceil(max(ends))
    left, width, top, bottom = 42, 314, 92, 300
    upward = Scale(low, high, bottom, top)
    title = "Variance explained (R²), in points above own rows alone, against ε"
    parts = [text(8, 18, title)]
    for index, (said, kind) in enumerate(SITE_CURVES.values()):
        x = 14 + 236 * index
        parts += [
            f'<g class="mark {kind}"><circle cx="{x}" cy="40" r="4"/></g>',
            text(x + 10, 44, said),
        ]
    for name, heading in shown.items():
        across = LogScale(judging.EPSILONS[0], judging.EPSILONS[-1], left + 14, left + width - 14)
        parts.append(text(left, top - 14, heading))
        for tick in range(low, high + 1):
            y, number = upward(tick), f"{tick:+d}".replace("-", "−") if tick else "0"
            parts.append(line(left, y, left + width, y, "grid" if tick else "zero"))
            parts.append(text(left - 6, y + 4, number, "end"))
        for epsilon in judging.EPSILONS:
            parts.append(text(across(epsilon), bottom + 20, f"{epsilon:g}", "middle"))
        parts.append(text(left + width / 2, bottom + 40, "ε", "middle"))
        parts.append(text(left + width - 2, upward(0) + 15, "own rows alone", "end"))
        for label, (said, kind) in reversed(SITE_CURVES.items()):
            parts += _curve_with_errors(
                kept[name][label], f"{heading}: {said}", kind, across, upward
            )
        left += width + 40
    return standalone(
        f'<svg viewBox="0 0 720 {bottom + 52}" role="img" aria-label="{title}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _curve_with_errors(
    gains: dict[str, list[float]], said: str, kind: str, across: AnyScale, upward: AnyScale
) -> list[str]:
    """A line through the means, and a band of one standard error either way."""
    epsilons = [float(epsilon) for epsilon in gains]
    means, errors = zip(*gains.values(), strict=True)

    def corners(side: int) -> list[str]:
        ends = (mean + side * error for mean, error in zip(means, errors, strict=True))
        return points(zip(epsilons, ends, strict=True), across, upward)

    spots = [spot.split(",") for spot in corners(0)]
    return [
        f'<g class="mark {kind}"><title>{said}</title>',
        f'<polygon class="band" points="{" ".join(corners(1) + corners(-1)[::-1])}"/>',
        f'<polyline points="{" ".join(corners(0))}"/>',
        *(f'<circle cx="{x}" cy="{y}" r="3.5"/>' for x, y in spots if len(set(means)) > 1),
        "</g>",
    ]


def measure_sites(first_seed: int = 20_000, runs: int = 20) -> None:
    """Keep in sites.json what others' private numbers gain over own rows, for six real tables.

    In each run twelve sites in turn learn from seven tenths of their own rows and from what the
    others publish, and are judged on the rest of their rows (benchmarks/pooling_accuracy.py).
    """
    tables: dict[str, Any] = {}
    for name, sites in TABLES.items():
        study, _ = judging.sets()[name]
        whole = study.deal(0)
        tables[name] = {
            "sites": 1 + len(whole.others),
            "rows": len(whole.test_y) + len(whole.pooled()[1]),
        }
        scores = [judging.judge(judging.Task(name, first_seed + run)) for run in range(runs)]
        measure: judging.Measure = "accuracy" if sites.target.classes else "R²"
        tables[name] |= {"measure": measure, "own": _own(scores, measure)}
        for label, method in SITE_METHODS.items():
            tables[name][label] = _gains(scores, measure, method)
    kept = {"first_seed": first_seed, "runs": runs, "delta": DELTA, "tables": tables}
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    SITES.write_text(text + "\n", encoding="utf-8")


def _own(scores: Sequence[judging.Scores], measure: judging.Measure) -> list[float]:
    return _mean_and_error([score[1.0, judging.OWN, measure] for score in scores])


def _gains(
    scores: Sequence[judging.Scores], measure: judging.Measure, method: str
) -> dict[str, list[float]]:
    """By ε, over own rows: run by run, so that what moves both alike drops out."""
    return {
        f"{epsilon:g}": _mean_and_error(
            [
                score[epsilon, method, measure] - score[epsilon, judging.OWN, measure]
                for score in scores
            ]
        )
        for epsilon in judging.EPSILONS
    }


def _mean_and_error(values: Sequence[float]) -> list[float]:
    """Mean over runs and its standard error, in hundredths."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return [round(100 * float(np.mean(values)), 3), round(100 * float(error), 3)]


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
    "sites": real_sites,
    "count": counting,
    "epsilon-belief": beliefs,
    "epsilon-learn": epsilon_for_learning,
    "epsilon-count": epsilon_for_counting,
    "epsilon-curve": two_prices,
}

if __name__ == "__main__":
    if sys.argv[1:] == ["measure-sites"]:
        measure_sites()
        sys.argv[1:] = ["sites"]
    for name in sys.argv[1:] or PICTURES:
        (IMAGES / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")
