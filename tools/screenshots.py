"""Photograph the dashboard and a report for the documentation: `python -m tools.screenshots`.

A survey of made-up households is lived through in a moment, with real tickets and reports, and then
served by `sudare collect` to a real browser. The report is that of one of five made-up hospitals.
Words after the command pick one: `python -m tools.screenshots report`.
"""

import math
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import Browser

from sudare import site
from sudare.counting import RECORD, Survey
from sudare.demo import patients, write_patients
from sudare.exchange import Keyring, new_key
from sudare.foundations.randomness import seeded
from sudare.ledger import Ledger
from sudare.study import parse_study, raw_content
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


_STUDY = """
name = "afternoon"
description = "Which patients fall ill? Made-up patients of five made-up hospitals."
[columns.age]
low = 18
high = 100
[columns.pressure]
low = 80
high = 220
[columns.smoker]
categories = ["no", "yes"]
[columns.diabetes]
categories = ["no", "yes"]
[target]
column = "ill"
classes = ["no", "yes"]
[privacy]
epsilon = 4.0
delta = 1e-6
unit = "patient"
"""


def report(browser: Browser) -> None:
    """The first page of a report."""
    study, rng, ring = parse_study(_STUDY), seeded(5), Keyring()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for letter in "BCDE":
            data, key, party = folder / f"{letter}.csv", new_key(), f"Hospital {letter}"
            write_patients(data, *patients(2_000, rng))
            ring = ring.with_key(party, key.public)
            with Ledger(folder / f"{letter}.db") as ledger:
                ledger.open(party, ledger.fingerprint(raw_content(data)), 4.0, 1e-6)
                site.publish(data, study, ledger, key, party=party, place=str(folder / "out"))
        write_patients(folder / "A.csv", *patients(120, rng))
        checked = site.collect([str(folder / "out")], ring, study)
        model = site.blend(folder / "A.csv", study, checked, party="Hospital A")
        page = folder / "report.html"
        page.write_text(site.render(model), encoding="utf-8")
        with browsers.visit(browser, page.as_uri(), width=900, height=1080) as visit:
            visit.page.screenshot(path=IMAGES / "report.png")


def dashboard(browser: Browser) -> None:
    """In light and dark, and on a phone."""
    while time.time() % _HOUR < 120:  # until the round before is published
        time.sleep(5)
    survey = _household_survey()
    assert survey.start is not None
    with tempfile.TemporaryDirectory() as folder:
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


PICTURES = {"dashboard": dashboard, "report": report}

if __name__ == "__main__":
    with browsers.chromium() as browser:
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](browser)
