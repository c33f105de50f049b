"""Classification, figure 5: accuracy on the Pima women's diabetes, over five and ten organisations.

The data does not come with scikit-learn: see `datasets.pima` for where it is looked for.
"""

from typing import TYPE_CHECKING

from papers import consortia, datasets
from papers.classification_3 import two_panels
from papers.classification_4 import PANELS, Task, deals, gains, measure, pays
from papers.figure import Conclusion, Figure, Results, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def tasks(setting: Setting) -> list[Task]:
    return deals(setting, "classification-5", datasets.pima(setting.data))


def conclude(results: Results) -> Conclusion:
    least = consortia.worst(results, list(PANELS), consortia.HEDGED)
    low = consortia.worst(results, list(PANELS), consortia.MIRROR)
    mirror, hedged = (gains(results, c, 10.0) for c in (consortia.MIRROR, consortia.HEDGED))
    return Conclusion(
        f"At ε = 10 mirror averaging gains {mirror} (at its worst, {low.value:+.0f}), sudare's "
        f"blend {hedged} (at its worst, {least.value:+.1f}); at ε = 2 the blend gains "
        f"{gains(results, consortia.HEDGED, 2.0)}.",
        "Aggregation pays at weak privacy only, and there the more the fewer rows an organisation "
        "holds; where learners are mostly noise mirror averaging falls far below the own model, "
        "which a hedged blend does not.",
        (
            pays(results, consortia.MIRROR),
            pays(results, consortia.HEDGED),
        ),
    )


def draw(results: Results, canvas: "Canvas") -> None:
    two_panels(results, canvas, list(PANELS))


FIGURE = Figure(
    name="classification-5",
    title="Learning together on Pima diabetes",
    paper="Minami, Arai, Sato and Nakagawa, binary classification, figure 5",
    claim="Aggregating private learners is effective on real data: diabetes. (The abstract's "
    "claim: the printed curves were not at hand.)",
    columns=("organisations", "method", "epsilon", "accuracy"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
