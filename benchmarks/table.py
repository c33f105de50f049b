"""What a benchmark reports, and how it takes the time."""

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf

_COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured number and, where there is one, the peer's number beside it."""

    name: str
    value: float
    unit: str
    baseline: str | None = None
    baseline_value: float | None = None
    ratio: float | None = None
    aim: str = ""
    ok: bool | None = None
    slack: float | None = None
    """What is left between value and baseline, as a share of the latter; a column of few tables."""


def columns(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings, and the rows as text; without the slack where no row has any."""
    names = [field.name for field in fields(Row)]
    if all(row.slack is None for row in rows):
        names.remove("slack")
    lines = [[_text(getattr(row, name)) for name in names] for row in rows]
    return [name.replace("_", " ") for name in names], lines


def against(
    name: str, value: float, unit: str, baseline: str, baseline_value: float, aim: str
) -> Row:
    """A row whose aim, such as ">= 0.5", is on the ratio value / baseline_value."""
    ratio = value / baseline_value
    comparison, bound = aim.split()
    return Row(
        name=name,
        value=value,
        unit=unit,
        baseline=baseline,
        baseline_value=baseline_value,
        ratio=ratio,
        aim=aim,
        ok=_COMPARISONS[comparison](ratio, float(bound)),
    )


def best_of(fn: Callable[[], object], repeat: int = 5, min_seconds: float = 0.1) -> float:
    """Seconds per call in the best of `repeat` runs, each at least `min_seconds` long."""
    calls = _calls_for(fn, min_seconds)
    return min(_seconds_per_call(fn, calls) for _ in range(repeat))


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    repeat: int = 5,
    min_seconds: float = 0.1,
) -> tuple[float, float]:
    """Seconds per call of both, taking turns so that a slow spell of the machine hits both."""
    calls_ours, calls_theirs = _calls_for(ours, min_seconds), _calls_for(theirs, min_seconds)
    best_ours = best_theirs = inf
    for _ in range(repeat):
        best_ours = min(best_ours, _seconds_per_call(ours, calls_ours))
        best_theirs = min(best_theirs, _seconds_per_call(theirs, calls_theirs))
    return best_ours, best_theirs


def markdown(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    headings, cells = columns(rows)
    lines = [headings, ["---"] * len(headings), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _calls_for(fn: Callable[[], object], min_seconds: float) -> int:
    # The first call warms caches and is not timed.
    fn()
    calls = 1
    while (seconds := calls * _seconds_per_call(fn, calls)) < min_seconds:
        calls = max(2 * calls, int(1.2 * calls * min_seconds / max(seconds, 1e-9)))
    return calls


def _seconds_per_call(fn: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        fn()
    return (time.perf_counter() - start) / calls


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case _:
            return str(value)
