"""Photograph the dashboard for the documentation: `python -m tools.screenshots`.

A survey of made-up households is lived through in a moment, with real tickets and reports, and then
served by `sudare collect` to a real browser.
"""

import math
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from sudare.counting import RECORD, Survey
from tests.collector import staged
from tests.support import browser as browsers
from tools.pictures import IMAGES

_HOUR = 3600.0


def at_home(hour: int) -> float:
    """Most people are at home at night."""
    return 0.58 + 0.3 * math.cos((hour - 4) / 24 * 2 * math.pi)


def _household_survey() -> Survey:
    midnight = time.time() // 86_400 * 86_400
    return Survey(
        name="at-home",
        question="Is anybody at home?",
        rounds=48,
        epsilon=2.0,
        method="masks",
        slots=2,
        start=datetime.fromtimestamp(midnight - 24 * _HOUR, UTC),
        round_seconds=_HOUR,
    )


def main() -> None:
    """Write the pictures."""
    while time.time() % _HOUR < 120:  # until the round before is published
        time.sleep(5)
    survey = _household_survey()
    assert survey.start is not None
    with tempfile.TemporaryDirectory() as folder, browsers.chromium() as browser:
        path = Path(folder)
        people = staged.stage(path / "collector.db", survey, 24_000, at_home, silent=0.06)
        with staged.serving(path, survey, "--expected-users", "24000") as server:
            now = int((time.time() - survey.start.timestamp()) // _HOUR)
            server.report(people.records(now)[: 420 * RECORD.itemsize])
            others = staged.People(survey, server.tickets(480), at_home)
            server.report(others.records(now - 1))  # too late
            server.report(others.records(now + 1)[: 3 * RECORD.itemsize])  # too early
            for name, width, height, dark in (
                ("dashboard.png", 1280, 1400, False),
                ("dashboard-dark.png", 1280, 1400, True),
                ("dashboard-phone.png", 390, 1220, False),
            ):
                with browsers.visit(
                    browser, server.url, width=width, height=height, dark=dark, timezone_id="UTC"
                ) as visit:
                    visit.page.locator("#accuracy .plan").first.wait_for()
                    visit.page.screenshot(path=IMAGES / name)


if __name__ == "__main__":
    main()
