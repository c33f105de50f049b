"""Small charts as SVG text: no script, no font, no network; they print, and follow dark mode.

Colours come from the page's style sheet through classes, and every mark carries its numbers as a
tooltip and for screen readers.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

STYLE = """
svg { font-family: system-ui, sans-serif; --soft: #5c6770; --line: #d9dee2; --own: #b3541e;
  --blend: #00796b; --party: #5b6f9e; }
@media (prefers-color-scheme: dark) { svg { --soft: #9aa7b1; --line: #333c43; --own: #f0a36b;
  --blend: #4db6a6; --party: #9fb1dc; } }
svg text { font-size: 13px; fill: var(--soft); }
.grid { stroke: var(--line); } .zero { stroke: var(--soft); stroke-dasharray: 4 3; }
.mark line, .mark polyline { stroke-width: 2; fill: none; } .band { opacity: .18; stroke: none; }
.plain { fill: var(--soft); stroke: var(--soft); } .own { fill: var(--own); stroke: var(--own); }
.blend { fill: var(--blend); stroke: var(--blend); }
.party { fill: var(--party); stroke: var(--party); } .mark rect { stroke: none; }
"""
AnyScale = Callable[[float], float]
_WIDTH = 720
_LABELS = 220
_RIGHT = 24
_ROW = 24
_TOP = 8


class Interval(NamedTuple):
    """A value with its interval, to be drawn as a dot and a line."""

    label: str
    value: float
    low: float
    high: float
    kind: str = "plain"
    """CSS class of the marks: plain, own, blend, ..."""


class Bar(NamedTuple):
    """A value from zero."""

    label: str
    value: float
    kind: str = "plain"


class Series(NamedTuple):
    """A curve, with a band around it if low and high are given."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = "plain"
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def intervals(rows: Sequence[Interval], title: str, zero: float | None = None) -> str:
    """Dots with whiskers, one row each, and a vertical line at `zero`."""
    ends = [end for row in rows for end in (row.low, row.high, row.value) if math.isfinite(end)]
    ticks = _ticks(min([*ends, *([] if zero is None else [zero])]), max([*ends, zero or -math.inf]))
    place = Scale(ticks[0], ticks[-1], _LABELS, _WIDTH - _RIGHT)
    height = _TOP + _ROW * len(rows) + 28
    parts = [*_grid(ticks, place, height - 24)]
    if zero is not None:
        parts.append(line(place(zero), _TOP, place(zero), height - 24, "zero"))
    for index, row in enumerate(rows):
        y = _TOP + _ROW * (index + 0.5)
        low, high = place(max(row.low, ticks[0])), place(min(row.high, ticks[-1]))
        told = f"{row.label}: {_short(row.value)} ({_short(row.low)} to {_short(row.high)})"
        parts += [
            _label(row.label, y),
            f'<g class="mark {row.kind}"><title>{escape(told)}</title>',
            line(low, y, high, y, ""),
            f'<circle cx="{place(row.value):.1f}" cy="{y:.1f}" r="4.5"/></g>',
        ]
    return _svg(title, height, parts)


def bars(rows: Sequence[Bar], title: str, percent: bool = False) -> str:
    """Horizontal bars from zero."""
    ticks = _ticks(0.0, max([row.value for row in rows] + [1e-9]))
    place = Scale(ticks[0], ticks[-1], _LABELS, _WIDTH - _RIGHT)
    height = _TOP + _ROW * len(rows) + 28
    parts = [*_grid(ticks, place, height - 24, percent)]
    for index, row in enumerate(rows):
        y = _TOP + _ROW * index + 4
        shown = f"{row.value:.0%}" if percent else _short(row.value)
        wide = max(place(row.value) - _LABELS, 0.5)
        parts += [
            _label(row.label, y + _ROW / 2 - 4),
            f'<g class="mark {row.kind}"><title>{escape(row.label)}: {shown}</title>'
            f'<rect x="{_LABELS}" y="{y:.1f}" width="{wide:.1f}" height="{_ROW - 8}" rx="2"/></g>',
        ]
    return _svg(title, height, parts)


def curves(
    series: Sequence[Series],
    title: str,
    x_label: str,
    y_label: str,
    *,
    diagonal: bool = False,
    names: Sequence[str] = (),
) -> str:
    """Lines over a common x, with bands; `diagonal` adds the line y = x.

    `names`, if given, are written below the first curve's points instead of numbers.
    """
    xs = [x for each in series for x in each.x]
    ys = [y for each in series for y in (*each.y, *each.low, *each.high) if math.isfinite(y)]
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(min(ys), max(ys))
    left, bottom = 64, 320
    across = Scale(x_ticks[0], x_ticks[-1], left, _WIDTH - _RIGHT)
    upward = Scale(y_ticks[0], y_ticks[-1], bottom, 36)
    parts = []
    for tick in y_ticks:
        parts += [
            line(left, upward(tick), _WIDTH - _RIGHT, upward(tick), "grid"),
            text(left - 8, upward(tick) + 4, _short(tick), "end"),
        ]
    below = [(tick, _short(tick)) for tick in x_ticks]
    if names:
        below = list(zip(series[0].x, names, strict=True))
    parts += [text(across(tick), bottom + 18, name, "middle") for tick, name in below]
    parts += [
        text((left + _WIDTH) / 2, bottom + 38, x_label, "middle"),
        text(8, 20, y_label, "start"),
    ]
    if diagonal:
        low, high = max(x_ticks[0], y_ticks[0]), min(x_ticks[-1], y_ticks[-1])
        parts.append(line(across(low), upward(low), across(high), upward(high), "zero"))
    for index, each in enumerate(series):
        parts.append(f'<g class="mark {each.kind}"><title>{escape(each.label)}</title>')
        if each.low:
            there = points(zip(each.x, each.high, strict=True), across, upward)
            back = points(zip(each.x, each.low, strict=True), across, upward)
            parts.append(f'<polygon class="band" points="{" ".join(there + back[::-1])}"/>')
        spots = points(zip(each.x, each.y, strict=True), across, upward)
        parts.append(f'<polyline points="{" ".join(spots)}"/>')
        for spot in spots:
            x, y = spot.split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="3.5"/>')
        legend = _WIDTH - _RIGHT - 150 * (len(series) - index) + 12
        parts.append(f'<circle cx="{legend - 12}" cy="16" r="4"/></g>')
        parts.append(text(legend, 20, each.label, "start"))
    return _svg(title, bottom + 48, parts)


def standalone(svg: str) -> str:
    """A chart with its own colours, for a file of its own."""
    start = svg.index(">") + 1
    return f"{svg[:start]}<style>{STYLE}</style>{svg[start:]}\n"


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _grid(
    ticks: Sequence[float], place: AnyScale, height: float, percent: bool = False
) -> list[str]:
    parts = []
    for tick in ticks:
        shown = f"{tick:.0%}" if percent else _short(tick)
        parts.append(line(place(tick), _TOP, place(tick), height, "grid"))
        parts.append(text(place(tick), height + 18, shown, "middle"))
    return parts


def _label(said: str, y: float) -> str:
    shown = said if len(said) <= 30 else said[:29] + "…"
    return text(_LABELS - 10, y + 4, shown, "end")


def text(x: float, y: float, said: str, anchor: str = "start", more: str = "") -> str:
    """A text; `more` are further attributes, each with a space in front."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(said)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "", more: str = "") -> str:
    """A straight line of a CSS class; `more` as in `text`."""
    kept = f' class="{kind}"' if kind else ""
    return f'<line{kept} x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{more}/>'


@dataclass(frozen=True)
class Scale:
    """From values to places in the picture."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


class LogScale:
    """The same for a logarithmic axis; what is not positive stands at its very beginning."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        first, last = math.log10(low), math.log10(high)
        self._scale = Scale(first, last if last - first >= 1e-9 else first + 1, start, stop)
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        return self._scale(math.log10(max(value, 1e-9)))

    def ticks(self) -> list[float]:
        low, high = self._scale.low - 1e-9, self._scale.high + 1e-9
        decades = range(math.floor(self._scale.low), math.ceil(self._scale.high) + 1)
        ticks = (digit * 10.0**decade for decade in decades for digit in (1, 2, 5))
        return [tick for tick in ticks if low <= math.log10(tick) <= high]


def points(places: Iterable[tuple[float, float]], across: AnyScale, upward: AnyScale) -> list[str]:
    """Corners of a line or an area."""
    return [f"{across(x):.1f},{upward(y):.1f}" for x, y in places]


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers that span the values."""
    size = max(abs(low), abs(high))
    if not high - low > 1e-9 * size + 1e-280:  # one value, or as good as one
        half = max(0.5, 1e-3 * size)
        low, high = low - half, high + half
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    while (high - low) / step > 8:
        step *= 2 if round(step / 10 ** math.floor(math.log10(step))) != 2 else 2.5
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _short(value: float) -> str:
    return f"{value:.3g}"
