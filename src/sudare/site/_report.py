"""The report: one HTML file about a blended model, for people who must decide or sign.

No script and no network; it prints, and follows the reader's light or dark mode. Everything that
came from outside (names, study texts) is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape

from sudare import charts
from sudare.site._model import Model, Party

_MOST_BARS = 20


def render(model: Model) -> str:
    """The whole page."""
    sections = [
        _summary(model),
        _assessed(model),
        _blended(model),
        _effects(model),
        _opinions(model),
        _promises(model),
        _officer(model),
        _about(model),
    ]
    title = f"{model.study.name}: a blended model"
    return _PAGE.format(
        title=escape(title),
        style=_STYLE + charts.STYLE,
        body="\n".join(part for part in sections if part),
    )


def _summary(model: Model) -> str:
    study, story = model.study, model.story
    described = f"<p>{escape(study.description)}</p>" if study.description else ""
    return (
        f"<header><h1>{escape(study.name)}</h1>{described}"
        f"<p class=lead>{escape(story.sentence)}</p>"
        f"<p>Made by <b>{escape(model.party)}</b> on {escape(model.moment[:10])} from "
        f"{model.rows} rows of its own and {len(story.parties)} releases. It predicts "
        f"<b>{escape(study.target.column)}</b>"
        f"{_classes(model)}. The own rows never left; this model is not a release and stays "
        "inside.</p></header>"
    )


def _classes(model: Model) -> str:
    classes = model.study.target.classes
    if classes is None:
        return ""
    return f" (the probability of {escape(str(classes[1]))!s})"


def _assessed(model: Model) -> str:
    found = model.story.assessment
    if found is None:
        return ""
    chart = charts.intervals(
        [
            charts.Interval("own model", found.own.value, found.own.low, found.own.high, "own"),
            charts.Interval("blend", found.blend.value, found.blend.low, found.blend.high, "blend"),
        ],
        f"{found.measure}, own model and blend",
    )
    gain = found.gain
    verdict = "The difference is within chance."
    if gain.low > 0:
        verdict = "The blend is better."
    elif gain.high < 0:
        verdict = "The own model is better: do not use the blend."
    finer = ""
    if found.log_loss_gain is not None:
        fine = found.log_loss_gain
        finer = (
            f" In log loss, which also sees how sure a prediction was, the blend gains "
            f"{fine.value:+.3f} ({fine.low:+.3f} to {fine.high:+.3f})."
        )
    page = (
        f"<section><h2>Own model against blend</h2><p>{escape(found.measure.capitalize())} on "
        f"{found.rows} held-out rows, with 95 % intervals. Gain {gain.value:+.3f} "
        f"({gain.low:+.3f} to {gain.high:+.3f}). <b>{verdict}</b>{finer}</p>{chart}"
    )
    if found.calibration:
        bins = found.calibration
        page += (
            "<h3>Calibration</h3><p>Where the blend says 70 %, does it happen in 70 % of cases? "
            "Dots on the dashed line mean yes.</p>"
            + charts.curves(
                [
                    charts.Series(
                        "blend",
                        [b.predicted for b in bins],
                        [b.observed for b in bins],
                        "blend",
                        [b.low for b in bins],
                        [b.high for b in bins],
                    )
                ],
                "calibration of the blend",
                "predicted probability",
                "observed share",
                diagonal=True,
            )
        )
    return page + "</section>"


def _blended(model: Model) -> str:
    story = model.story
    weights = sorted(story.weights.items(), key=lambda item: -item[1])
    page = "<section><h2>What was blended</h2>" + charts.bars(
        [
            charts.Bar(name, weight, "own" if name == "own model" else "blend")
            for name, weight in weights[:_MOST_BARS]
        ],
        "weights of the candidates",
        percent=True,
    )
    if story.parties:
        parties = sorted(story.parties, key=lambda party: -party.influence)
        shown = parties[:_MOST_BARS]
        left = len(parties) - len(shown)
        page += (
            "<h3>Influence of each release</h3>"
            + charts.bars(
                [charts.Bar(party.name, party.influence, "party") for party in shown],
                "influence of each release",
                percent=True,
            )
            + (f"<p>{left} more with less influence.</p>" if left else "")
        )
    if story.refusals:
        page += "<h3>Not used</h3>" + _table(
            ("release", "reason"), ((each.what, each.reason) for each in story.refusals)
        )
    return page + "</section>"


def _effects(model: Model) -> str:
    effects = model.effects()
    ratios = effects and effects[0].odds_ratio is not None
    head = ("feature", "one step means", "odds ratio" if ratios else "effect on the target")
    rows = (
        (e.feature, e.unit, f"{e.effect if e.odds_ratio is None else e.odds_ratio:.4g}")
        for e in effects
    )
    return (
        "<section><h2>Coefficients</h2><p>The average over the blend's components, in the study's "
        "own units. They describe the model, not causes.</p>" + _table(head, rows) + "</section>"
    )


def _opinions(model: Model) -> str:
    features = list(dict.fromkeys(each.feature for each in model.story.opinions))
    if not features:
        return ""
    page = (
        "<section><h2>What each source says</h2><p>For the strongest features: the blend, the own "
        "model, and what each release says by itself. Lines show the noise that privacy added "
        "(95 %).</p>"
    )
    for feature in features:
        rows = [
            charts.Interval(each.source, each.effect, each.low, each.high, each.kind)
            for each in model.story.opinions
            if each.feature == feature
        ]
        page += f"<h3>{escape(feature)}</h3>" + charts.intervals(
            rows, f"effect of {feature} by source", zero=0.0
        )
    return page + "</section>"


def _promises(model: Model) -> str:
    parties = model.story.parties
    if not parties:
        return ""
    alike: dict[str, list[Party]] = {}
    for party in parties:
        alike.setdefault(party.sentence, []).append(party)
    page = "<section><h2>What was promised, and to whom</h2>"
    for sentence, group in alike.items():
        names = ", ".join(f"{party.name} ({party.rows} rows)" for party in group)
        page += f"<blockquote>{escape(sentence)}</blockquote><p>{escape(names)}</p>"
        page += "".join(_honest(party) for party in group if party.honest)
    return page + "</section>"


def _honest(party: Party) -> str:
    """What a pool's promise is for every number of honest organisations, down to oneself alone."""
    alone = "1: only one; also if the cipher is ever broken"
    rows = [(str(h) if h > 1 else alone, f"{epsilon:.3g}") for h, epsilon in party.honest]
    return (
        "<p>Each organisation added a share of the noise. How much the sum says about one person "
        "depends on how many of them keep their share secret:</p>"
        + _table(("honest organisations", f"ε (δ = {party.delta:g})"), rows)
    )


