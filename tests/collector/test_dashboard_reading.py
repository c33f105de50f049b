"""The dashboard for everyone who reads it: by keyboard, by screen reader, on a phone, as operator.

All on one survey that has been running for months, in a real browser over a real collector.
"""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from sudare.counting import Survey
from tests.collector import staged
from tests.support import PACKAGE
from tests.support import browser as browsers

PAGES = PACKAGE / "collector" / "pages"
ROUNDS, PAST = 300, 260


class Scene(NamedTuple):
    browser: Browser
    server: staged.Server
    rounds: list[dict[str, Any]]


def share(round_: int) -> float:
    """Slow waves, with people who all say the same at times."""
    return min(1.0, max(0.0, 0.5 + 0.6 * ((round_ % 40) / 20 - 1)))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("months")
    survey = Survey(
        name="lights-on",
        question="Is a light on?",
        rounds=ROUNDS,
        epsilon=4.0,
        start=datetime.fromtimestamp(time.time() - (PAST + 0.5) * 3600, UTC),
        round_seconds=3600.0,
    )
    staged.stage(folder / "collector.db", survey, 30 * ROUNDS, share)
    with staged.serving(folder, survey) as server, browsers.chromium() as browser:
        httpx.post(server.api("reports"), json={"serial": 1})
        yield Scene(browser, server, server.ask("estimates")["rounds"])


@pytest.fixture(scope="module")
def page(scene: Scene) -> Iterator[Page]:
    with browsers.visit(scene.browser, scene.server.url) as visit:
        expect(visit.page.locator("#connection")).to_have_text("Live")
        yield visit.page


def test_the_past_is_all_there(page: Page, scene: Scene) -> None:
    rounds = scene.rounds
    assert len(rounds) == PAST
    rows = page.locator("#rows tr")
    numbers = "rows => rows.map(row => Number(row.dataset.round))"
    first = rows.evaluate_all(numbers)
    assert first == list(range(PAST - 1, PAST - 1 - len(first), -1))
    while page.locator("#more").is_visible():
        page.locator("#more").click()
    assert rows.evaluate_all(numbers) == list(range(PAST - 1, -1, -1))
    header = page.get_by_role("columnheader", name="Round")
    expect(header).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="latest first").click()
    assert rows.evaluate_all(numbers) == list(range(PAST))
    expect(header).to_have_attribute("aria-sort", "ascending")
    # An estimate beyond 0 … 100 % says so.
    cells = rows.evaluate_all("rows => rows.map(row => row.cells[2].textContent)")
    assert any("cut to" in cell for cell in cells)
    for cell, told in zip(cells, rounds, strict=True):
        outside = f"{told['raw']:.1%}, cut to " if told["raw"] != told["share"] else ""
        assert cell == f"{outside}{told['share']:.1%}"
    expect(page.locator("#zone")).to_have_text("Times are in Europe/Berlin (CET).")


def test_the_keyboard_moves_a_cursor_that_is_read_aloud(page: Page, scene: Scene) -> None:
    chart, spoken = page.get_by_role("slider", name="Round under the cursor"), "#spoken"
    chart.focus()
    page.keyboard.press("Escape")
    for key, round_ in (
        ("ArrowLeft", PAST - 1),
        ("ArrowLeft", PAST - 2),
        ("ArrowRight", PAST - 1),
        ("ArrowRight", PAST - 1),
        ("PageDown", PAST - 11),
        ("Home", PAST - 60),
        ("ArrowLeft", PAST - 60),
        ("End", PAST - 1),
    ):
        page.keyboard.press(key)
        expect(chart).to_have_attribute("aria-valuenow", str(round_))
        told = scene.rounds[round_]
        said = page.locator(spoken).inner_text()
        assert said.startswith(f"Round {round_}, ")
        interval = f"between {told['low']:.1%} and {told['high']:.1%}"
        assert f": {told['share']:.1%}, {interval}" in said
        assert f"smoothed {told['smoothed']:.1%}, {told['reporters']} reporter" in said
        field = page.locator("#readout [data-field=share] b")
        expect(field).to_have_text(f"{told['share']:.1%}")
        expect(page.locator("#chart .cursor line")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator("#chart .cursor line")).to_have_count(0)
    expect(page.locator("#readout")).to_be_hidden()


def test_the_mouse_shows_the_round_it_is_over(page: Page, scene: Scene) -> None:
    box = page.locator("#chart").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 100)
    field = page.locator("#readout [data-field=round] b").inner_text()
    told = scene.rounds[int(field.removeprefix("Round "))]
    expect(page.locator("#readout [data-field=share] b")).to_have_text(f"{told['share']:.1%}")
    page.mouse.move(0, 0)
    expect(page.locator("#readout")).to_be_hidden()


