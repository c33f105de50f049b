"""Glance, figure 3: simulated errors of Glance and Harmony, dense stream and general stream.

10,000 users, 50 rounds, ε from 1 to 8, shares .9995 and .5, each point the mean of 10,000 runs of
the largest error over all rounds.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from papers import drawing
from papers.figure import (
    Conclusion,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    measured,
)
from papers.formulas.counting import paper_dense_condition
from sudare.calibration import dense_condition
from sudare.counting import Method, Survey, simulate
from sudare.counting.signals import constant
from sudare.foundations.randomness import seeded

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

USERS, ROUNDS, BETA = 10_000, 50, 0.1
DENSE, GENERAL = 0.9995, 0.5
EPSILONS = tuple(1 + 0.5 * k for k in range(15))
CURVES: dict[str, tuple[Method, float]] = {
    "Glance-DS": ("glance", DENSE),
    "Glance-General": ("glance", GENERAL),
    "Harmony-DS": ("harmony", DENSE),
    "Harmony-General": ("harmony", GENERAL),
}
PANEL = "figure 3"
PAPER_CONDITION_FAILS_FROM = 2.5
"""The paper: at a share of one half condition (2) fails from this ε on."""
EXPONENTIAL, WITHIN = math.exp(0.5), 0.1
"""Table 1's rate, a factor of e^(1/2) for each unit of ε, and how near to it is near enough."""
FLAT = 1.1
"""What counts as levelling off: less than a tenth from ε = 6 to ε = 8."""


class Task(NamedTuple):
    """Runs of one curve at one ε."""

    curve: str
    epsilon: float
    runs: int
    seed: int


def tasks(setting: Setting) -> list[Task]:
    runs = setting.runs(full=10_000, quick=2_000, smoke=50)
    places = [(curve, epsilon) for curve in CURVES for epsilon in EPSILONS]
    seeds = setting.seeds("glance-3", len(places))
    return [Task(*place, runs, seed) for place, seed in zip(places, seeds, strict=True)]


def measure(task: Task) -> list[Sample]:
    method, share = CURVES[task.curve]
    survey = Survey(name="figure", rounds=ROUNDS, epsilon=task.epsilon, method=method)
    told = simulate(survey, constant(ROUNDS, share), USERS, runs=task.runs, rng=seeded(task.seed))
    return [measured(PANEL, task.curve, task.epsilon, told.errors)]


def conclude(results: Results) -> Conclusion:
    def error(curve: str, epsilon: float) -> float:
        return results.at(PANEL, curve, epsilon).value

    first = next(
        e
        for e in np.round(np.arange(1.0, 8.0, 0.1), 1).tolist()
        if not paper_dense_condition(GENERAL, e, USERS, ROUNDS, BETA)
    )
    holds = all(
        condition(DENSE, e, USERS, ROUNDS, BETA)
        for e in EPSILONS
        for condition in (paper_dense_condition, dense_condition)
    )
    factor, early, late = (
        (error("Glance-DS", a) / error("Glance-DS", b)) ** (1 / (b - a))
        for a, b in ((1.0, 8.0), (1.0, 5.0), (5.0, 8.0))
    )
    flattening = {
        name: error(name, 6.0) / error(name, 8.0) for name in CURVES if name != "Glance-DS"
    }
    faster = min(error("Harmony-DS", e) / error("Glance-DS", e) for e in EPSILONS)
    glance, harmony = error("Glance-DS", 8.0), error("Harmony-DS", 8.0)
    return Conclusion(
        f"From ε = 1 to 8 the dense Glance curve falls from {error('Glance-DS', 1.0):.3f} to "
        f"{glance:.4f} while Harmony's ends at {harmony:.3f} and the general ones at "
        f"{error('Glance-General', 8.0):.3f} (Glance) and {error('Harmony-General', 8.0):.3f}.",
        "The shapes are the paper's (its caption's share of .995 must be the text's .9995); but "
        f"the fall slows down from a factor of {early:.2f} for each unit of ε, up to 5, to "
        f"{late:.2f} beyond, as hearing only 200 users a round begins to matter more than their "
        "flips.",
        (
            Finding(
                "condition (2) holds at a share of .9995 for ε from 1 to 8",
                "everywhere",
                "everywhere" if holds else "not everywhere",
                holds,
            ),
            Finding(
                "condition (2) fails at a share of one half",
                f"from ε = {PAPER_CONDITION_FAILS_FROM:g} on",
                f"from ε = {first:g} on",
                first <= PAPER_CONDITION_FAILS_FROM,
            ),
            Finding(
                "Glance-DS falls exponentially in ε (from 1 to 8)",
                f"by a factor of about {EXPONENTIAL:.2f} for each unit of ε",
                f"{factor:.2f}",
                abs(factor / EXPONENTIAL - 1) <= WITHIN,
            ),
            Finding(
                "the three other curves level off (from 6 to 8)",
                f"by less than a factor of {FLAT:g}",
                ", ".join(f"{value:.3f}" for value in flattening.values()),
                max(flattening.values()) < FLAT,
            ),
            Finding(
                "Glance-DS is below Harmony-DS",
                "at every ε",
                f"Harmony is {faster:.2f} times as large or more",
                faster > 1,
            ),
        ),
    )


_STYLE = {
    "Harmony-DS": drawing.Line(drawing.VERMILION, "s", label="Harmony, share .9995"),
    "Harmony-General": drawing.Line(drawing.ORANGE, "D", "--", "Harmony, share .5"),
    "Glance-General": drawing.Line(drawing.SKY, "^", "--", "Glance, share .5"),
    "Glance-DS": drawing.Line(drawing.BLUE, "o", label="Glance, share .9995"),
}


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 4.6)
    axes = canvas.subplots()
    drawing.curves(axes, results, PANEL, _STYLE)
    axes.set_ylim(0, None)
    axes.set_xlim(0.8, 10.4)
    axes.set_xticks(range(1, 9))
    for name, line in _STYLE.items():
        found = results.series(PANEL, name)
        axes.annotate(
            line.label or name,
            (found.x[-1], found.value[-1]),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            color=line.color,
            fontsize=10.5,
        )
    axes.set_xlabel("privacy budget ε")
    axes.set_ylabel("mean of the largest error over 50 rounds")
    axes.set_title("10,000 users")


FIGURE = Figure(
    name="glance-3",
    title="Errors of Glance and Harmony, simulated",
    paper="Ono, Fukuchi, Akimoto and Sakuma, figure 3",
    claim="Where condition (2) holds, Glance's error falls exponentially in ε, faster than "
    "Harmony's and than its own where the condition fails; the others approach a positive "
    "constant.",
    columns=("panel", "curve", "epsilon", "error"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
