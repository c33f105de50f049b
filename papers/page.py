"""One page that puts every figure next to the paper's claim.

Self-contained: pictures are part of it, there is no script and nothing is loaded from elsewhere.
Their colours follow the page, light or dark.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from papers import drawing
from papers.figure import Conclusion, Figure, Setting, TextTable, Verdict
from sudare import __version__


@dataclass(frozen=True)
class Outcome:
    """A figure that was measured: what it came to, and its files in the folder."""

    figure: Figure
    conclusion: Conclusion
    files: Mapping[str, str]
    table: TextTable | None = None


@dataclass(frozen=True)
class Skipped:
    """A figure that was not measured, and why."""

    figure: Figure
    reason: str


_COLORS = {
    drawing.INK: "ink",
    drawing.MUTED: "muted",
    drawing.GRID: "grid",
    drawing.BLUE: "blue",
    drawing.SKY: "sky",
    drawing.GREEN: "green",
    drawing.ORANGE: "orange",
    drawing.VERMILION: "vermilion",
    drawing.PINK: "pink",
    "#ffffff": "paper",
}
_DARK = {
    "ink": "#e8eaed",
    "muted": "#9aa0a6",
    "grid": "#33373d",
    "blue": "#5aa9e6",
    "sky": "#8fd0f5",
    "green": "#3cc79b",
    "orange": "#f0b840",
    "vermilion": "#ff8a4c",
    "pink": "#e59cc4",
    "paper": "#17191c",
}
_CLASSES = {Verdict.HOLDS: "yes", Verdict.CORRECTED: "fixed", Verdict.FAILS: "no"}
_STYLE = """
:root { color-scheme: light dark; --yes: #0b6e4f; --fixed: #8a5a00; --no: #b3261e; %(light)s }
@media (prefers-color-scheme: dark) {
  :root { --yes: #57d3a5; --fixed: #f0b840; --no: #ff8a80; %(dark)s }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 56rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0.5rem 0 }
h2 { font-size: 1.2rem; margin: 0 }
a { color: var(--blue) }
article { border-top: 1px solid var(--grid); padding: 1.5rem 0 }
.from, footer { color: var(--muted); font-size: 0.9rem; margin: 0.2rem 0 }
.picture { overflow-x: auto; margin: 0.5rem 0 }
.picture svg { display: block; width: 100%%; min-width: 30rem; height: auto; background: none }
.picture svg text { font-family: system-ui, "DejaVu Sans", sans-serif }
dl { display: grid; grid-template-columns: 9.5rem 1fr; gap: 0.3rem 1rem; margin: 0.5rem 0 }
dt { color: var(--muted) }
dd { margin: 0 }
.yes { color: var(--yes) } .fixed { color: var(--fixed) } .no { color: var(--no) }
.verdict { font-weight: 600 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%% }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem 0.3rem 0;
  border-bottom: 1px solid var(--grid) }
th { color: var(--muted); font-weight: 500 }
summary { cursor: pointer; color: var(--muted) }
@media (max-width: 36rem) { dl { grid-template-columns: 1fr } dt { margin-top: 0.4rem } }
@media print { article { break-inside: avoid } }
"""


def render(
    outcomes: Sequence[Outcome], skipped: Sequence[Skipped], setting: Setting, folder: Path
) -> str:
    """The whole page, from the SVG files that were written."""
    colors = {"light": {n: c for c, n in _COLORS.items()}, "dark": _DARK}
    style = _STYLE % {
        key: " ".join(f"--{name}: {color};" for name, color in found.items())
        for key, found in colors.items()
    }
    articles = [_article(outcome, folder) for outcome in outcomes]
    articles += [_skipped(one) for one in skipped]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>The papers, measured again</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<h1>The papers, measured again</h1>\n"
        "<p>Every figure next to what its paper claims. Shaded bands are 95 % intervals of the "
        "mean over independent runs; curves without a band are computed, not drawn at random. "
        "Noise is simulated from a seed.</p>\n"
        f"{_contents(outcomes, skipped)}\n" + "\n".join(articles) + "\n<footer>"
        f"sudare {escape(__version__)}, {setting.size} size, seed {setting.seed}.</footer>\n"
        "</body>\n</html>\n"
    )


def recolored(svg: str) -> str:
    """The picture as a part of the page, its colours those of the page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", body, count=1)
    for color, name in _COLORS.items():
        body = re.sub(f"{color}\\b", f"var(--{name})", body, flags=re.IGNORECASE)
    return body


def _contents(outcomes: Sequence[Outcome], skipped: Sequence[Skipped]) -> str:
    rows = [
        f'<tr><td><a href="#{escape(o.figure.name)}">{escape(o.figure.title)}</a></td>'
        f"<td>{_verdict(o.conclusion.verdict)}</td></tr>"
        for o in outcomes
    ]
    rows += [
        f'<tr><td><a href="#{escape(s.figure.name)}">{escape(s.figure.title)}</a></td>'
        "<td>not measured</td></tr>"
        for s in skipped
    ]
    return (
        "<table><thead><tr><th>figure</th><th>the paper's claim</th></tr></thead><tbody>"
        + "".join(rows)
        + "</tbody></table>"
    )


def _article(outcome: Outcome, folder: Path) -> str:
    figure, told = outcome.figure, outcome.conclusion
    body = ""
    if "svg" in outcome.files:
        svg = recolored((folder / outcome.files["svg"]).read_text())
        body = f'<div class="picture" role="img" aria-label="{escape(figure.title)}">{svg}</div>'
    elif outcome.table is not None:
        body = _table(outcome.table)
    links = ", ".join(
        f'<a href="{escape(name)}">{kind.upper()}</a>' for kind, name in outcome.files.items()
    )
    return (
        f'<article id="{escape(figure.name)}">\n<h2>{escape(figure.title)}</h2>\n'
        f'<p class="from">{escape(figure.paper)} · {escape(figure.name)} · {links}</p>\n{body}\n'
        f"<dl><dt>The paper claims</dt><dd>{escape(figure.claim)}</dd>"
        f"<dt>We measure</dt><dd>{escape(told.measured)}</dd>"
        f"<dt>Where they differ</dt><dd>{escape(told.differs)}</dd>"
        f"<dt>The claim</dt><dd>{_verdict(told.verdict)}</dd></dl>\n"
        f"<details><summary>What was checked</summary>{_findings(told)}</details>\n</article>"
    )


def _skipped(one: Skipped) -> str:
    return (
        f'<article id="{escape(one.figure.name)}">\n<h2>{escape(one.figure.title)}</h2>\n'
        f'<p class="from">{escape(one.figure.paper)} · {escape(one.figure.name)}</p>\n'
        f"<dl><dt>The paper claims</dt><dd>{escape(one.figure.claim)}</dd>"
        f"<dt>Not measured</dt><dd>{escape(one.reason)}</dd></dl>\n</article>"
    )


def _findings(told: Conclusion) -> str:
    rows = [
        (
            finding.statement,
            finding.expected + (" (corrected)" if finding.corrected else ""),
            finding.measured,
            "yes" if finding.holds else "no",
        )
        for finding in told.findings
    ]
    return _table(TextTable(("statement", "expected", "measured", "holds"), tuple(rows)))


def _table(table: TextTable) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _verdict(verdict: Verdict) -> str:
    return f'<span class="verdict {_CLASSES[verdict]}">{escape(verdict)}</span>'
