"""Beyond figure 3: masks over several rounds, and smoothing, on the axes of the paper.

What sudare adds to Glance at the same privacy: a user may answer in several rounds under one mask,
their number chosen by the planner from public numbers, and the collector may smooth, which costs
nothing. Signals are constant, as in the paper.
"""

from typing import TYPE_CHECKING, NamedTuple

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
from papers.glance_3 import DENSE, GENERAL, ROUNDS, USERS
from sudare.counting import Survey, plan, simulate
from sudare.counting.signals import constant
from sudare.foundations.randomness import seeded

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

EPSILONS = tuple(float(e) for e in range(1, 9))
PANELS = {"share .5": GENERAL, "share .9995": DENSE}
GLANCE, HARMONY, MASKS = "Glance", "Harmony", "masks"
SMOOTHED, MASKS_SMOOTHED = "Glance, smoothed", "masks, smoothed"
ALLOWED = 1.02
"""How much above Glance the planner's choice may come out by chance or by its 1 % indifference."""


class Task(NamedTuple):
    """Runs of all methods at one share and one ε."""

    panel: str
    epsilon: float
    runs: int
    seed: int


def tasks(setting: Setting) -> list[Task]:
    parts, runs = (
        setting.runs(full=10, quick=1, smoke=1),
        setting.runs(full=1_000, quick=1_000, smoke=20),
    )
    places = [(p, e) for p in PANELS for e in reversed(EPSILONS) for _ in range(parts)]
    seeds = setting.seeds("glance-masks", len(places))
    return [Task(*place, runs, seed) for place, seed in zip(places, seeds, strict=True)]


def measure(task: Task) -> list[Sample]:
    share, rng = PANELS[task.panel], seeded(task.seed)
    surveys = {
        HARMONY: Survey(name="figure", rounds=ROUNDS, epsilon=task.epsilon, method="harmony"),
        GLANCE: Survey(name="figure", rounds=ROUNDS, epsilon=task.epsilon),
        MASKS: plan(USERS, ROUNDS, task.epsilon, share=share).best.survey,
    }
    found = []
    for name, survey in surveys.items():
        told = simulate(survey, constant(ROUNDS, share), USERS, runs=task.runs, rng=rng)
        found.append(measured(task.panel, name, task.epsilon, told.errors))
        if name != HARMONY:
            smoothed = told.smoothed_errors
            found.append(measured(task.panel, f"{name}, smoothed", task.epsilon, smoothed))
    return found


def conclude(results: Results) -> Conclusion:
    def error(panel: str, curve: str, epsilon: float) -> float:
        return results.at(panel, curve, epsilon).value

    ratios = {
        (panel, curve): [error(panel, curve, e) / error(panel, GLANCE, e) for e in EPSILONS]
        for panel in PANELS
        for curve in (MASKS, SMOOTHED, MASKS_SMOOTHED)
    }
    half, dense = PANELS
    worst = max(max(ratios[panel, MASKS]) for panel in PANELS)
    smoothed = max(max(ratios[panel, SMOOTHED]) for panel in PANELS)
    floor = error(half, GLANCE, 6.0) / error(half, GLANCE, 8.0)
    fall = error(half, MASKS, 6.0) / error(half, MASKS, 8.0)
    return Conclusion(
        f"At ε = 8 masks have {ratios[half, MASKS][-1]:.2f} (share .5) and "
        f"{ratios[dense, MASKS][-1]:.2f} (share .9995) of Glance's error, and smoothing a constant "
        f"signal leaves {ratios[half, SMOOTHED][-1]:.2f} and {ratios[dense, SMOOTHED][-1]:.2f} of "
        f"it, both together {ratios[half, MASKS_SMOOTHED][-1]:.2f} and "
        f"{ratios[dense, MASKS_SMOOTHED][-1]:.2f}.",
        "The paper's floor at a share of one half is that of one report a user: with several "
        "reports under one mask the error goes on falling at the same ε, and smoothing, which "
        "needs no privacy at all, helps as much as the signal is calm.",
        (
            Finding(
                "with one report a user the error levels off at a share of ½ (ε from 6 to 8)",
                "by less than a factor of 1.1",
                f"{floor:.3f}",
                floor < 1.1,
            ),
            Finding(
                "with masks it does not",
                "by more than a factor of 1.2",
                f"{fall:.2f}",
                fall > 1.2,
            ),
            Finding(
                "the planner's choice is never worse than Glance",
                f"at most {ALLOWED:g} times its error",
                f"{worst:.3f} times",
                worst <= ALLOWED,
            ),
            Finding(
                "smoothing a constant signal never hurts",
                "at most the unsmoothed error",
                f"{smoothed:.2f} of it",
                smoothed <= 1,
            ),
        ),
    )


_STYLE = {
    HARMONY: drawing.Line(drawing.VERMILION, "s"),
    GLANCE: drawing.Line(drawing.BLUE, "o"),
    MASKS: drawing.Line(drawing.GREEN, "^", label="masks, slots chosen by the planner"),
    SMOOTHED: drawing.Line(drawing.SKY, "o", "--"),
    MASKS_SMOOTHED: drawing.Line(drawing.ORANGE, "^", "--"),
}


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 4.6)
    panels = canvas.subplots(1, 2, sharey=True)
    for axes, panel in zip(panels, PANELS, strict=True):
        drawing.curves(axes, results, panel, _STYLE)
        axes.set_yscale("log")
        axes.set_xticks(range(1, 9))
        axes.set_xlabel("privacy budget ε")
        axes.set_title(panel)
    panels[0].set_ylabel("mean of the largest error over 50 rounds")
    ticks = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
    panels[0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panels[0].minorticks_off()
    panels[1].minorticks_off()
    drawing.legend(canvas, 3)


FIGURE = Figure(
    name="glance-masks",
    title="The same count with masks and smoothing",
    paper="beyond Ono, Fukuchi, Akimoto and Sakuma, figure 3",
    claim="For a general stream the error of one report a user approaches a positive constant "
    "however large ε is.",
    columns=("share", "method", "epsilon", "error"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    positive=True,
    draw=draw,
)
