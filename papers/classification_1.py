"""Classification, figure 1: the intuition, measured.

The paper draws three lines by hand: the own model, the model of all rows in one place, and between
them the aggregate of private learners, which moves from one to the other as privacy is weakened.
Here they are on synthetic data (a hundred organisations of fifty rows, five columns), over five
orders of magnitude of ε.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

from papers import consortia, drawing
from papers.figure import Conclusion, Figure, Finding, Results, Sample, Setting, Size

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

ORGANISATIONS, EACH, TEST, COLUMNS = 100, 50, 5_000, 5
EPSILONS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
PANEL = "synthetic, 5 columns"
CURVES = (consortia.OWN, consortia.POOLED, consortia.MIRROR, consortia.HEDGED)
NEAR, STRONG = 1.0, 1.0
"""What the words come to, in numbers of ours: near is within a point, fairly strong is ε ≤ 1."""


class Task(NamedTuple):
    """One made-up consortium."""

    organisations: int
    epsilons: tuple[float, ...]
    seed: int


def tasks(setting: Setting) -> list[Task]:
    runs = setting.runs(full=40, quick=4, smoke=2)
    organisations = setting.runs(full=ORGANISATIONS, quick=ORGANISATIONS, smoke=5)
    epsilons = EPSILONS if setting.size == Size.FULL else (0.01, 0.1, 1.0, 3.0, 10.0, 1000.0)
    seeds = setting.seeds("classification-1", runs)
    return [Task(organisations, epsilons, seed) for seed in seeds]


def measure(task: Task) -> list[Sample]:
    drawn = consortia.synthetic(COLUMNS, task.organisations, EACH, TEST, task.seed)
    return consortia.compare(PANEL, drawn, task.epsilons, task.seed + 1, CURVES)


def conclude(results: Results) -> Conclusion:
    pays = consortia.pays_from(results, PANEL, consortia.MIRROR)
    ours = consortia.pays_from(results, PANEL, consortia.HEDGED)
    weakest = max(EPSILONS)
    missing, missing_ours = (
        100 * results.difference(PANEL, consortia.POOLED, curve, weakest).value
        for curve in (consortia.MIRROR, consortia.HEDGED)
    )
    lowest = {
        curve: consortia.worst(results, [PANEL], curve).value
        for curve in (consortia.MIRROR, consortia.HEDGED)
    }
    means = results.series(PANEL, consortia.MIRROR).value
    return Conclusion(
        f"The aggregate is above the own model {_from(pays)} and ends {missing:.1f} points below "
        f"all rows in one place; at its worst it is {-lowest[consortia.MIRROR]:.1f} points below "
        f"the own model. Sudare's blend is above it {_from(ours)} and at its worst "
        f"{max(0.0, -lowest[consortia.HEDGED]):.1f} points below.",
        "The picture is right in shape. But the aggregate crosses later than hoped and falls below "
        "the own model at strong privacy: own rows only judge the learners and train none, and "
        "convex weights over noise cannot return to the own model, as a blend that includes it "
        "can.",
        (
            Finding(
                "accuracy of the aggregate grows as privacy is weakened",
                "rising",
                "rising" if (means[1:] >= means[:-1] - 0.005).all() else "not rising throughout",
                bool((means[1:] >= means[:-1] - 0.005).all()),
            ),
            Finding(
                "it is better than the own model from some ε on",
                "a crossing",
                _from(pays),
                pays is not None,
            ),
            Finding(
                "it comes near the model of all rows",
                f"within {NEAR:g} point",
                f"{missing:.1f} points below",
                missing <= NEAR,
            ),
            Finding(
                "it is better than the own model even for fairly strong privacy",
                f"at ε ≤ {STRONG:g}",
                _from(pays),
                (pays or math.inf) <= STRONG,
            ),
            Finding(
                "sudare's blend comes near the model of all rows",
                f"within {NEAR:g} point",
                f"{missing_ours:.1f} points below",
                missing_ours <= NEAR,
                corrected=True,
            ),
            Finding(
                "sudare's blend is better than the own model for fairly strong privacy",
                f"at ε ≤ {STRONG:g}",
                _from(ours),
                (ours or math.inf) <= STRONG,
                corrected=True,
            ),
        ),
    )


def _from(epsilon: float | None) -> str:
    return "at no ε" if epsilon is None else f"from ε = {epsilon:g} on"


_STYLE = {name: consortia.STYLE[name] for name in reversed(CURVES)}


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 4.6)
    axes = canvas.subplots()
    drawing.curves(axes, results, PANEL, _STYLE)
    drawing.on_log_axis(axes, results.places(PANEL, consortia.OWN))
    # As in the paper, protection grows to the right.
    axes.invert_xaxis()
    drawing.as_percent(axes)
    axes.set_xlabel("weak  ←  privacy: budget ε  →  strong")
    axes.set_ylabel("right predictions")
    axes.set_title("a hundred organisations of fifty rows, five columns")
    drawing.legend(canvas, 2)


FIGURE = Figure(
    name="classification-1",
    title="The intuition, measured",
    paper="Minami, Arai, Sato and Nakagawa, binary classification, figure 1",
    claim="The aggregate of private learners can come near the model of all rows in one place; it "
    "loses accuracy as privacy is strengthened, and stays above the own model even for fairly "
    "strong privacy if more rows help much.",
    columns=("panel", "method", "epsilon", "accuracy"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