def test_all_rounds_or_the_latest(page: Page) -> None:
    chart = page.locator("#chart")
    rings = "document.querySelector('#chart .raw').getAttribute('d').split('M').length - 1"
    assert page.evaluate(rings) == 60
    expect(chart).to_have_attribute("aria-valuemin", str(PAST - 60))
    page.get_by_text("All rounds", exact=True).click()
    expect(chart).to_have_attribute("aria-valuemin", "0")
    assert page.evaluate(rings) == PAST


def test_thousands_of_rounds_are_drawn_by_the_pixel(page: Page) -> None:
    """Columns keep the least and the largest of what they hold, and there are only so many."""
    told = page.evaluate(
        """async () => {
          const shapes = await import("/pages/shapes.js");
          const width = 1000, n = 20000;
          const rounds = Array.from({length: n}, (_, i) => {
            const value = .5 + .3 * Math.sin(i / 900) + (i === 7777 ? .15 : 0);
            return {round: i, share: value, smoothed: value, low: value - .05, high: value + .05};
          });
          const x = t => (t + .5) / n * width, y = share => 1000 * share;
          const began = performance.now();
          const paths = [shapes.band(rounds, x, y, width / n).area,
            shapes.raw(rounds, x, y, width / n).path, shapes.smooth(rounds, x, y, width / n),
            shapes.bars(rounds.map(r => [r.round, r.round]), x, y, width / n)];
          return {paths, ms: performance.now() - began,
            most: Math.max(...rounds.map(r => 1000 * r.share)),
            least: Math.min(...rounds.map(r => 1000 * r.share))};
        }"""
    )
    for path in told["paths"]:
        assert len(re.findall("[ML]", path)) <= 2 * 1000
    band, raw, smooth, _ = told["paths"]
    heights = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", band)]
    assert max(heights) == pytest.approx(told["most"] + 50, abs=0.1)
    assert min(heights) == pytest.approx(told["least"] - 50, abs=0.1)
    heights = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", smooth)]
    assert max(heights) == pytest.approx(told["most"], abs=0.1)
    ends = [float(y) for y in re.findall(r"[ V]([\d.]+)", raw)]
    assert (min(ends), max(ends)) == pytest.approx((told["least"], told["most"]), abs=1.1)
    assert told["ms"] < 500


def test_a_round_without_reporters_is_a_gap(page: Page) -> None:
    path = page.evaluate(
        """async () => {
          const shapes = await import("/pages/shapes.js");
          const of = (round, share) => ({round, share, smoothed: .5, low: 0, high: 1});
          const rounds = [of(0, null), of(1, .5), of(2, .5), of(3, null), of(4, .5)];
          const to = v => 10 * v;
          return [shapes.band(rounds, to, to, 10).area, shapes.smooth(rounds, to, to, 10),
            shapes.raw(rounds, to, to, 10).path];
        }"""
    )
    band, smooth, raw = path
    assert band.count("M") == 2
    assert smooth == "M10.0 5.0L20.0 5.0L30.0 5.0L40.0 5.0"
    assert raw.count("M") == 3


def test_as_the_reader_wishes(page: Page, scene: Scene) -> None:
    """Another language, another time zone, and less motion."""
    motion = "getComputedStyle(document.querySelector('.dot')).animationName"
    assert page.evaluate(motion) == "breathe"
    wishes: dict[str, Any] = {"timezone_id": "Asia/Tokyo", "reduced_motion": "reduce"}
    with browsers.visit(scene.browser, scene.server.url, locale="de-DE", **wishes) as visit:
        last = scene.rounds[-1]
        shown = f"{100 * last['share']:.1f}\u00a0%".replace(".", ",")
        expect(visit.page.locator("#latest-share")).to_have_text(shown)
        expect(visit.page.locator("#zone")).to_contain_text("Asia/Tokyo")
        expect(visit.page.locator("#connection")).to_have_text("Live")
        assert visit.page.evaluate(motion) == "none"


@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits(scene: Scene, width: int) -> None:
    with browsers.visit(scene.browser, scene.server.url, width=width) as visit:
        page = visit.page
        page.locator("tr[data-round]").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # A table that is wider than the screen says that it scrolls.
        wider = "(e => e.scrollWidth > e.clientWidth + 1)(document.querySelector('#scroller'))"
        assert page.locator("#sideways").is_visible() == page.evaluate(wider) == (width == 360)
        # What the marks mean is said beside them, or below where there is no room.
        assert page.locator("#key").is_visible() is (width == 360)
        labels = page.locator("#chart .labels text").all_text_contents()
        named = ["interval", "raw", "smoothed"]
        assert sorted(label.split()[0] for label in labels) == ([] if width == 360 else named)
        overlap = page.evaluate(
            """() => { const boxes = [...document.querySelectorAll("#chart .labels text")]
              .map(text => text.getBoundingClientRect()).sort((a, b) => a.top - b.top);
              return boxes.some((box, i) => i && box.top < boxes[i - 1].bottom - 4
                || box.right > innerWidth); }"""
        )
        assert not overlap


