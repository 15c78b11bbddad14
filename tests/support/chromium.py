"""Debian's Chromium as every test of the page starts it, and ways to open the page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from support.supervisor_fixture import HttpFixture

CHROMIUM: Final = "/usr/bin/chromium"
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# The page's timers run five times a second, and it waits a second for an answer.
HURRY: Final = """
const [later, patience] = [setTimeout, AbortSignal.timeout.bind(AbortSignal)];
window.setTimeout = (act, ms) => later(act, Math.min(ms, 200));
AbortSignal.timeout = (ms) => patience(Math.min(ms, 2000));
"""
# Violations of the page's limits are recorded before any of its scripts runs.
WITNESS: Final = """
window.broken = [];
addEventListener("securitypolicyviolation", (event) => window.broken.push(`${event.violatedDirective} ${event.blockedURI}`));
"""

# A busy machine needs longer than a quiet one.
expect.set_options(timeout=20_000)

needs_chromium: Final = pytest.mark.skipif(
    shutil.which(CHROMIUM) is None and os.environ.get("CI") != "true", reason="needs Debian's chromium"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


def open_link(doors: HttpFixture, context: BrowserContext, query: str = "", *, hurry: bool = False) -> Page:
    """A page that logged in with a new link."""
    if hurry:
        context.add_init_script(HURRY)
    code = doors.call(doors.access.logins.new_code)
    opened = context.new_page()
    opened.goto(f"{doors.url}/{query}#code={code}")
    return opened


def is_live(page: Page) -> None:
    expect(page.locator("#link-text")).to_have_text("live")


def row(page: Page, name: str) -> Locator:
    return page.locator(f'tr[data-id="claude-{name}"]')
