"""Debian's Chromium, driven by playwright, that can reach this machine and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support import debian
from tests.support.waiting import PATIENCE

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
_PATIENCE_MS = 1000 * PATIENCE
expect.set_options(timeout=_PATIENCE_MS)


class Visit:
    """A page, and what went wrong on it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self._host = page, urlsplit(url).netloc
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions nobody caught, requests to others."""
        self.console = True
        """Whether the console counts: a browser also writes there that a server is down."""
        self.may_be_late = False
        """Whether a report after its round, which is answered 410, is none of the page's faults."""
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))
        page.on("request", lambda request: self._asked(request.url))

    def _heard(self, message: ConsoleMessage) -> None:
        if self.may_be_late and "410 (Gone)" in message.text:
            return
        if self.console and message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.netloc != self._host and parts.scheme not in ("data", "blob"):
            self.complaints.append(f"asked another host: {url}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window, gone afterwards."""
    path = debian.require("chromium", "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(
    browser: Browser,
    url: str,
    *,
    width: int = 1200,
    height: int = 900,
    dark: bool = False,
    **options: Any,
) -> Iterator[Visit]:
    """Open a page as somebody who has never been there; fails if it complained of anything."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        **{"locale": "en-GB", "timezone_id": "Europe/Berlin", **options},
    )
    context.set_default_timeout(_PATIENCE_MS)
    try:
        visited = Visit(context.new_page(), url)
        visited.page.goto(url)
        yield visited
        assert not visited.complaints, visited.complaints
    finally:
        context.close()
