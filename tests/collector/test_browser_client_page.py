"""`/try` in a real browser: a visitor rehearses, sees the coin, and keeps it."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.collector.served import Served, serving, survey_of
from tests.support import browser as browsers


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers.chromium() as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # Everybody reports in the round that is open: nobody has to wait.
    survey = survey_of(rounds=2, seconds=3600.0, method="rappor", epsilon=4.0)
    with serving(tmp_path_factory.mktemp("collector"), survey) as running:
        yield running


def state(page: Page) -> dict[str, Any]:
    """What the browser keeps."""
    found: dict[str, Any] = page.evaluate(
        """() => new Promise((done) => {
          const opening = indexedDB.open("sudare", 1);
          opening.onsuccess = () => {
            const store = opening.result.transaction("clients").objectStore("clients");
            const all = store.getAll();
            all.onsuccess = () => done(all.result[0]);
          };
        })"""
    )
    return found


def rehearsed(served: Served) -> tuple[int, int]:
    """How many took part in the rehearsal, and reported in its first round."""
    rehearsal = served.service.rehearsal
    return rehearsal.status().tickets, len(rehearsal._used.get(0, ()))


def take_part(page: Page, answer: bool) -> None:
    switch = page.get_by_role("switch", name="My answer is yes")
    expect(switch).not_to_be_checked()
    if answer:
        switch.focus()
        page.keyboard.press("Space")
        expect(switch).to_be_checked()
    page.get_by_role("button", name="Take part").click()


@pytest.mark.parametrize("answer", [False, True])
def test_a_visitor_becomes_a_device(browser: Browser, served: Served, answer: bool) -> None:
    real, before = served.heard(), rehearsed(served)[1]
    with browsers.visit(browser, f"{served.root}/try") as visit:
        page = visit.page
        expect(page.get_by_role("heading", level=1)).to_have_text("Is somebody at home?")
        expect(page.locator("#sent-word")).to_have_text("Nothing yet")
        assert rehearsed(served)[1] == before, "nothing is sent before somebody takes part"
        take_part(page, answer)
        expect(page.get_by_role("status").first).to_have_text("Round 0: your report has arrived.")
        kept = state(page)
        flip, said = kept["flips"][0], kept["sent"]["0"]
        assert said == answer ^ flip
        face = "Say the opposite" if flip else "Tell the truth"
        expect(page.locator("#coin-word")).to_have_text(face)
        expect(page.locator("#sent-word")).to_have_text("Yes" if said else "No")
        row = page.locator("#log tr").first.locator("td")
        mine, theirs = ("Yes" if bit else "No" for bit in (answer, said))
        coin = "opposite" if flip else "truth"
        expect(row).to_have_text(["0", mine, coin, theirs, "has it"])
        page.get_by_text("The very bytes").click()
        shown = json.loads(page.locator("#bytes").inner_text())
        assert shown == {"serial": kept["ticket"]["serial"], "slot": 0, "bit": said} | {
            "mark": kept["ticket"]["mark"]
        }
        # Another answer now changes nothing that was said, and another visit takes up here.
        page.get_by_role("switch").click()
        expect(page.locator("#sent-word")).to_have_text("Yes" if said else "No")
        page.reload()
        expect(page.locator("#coin-word")).to_have_text(face)
        assert state(page)["flips"] == kept["flips"]
        assert state(page)["sent"] == kept["sent"]
    assert rehearsed(served)[1] == before + 1
    assert served.heard() == real


def test_two_tabs_are_one_device(browser: Browser, served: Served) -> None:
    issued, before = rehearsed(served)
    with browsers.visit(browser, f"{served.root}/try") as visit:
        other = visit.page.context.new_page()
        other.goto(f"{served.root}/try")
        take_part(visit.page, False)
        other.get_by_role("switch").click()
        other.get_by_role("button", name="Take part").click()
        for page in (visit.page, other):
            expect(page.locator("#log tr")).to_have_count(1)
        first, second = (page.locator("#sent-word").inner_text() for page in (visit.page, other))
        assert first == second
    after, reporters = rehearsed(served)
    assert reporters == before + 1
    assert after <= issued + 2


@pytest.mark.parametrize("lost", ["flips", "revision", "everything"])
def test_a_state_that_lost_something_says_nothing(
    browser: Browser, served: Served, lost: str
) -> None:
    """In the browser's own store: it is neither answered from nor written over."""
    with browsers.visit(browser, f"{served.root}/try") as visit:
        page = visit.page
        take_part(page, False)
        expect(page.locator("#log tr")).to_have_count(1)
        page.evaluate(
            """(lost) => new Promise((done) => {
              const opening = indexedDB.open("sudare", 1);
              opening.onsuccess = () => {
                const change = opening.result.transaction("clients", "readwrite");
                const store = change.objectStore("clients");
                store.openCursor().onsuccess = ({ target }) => {
                  const state = target.result.value;
                  // As if round 0 had not been answered yet, so that there is something to say.
                  Object.assign(state, { sent: {}, round: -1, bit: 0, settled: 0, lost: 0 });
                  if (lost === "flips") state.flips = [];
                  else delete state[lost];
                  target.result.update(lost === "everything" ? null : state);
                };
                change.oncomplete = done;
              };
            })""",
            lost,
        )
        damaged, (issued, before) = state(page), rehearsed(served)
        page.reload()
        if lost == "everything":  # an entry of nothing looks like none until something is saved
            page.get_by_role("button", name="Take part").click()
            issued += 1
        words = "is gone" if lost == "everything" else "is damaged"
        expect(page.get_by_role("alert")).to_contain_text(f"What was saved {words}")
        assert state(page) == damaged
        assert rehearsed(served) == (issued, before)


