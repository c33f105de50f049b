"""A visitor's browser rehearses on `/try`: the whole way, and nothing of it on the dashboard."""

from pathlib import Path

from playwright.sync_api import expect

from sudare.counting import Survey
from tests.collector import staged
from tests.support import browser as browsers


def test_a_visitor_rehearses(tmp_path: Path) -> None:
    survey = Survey(name="visit", rounds=600, epsilon=8.0, method="rappor")
    with (
        browsers.chromium() as browser,
        staged.serving(tmp_path, survey, "--round-seconds", "1") as server,
        browsers.visit(browser, f"{server.url}/try") as visit,
    ):
        page = visit.page
        visit.may_be_late = True  # rounds of a second, on a machine with other things to do
        answer = page.get_by_role("switch", name="My answer is yes")
        answer.press("Space")
        expect(answer).to_be_checked()
        page.get_by_role("button", name="Take part").click()
        rows = page.locator("#log tr")
        rows.nth(1).wait_for()
        answers = {row.locator("td, th").nth(1).inner_text().strip() for row in rows.all()}
        assert answers == {"Yes"}
        # What the rehearsal shows is marked as such, with this one reporter.
        heard = page.locator("#outcome-rows tr td:nth-child(2)")
        expect(heard.first).to_have_text("1")
        expect(page.locator("#outcome-caption")).to_contain_text("Rehearsal")
        # And nothing of it is in the survey.
        page.get_by_role("link", name="Dashboard").click()
        heard = page.locator("#rows tr td:last-child")
        expect(heard.first).to_be_visible()
        assert {int(text) for text in heard.all_inner_texts()} == {0}
        expect(page.locator("#tickets")).to_have_text("0")
