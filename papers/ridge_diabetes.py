"""Ridge on real data: scikit-learn's diabetes, dealt out over five and ten organisations.

442 patients, ten columns, disease progression after a year. Seven tenths are dealt out, the rest
is for testing; columns and target are scaled by public numbers. The temperature of mirror averaging
is the least that is proved for clipped targets.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from papers import datasets, drawing, regressions
from papers.figure import (
    Conclusion,
    Estimate,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    measured,
)
from papers.regressions import HEDGED, MIRROR, OWN, POOLED, Bounds, Party
from sudare.foundations.randomness import seeded

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

PANELS = {"5 organisations": 5, "10 organisations": 10}
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
BOUNDS = Bounds(datasets.TARGET_BOUND, 2.0, "theory")


class Task(NamedTuple):
    """One way of dealing the rows out."""

    panel: str
    seed: int


def tasks(setting: Setting) -> list[Task]:
    runs = setting.runs(full=100, quick=12, smoke=2)
    return [
        Task(panel, seed)
        for panel in PANELS
        for seed in setting.seeds(f"ridge-diabetes/{panel}", runs)
    ]


def measure(task: Task) -> list[Sample]:
    rows, targets = datasets.diabetes()
    rng = seeded(task.seed)
    order = rng.permutation(len(targets))
    cut = int(0.7 * len(targets))
    hands = np.array_split(order[:cut], PANELS[task.panel])
    own, *others = (Party(rows[hand], targets[hand]) for hand in hands)
    test = Party(rows[order[cut:]], targets[order[cut:]])
    variance = float(np.var(test.targets))
    found = []
    for epsilon in EPSILONS:
        published = regressions.publish(others, epsilon, BOUNDS, rng)
        for name, model in regressions.models(own, others, published, BOUNDS).items():
            error = float(np.mean((model.predict(test.rows) - test.targets) ** 2))
            found.append(measured(task.panel, name, epsilon, error / variance))
    return found


def conclude(results: Results) -> Conclusion:
    first, second = PANELS
    mirror = {p: _lowered(results, p, MIRROR, 10.0) for p in PANELS}
    hedged = {p: _lowered(results, p, HEDGED, 10.0) for p in PANELS}
    worst = {
        curve: min(_lowered(results, p, curve, e).value for p in PANELS for e in EPSILONS)
        for curve in (MIRROR, HEDGED)
    }
    own, pooled = (results.at(first, name, 10.0).value for name in (OWN, POOLED))
    return Conclusion(
        f"At ε = 10 mirror averaging changes the relative squared error by {_told(mirror[first])} "
        f"over five organisations and {_told(mirror[second])} over ten, sudare's blend by "
        f"{_told(hedged[first])} and {_told(hedged[second])} (own {own:.2f}, pooled {pooled:.2f} "
        "over five).",
        "With 30 to 60 patients each, a private ridge regression of ten columns is mostly noise "
        "and shrinks to predicting the mean, and averaging such learners hardly helps; "
        f"hedging loses at most {max(0.0, -worst[HEDGED]):.3f}, mirror averaging "
        f"{-worst[MIRROR]:.2f}.",
        (
            Finding(
                "sharing private regressions improves on own rows (mirror averaging)",
                "a smaller error at some ε up to 10",
                _somewhere(results, MIRROR),
                bool(_better(results, MIRROR)),
            ),
            Finding(
                "sharing moments and hedging does",
                "a smaller error at some ε up to 10",
                _somewhere(results, HEDGED),
                bool(_better(results, HEDGED)),
                corrected=True,
            ),
        ),
    )


def _told(lowered: Estimate) -> str:
    return f"{-lowered.value:+.3f} ± {lowered.half_width:.3f}"


def _lowered(results: Results, panel: str, curve: str, epsilon: float) -> Estimate:
    """How much smaller the relative error is than that of own rows."""
    return results.difference(panel, OWN, curve, epsilon)


def _better(results: Results, curve: str) -> list[tuple[str, float]]:
    return [(p, e) for p in PANELS for e in EPSILONS if _lowered(results, p, curve, e).low > 0]


def _somewhere(results: Results, curve: str) -> str:
    found = _better(results, curve)
    return "at none" if not found else f"at ε = {min(e for _, e in found):g} and others"


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 4.6)
    row = canvas.subplots(1, 2, sharey=True)
    for axes, panel in zip(row, PANELS, strict=True):
        drawing.curves(axes, results, panel, regressions.STYLE)
        drawing.level(axes, 1.0, "predicting the mean", right=True)
        drawing.on_log_axis(axes, EPSILONS)
        axes.set_xlabel("privacy budget ε")
        axes.set_title(panel)
    # Up to the highest mean, whatever the bands.
    highest = max(results.series(p, c).value.max() for p in PANELS for c in regressions.STYLE)
    row[0].set_ylim(0, max(1.3, 1.15 * highest))
    row[0].set_ylabel("squared error / variance")
    drawing.legend(canvas, 2)


FIGURE = Figure(
    name="ridge-diabetes",
    title="Ridge regression together on diabetes",
    paper="Minami, Arai, Sato and Nakagawa 2015, equations 2 to 10 on real data",
    claim="Having more rows through sharing can improve accuracy even under differential privacy. "
    "(The paper proposes this and reports no experiment.)",
    columns=("organisations", "method", "epsilon", "relative_error"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
