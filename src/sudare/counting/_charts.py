"""A picture of a plan, as SVG that any browser opens: expected errors against ε."""

import math

from sudare.charts import LogScale, line, points, text
from sudare.counting._planning import Plan
from sudare.counting._survey import Method
from sudare.foundations import checks

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 50, 50
_PALE = ' stroke="#dddddd"'
_COLOURS: dict[Method, str] = {
    "glance": "#0072b2",
    "masks": "#d55e00",
    "harmony": "#999999",
    "harmony-signed": "#56b4e9",
    "rappor": "#cc79a7",
    "tree": "#009e73",
}


def error_chart(plans: list[Plan]) -> str:
    """Each method's expected largest error over the plans' ε, on two logarithmic axes."""
    if len({plan.epsilon for plan in plans}) < 2:
        raise checks.InvalidInput("Expected plans for at least two values of epsilon")
    plans = sorted(plans, key=lambda plan: plan.epsilon)
    curves = {
        method: [(plan.epsilon, plan.option(method).error) for plan in plans]
        for method in _COLOURS
        if all(any(o.survey.method == method for o in plan.options) for plan in plans)
    }
    errors = [max(error, 1e-9) for curve in curves.values() for _, error in curve]
    x = LogScale(plans[0].epsilon, plans[-1].epsilon, _LEFT, _WIDTH - _RIGHT)
    y = LogScale(min(errors), max(errors), _HEIGHT - _BOTTOM, _TOP)
    first = plans[0]
    about = "the worst share" if first.share is None else f"a share of {first.share:g}"
    title = f"Expected largest error: {first.users:,} users, {first.rounds:,} rounds, {about}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 28, title, size=14),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, "ε for the whole horizon", "middle"),
        *_grid(x, y),
        *_lines(curves, x, y),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(x: LogScale, y: LogScale) -> list[str]:
    parts = []
    for tick in x.ticks():
        at = x(tick)
        parts.append(line(at, y.start, at, y.stop, more=_PALE))
        parts.append(_text(at, y.start + 18, f"{tick:g}", "middle"))
    for tick in y.ticks():
        at = y(tick)
        parts.append(line(x.start, at, x.stop, at, more=_PALE))
        parts.append(_text(x.start - 8, at + 4, f"{tick:g}", "end"))
    return parts


def _lines(curves: dict[Method, list[tuple[float, float]]], x: LogScale, y: LogScale) -> list[str]:
    parts = []
    lowest = -math.inf
    # Names stand at the curves' right ends, pushed apart where those meet.
    for method, curve in sorted(curves.items(), key=lambda item: y(item[1][-1][1])):
        colour = _COLOURS[method]
        corners = " ".join(points(curve, x, y))
        parts.append(
            f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        lowest = max(y(curve[-1][1]) + 4, lowest + 15)
        parts.append(_text(x.stop + 10, lowest, method, colour=colour))
    return parts


def _text(
    x: float, y: float, said: str, anchor: str = "start", size: int = 12, colour: str = "#333333"
) -> str:
    return text(x, y, said, anchor, f' font-size="{size}" fill="{colour}"')
