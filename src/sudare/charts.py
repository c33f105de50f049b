"""Small charts as text: no script, no font, no network; they print, and follow dark mode.

Curves are SVG. Rows of intervals or bars are HTML around small SVGs, so that names stay whole and
letters keep their size on a phone; every row has its numbers beside it. Colours come from `STYLE`
through classes, and every mark carries its numbers for screen readers.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

_SVG_STYLE = """
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
_ROWS_STYLE = """
svg { --together: #8a4a8f; }
@media (prefers-color-scheme: dark) { svg { --together: #d19ad6; } }
.together { fill: var(--together); stroke: var(--together); }
.chart { margin: 1rem 0; font-size: .85rem; line-height: 1.35; }
.chart .row { display: grid; grid-template-columns: 12rem 1fr 11rem; gap: 0 1rem;
  align-items: stretch; }
.chart .name, .chart .value { align-self: center; padding: .1rem 0; }
.chart .name { text-align: right; overflow-wrap: anywhere; }
.chart .value { white-space: nowrap; font-variant-numeric: tabular-nums; }
.chart .track { position: relative; min-height: 24px; }
.chart svg { position: absolute; overflow: visible; width: 100%; height: 100%; }
@media (max-width: 640px) { .chart .row { grid-template-columns: 1fr auto; padding-top: .3rem; }
  .chart .name { text-align: left; } .chart .value { order: 2; } .chart .name { order: 1; }
  .chart .track { order: 3; grid-column: 1 / 3; } .chart .second { display: none; }
  .chart .row.note { grid-template-columns: 1fr 1fr; } .chart .note .track { display: none; }
  .chart .note .value { white-space: normal; } }
@media print { .chart .row { break-inside: avoid; } }
"""
STYLE = _SVG_STYLE + _ROWS_STYLE
"""For a page: of curves, and of rows of intervals and bars."""
AnyScale = Callable[[float], float]
_WIDTH = 720
_RIGHT = 24


class Interval(NamedTuple):
    """A value with its interval, to be drawn as a dot and a line."""

    label: str
    value: float
    low: float
    high: float
    """Ends that are no numbers are not drawn: a dot alone."""
    kind: str = "plain"
    """CSS class of the marks: plain, own, blend, ..."""
    note: str = ""
    """Stands in place of the mark and its numbers."""


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
    """Dots with whiskers, one row each, and a vertical line at `zero`; HTML."""
    drawn = [row for row in rows if not row.note]
    ends = [end for row in drawn for end in (row.low, row.high, row.value) if math.isfinite(end)]
    ends += [zero or 0.0] if zero is not None or not ends else []
    ticks = _ticks(min(ends), max(ends))
    place = Scale(ticks[0], ticks[-1], 0.0, 100.0)
    grid, digits = _gridlines(ticks, place, zero), _digits(ticks) + 1
    parts = []
    for row in rows:
        if row.note:
            parts.append(_row(row.label, "", grid, row.note, "note"))
            continue
        shown, marks = _with(row.value, digits), [_dot(place(row.value))]
        if math.isfinite(row.low) and math.isfinite(row.high):
            shown += f" ({_with(row.low, digits)} to {_with(row.high, digits)})"
            marks.insert(0, _across(place(row.low), place(row.high)))
        mark = f'<g class="mark {row.kind}">{"".join(marks)}</g>'
        parts.append(_row(row.label, mark, grid, shown))
    return _chart(title, parts, ticks, place, percent=False)