def test_a_hundred_coins(browser: Browser, served: Served) -> None:
    with browsers.visit(browser, f"{served.root}/try") as visit:
        page = visit.page
        words = page.locator("#crowd-words")
        expect(words).to_contain_text("whose answer is no")
        page.get_by_role("switch").click()
        expect(words).to_contain_text("whose answer is yes")
        texts = set()
        for _ in range(8):
            page.get_by_role("button", name="Toss their coins again").click()
            filled = page.locator("#dots circle.yes").count()
            expect(words).to_contain_text(f"{filled} would send yes (filled), {100 - filled} no")
            texts.add(words.inner_text())
        assert len(texts) > 1
        assert page.locator("#dots circle").count() == 100


def test_enrolment_closed_and_no_ticket(browser: Browser, tmp_path: Path) -> None:
    """Whoever may not join the survey may still rehearse; without a ticket nobody does."""
    with serving(tmp_path) as served, browsers.visit(browser, f"{served.root}/try") as visit:
        page, visit.console = visit.page, False
        closed = served.http.put(
            f"{served.url}/enrolment", json={"open": False}, headers=served.operator
        )
        assert closed.status_code == 204
        page.route("**/tickets", lambda route: route.abort())
        page.get_by_role("button", name="Take part").click()
        expect(page.get_by_role("alert")).to_contain_text("You could not take part.")
        page.unroute("**/tickets")
        page.get_by_role("button", name="Take part").click()
        expect(page.locator("#turns")).to_be_visible()


ELSEWHERE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="importmap">{"integrity": {"%(url)s/client.js": "sha384-%(hash)s"}}</script>
<p id="told">nothing</p>
<script type="module">
  const told = document.querySelector("#told");
  try {
    const { Client, MemoryStore } = await import("%(url)s/client.js");
    const client = await Client.join("%(url)s", { store: new MemoryStore() });
    await client.report(1);
    told.textContent = client.pending.length ? "pending" : "reported";
  } catch (problem) {
    told.textContent = `refused: ${problem.name}`;
  }
</script>"""


@contextmanager
def another_site(text: str) -> Iterator[str]:
    """A page of another origin."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("right", [True, False])
def test_a_page_of_another_origin_imports_the_client(
    browser: Browser, served: Served, right: bool
) -> None:
    module = served.http.get(f"{served.root}/client.js").content
    digest = hashlib.sha384(module if right else b"another").digest()
    text = ELSEWHERE % {"url": served.root, "hash": base64.b64encode(digest).decode()}
    before = served.heard()
    with another_site(text) as url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        expect(page.locator("#told")).not_to_have_text("nothing")
        told = page.locator("#told").inner_text()
        context.close()
    assert told == ("reported" if right else "refused: TypeError")
    assert served.heard() == before + int(right)
