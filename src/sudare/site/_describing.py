"""A table 1 of everybody's rows, from verified releases: as lines, as CSV and as a page.

Everything is computed from what was released before, so that it costs nobody anything more.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

import msgspec

from sudare import __version__, charts
from sudare.blending import receive
from sudare.estimation import (
    Description,
    LevelSummary,
    NoisySums,
    NumberSummary,
    Quantity,
    describe,
)
from sudare.foundations import checks
from sudare.foundations.privacy import account
from sudare.releases import LearnerRelease, MomentsRelease, PooledRelease, Release
from sudare.site._model import Refusal
from sudare.site._receiving import Checked, counted_once, shown_name
from sudare.site._report import _PAGE, _STYLE, _table
from sudare.study import Study

_NO_MOMENTS = (
    "it holds the coefficients of a model, not moments: nothing about single columns can be read "
    "from it"
)
_MOST_DECIMALS = 6
NAMES_WHOLE = """
section { overflow-x: auto; } p, li, h1, h2, h3 { overflow-wrap: anywhere; }
td:nth-child(-n+2) { overflow-wrap: normal; }
"""
"""On a phone numbers wrap before the names of columns do."""
MISSING = "missing"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A release whose sums are in the table."""

    name: str
    rows: int
    organisations: int
    sentence: str
    """What was promised to the people behind it."""


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A table 1, and what it was made from."""

    description: Description
    about: str
    sources: tuple[Source, ...]
    refusals: tuple[Refusal, ...]
    digest: str
    """Of the study."""
    software: str = f"sudare {__version__}"

    @property
    def sentence(self) -> str:
        """Whose rows these are."""
        many = sum(source.organisations for source in self.sources)
        noun = "organisation" if many == 1 else "organisations"
        return (
            f"{self.description.n} rows of {many} {noun}. Computed from what they had released: "
            "no further ε is spent."
        )


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: what it is about, and its numbers."""

    column: str
    level: str
    quantity: Quantity
    percent: bool
    outcome: Quantity | None = None
    """Among the rows of this level."""


def describe_releases(
    checked: Sequence[Checked],
    study: Study,
    *,
    level: float = 0.95,
    sampling: bool = False,
    pairs: bool | None = None,
) -> Described:
    """The table of all rows behind the releases that passed; nobody's rows count twice.

    A pooled release is preferred to separate ones by its members.
    """
    used, refusals = usable_moments(checked, study)
    found = describe(NoisySums.of(used), study, level=level, sampling=sampling, pairs=pairs)
    return Described(
        description=found,
        about=study.description,
        sources=tuple(source_of(release, study) for release in used),
        refusals=tuple(refusals),
        digest=study.digest(),
    )


def usable_moments(
    checked: Sequence[Checked], study: Study
) -> tuple[list[MomentsRelease], list[Refusal]]:
    """Possible releases of moments, nobody's rows twice, and why all others are not used."""
    kept: list[MomentsRelease] = []
    refusals = []
    for each in counted_once(checked):
        if each.trusted is None:
            reason = each.problem or "not valid"
        elif isinstance(each.trusted.release, LearnerRelease):
            reason = _NO_MOMENTS
        else:
            kept.append(msgspec.structs.replace(each.trusted.release, party=each.trusted.signer))
            continue
        refusals.append(Refusal(what=shown_name(each), reason=reason))
    dropped = {each.party: each.reason for each in receive(kept, study.contract).dropped}
    refusals += [Refusal(what=party, reason=reason) for party, reason in dropped.items()]
    used = [release for release in kept if release.party not in dropped]
    if not used:
        reasons = "".join(f"\n  {each.what}: {each.reason}" for each in refusals)
        raise checks.InvalidInput(
            f"Expected releases of moments; of {len(checked)} files none can be used{reasons}"
        )
    return used, refusals


