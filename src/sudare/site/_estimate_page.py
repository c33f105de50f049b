"""The page and the words of a model of everybody's rows: table, forest plots, promise, table 1."""

import math
from collections.abc import Sequence
from html import escape

import msgspec

from sudare import charts
from sudare.estimation import RATIOS, Coefficient, Model, Term
from sudare.site._describing import (
    NAMES_WHOLE,
    notes_section,
    promises,
    refused,
    table_sections,
)
from sudare.site._estimating import Estimated
from sudare.site._report import _PAGE, _STYLE, _table
from sudare.study import Number, Study

_MOST_DECIMALS = 6
_STYLE_HERE = """
.estimates td { overflow-wrap: normal; } .estimates td.short { white-space: nowrap; }
@media (max-width: 640px) { .chart { margin: 1rem; } .estimates thead { display: none; }
  .estimates tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .estimates td { display: block; border: 0; padding: .1rem 0; }
  .estimates td:empty { display: none; } .estimates td:first-child { font-weight: 600; }
  .estimates td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); } }
"""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table of coefficients, as it is shown."""

    term: str
    compared: str
    """What the coefficient compares, in words."""
    ratio: str
    """With its interval; empty for linear models and the intercept."""
    estimate: str
    """With its interval, or why it is not told."""
    std_error: str
    z: str
    p: str
    between: str
    """Between sites, about how far their own coefficients stand from the mean."""


def estimate_lines(model: Model) -> list[Line]:
    """The table, with numbers to the digits that they have."""
    found, plain = [], model.family == "linear"
    for place, each in enumerate(model.coefficients):
        compared = what_is_compared(each.term)
        name = each.term.column or each.term.name
        if not each.told:
            blank = dict.fromkeys(("ratio", "std_error", "z", "p", "between"), "")
            found.append(Line(term=name, compared=compared, estimate=each.reason, **blank))
            continue
        assert each.std_error is not None
        assert each.z is not None
        assert each.p is not None
        between = None if model.between_deviations is None else model.between_deviations[place]
        decimals = _decimals(each.std_error)
        found.append(
            Line(
                term=name,
                compared=compared,
                ratio="" if plain or each.term.column is None else shown_interval(each.ratio),
                estimate=shown_interval(each.numbers),
                std_error=f"{each.std_error:.{decimals}f}",
                z=f"{each.z:.2f}",
                p="< 0.001" if each.p < 0.001 else f"{each.p:.3f}",
                between=_between(model, between, decimals),
            )
        )
    return found


def _between(model: Model, deviation: float | None, decimals: int) -> str:
    if deviation is None or (model.bounded and deviation == 0):
        return ""
    return f"{'≥ ' if model.bounded else ''}{deviation:.{decimals}f}"


def what_is_compared(term: Term) -> str:
    """One more year, or m instead of f."""
    if term.column is None:
        return "all others 0"
    if term.level is not None:
        return f"{term.level}, not {term.reference}"
    return "missing, not known" if term.missing else "one more"


def shown_interval(numbers: tuple[float, float, float]) -> str:
    """A number with its interval, to two digits of the interval's half."""
    value, low, high = numbers
    decimals = _decimals((high - low) / 4)
    texts = [_digits(each, decimals) for each in (value, low, high)]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def _decimals(std_error: float) -> int:
    if not (math.isfinite(std_error) and std_error > 0):
        return _MOST_DECIMALS
    return min(max(1 - math.floor(math.log10(std_error)), 0), _MOST_DECIMALS)


def _digits(value: float, decimals: int) -> str:
    if abs(value) >= 1e6:
        return f"{value:.2g}"
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def render_estimate(made: Estimated, study: Study) -> str:
    """The whole page: one HTML file, for reading on paper, on a screen or on a phone."""
    sections = [_summary(made), _main(made.model), _drawn(made.model, study), _sites(made.model)]
    if made.table is not None:
        sections += table_sections(made.table)
    sections += [
        notes_section(made.model.notes),
        _promise(made),
        _about(made),
    ]
    return _PAGE.format(
        title=escape(f"{made.model.study}: {_title(made.model)}"),
        style=_STYLE + charts.STYLE + NAMES_WHOLE + _STYLE_HERE,
        body="\n".join(part for part in sections if part),
    )


def _title(model: Model) -> str:
    return {"linear": "a linear model", "logistic": "odds ratios", "poisson": "rate ratios"}[
        model.family
    ]


def _summary(made: Estimated) -> str:
    about = f"<p>{escape(made.about)}</p>" if made.about else ""
    return (
        f"<header><h1>{escape(made.model.study)}: {_title(made.model)}</h1>{about}"
        f"<p class=lead>{escape(made.sentence)}</p></header>"
    )


