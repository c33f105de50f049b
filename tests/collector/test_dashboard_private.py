"""A private dashboard: who may read, who may not, and that devices need no token."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.collector.served import Served, serving, survey_of
from tests.support import browser as browsers

READING = ("estimates", "summary", "estimates.csv", "activity", "stream")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("private")
    with serving(folder, survey_of(rounds=3), dashboard="private") as collector:
        yield collector


@pytest.fixture(scope="module")
def viewer(served: Served) -> str:
    return served.collector.new_token("viewer")


def read(served: Served, name: str, **headers: str) -> httpx.Response:
    method = "HEAD" if name == "stream" else "GET"  # it never ends
    return httpx.request(method, f"{served.url}/{name}", headers=headers)


@pytest.mark.parametrize("name", READING)
def test_reading_needs_a_token(served: Served, viewer: str, name: str) -> None:
    assert read(served, name).status_code == 401
    for wrong in (f"Bearer {viewer}x", "Bearer", f"Basic {viewer}"):
        assert read(served, name, authorization=wrong).status_code == 401
    assert read(served, name, cookie=f"sudare_session={viewer}").status_code == 401
    assert httpx.get(f"{served.url}/{name}?token={viewer}").status_code == 401
    for right in ({"authorization": f"Bearer {viewer}"}, served.operator):
        answer = read(served, name, **right)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "private, no-cache"
        assert "access-control-allow-origin" not in answer.headers


def test_devices_need_none(served: Served) -> None:
    (described,) = served.http.get(f"{served.root}/v1/surveys").json()["surveys"]
    assert described["dashboard"] == "private"
    assert served.http.post(f"{served.url}/tickets").status_code == 201
    assert served.send(served.reports(1)[0]).status_code == 204


def test_a_viewer_is_no_operator(served: Served, viewer: str) -> None:
    headers = {"authorization": f"Bearer {viewer}"}
    assert served.http.get(f"{served.url}/operator", headers=headers).status_code == 401
    put = served.http.put(f"{served.url}/enrolment", json={"open": False}, headers=headers)
    assert put.status_code == 401
    many = served.http.post(f"{served.url}/tickets", json={"count": 3}, headers=headers)
    assert many.status_code == 401
    with httpx.Client() as browser:
        assert browser.put(f"{served.url}/session", json={"token": viewer}).status_code == 204
        assert browser.get(f"{served.url}/estimates").status_code == 200
        assert browser.get(f"{served.url}/operator").status_code == 401


def test_sessions(served: Served, viewer: str) -> None:
    with httpx.Client() as browser:
        session = f"{served.url}/session"
        refused = browser.put(session, json={"token": "another"})
        assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
        told = browser.put(session, json={"token": viewer})
        assert viewer not in str(told.headers)
        assert {"HttpOnly", "SameSite=Strict"} <= set(told.headers["set-cookie"].split("; "))
        assert browser.get(f"{served.url}/estimates").status_code == 200
        assert browser.delete(session).status_code == 204
        assert browser.get(f"{served.url}/estimates").status_code == 401
        proxied = browser.put(
            session, json={"token": viewer}, headers={"x-forwarded-proto": "https"}
        )
        assert "Secure" in proxied.headers["set-cookie"].split("; ")
        for body in ({}, {"token": ""}, {"token": 1}, {"token": "x" * 513}):
            assert browser.put(session, json=body).status_code == 400
        assert viewer.encode() not in Path(served.collector.store.place).read_bytes()


def test_a_public_one_asks_nobody(tmp_path: Path) -> None:
    with serving(tmp_path) as public:
        for name in READING:
            answer = read(public, name)
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == "*"
        assert "dashboard" not in public.http.get(public.url).json()


def test_in_a_browser(tmp_path: Path) -> None:
    with (  # a collector of its own, whose patience with wrong tokens is not used up
        serving(tmp_path, dashboard="private") as served,
        browsers.chromium() as browser,
        browsers.visit(browser, f"{served.root}/") as visit,
    ):
        viewer = served.collector.new_token("viewer")
        page, visit.console = visit.page, False  # it writes each 401 there
        token = page.get_by_label("This dashboard is private. Your token")
        expect(token).to_be_visible()
        expect(page.locator("#question")).to_be_hidden()
        token.fill("a guess")
        page.get_by_role("button", name="Show it").click()
        expect(page.locator("#login-words")).to_contain_text("no token")
        token.fill(viewer)
        page.get_by_role("button", name="Show it").click()
        expect(page.locator("#connection-words")).to_have_text("Live")
        expect(page.get_by_role("heading", level=1)).to_have_text("Is somebody at home?")
        assert viewer not in page.url
        assert page.evaluate("document.cookie") == ""
        page.reload()
        expect(page.locator("#connection-words")).to_have_text("Live")
        page.get_by_role("button", name="Sign out").click()
        expect(token).to_be_visible()
