"""Glance, figure 1: where sampling loses less than flipping (condition 2).

The boundary is computed for each ε: the largest share of ones, below one half, up to which the
condition holds; shares above one minus it are the same by symmetry. The figure's caption says
10,000 users and the text 100,000, so both are drawn, as printed and with the root θ₀ in place of
its double.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from papers import drawing
from papers.figure import (
    Conclusion,
    Figure,
    Finding,
    Results,
    Sample,
    Setting,
    computed,
)
from papers.formulas.counting import paper_dense_condition
from sudare.calibration import dense_condition

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

ROUNDS, BETA = 10, 0.1
USERS = (10_000, 100_000)
PRINTED, ROOT = "printed", "with the root θ₀"
_CONDITIONS = {PRINTED: paper_dense_condition, ROOT: dense_condition}
EPSILONS = {"full": np.linspace(0.05, 10, 200), "quick": np.linspace(0.1, 10, 100)}
"""A grid of ε; the coarse one also serves for a smoke test."""
NARROW = 0.02
"""What the paper calls very dense or very sparse, as a number of ours: 2 % or less."""


def boundary(curve: str, epsilon: float, users: int) -> float:
    """The largest share ≤ ½ up to which the condition holds, to 12 digits."""
    holds = partial(_CONDITIONS[curve], epsilon=epsilon, users=users, rounds=ROUNDS, beta=BETA)
    if holds(0.5):
        return 0.5
    low, high = 0.0, 0.5
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def tasks(setting: Setting) -> list[tuple[int, str, tuple[float, ...]]]:
    grid = EPSILONS["full" if setting.size == "full" else "quick"]
    return [(users, curve, tuple(grid.tolist())) for users in USERS for curve in _CONDITIONS]


def measure(task: tuple[int, str, tuple[float, ...]]) -> list[Sample]:
    users, curve, grid = task
    return [
        computed(f"{users:,} users", curve, epsilon, boundary(curve, epsilon, users))
        for epsilon in grid
    ]


def conclude(results: Results) -> Conclusion:
    at = {
        (users, curve, e): results.at(f"{users:,} users", curve, e).value
        for users in USERS
        for curve in _CONDITIONS
        for e in (1.0, 5.0, 10.0)
    }
    findings = []
    for users in USERS:
        series = results.series(f"{users:,} users", PRINTED)
        large = series.value[series.x >= 5]
        findings.append(
            Finding(
                f"for large ε (from 5 on) only very dense or sparse shares, {users:,} users",
                f"below {NARROW:g}",
                f"below {large.max():.2g}",
                bool(large.max() < NARROW and np.all(large > 0)),
            )
        )
    findings.append(
        Finding(
            "for small ε every share",
            "up to 0.5 at ε = 1",
            f"up to {at[USERS[0], PRINTED, 1.0]:.2g} and {at[USERS[1], PRINTED, 1.0]:.2g}",
            at[USERS[0], PRINTED, 1.0] == at[USERS[1], PRINTED, 1.0] == 0.5,
        )
    )
    small, large_ = USERS
    return Conclusion(
        f"At ε = 5 the condition holds for shares below {at[small, PRINTED, 5.0]:.4f} "
        f"({small:,} users) or {at[large_, PRINTED, 5.0]:.4f} ({large_:,}), at ε = 10 below "
        f"{at[small, PRINTED, 10.0]:.1e} or {at[large_, PRINTED, 10.0]:.1e}, and likewise near 1.",
        "Caption and text disagree on the number of users, and both give such a region; equation "
        "(1) is twice the root that the condition needs, with which the region is a little "
        f"narrower ({at[small, ROOT, 10.0]:.1e} and {at[large_, ROOT, 10.0]:.1e} at ε = 10).",
        tuple(findings),
    )


def draw(results: Results, canvas: "Canvas") -> None:
    canvas.set_size_inches(drawing.WIDTH, 4.3)
    panels: list[Any] = list(canvas.subplots(1, 2, sharey=True))
    for axes, users in zip(panels, USERS, strict=True):
        panel = f"{users:,} users"
        found = results.series(panel, PRINTED)
        edge = np.full_like(found.x, 1e-6)
        for low, high in ((edge, found.value), (1 - found.value, 1 - edge)):
            axes.fill_between(found.x, low, high, color=drawing.SKY, alpha=0.35, linewidth=0)
        for curve, color, dashes in ((PRINTED, drawing.BLUE, "-"), (ROOT, drawing.VERMILION, "--")):
            line = results.series(panel, curve)
            axes.plot(line.x, line.value, color=color, linestyle=dashes, label=curve)
            axes.plot(line.x, 1 - line.value, color=color, linestyle=dashes)
        axes.set_yscale("logit")
        axes.set_ylim(1e-5, 1 - 1e-5)
        ticks = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
        axes.set_yticks(ticks, [_share(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(0, 10)
        axes.set_xlabel("privacy budget ε")
        axes.set_title(f"{panel}, {ROUNDS} rounds")
        axes.text(0.5, 3e-4, "condition (2) holds", color=drawing.INK, fontsize=10)
        axes.text(9.7, 0.6, "does not hold", color=drawing.INK, ha="right", fontsize=10)
    panels[0].set_ylabel("share of ones (stretched near 0 and 1)")
    drawing.legend(canvas, 2)


def _share(tick: float) -> str:
    return f"{tick:g}" if tick >= 1e-3 else f"{tick:.5f}".rstrip("0")


FIGURE = Figure(
    name="glance-1",
    title="Where a count loses nothing by sampling",
    paper="Ono, Fukuchi, Akimoto and Sakuma, figure 1",
    claim="When ε is fairly large, condition (2) holds where nearly all users agree: for a very "
    "dense or a very sparse stream.",
    columns=("users", "condition", "epsilon", "holds_up_to_share"),
    tasks=tasks,
    measure=measure,
    conclude=conclude,
    draw=draw,
)
