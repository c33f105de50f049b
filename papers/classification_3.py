"""Classification, figure 3: accuracy on synthetic data, 5,000 rows over 100 organisations.

The paper's text gives n = 5,000 and M + 1 = 100. The law of the rows and their number of columns
are ours: five and twenty columns, rows on the unit sphere, logistic labels.
"""

from typing import TYPE_CHECKING, NamedTuple

from papers import consortia, drawing
from papers.figure import Conclusion, Figure, Finding, Results, Sample, Setting, Size

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

ORGANISATIONS, EACH, TEST = 100, 50, 5_000
PANELS = {"5 columns": 5, "20 columns": 20}


class Task(NamedTuple):
    """One made-up consortium."""

    panel: str
    organisations: int
    epsilons: tuple[float, ...]
    seed: int


def tasks(setting: Setting) -> list[Task]:
    runs = setting.runs(full=40, quick=4, smoke=2)
    organisations = setting.runs(full=ORGANISATIONS, quick=ORGANISATIONS, smoke=5)
    epsilons = consortia.EPSILONS if setting.size == Size.FULL else (0.1, 1.0, 2.0, 10.0)
    return [
        Task(panel, organisations, epsilons, seed)
        for panel in PANELS
        for seed in setting.seeds(f"classification-3/{panel}", runs)
    ]


def measure(task: Task) -> list[Sample]:
    drawn = consortia.synthetic(PANELS[task.panel], task.organisations, EACH, TEST, task.seed)
    return consortia.compare(task.panel, drawn, task.epsilons, task.seed + 1)


def conclude(results: Results) -> Conclusion:
    first, second = PANELS
    mirror = {p: consortia.pays_from(results, p, consortia.MIRROR) for p in PANELS}
    hedged = {p: consortia.pays_from(results, p, consortia.HEDGED) for p in PANELS}
    strong = {p: consortia.gain(results, p, consortia.MIRROR, 10.0) for p in PANELS}
    weak = consortia.worst(results, list(PANELS), consortia.MIRROR)
    ours = {p: consortia.gain(results, p, consortia.HEDGED, 1.0) for p in PANELS}
    least = consortia.worst(results, list(PANELS), consortia.HEDGED)
    return Conclusion(
        f"Mirror averaging beats the own model from ε = {_epsilon(mirror[first])} on with five "
        f"columns and from {_epsilon(mirror[second])} on with twenty "
        f"({consortia.told(strong[first])} and {consortia.told(strong[second])} at ε = 10); "
        f"sudare's blend from ε = {_epsilon(hedged[first])} and {_epsilon(hedged[second])} on "
        f"({consortia.told(ours[first])} and {consortia.told(ours[second])} at ε = 1).",
        "That aggregation helps is true only for weak privacy: below it mirror averaging loses up "
        f"to {-weak.value:.0f} points, because convex weights over noisy learners cannot return to "
        f"the own model; a blend that hedges loses {max(0.0, -least.value):.1f} at most.",
        (
            Finding(
                "aggregated private learners beat the own model",
                "at some ε, in both panels",
                f"from ε = {_epsilon(mirror[first])} and {_epsilon(mirror[second])} on",
                all(found is not None for found in mirror.values()),
            ),
            Finding(
                "sudare's blend does",
                "at some ε ≤ 1 for five columns",
                f"from ε = {_epsilon(hedged[first])} on",
                (hedged[first] or 99) <= 1,
                corrected=True,
            ),
        ),
    )


def _epsilon(found: float | None) -> str:
    return "none" if found is None else f"{found:g}"


def draw(results: Results, canvas: "Canvas") -> None:
    two_panels(results, canvas, list(PANELS))


def two_panels(results: Results, canvas: "Canvas", panels: list[str]) -> None:
    """Accuracy against ε, a panel for each kind of consortium."""
    canvas.set_size_inches(drawing.WIDTH, 4.9)
    row = canvas.subplots(1, len(panels), sharey=True)
    for axes, panel in zip(row, panels, strict=True):
        drawing.curves(axes, results, panel, consortia.STYLE)
        drawing.on_log_axis(axes, results.places(panel, consortia.OWN))
        axes.set_xlabel("privacy budget ε")
        axes.set_title(panel)
    drawing.as_percent(row[0])
    row[0].set_ylabel("right predictions")
    drawing.legend(canvas, 2)


FIGURE = Figure(
    name="classification-3",
    title="Learning together on synthetic data",
    paper="Minami, Arai, Sato and Nakagawa, binary classification, figure 3",
    claim="Private learners exchanged and aggregated let an organisation learn effectively from "
    "data spread over a hundred organisations. (The abstract's claim: the printed curves were not "
    "at hand.)",
    columns=("columns", "method", "epsilon", "accuracy"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