def _main(model: Model) -> str:
    percent = f"{100 * model.level:g} % interval"
    ratio = RATIOS.get(model.family)
    lines = estimate_lines(model)
    head = ["", "", *([f"{ratio} ({percent})"] if ratio else [])]
    head += [f"coefficient ({percent})", "std. error", "z" if model.sites is None else "t", "p"]
    some = any(line.between for line in lines)
    head += ["between sites"] if some else []
    body = ""
    for line in lines:
        cells = [line.term, line.compared, *([line.ratio] if ratio else [])]
        cells += [line.estimate, line.std_error, line.z, line.p, *([line.between] if some else [])]
        body += "<tr>" + "".join(map(_cell, head, cells)) + "</tr>"
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    page = "<section><h2>Coefficients</h2><table class=estimates>"
    page += f"<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
    if model.residual_deviation is not None:
        digits = shown_digits(model.residual_deviation)
        page += f"<p>Residual standard deviation: {digits}.</p>"
    if model.noise_share is not None:
        page += (
            f"<p>Of the variance of a typical coefficient {model.noise_share:.0%} is due to the "
            "noise that privacy added, the rest to sampling.</p>"
        )
    return page + "</section>"


def _cell(title: str, shown: str) -> str:
    """On a phone each is a line of its own with its title."""
    label = f' data-label="{escape(title)}"' if title else ""
    short = "" if "(" in title or not title else ' class="short"'
    return f"<td{label}{short}>{escape(shown)}</td>"


def shown_digits(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def _drawn(model: Model, study: Study) -> str:
    """Coefficients as a forest plot; numbers by a step that can be seen."""
    rows = []
    for found in model.coefficients:
        if not found.told or found.term.column is None:
            continue
        step = drawn_step(found.term, study)
        label = f"{found.term.column}: {what_is_compared(found.term)}"
        if step != 1:
            label = f"{found.term.column}: {step:g} more"
        rows.append(_mark(label, found, step, model.family != "linear", "blend"))
    if not rows:
        return ""
    ratio = model.family != "linear"
    what = RATIOS.get(model.family, "effect on the target")
    chart = _forest(rows, f"{what} with {100 * model.level:g} % intervals", ratio)
    scale = " The axis is logarithmic." if ratio else ""
    return (
        f"<section><h2>Drawn</h2><p>{escape(what.capitalize())}, with {100 * model.level:g} % "
        f"intervals. Columns of numbers are drawn for a step of about a quarter of their range."
        f"{scale}</p>{chart}</section>"
    )


def drawn_step(term: Term, study: Study) -> float:
    """About a quarter of a number's public range, as a round number; 1 for all others."""
    column = None if term.column is None else study.columns[term.column]
    if not isinstance(column, Number) or term.missing:
        return 1.0
    return float(f"{(column.high - column.low) / 4:.1g}")


def _mark(label: str, found: Coefficient, step: float, ratio: bool, kind: str) -> charts.Interval:
    value, low, high = (each * step for each in found.numbers)
    if ratio:
        value, low, high = (math.exp(min(max(each, -30.0), 30.0)) for each in (value, low, high))
    return charts.Interval(label, value, low, high, kind)


def _forest(rows: Sequence[charts.Interval], title: str, ratio: bool) -> str:
    return charts.ratios(rows, title) if ratio else charts.intervals(rows, title, zero=0.0)


def _sites(model: Model) -> str:
    """For each coefficient what every site says, and their mean."""
    if model.sites is None:
        return ""
    page = (
        "<section><h2>Site by site</h2><p>Each site's own coefficient with its interval (noise and "
        "sampling), and the mean over sites below.</p>"
    )
    for found, sites in zip(model.coefficients, model.sites, strict=True):
        if not found.told:
            continue
        rows = [
            _mark(f"{site.name} (weight {site.weight:.0%})", site.coefficient, 1.0, False, "party")
            for site in sites
            if site.coefficient.told
        ]
        rows.append(_mark("mean over sites", found, 1.0, False, "blend"))
        name = f"{found.term.name}: {what_is_compared(found.term)}"
        page += f"<h3>{escape(name)}</h3>" + _forest(rows, name, False)
        if hidden := [site.name for site in sites if not site.coefficient.told]:
            page += f"<p>Hidden by the noise: {escape(', '.join(hidden))}.</p>"
    return page + "</section>"


def _promise(made: Estimated) -> str:
    page = "<section><h2>The promise</h2><p>What was promised to the people behind the rows, "
    page += "before any of this was computed:</p>" + promises(made.sources)
    if made.honest:
        rows = [(str(honest), f"{epsilon:.3g}") for honest, epsilon in made.honest]
        page += (
            "<p>Each organisation added a share of the noise. How much the sum says about one "
            "person depends on how many of them keep their share secret:</p>"
        )
        page += _table(("honest organisations", "ε"), rows)
    return page + refused(made.refusals) + "</section>"


def _about(made: Estimated) -> str:
    return (
        f"<footer><p>Written by {escape(made.software)} for the study with digest "
        f"{escape(made.digest)}.</p></footer>"
    )