def table_lines(found: Description) -> Iterator[Line]:
    """The table, line by line: the outcome first, then the columns in the study's order."""
    outcome = found.outcome
    levels: tuple[LevelSummary, ...]
    if outcome.deviation is None:
        positive = outcome.positive or ""
        yield Line(column=outcome.column, level=positive, quantity=outcome.mean, percent=True)
    else:
        yield from _two(outcome.column, outcome.mean, outcome.deviation)
    for column in found.columns:
        if isinstance(column, NumberSummary):
            yield from _two(column.column, column.mean, column.deviation)
            levels = () if column.missing is None else (column.missing,)
        else:
            levels = column.levels
        yield from (_level(column.column, each) for each in levels)


def _two(column: str, mean: Quantity, deviation: Quantity) -> Iterator[Line]:
    yield Line(column=column, level="mean", quantity=mean, percent=False)
    yield Line(column=column, level="SD", quantity=deviation, percent=False)


def _level(column: str, found: LevelSummary) -> Line:
    level = MISSING if found.level is None else found.level
    return Line(
        column=column, level=level, quantity=found.share, percent=True, outcome=found.outcome
    )


def outcome_title(found: Description) -> str:
    """What the outcome's numbers are."""
    outcome = found.outcome
    if outcome.positive is None:
        return f"mean {outcome.column}"
    return f"{outcome.column} = {outcome.positive}"


def shown(quantity: Quantity, percent: bool) -> str:
    """A number with its interval, to as many digits as its interval gives; or why it is hidden."""
    if not quantity.told:
        return quantity.reason
    factor, unit = (100.0, " %") if percent else (1.0, "")
    value, low, high = (each * factor for each in quantity.possible)
    assert quantity.low is not None
    assert quantity.high is not None
    half = (quantity.high - quantity.low) * factor / 2
    decimals = _MOST_DECIMALS
    if half > 0:
        decimals = min(max(1 - math.floor(math.log10(half)), 0), _MOST_DECIMALS)
    value, low, high = (round(each, decimals) + 0.0 for each in (value, low, high))
    star = "*" if quantity.clipped else ""
    texts = [f"{each:.{decimals}f}" for each in (value, low, high)]
    return f"{texts[0]}{unit} ({texts[1]} to {texts[2]}){star}"


CSV_HEADER = (
    "column",
    "level",
    "other_column",
    "other_level",
    "statistic",
    "value",
    "low",
    "high",
    "told",
    "covers",
    "reason",
)
"""What the cells of `csv_rows` are."""


def csv_rows(found: Description) -> Iterator[tuple[object, ...]]:
    """One line for each number, as it came out: not clipped."""
    outcome = found.outcome.column
    for line in table_lines(found):
        plain = {"mean": "mean", "SD": "standard deviation"}
        if line.percent:
            yield _csv(line.column, line.level, "", "", "share", line.quantity)
        else:
            yield _csv(line.column, "", "", "", plain[line.level], line.quantity)
        if line.outcome is not None:
            positive = found.outcome.positive
            statistic = "mean" if positive is None else "share in group"
            yield _csv(outcome, positive or "", line.column, line.level, statistic, line.outcome)
    for pair in found.correlations:
        yield _csv(pair.first, "", pair.second, "", "correlation", pair.correlation)
    for table in found.two_way:
        for cell in table.cells:
            yield _csv(
                table.first, cell.first, table.second, cell.second, "two-way share", cell.share
            )


def _csv(*words: object) -> tuple[object, ...]:
    *names, quantity = words
    assert isinstance(quantity, Quantity)
    numbers = (quantity.value, quantity.low, quantity.high)
    return (*names, *numbers, quantity.told, quantity.covers, quantity.reason)


def render_description(made: Described) -> str:
    """The whole page: one HTML file, for reading on paper, on a screen or on a phone."""
    found = made.description
    sections = [_summary(made), *table_sections(found), notes_section(found.notes)]
    sections += [_sources(made), _about(made)]
    return _PAGE.format(
        title=escape(f"{found.study}: table 1"),
        style=_STYLE + charts.STYLE + NAMES_WHOLE,
        body="\n".join(part for part in sections if part),
    )


def table_sections(found: Description) -> list[str]:
    """The tables and pictures of a description."""
    return [_main(found), _groups(found), _correlations(found), _two_way(found)]


