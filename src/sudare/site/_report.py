"""The report: one HTML file about a blended model, for people who must decide or sign.

No script and no network; it prints, and follows the reader's light or dark mode. Everything that
came from outside (names, study texts) is escaped. Every number is in the model's file, or is
computed from it here.
"""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

from sudare import charts
from sudare.site._assessment import Assessment
from sudare.site._measures import WORDS, Estimate
from sudare.site._model import HIDDEN, Effect, Model, Party, Slope

_MOST_BARS = 40
"""More are there as well, folded."""
_COUNTS = {1: "One", 2: "Two", 3: "Three", 4: "Four", 5: "Five", 10: "Ten"}


def render(model: Model) -> str:
    """The whole page."""
    sections = [
        _summary(model),
        _assessed(model),
        _blended(model),
        _effects(model),
        _slopes(model),
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
        f"<section><h2>Own model against blend</h2><p>{escape(_scheme(found))}</p>"
        f"<p>{escape(found.measure.capitalize())}, with 95 % intervals. Gain of the blend: "
        f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}). <b>{verdict}</b>{finer}</p>"
        f"{chart}{_measured(model, found)}"
    )
    if found.calibration:
        bins = found.calibration
        curve = charts.curves(
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
        page += (
            "<h3>Calibration</h3><p>Where the blend says 70 %, does it happen in 70 % of cases? "
            "Dots on the dashed line mean yes. Each dot is a part of the held-out rows, in the "
            f"order of their predictions; the band is a 95 % interval.</p><figure>{curve}</figure>"
        )
    return page + "</section>"


def _scheme(found: Assessment) -> str:
    """How rows were held out."""
    word = _COUNTS.get(found.folds, str(found.folds))
    return (
        f"{word}-fold cross-validation: the {found.rows} own rows were dealt into {found.folds} "
        "parts at random, and each part was predicted by an own model and a blend that were made "
        "without it. So every row was held out once, and no number in this section comes from a "
        "model that had seen the row."
    )


def _measured(model: Model, found: Assessment) -> str:
    if not found.compared:
        return ""
    rows = [
        (WORDS[each.name], _told(each.own), _told(each.blend))
        for each in found.compared
        if each.name != "share_correct"  # drawn above
    ]
    page = "<h3>Other measures</h3>" + _table(("", "own model", "blend"), rows, "numbers")
    if model.study.target.classes is None:
        page += (
            f"<p>RMSE and MAE are in units of {escape(model.study.target.column)}. A calibration "
            "slope of 1 and an intercept of 0 are best.</p>"
        )
    else:
        page += (
            "<p>An AUC of 0.5 is guessing, 1 perfect; Brier score and log loss are best when "
            "small; a calibration slope of 1 and an intercept of 0 are best, and a slope below 1 "
            "says that predictions are too extreme. A row is called "
            f"{escape(str(model.study.target.classes[1]))} above a probability of 0.5.</p>"
        )
    return (
        page + "<p>Intervals are for other rows like these (bootstrap, 95 %); the models stay as "
        "they are.</p>"
    )


def _told(found: Estimate) -> str:
    if found.value is None:
        return "infinite, or not defined"
    if found.low is None or found.high is None:
        return f"{found.value:.3g} (too few rows for an interval)"
    return f"{_number(found.value)} ({_number(found.low)} to {_number(found.high)})"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _blended(model: Model) -> str:
    story = model.story
    weights = sorted(story.weights.items(), key=lambda item: -item[1])
    page = (
        "<section><h2>What was blended</h2><p>Weight of each kind of model in the blend:</p>"
        + charts.bars(
            [
                charts.Bar(name, weight, "own" if name == "own model" else "blend")
                for name, weight in weights
            ],
            "weights of the kinds of models",
            percent=True,
        )
    )
    if story.parties:
        parties = sorted(story.parties, key=lambda party: -party.influence)
        bars = [charts.Bar(party.name, party.influence, "party") for party in parties]
        most = max(party.influence for party in parties)
        page += (
            "<h3>Influence of each release</h3><p>Share of the blend that came through it; all "
            f"{len(parties)} together "
            f"{100 * sum(party.influence for party in parties):.0f} %.</p>"
            + charts.bars(bars[:_MOST_BARS], "influence of each release", percent=True, most=most)
        )
        if bars[_MOST_BARS:]:
            page += (
                f"<details><summary>{len(bars) - _MOST_BARS} more, with less influence</summary>"
                + charts.bars(bars[_MOST_BARS:], "influence of the others", percent=True, most=most)
                + "</details>"
            )
    if story.refusals:
        page += "<h3>Not used</h3>" + _table(
            ("release", "reason"), ((each.what, each.reason) for each in story.refusals)
        )
    return page + "</section>"


def _effects(model: Model) -> str:
    effects = model.effects()
    ratios = model.study.task == "classification"
    many = len(model.components)
    page = "<section><h2>Coefficients</h2><p>In the study's own units. "
    if many > 1:
        page += (
            f"The blend mixes the {'probabilities' if ratios else 'predictions'} of {many} linear "
            "models, so that no one set of coefficients is the blend; these are their averages, by "
            "weight. sudare export writes all of them. "
        )
    page += (
        "They describe the model, not causes, and they are shrunk on purpose: no intervals. For "
        "coefficients of everybody's rows with intervals: sudare estimate.</p>"
    )
    head = ["", "one step", "log-odds" if ratios else f"change of {model.study.target.column}"]
    head += ["odds ratio"] if ratios else []
    counted = any(e.seen is not None and e.seen.own is not None for e in effects)
    head += ["own rows"] if counted else []
    return (
        page + _table(head, (_effect(e, ratios, counted) for e in effects), "terms") + "</section>"
    )


def _effect(effect: Effect, ratios: bool, counted: bool) -> list[str]:
    unseen = effect.unseen
    cells = [effect.feature, effect.unit, f"{effect.effect:.4g}"]
    if unseen:
        cells[1] = f"{effect.unit}: {'' if effect.told else 'no coefficient, since '}{unseen}"
    if not effect.told:
        cells[2] = "–"
    if ratios:
        ratio = "" if effect.odds_ratio is None else f"{effect.odds_ratio:.4g}"
        cells.append(ratio if effect.told else "–")
    if counted:
        own = None if effect.seen is None else effect.seen.own
        cells.append("" if own is None else str(own))
    return cells


def _slopes(model: Model) -> str:
    slopes = model.story.slopes
    if not slopes:
        return ""
    classes, target = model.study.target.classes, model.study.target.column
    if classes is None:
        what, factor = f"{target} changes", 1.0
    else:
        what, factor = f"the share of {target} = {classes[1]} changes, in percentage points,", 100.0
    parties = [each for each in slopes if each.kind == "party"]
    steps = {e.feature: e.unit for e in model.effects()}
    page = (
        "<section><h2>What each source says</h2><p>How much "
        f"{escape(what)} with one step of a feature while the others stay: the straight line of "
        "least squares through the rows behind each source, for the features that matter most. "
        "Lines are 95 % intervals for both the noise that privacy added and the sample that the "
        "rows are. Of the blend, and of releases of coefficients, it is the line through what they "
        "predict for own rows.</p>"
    )
    if classes is not None and any(each.reason in ("", HIDDEN) for each in parties):
        page += (
            "<p>Straight lines, not log-odds: released sums tell these honestly whatever the rows "
            "look like, and log-odds only where rows are normal.</p>"
        )
    for feature in dict.fromkeys(each.feature for each in slopes):
        some = [each for each in slopes if each.feature == feature]
        shown = [each for each in some if each.value is not None or each.kind != "party"]
        page += f"<h3>{escape(feature)} <small>{escape(steps.get(feature, ''))}</small></h3>"
        if all(each.value is None for each in some):
            page += "<p class=hidden>No source tells it.</p>"
            continue
        page += charts.intervals(
            [_mark(each, factor) for each in shown], f"slope of {feature} by source", zero=0.0
        )
    page += _hidden(slopes)
    reasons: dict[str, list[str]] = {}
    for each in slopes:
        if each.value is not None and each.reason:
            named = reasons.setdefault(each.reason, [])
            named += [] if each.source in named else [each.source]
    if reasons:
        told = (
            f"{escape(', '.join(_in_order(names)))} ({escape(reason)})"
            for reason, names in reasons.items()
        )
        page += f"<p class=hidden>Without a line: {'; '.join(told)}.</p>"
    return page + "</section>"


def _mark(slope: Slope, factor: float) -> charts.Interval:
    if slope.value is None:
        return charts.Interval(slope.source, 0, 0, 0, slope.kind, note=slope.reason)
    low, high = (math.nan if end is None else factor * end for end in (slope.low, slope.high))
    return charts.Interval(slope.source, factor * slope.value, low, high, slope.kind)


def _hidden(slopes: Sequence[Slope]) -> str:
    """Releases without a mark, by reason: for all features alike, or for some."""
    whole = len({each.feature for each in slopes})
    missing: dict[tuple[str, str], list[str]] = {}
    for each in slopes:
        if each.value is None and each.kind == "party":
            missing.setdefault((each.source, each.reason), []).append(each.feature)
    told: dict[tuple[str, str], list[str]] = {}
    for (source, reason), features in missing.items():
        where = "all of these" if len(features) == whole else ", ".join(features)
        told.setdefault((reason, where), []).append(source)
    return "".join(
        f"<p class=hidden>{escape(reason.capitalize())}, {escape(where)}: "
        f"{escape(', '.join(_in_order(names)))}.</p>"
        for (reason, where), names in told.items()
    )


def _in_order(names: Iterable[str]) -> list[str]:
    """Clinic 2 before Clinic 10."""

    def key(name: str) -> list[str]:
        parts = re.split(r"(\d+)", name.casefold())
        return [part.zfill(12) if part.isdecimal() else part for part in parts]

    return sorted(names, key=key)


def _promises(model: Model) -> str:
    parties = model.story.parties
    if not parties:
        return ""
    alike: dict[str, list[Party]] = {}
    for party in parties:
        alike.setdefault(party.sentence, []).append(party)
    page = "<section><h2>What was promised, and to whom</h2>"
    for sentence, group in alike.items():
        order = _in_order(party.name for party in group)
        group.sort(key=lambda party: order.index(party.name))
        names = ", ".join(map(_named, group))
        page += f"<blockquote>{escape(sentence)}</blockquote><p>{escape(names)}</p>"
        page += "".join(_honest(party) for party in group if party.honest)
    return page + "</section>"


def _named(party: Party) -> str:
    calls = f", calls itself “{party.calls_itself}”" if party.calls_itself else ""
    return f"{party.name} ({party.rows} rows{calls})"


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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    shown = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    opened = f"<table class={kind}>" if kind else "<table>"
    return f"<div class=scroll>{opened}{shown}<tbody>{body}</tbody></table></div>"


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
td { overflow-wrap: anywhere; } td:first-child { overflow-wrap: normal; min-width: 7rem; }
.numbers td, .terms td { overflow-wrap: normal; font-variant-numeric: tabular-nums; }
.terms td:nth-child(2) { min-width: 9rem; }
h3 small { color: var(--soft); font-weight: normal; margin-left: .4rem; }
blockquote { margin: 1rem 0; padding: .2rem 1rem; border-left: 4px solid var(--blend); }
svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; } .hidden, summary { color: var(--soft); font-size: .85rem; }
figure { margin: 0; } h3 { margin-top: 1.8rem; } h3 + p { margin-top: .3rem; }
p, li, h1, h2, h3 { overflow-wrap: anywhere; }
@media (max-width: 640px) { figure svg text { font-size: 22px; } body { margin: 1rem auto; } }
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