def ratios(rows: Sequence[Interval], title: str) -> str:
    """The same for positive numbers, on a logarithmic axis with a line at 1; HTML.

    A whisker that would make all others short goes to the edge.
    """
    ends = [math.log(end) for row in rows for end in (row.low, row.high)] or [0.0]
    halves = sorted(math.log(row.high / row.low) for row in rows) or [1.0]
    dots, half = [0.0, *(math.log(row.value) for row in rows)], 2.5 * halves[len(halves) // 2]
    low = max(min(*ends, 0.0), min(dots) - half) - 0.05
    high = min(max(*ends, 0.0), max(dots) + half) + 0.05
    place = LogScale(math.exp(low), math.exp(high), 0.0, 100.0)
    ticks = place.ticks()
    ticks = ticks[:: -(-len(ticks) // 7)] if ticks else [1.0]
    grid = _gridlines(ticks, place, 1.0)
    parts = []
    for row in rows:
        start, stop = (min(max(place(end), 0.0), 100.0) for end in (row.low, row.high))
        mark = f'<g class="mark {row.kind}">{_across(start, stop)}{_dot(place(row.value))}</g>'
        shown = f"{_short(row.value)} ({_short(row.low)} to {_short(row.high)})"
        parts.append(_row(row.label, mark, grid, shown))
    return _framed(title, parts, [(place(tick), _short(tick)) for tick in ticks])


def bars(rows: Sequence[Bar], title: str, percent: bool = False, most: float | None = None) -> str:
    """Horizontal bars from zero, to `most` or the largest of them; HTML."""
    largest = max((row.value for row in rows), default=0.0) if most is None else most
    ticks = _ticks(0.0, largest if largest > 0 else 1.0)
    place = Scale(ticks[0], ticks[-1], 0.0, 100.0)
    grid = _gridlines(ticks, place, None)
    parts = []
    for row in rows:
        wide = max(place(row.value), 0.2)  # still to be seen
        mark = (
            f'<g class="mark {row.kind}"><rect x="0" y="50%" width="{wide:.2f}%" height="16" '
            'transform="translate(0 -8)" rx="2"/></g>'
        )
        shown = _share(row.value) if percent else _short(row.value)
        parts.append(_row(row.label, mark, grid, shown))
    return _chart(title, parts, ticks, place, percent)


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
    return f"{svg[:start]}<style>{_SVG_STYLE}</style>{svg[start:]}\n"


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _chart(
    title: str, rows: Sequence[str], ticks: Sequence[float], place: AnyScale, percent: bool
) -> str:
    factor, unit = (100.0, " %") if percent else (1.0, "")
    digits = _digits(ticks, factor)
    below = [(place(tick), f"{_with(factor * tick, digits)}{unit}") for tick in ticks]
    return _framed(title, rows, below)


def _framed(title: str, rows: Sequence[str], below: Sequence[tuple[float, str]]) -> str:
    numbers = []
    for index, (percent, said) in enumerate(below):
        kept = ' class="second"' if index % 2 and len(below) > 4 else ""
        numbers.append(f'<text{kept} x="{percent:.2f}%" y="14" text-anchor="middle">{said}</text>')
    return (
        f'<div class="chart" role="group" aria-label="{escape(title)}">{"".join(rows)}'
        f'<div class="row axis" aria-hidden="true"><span class="name"></span>'
        f'<span class="track"><svg>{"".join(numbers)}</svg></span></div></div>'
    )


def _row(label: str, mark: str, grid: str, shown: str, kind: str = "") -> str:
    return (
        f'<div class="row{" " + kind if kind else ""}"><span class="name">{escape(label)}</span>'
        f'<span class="track"><svg aria-hidden="true">{grid}{mark}</svg></span>'
        f'<span class="value">{escape(shown)}</span></div>'
    )


def _gridlines(ticks: Sequence[float], place: AnyScale, zero: float | None) -> str:
    lines = [_upright(place(tick), "grid") for tick in ticks]
    if zero is not None:
        lines.append(_upright(place(zero), "zero"))
    return "".join(lines)


def _upright(percent: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{percent:.2f}%" y1="0" x2="{percent:.2f}%" y2="100%"/>'


def _across(start: float, stop: float) -> str:
    return f'<line x1="{start:.2f}%" y1="50%" x2="{stop:.2f}%" y2="50%"/>'


def _dot(percent: float) -> str:
    return f'<circle cx="{percent:.2f}%" cy="50%" r="4.5"/>'


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


def _share(value: float) -> str:
    """A percentage with two digits or more, so that small ones differ."""
    return f"{100 * value:.2g} %" if value < 0.1 else f"{100 * value:.0f} %"


def _digits(ticks: Sequence[float], factor: float = 1.0) -> int:
    """Digits after the point that tell ticks apart."""
    step = factor * (ticks[1] - ticks[0])
    digits = max(-math.floor(math.log10(step) + 1e-9), 0)
    whole = abs(round(step * 10**digits) - step * 10**digits) < 1e-6
    return digits if whole else digits + 1  # as in 2.5


def _with(value: float, digits: int) -> str:
    """With so many digits after the point; numbers far from 1 in short."""
    return _short(value) if digits > 5 or abs(value) >= 1e6 else f"{value:.{digits}f}"
