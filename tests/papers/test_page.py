"""The page: whole, harmless, readable in light and dark."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from papers import drawing, figures, files, page
from papers.figure import Setting, Size
from papers.page import Outcome, Skipped, recolored, render
from tests.papers.smoke import results


class _Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = {name: value or "" for name, value in attrs}
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        for name in ("src", "href", "data", "xlink:href"):
            if name in values:
                (self.targets if values[name].startswith("#") else self.loaded).append(values[name])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"meta", "link", "br"}:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("page")
    outcomes = []
    for name in ("glance-3", "glance-2", "glance-table-1"):
        figure, found = figures()[name], results(name)
        table = figure.table(found) if figure.table else None
        written = files.write(figure, found, folder)
        outcomes.append(Outcome(figure, figure.conclude(found), written, table))
    skipped = [Skipped(figures()["classification-5"], "needs <the data> & more")]
    return render(outcomes, skipped, Setting(Size.SMOKE, 7), folder)


def test_every_tag_is_closed_and_every_anchor_found(made: str) -> None:
    elements = _Elements(made)
    assert elements.open == []
    assert set(elements.targets) <= {f"#{name}" for name in elements.ids}
    assert {"glance-3", "glance-2", "glance-table-1", "classification-5"} <= set(elements.ids)


def test_names_inside_pictures_do_not_clash(made: str) -> None:
    ids = [
        name
        for name in _Elements(made).ids
        if not re.match(
            r"(figure|axes|patch|line2d|text|"
            r"matplotlib|xtick|ytick|legend|FillBetween|PolyCollection)",
            name,
        )
    ]
    assert len(set(ids)) == len(ids)
    used = set(re.findall(r"url\(#(\w+)\)", made))
    assert used <= set(ids)


def test_nothing_is_loaded_and_nothing_runs(made: str) -> None:
    elements = _Elements(made)
    assert "script" not in elements.tags
    assert all(re.fullmatch(r"glance-[\w-]+\.(csv|png|svg|txt)", name) for name in elements.loaded)
    assert not re.search(r"@import|url\((?!#)", made)


def test_claims_measurements_and_verdicts_are_told(made: str) -> None:
    assert made.count("The paper claims") == 4
    assert made.count("Where they differ") == 3
    assert "holds with the correction" in made
    assert "needs &lt;the data&gt; &amp; more" in made
    assert "smoke size, seed 7" in made


def test_colours_follow_the_page(made: str) -> None:
    body = made[made.index("<body>") :]
    for color in (drawing.INK, drawing.MUTED, drawing.BLUE, "#ffffff"):
        assert color not in body.lower()
    assert "fill: var(--ink)" in body
    assert "prefers-color-scheme: dark" in made


def test_pictures_fit_any_width() -> None:
    svg = '<?xml?><svg xmlns="x" width="500pt" height="300pt" viewBox="0 0 500 300"><path/></svg>'
    assert recolored(svg) == '<svg xmlns="x" viewBox="0 0 500 300"><path/></svg>'


def test_dark_colours_stand_out() -> None:
    """Contrast of text and curves against the page, light and dark (WCAG asks 3 for graphics)."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(a: str, b: str) -> float:
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    dark = page._DARK
    assert set(dark) == set(page._COLORS.values())
    assert contrast(dark["ink"], dark["paper"]) > 7
    for name in set(dark) - {"ink", "paper", "grid"}:
        assert contrast(dark[name], dark["paper"]) > 4.5, name
    assert contrast(drawing.INK, "#ffffff") > 7
