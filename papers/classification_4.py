"""Classification, figure 4: accuracy on breast cancer, dealt out over five and ten organisations.

How many organisations the paper had is not in its text; both are shown. Columns are scaled by
public numbers.
"""

from typing import TYPE_CHECKING, NamedTuple

from papers import consortia, datasets
from papers.classification_3 import two_panels
from papers.datasets import Rows
from papers.figure import Conclusion, Figure, Finding, Results, Sample, Setting, Size

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

PANELS = {"5 organisations": 5, "10 organisations": 10}


class Task(NamedTuple):
    """One way of dealing the rows out; without rows of its own, breast cancer."""

    panel: str
    epsilons: tuple[float, ...]
    judges: int
    seed: int
    rows: Rows | None = None


def tasks(setting: Setting) -> list[Task]:
    return deals(setting, "classification-4", None)


def deals(setting: Setting, name: str, rows: Rows | None) -> list[Task]:
    """Random deals of a data set."""
    runs = setting.runs(full=60, quick=10, smoke=2)
    epsilons = {
        Size.FULL: consortia.EPSILONS,
        Size.QUICK: (0.1, 1.0, 2.0, 10.0),
        Size.SMOKE: (2.0, 10.0),
    }[setting.size]
    judges = setting.runs(full=4, quick=4, smoke=1)
    return [
        Task(panel, epsilons, judges, seed, rows)
        for panel in PANELS
        for seed in setting.seeds(f"{name}/{panel}", runs)
    ]


def measure(task: Task) -> list[Sample]:
    rows = task.rows or datasets.breast_cancer()
    dealt = consortia.deal_out(*rows, PANELS[task.panel], task.seed)
    return consortia.compare(task.panel, dealt, task.epsilons, task.seed + 1, judges=task.judges)


def gains(results: Results, curve: str, epsilon: float) -> str:
    """Gains in both panels, in words."""
    first, second = (consortia.told(consortia.gain(results, p, curve, epsilon)) for p in PANELS)
    return f"{first} over five organisations and {second} over ten"


def pays(results: Results, curve: str) -> Finding:
    """Whether the aggregate beats the own model at some ε, beyond chance."""
    found = {panel: consortia.pays_from(results, panel, curve) for panel in PANELS}
    words = ", ".join(
        f"{panel}: " + ("at none" if least is None else f"from ε = {least:g} on")
        for panel, least in found.items()
    )
    return Finding(
        f"{curve} beats the own model",
        "at some ε up to 10",
        words,
        any(least is not None for least in found.values()),
        corrected=curve != consortia.MIRROR,
    )


def conclude(results: Results) -> Conclusion:
    least = consortia.worst(results, list(PANELS), consortia.HEDGED)
    low = consortia.worst(results, list(PANELS), consortia.MIRROR)
    mirror, hedged = (gains(results, c, 10.0) for c in (consortia.MIRROR, consortia.HEDGED))
    return Conclusion(
        f"At ε = 10 mirror averaging gains {mirror} (at its worst, {low.value:+.0f}), sudare's "
        f"blend {hedged} (at its worst, {least.value:+.1f}).",
        "Forty to eighty own rows already separate these tumours, and thirty correlated columns "
        "make the releases noisy: there is little to gain, private learners with so few rows are "
        "far worse than the own model, and convex weights over them cannot return to it.",
        (
            pays(results, consortia.MIRROR),
            pays(results, consortia.HEDGED),
        ),
    )


def draw(results: Results, canvas: "Canvas") -> None:
    two_panels(results, canvas, list(PANELS))


FIGURE = Figure(
    name="classification-4",
    title="Learning together on breast cancer",
    paper="Minami, Arai, Sato and Nakagawa, binary classification, figure 4",
    claim="Aggregating private learners is effective on real data: breast cancer. (The abstract's "
    "claim: the printed curves were not at hand.)",
    columns=("organisations", "method", "epsilon", "accuracy"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
