"""A visitor's browser takes part on `/try`, and what it sends is what the dashboard shows."""

from pathlib import Path

from playwright.sync_api import expect

from sudare.counting import Survey
from tests.collector import staged
from tests.support import browser as browsers


def test_a_visitor_takes_part(tmp_path: Path) -> None:
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
        # The same browser meets its own reports on the dashboard: one person, one report a round.
        page.get_by_role("link", name="Dashboard").click()
        heard = page.locator("#rows tr td:last-child")
        expect(heard.filter(has_text="1").first).to_be_visible()
        counts = {int(text) for text in heard.all_inner_texts()}
        assert counts <= {0, 1}
        expect(page.locator("#tickets")).to_have_text("1")