def _summary(made: Described) -> str:
    about = f"<p>{escape(made.about)}</p>" if made.about else ""
    return (
        f"<header><h1>{escape(made.description.study)}: table 1</h1>{about}"
        f"<p class=lead>{escape(made.sentence)}</p></header>"
    )


def _main(found: Description) -> str:
    percent = found.outcome.positive is not None
    rows, last = [], ""
    for line in table_lines(found):
        column, last = "" if line.column == last else line.column, line.column
        among = "" if line.outcome is None else shown(line.outcome, percent)
        rows.append((column, line.level, shown(line.quantity, line.percent), among))
    head = ("", "", f"of all {found.n} rows", f"{outcome_title(found)}, among them")
    return f"<section><h2>Who the rows are about</h2>{_table(head, rows)}</section>"


def _groups(found: Description) -> str:
    """The outcome in each group, drawn; what is hidden is in the table above."""
    factor = 100.0 if found.outcome.positive is not None else 1.0
    marks = [
        _mark(f"{line.column}: {line.level}", line.outcome, factor, "party")
        for line in table_lines(found)
        if line.outcome is not None and line.outcome.told
    ]
    if not marks:
        return ""
    if found.outcome.mean.told:
        marks.insert(0, _mark("everybody", found.outcome.mean, factor, "blend"))
    title = outcome_title(found) + (", in percent" if factor == 100 else "")
    chart = charts.intervals(marks, f"{title}, by group")
    return f"<section><h2>{escape(title)}, by group</h2>{chart}</section>"


def _mark(label: str, quantity: Quantity, factor: float, kind: str) -> charts.Interval:
    value, low, high = (factor * each for each in quantity.possible)
    return charts.Interval(label, value, low, high, kind)


def _correlations(found: Description) -> str:
    if not found.correlations:
        return ""
    rows = [
        (each.first, each.second, shown(each.correlation, False)) for each in found.correlations
    ]
    return f"<section><h2>Correlations</h2>{_table(('', '', ''), rows)}</section>"


def _two_way(found: Description) -> str:
    if not found.two_way:
        return ""
    page = "<section><h2>Two columns at once</h2><p>Shares of all rows.</p>"
    for table in found.two_way:
        rows = [(cell.first, cell.second, shown(cell.share, True)) for cell in table.cells]
        page += f"<h3>{escape(table.first)} and {escape(table.second)}</h3>"
        page += _table((table.first, table.second, ""), rows)
    return page + "</section>"


def notes_section(notes: Iterable[str]) -> str:
    """What a reader has to know."""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<section><h2>How to read it</h2><ul>{items}</ul></section>"


def _sources(made: Described) -> str:
    page = "<section><h2>What it was made from</h2>" + promises(made.sources)
    return page + refused(made.refusals) + "</section>"


def promises(sources: Iterable[Source]) -> str:
    """What was promised, and to whom."""
    page = ""
    alike: dict[str, list[str]] = {}
    for source in sources:
        alike.setdefault(source.sentence, []).append(f"{source.name} ({source.rows} rows)")
    for sentence, names in alike.items():
        page += f"<blockquote>{escape(sentence)}</blockquote><p>{escape(', '.join(names))}</p>"
    return page


def refused(refusals: Iterable[Refusal]) -> str:
    """What was not used, and why."""
    rows = [(each.what, each.reason) for each in refusals]
    return "<h3>Not used</h3>" + _table(("release", "reason"), rows) if rows else ""


def _about(made: Described) -> str:
    return (
        f"<footer><p>Written by {escape(made.software)} for the study with digest "
        f"{escape(made.digest)}.</p></footer>"
    )


def source_of(release: Release, study: Study) -> Source:
    """Who is behind a release, and what was promised to them."""
    pooled = release if isinstance(release, PooledRelease) else None
    delta = study.privacy.delta if pooled is None else pooled.delta
    return Source(
        name=release.party,
        rows=release.n,
        organisations=1 if pooled is None else len(pooled.members),
        sentence=str(account([release.event], delta)),
    )
