"""The dashboard through one short survey, in a real browser, over a real collector.

From before the first round to after the last: the curve appears, follows a jump, survives a restart
of the collector, and ends. Everything shown is compared with what the same addresses tell a script.
"""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.collector import staged
from tests.collector.kit import Clock, a_survey
from tests.collector.served import Served, serving
from tests.support import browser as browsers

ROUNDS, JUMP = 14, 4
SURVEY = a_survey(
    name="at home <b>",
    question="Is anybody at home?",
    rounds=ROUNDS,
    epsilon=6.0,
    round_seconds=1.0,
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.chromium() as made:
        yield made


class Scene:
    """A collector whose clock stands still, a hundred people for each round, and a visitor."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self._folder, self._running, self.clock = folder, running, Clock(-1.0)
        self.served = self._start(0)
        tickets = map(staged.ticket_from, self.served.tickets(100 * ROUNDS))
        self._people = staged.People(SURVEY, [*tickets], lambda t: 0.1 if t < JUMP else 0.9)

    def play(self, rounds: range) -> None:
        """Let everybody report in these rounds, one after the other, and publish each."""
        times = self.served.opened.schedule
        for t in rounds:
            self.clock.now = times.opens(t)
            self.served.send_packed(self._people.records(t))
            self.clock.now = times.publishes(t)
            self.served.published(t + 1)

    def stop(self) -> None:
        self._running.close()

    def start(self) -> None:
        """In the same place again."""
        self.served = self._start(self.served.port)

    def _start(self, port: int) -> Served:
        made = serving(self._folder, SURVEY, clock=self.clock, port=port, health_port=0)
        return self._running.enter_context(made)


def test_a_survey_from_its_beginning_to_its_end(browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as running:
        scene = Scene(tmp_path, running)
        with browsers.visit(browser, scene.served.root) as visit:
            page = visit.page
            _before_the_first_round(page)
            scene.play(range(1))
            page.locator("tr[data-round='0']").wait_for()
            expect(page.locator("#empty")).to_be_hidden()
            _rounds_are_pushed(visit, scene)
            _shows_what_the_collector_says(page, scene.served)
            _restart(visit, scene)
            scene.play(range(JUMP + 5, ROUNDS))
            scene.clock.now += 1.0
            expect(page.locator("#connection")).to_have_text("Survey over")
            _after_the_last_round(page, scene.served)
            page.reload()
            expect(page.locator("#connection")).to_have_text("Survey over")
            _shows_what_the_collector_says(page, scene.served)


def _before_the_first_round(page: Page) -> None:
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.get_by_role("heading", level=1)).to_have_text("Is anybody at home?")
    expect(page.locator("#name")).to_have_text("at home <b>")
    expect(page.locator("#empty")).to_be_visible()
    expect(page.locator("#empty-title")).to_have_text(
        re.compile("The survey has not begun yet|The first estimate is on its way")
    )
    expect(page.locator("#latest")).to_be_hidden()
    expect(page.locator("#done")).to_have_text("0 of 14")
    assert "ε = 6" in page.locator("#promise-note").inner_text()
    assert page.locator("#promise").inner_text()


def _rounds_are_pushed(visit: browsers.Visit, scene: Scene) -> None:
    """Without any answer to what the page asks by itself, the stream alone brings the rounds."""
    page = visit.page
    visit.console = False  # a late round would make it ask
    page.route("**/estimates?*", lambda route: route.abort())
    scene.play(range(1, JUMP + 3))
    page.locator(f"tr[data-round='{JUMP + 2}']").wait_for()
    page.unroute("**/estimates?*")
    expect(page.locator("#connection")).to_have_text("Live")
    visit.console = True


def _shows_what_the_collector_says(page: Page, served: Served) -> None:
    """Table, curve and headline, for all rounds that were there when we began to look."""
    rounds = served.rounds()
    # The page has had its push, or gets it now.
    page.locator(f"tr[data-round='{rounds[-1]['round']}']").wait_for()
    if page.locator("#more").is_visible():
        page.locator("#more").click()
    seen = page.evaluate(
        """() => ({
          rows: Object.fromEntries([...document.querySelectorAll("#rows tr")].map(
            row => [row.dataset.round, [...row.cells].map(cell => cell.textContent)])),
          smooth: document.querySelector("#chart .smooth").getAttribute("d"),
          raw: document.querySelector("#chart .raw").getAttribute("d"),
          band: document.querySelector("#chart .edge").getAttribute("d"),
          marks: [...document.querySelectorAll("#chart .grid text")].map(
            text => [text.textContent, Number(text.getAttribute("y")) - 4]),
        })"""
    )
    shares = _scale(seen["marks"])
    known = [r for r in rounds if r["share"] is not None]
    smoothed = [shares(y) for _, y in re.findall(r"([\d.-]+) ([\d.-]+)", seen["smooth"])]
    rings = [shares(float(y)) for y in re.findall(r"M[\d.-]+ ([\d.-]+)a", seen["raw"])]
    for each in rounds:
        row = seen["rows"][str(each["round"])]
        assert row[0] == str(each["round"])
        assert row[2].endswith("–" if each["share"] is None else f"{each['share']:.1%}")
        if each["share"] is not None:
            assert row[3] == f"{100 * each['low']:.1f} – {each['high']:.1%}"
        assert row[4] == ("–" if each["smoothed"] is None else f"{each['smoothed']:.1%}")
        assert row[5] == str(each["reporters"])
    assert rings[: len(known)] == pytest.approx([r["share"] for r in known], abs=0.002)
    curve = [r["smoothed"] for r in rounds if r["round"] >= known[0]["round"]]
    assert smoothed[: len(curve)] == pytest.approx(curve, abs=0.002)
    # Both edges of the band, of which the first run of rounds is enough.
    high, low = [
        [shares(y) for _, y in re.findall(r"([\d.-]+) ([\d.-]+)", edge)]
        for edge in seen["band"].split("M")[1:3]
    ]
    run = known[: min(len(high), len(known))]
    assert high[: len(run)] == pytest.approx([r["high"] for r in run], abs=0.002)
    assert low[: len(run)] == pytest.approx([r["low"] for r in run], abs=0.002)
    before = [r["share"] for r in known if r["round"] < JUMP]
    after = [r["share"] for r in known if r["round"] >= JUMP]
    assert max(before) < 0.4 < 0.6 < min(after)


def _scale(marks: list[tuple[str, float]]) -> Any:
    """From pixels to shares, read off the labels of the axis."""
    percents = [(float(text[:-1]) / 100, y) for text, y in marks if text.endswith("%")]
    (low, bottom), (high, top) = percents[0], percents[-1]
    assert high - low >= 0.5
    return lambda y: low + (float(y) - bottom) / (top - bottom) * (high - low)


def _restart(visit: browsers.Visit, scene: Scene) -> None:
    """The collector goes away and comes back; the page notices both, and misses no round."""
    page = visit.page
    visit.console = False  # the browser reports every attempt that failed
    scene.stop()
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    scene.start()
    scene.play(range(JUMP + 3, JUMP + 5))
    expect(page.locator("#connection")).to_have_text("Live")
    page.locator(f"tr[data-round='{JUMP + 4}']").wait_for()
    numbers = page.locator("#rows tr").evaluate_all("rows => rows.map(r => +r.dataset.round)")
    assert numbers == list(range(JUMP + 4, numbers[-1] - 1, -1))
    visit.console = True


def _after_the_last_round(page: Page, served: Served) -> None:
    expect(page.locator("#done")).to_have_text("14 of 14")
    expect(page.locator("#next-label")).to_have_text("Survey over")
    expect(page.locator("#latest-title")).to_have_text("Last estimate")
    rounds = served.rounds()
    assert [each["reporters"] for each in rounds] == [100] * ROUNDS
    expect(page.locator("#latest-share")).to_have_text(f"{rounds[-1]['share']:.1%}")
    expect(page.locator("#heard")).to_have_text(f"{sum(r['reporters'] for r in rounds):,}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    table = Path(download.value.path()).read_bytes()
    assert table == served.http.get(f"{served.url}/estimates.csv").content
    rows = csv.DictReader(io.StringIO(table.decode()))
    assert [int(row["round"]) for row in rows] == list(range(ROUNDS))
