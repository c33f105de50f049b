"""How figures look: one style, colours that colour-blind readers can tell apart, files that do not
change from one run to the next.

matplotlib is an extra and imported only when something is drawn. Colours of ink, grid and curves
are fixed here, so that the page can exchange them for its dark ones.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from papers.figure import Figure, Results
from sudare.foundations import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK, MUTED, GRID = "#202124", "#5f6368", "#e3e5e8"
# Okabe and Ito (2008).
BLUE, SKY, GREEN = "#0072b2", "#56b4e9", "#009e73"
ORANGE, VERMILION, PINK = "#e69f00", "#d55e00", "#cc79a7"
WIDTH = 7.4
"""Inches; with letters of 11 points a figure can be read at half its size."""


class Line(NamedTuple):
    """How a curve is drawn."""

    color: str
    marker: str = "o"
    dashes: str = "-"
    label: str | None = None
    """What the legend calls it; the curve's own name if none is given."""


Style = Mapping[str, Line]


def require() -> None:
    """Refuse early, and say what to do, where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise checks.InvalidInput(
            "Figures are drawn with matplotlib, which is not installed: "
            "pip install -e '.[reproduce]'"
        ) from None


def picture(figure: Figure, results: Results) -> tuple[bytes, str]:
    """The figure as PNG and as SVG."""
    with _style(figure.name):
        from matplotlib.figure import Figure as Canvas
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
        canvas = Canvas(layout=layout, facecolor="white", dpi=160)
        assert figure.draw is not None
        figure.draw(results, canvas)
        png, svg = io.BytesIO(), io.StringIO()
        canvas.savefig(png, format="png", metadata={"Software": None})
        canvas.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        return png.getvalue(), svg.getvalue()


def curves(axes: "Axes", results: Results, panel: str, style: Style) -> None:
    """The panel's curves with their 95 % bands; computed curves have neither band nor marker."""
    for name, line in style.items():
        if name not in results.curves(panel):
            continue
        found = results.series(panel, name)
        drawn = bool(results.at(panel, name, found.x[0]).runs)
        axes.plot(
            found.x,
            found.value,
            color=line.color,
            linestyle=line.dashes,
            marker=line.marker if drawn else "",
            label=line.label or name,
            # Lines of reference lie on top: they would vanish under a curve that meets them.
            zorder=2.0 if line.marker and drawn else 2.5,
        )
        if drawn and np.isfinite(found.low).all():
            axes.fill_between(
                found.x,
                found.low,
                found.high,
                color=line.color,
                alpha=0.18 if line.marker else 0.08,
                linewidth=0,
            )


def level(axes: "Axes", height: float, text: str, *, right: bool = False) -> None:
    """A dotted line across the panel with words on it."""
    axes.axhline(height, color=MUTED, linewidth=1, linestyle=":")
    words(axes, 0.99 if right else 0.01, height, text, right=right, across=True)


def words(
    axes: "Axes",
    x: float,
    y: float,
    text: str,
    *,
    color: str = MUTED,
    right: bool = False,
    across: bool = False,
) -> None:
    """A remark in the panel, just above a point; `across` takes x as a share of the width."""
    axes.annotate(
        text,
        (x, y),
        xycoords=axes.get_yaxis_transform() if across else "data",
        xytext=(0, 3),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom",
        color=color,
        fontsize=10,
    )


def on_log_axis(axes: "Axes", ticks: Sequence[float]) -> None:
    """A logarithmic x axis with plain numbers at these places."""
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def as_percent(axes: "Axes") -> None:
    """Shares on the y axis in percent."""
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def legend(canvas: "Canvas", columns: int) -> None:
    """One legend under all panels, each curve once."""
    handles: dict[str, Any] = {}
    for axes in canvas.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


@contextmanager
def _style(salt: str) -> Iterator[None]:
    import matplotlib

    settings: dict[Any, Any] = {
        "axes.axisbelow": True,
        "axes.edgecolor": MUTED,
        "axes.grid": True,
        "axes.labelcolor": INK,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.titlecolor": INK,
        "figure.figsize": (WIDTH, 4.4),
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 11,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "legend.fontsize": 10.5,
        "legend.frameon": False,
        "lines.linewidth": 1.9,
        "lines.markersize": 5,
        "svg.fonttype": "none",
        # Names inside the file follow from it, and differ between the figures of one page.
        "svg.hashsalt": salt,
        "text.color": INK,
        "xtick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.color": MUTED,
        "ytick.labelcolor": INK,
    }
    with matplotlib.rc_context(settings):
        yield