def test_accuracy_and_refusals(page: Page, scene: Scene) -> None:
    page.locator("#accuracy .plan").first.wait_for()
    plan = httpx.get(f"{scene.server.url}/v1/surveys").json()["surveys"][0]["predicted_error"]
    items = page.locator("#accuracy li").all_inner_texts()
    last = scene.rounds[-1]
    half = (last["high"] - last["low"]) / 2
    assert [re.sub(r"\s+", " ", item).strip() for item in items][:3] == [
        f"Predicted largest error ± {100 * plan['typical']:.1f}",
        f"Predicted bound ± {100 * plan['bound']:.1f}",
        f"Observed interval, latest round ± {100 * half:.1f}",
    ]
    refused = page.locator("#refused li[data-code=malformed]")
    expect(refused).to_contain_text("could not be read")


def test_the_operator(scene: Scene) -> None:
    with browsers.visit(scene.browser, scene.server.url) as visit:
        page = visit.page
        expect(page.locator("#enrolment")).to_have_text("enrolment is open")
        page.get_by_text("For the operator").click()
        expect(page.locator("#controls")).to_be_hidden()
        visit.console = False  # the browser reports what was refused
        page.get_by_label("Operator’s token").fill("a wrong token")
        page.get_by_role("button", name="Unlock").click()
        expect(page.locator("#operator-words")).to_have_text("This is not the operator’s token.")
        expect(page.locator("#controls")).to_be_hidden()
        visit.console = True
        page.get_by_label("Operator’s token").fill(staged.TOKEN)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Close enrolment").click()
        expect(page.locator("#enrolment")).to_have_text("enrolment is closed")
        closed = httpx.post(scene.server.api("tickets"))
        assert closed.json()["error"]["code"] == "enrolment_closed"
        page.get_by_role("button", name="Open enrolment").click()
        expect(page.locator("#enrolment")).to_have_text("enrolment is open")
        page.get_by_label("Tickets to hand out yourself").fill("3")
        with page.expect_download() as download:
            page.get_by_role("button", name="Make and download").click()
        lines = Path(download.value.path()).read_text().splitlines()
        tickets = [staged.ticket_from(json.loads(line)) for line in lines]
        assert len({ticket.serial for ticket in tickets}) == 3
        assert {ticket.survey for ticket in tickets} == {scene.server.survey.digest()}
        page.get_by_role("button", name="Lock", exact=True).click()
        expect(page.locator("#controls")).to_be_hidden()
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert (kept, page.context.cookies()) == ("[{},{}]", [])
        assert page.locator("#token").input_value() == ""


def test_without_a_stream_it_asks_now_and_then(scene: Scene) -> None:
    with browsers.visit(scene.browser, scene.server.url) as visit:
        visit.console = False  # the browser reports what was refused
        page = visit.page
        page.route("**/stream*", lambda route: route.fulfill(status=503))
        page.reload()
        expect(page.locator("#connection")).to_have_text("Live, asking now and then")
        expect(page.locator("#done")).to_have_text(f"{PAST} of {ROUNDS}")
        page.unroute("**/stream*")
        expect(page.locator("#connection")).to_have_text("Live")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/try"])
def test_no_serious_problem_of_accessibility(scene: Scene, path: str, dark: bool) -> None:
    with browsers.visit(scene.browser, scene.server.url + path, dark=dark) as visit:
        page = visit.page
        if path == "/":
            page.locator("tr[data-round]").first.wait_for()
            page.get_by_text("For the operator").click()
        else:
            expect(page.get_by_role("button", name="Take part")).to_be_enabled()
        found = Axe().run(page).response["violations"]
        serious = [
            f"{each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert not serious, serious


@pytest.mark.parametrize("file", sorted(PAGES.iterdir()), ids=lambda file: file.name)
def test_pages_are_small_and_need_nothing_from_elsewhere(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= 550
    hosts = set(re.findall(r"https?://([^\s\"'`)/]+)", text)) - {"www.w3.org"}
    assert all(host.endswith(".example") for host in hosts)
    if file.suffix == ".html":
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]* src=)", text)
