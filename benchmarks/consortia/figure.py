"""Draws what blending closes of the gap between the own and the pooled model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

Curves = Mapping[str, Sequence[float]]
"""By method, one number for each ε."""

LOWEST = -1.0
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sudare",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
STYLES: dict[str, dict[str, Any]] = {
    "hedged": {"label": "sudare, hedged blend", "color": "#0b6e4f", "marker": "o", "zorder": 3},
    "uniform": {"label": "uniform average", "color": "#8e44ad", "marker": "^"},
    "mirror": {"label": "mirror averaging", "color": "#d35400", "marker": "s"},
    "stack": {"label": "logistic stack", "color": "#7f8c8d", "marker": "x"},
    "gradients": {
        "label": "gradients, ten rounds",
        "color": "#2a9df4",
        "marker": "d",
        "linestyle": "--",
    },
}


def draw(path: Path, epsilons: Sequence[float], panels: Mapping[str, Curves]) -> None:
    """One panel for each title."""
    with matplotlib.rc_context(SETTINGS):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
        figure = Figure(figsize=(9.2, 4.2), layout=layout, facecolor="white")
        row = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, curves) in zip(row, panels.items(), strict=True):
            _panel(axes, title, epsilons, curves)
        row[-1].legend(loc="lower right")
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _panel(axes: Axes, title: str, epsilons: Sequence[float], curves: Curves) -> None:
    for name, style in STYLES.items():
        axes.plot(epsilons, curves[name], markersize=5, **style)
    for height, label in ((0.0, "own model"), (1.0, "all rows in one place")):
        axes.axhline(height, color="#888888", linewidth=1, linestyle=":")
        axes.annotate(
            label,
            (epsilons[0], height),
            xytext=(0, 3),
            textcoords="offset points",
            color="#666666",
            fontsize=9,
        )
    axes.set_ylim(LOWEST, 1.15)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("privacy budget ε")
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
