"""Ridge, theorem 3: the error of the aggregate against n, n0, M and ε, beside the bound's terms.

Data as in assumption 2: rows uniform in the unit ball, targets linear with normal noise (clipped to
a public bound, as privacy needs). The error is equation (11), ‖(β̂ − β)ᵀx‖² averaged over rows,
which for the unit ball is ‖β̂ − β‖²/(p + 2). The theorem's constants C1 and C2 exist and have no
value, so the terms drawn are those of sudare's bound, every one of which can be computed: ridge
regression itself (bias and generalisation), privacy, and aggregation.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from papers import drawing, regressions
from papers.figure import (
    Array,
    Conclusion,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    computed,
    measured,
)
from papers.formulas.risk import RiskBound, risk_bound, stability
from papers.regressions import HEDGED, MIRROR, OWN, Bounds, Party
from sudare.blending import privacy_cost
from sudare.calibration import ridge_gradient_bound, ridge_gradient_diameter
from sudare.foundations.randomness import Generator, seeded

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

P = 5
LENGTH, NOISE, RADIUS, TARGET_BOUND = 0.8, 0.2, 1.0, 1.5
REGULARIZATION = 0.01
TEMPERATURE = 2 * NOISE**2 + 8 * RADIUS**2
"""τ ≥ 2σ² + 8B², as theorem 3 asks."""
BOUNDS = Bounds(TARGET_BOUND, RADIUS, TEMPERATURE, REGULARIZATION, intercept=False)
RIDGE, PRIVACY, AGGREGATION, TOTAL = "ridge term", "privacy term", "aggregation term", "whole bound"


class Place(NamedTuple):
    """One setting: rows of each other organisation, own rows, other organisations and ε."""

    each: int = 500
    own: int = 100
    others: int = 20
    epsilon: float = 1.0


PANELS: dict[str, dict[float, Place]] = {
    "rows of all others, n − n0": {
        20.0 * each: Place(each=each) for each in (50, 100, 200, 500, 1000, 2000)
    },
    "own rows, n0": {float(n): Place(own=n) for n in (10, 20, 50, 100, 200, 500, 1000)},
    # The rows of all others together stay 10,000.
    "other organisations, M": {
        float(m): Place(each=10_000 // m, others=m) for m in (2, 5, 10, 20, 50, 100)
    },
    "privacy budget ε": {e: Place(epsilon=e) for e in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)},
}


class Task(NamedTuple):
    """One draw of everything in one panel; a seed below zero computes the bound."""

    panel: str
    seed: int
    most: int = 100
    """Settings with more organisations are left out."""


def tasks(setting: Setting) -> list[Task]:
    runs = setting.runs(full=60, quick=6, smoke=1)
    most = setting.runs(full=100, quick=100, smoke=20)
    drawn = [
        Task(panel, seed, most)
        for panel in PANELS
        for seed in setting.seeds(f"ridge-terms/{panel}", runs)
    ]
    return [*(Task(panel, -1) for panel in PANELS), *drawn]


def measure(task: Task) -> list[Sample]:
    found: list[Sample] = []
    if task.seed < 0:
        for x, place in PANELS[task.panel].items():
            bound = terms(place)
            for name, value in (
                (RIDGE, bound.bias + bound.generalisation),
                (PRIVACY, bound.privacy),
                (AGGREGATION, bound.aggregation),
                (TOTAL, bound.total),
            ):
                found.append(computed(task.panel, name, x, value))
        return found
    rng = seeded(task.seed)
    for x, place in PANELS[task.panel].items():
        if place.others > task.most:
            continue
        beta = rng.standard_normal(P)
        beta *= LENGTH / np.linalg.norm(beta)
        own = _party(place.own, beta, rng)
        others = [_party(place.each, beta, rng) for _ in range(place.others)]
        published = regressions.publish(others, place.epsilon, BOUNDS, rng)
        for name, model in regressions.models(own, others, published, BOUNDS).items():
            error = float(np.sum((model.coef_ - beta) ** 2)) / (P + 2)
            found.append(measured(task.panel, name, x, error))
    return found


def terms(place: Place) -> RiskBound:
    """The computable bound on the expected error of the aggregate, against β itself."""
    recipe = BOUNDS.ridge(place.epsilon).recipe(place.each, P)
    assert recipe.law != "gibbs"
    kappa = recipe.curvature
    zeta = ridge_gradient_bound(1.0, TARGET_BOUND, RADIUS)
    diameter = ridge_gradient_diameter(1.0, TARGET_BOUND, RADIUS, P)
    return risk_bound(
        loss="squared",
        regularization=recipe.regularization,
        comparison_norm=LENGTH,
        generalisation=stability(zeta, diameter, kappa),
        privacy=privacy_cost(
            law=recipe.law,
            scale=recipe.scale,
            curvature=kappa,
            extra_curvature=recipe.extra_regularization,
            radius=RADIUS,
            dimension=P,
            n=place.each,
        ),
        temperature=TEMPERATURE,
        learners=place.others,
        rows=place.own,
    )


def _party(n: int, beta: Array, rng: Generator) -> Party:
    rows = rng.standard_normal((n, P))
    rows *= rng.random((n, 1)) ** (1 / P) / np.linalg.norm(rows, axis=1, keepdims=True)
    return Party(rows, rows @ beta + NOISE * rng.standard_normal(n))


def slope(results: Results, panel: str, curve: str, low: float, high: float) -> float:
    """d log(value)/d log(x) between two places."""
    a, b = (results.at(panel, curve, x).value for x in (low, high))
    return float(np.log(b / a) / np.log(high / low))


def conclude(results: Results) -> Conclusion:
    rows, own, _, budget = PANELS
    ratios = [
        results.at(panel, TOTAL, x).value / results.at(panel, MIRROR, x).value
        for panel in PANELS
        for x in results.places(panel, MIRROR)
    ]
    in_epsilon = slope(results, budget, MIRROR, 0.2, 2.0)
    in_rows = slope(results, rows, MIRROR, 1_000.0, 20_000.0)
    in_own = slope(results, own, MIRROR, 10.0, 1_000.0)
    base = results.at(budget, MIRROR, 1.0), results.at(budget, OWN, 1.0)
    hedged = results.at(budget, HEDGED, 1.0)
    return Conclusion(
        f"The bound holds at all {len(ratios)} settings, {min(ratios):,.0f} to {max(ratios):,.0f} "
        f"times above the error; the error of mirror averaging goes like ε^{in_epsilon:.1f} from "
        f"ε = 0.2 to 2, like (n − n0)^{in_rows:.1f}, and hardly with n0 (power {in_own:.2f}); at "
        f"ε = 1 it is {base[0].value:.4f}, against {base[1].value:.4f} for own rows and "
        f"{hedged.value:.4f} for sudare's blend.",
        "C1 and C2 cannot be computed, so the terms are those of a bound that can; all of them "
        "are far above the error, and the term in n0 does not show at all: the theorem pays "
        "for finding the best learner, while averaging many equally good ones also averages their "
        "noise away.",
        (
            Finding(
                "expected error below the bound",
                "everywhere",
                f"{min(ratios):,.0f} times below or more",
                min(ratios) > 1,
            ),
            Finding(
                "the price of privacy falls at least like 1/ε",
                "power −1 or less",
                f"{in_epsilon:.2f}",
                in_epsilon <= -1,
            ),
            Finding(
                "it falls at least like M/(n − n0) for fixed M",
                "power −1 or less",
                f"{in_rows:.2f}",
                in_rows <= -1,
            ),
        ),
    )


_TERMS = {
    TOTAL: drawing.Line(drawing.MUTED, "", "-", "the bound: all terms"),
    RIDGE: drawing.Line(drawing.GREEN, "", "-.", "… ridge regression"),
    PRIVACY: drawing.Line(drawing.PINK, "", "-.", "… privacy"),
    AGGREGATION: drawing.Line(drawing.ORANGE, "", "-.", "… aggregation"),
}


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 7.4)
    grid = canvas.subplots(2, 2, sharey=True)
    for axes, (panel, places) in zip(grid.flat, PANELS.items(), strict=True):
        drawing.curves(axes, results, panel, {**_TERMS, **regressions.STYLE})
        drawing.on_log_axis(axes, list(places))
        if panel in list(PANELS)[:1]:
            drawing.on_log_axis(axes, (1_000, 4_000, 10_000, 40_000))
        axes.set_yscale("log")
        axes.set_xlabel(panel)
    for axes in grid[:, 0]:
        axes.set_ylabel("error (11), and its bound")
    drawing.legend(canvas, 2)


FIGURE = Figure(
    name="ridge-terms",
    title="Ridge regression together: errors beside the terms of theorem 3",
    paper="Minami, Arai, Sato and Nakagawa 2015, theorem 3",
    claim="The expected error of the aggregate is at most that of ridge regression itself plus a "
    "price of privacy of order M/(ε(n − n0)) plus a price of aggregation τ·log(M)/n0.",
    columns=("panel", "curve", "x", "error"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    positive=True,
    draw=draw,
)