def _officer(model: Model) -> str:
    terms, study = model.study.privacy, model.study
    rows = [
        ("Study", f"{study.name}, digest {study.digest()}"),
        ("Whose privacy", f"one {terms.unit}: its data replaced by any other"),
        ("Price of one release", f"ε = {terms.epsilon:g}, δ = {terms.delta:g}"),
        ("What is released", f"{terms.model}, signed, a few kilobytes; never rows"),
        ("Where bounds come from", "the study, agreed on before anyone looked at data"),
        ("What this file is", "made from own rows without noise; for internal use only"),
        (
            "What is not protected",
            "the number of rows; people with several rows or in several "
            "organisations, whose ε's add up; how long computations take",
        ),
    ]
    return (
        "<section class=page><h2>For the data-protection officer</h2>"
        + _table(("", ""), rows)
        + "<p class=sign>Read and accepted: ______________________ &nbsp; Date: ____________</p>"
        "</section>"
    )


def _about(model: Model) -> str:
    return f"<footer><p>Written by {escape(model.software)}.</p></footer>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    shown = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    return f"<table>{shown}<tbody>{body}</tbody></table>"


_STYLE = """
:root { color-scheme: light dark; --ink: #1d2327; --soft: #5c6770; --paper: #fff; --line: #d9dee2;
  --blend: #00796b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaed; --soft: #9aa7b1; --paper: #14181b;
  --line: #333c43; --blend: #4db6a6; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 780px; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; } .lead { font-size: 1.15rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top;
  padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; }
blockquote { margin: 1rem 0; padding: .2rem 1rem; border-left: 4px solid var(--blend); }
svg { width: 100%; height: auto; }
.sign { margin-top: 2rem; } footer { color: var(--soft); margin-top: 3rem; font-size: .9rem; }
@media print { body { margin: 0; max-width: none; font-size: 12px; } .page { break-before: page; }
  svg, table, blockquote { break-inside: avoid; } }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
