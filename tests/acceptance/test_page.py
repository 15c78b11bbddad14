"""The page of a real daemon in a real browser, before it a real Claude Code that is killed at work."""

import os
import signal

from playwright.sync_api import expect

from browsers import chromium, is_live, needs_chromium
from clients import ClaudeHome
from daemons import RunningDaemon
from operators import DONE, Operator, bash
from wakeful.testing.scripted_model import script

pytestmark = needs_chromium


def test_a_real_agent_dies_and_comes_back_before_ones_eyes(claude: ClaudeHome, daemon: RunningDaemon) -> None:
    """One login by the printed link, no reload: at work, gone, brought back by Wakeful, done; and all of it is told."""
    daemon.watch(**claude.environ(), WAKEFUL_HEAL__CONFIRM_SECONDS="1")
    daemon.up()
    operator = Operator(daemon, claude)
    session_id = operator.start("--headless", "--prompt", script(bash("sleep 100"), DONE), "--", "claude")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(daemon.run("open").out.strip())
        is_live(page)
        page.evaluate("window.here = true")
        page.locator(f'tr[data-id="{session_id}"] a').click()
        claude.wait_for_tool("sleep")
        standing, past = page.locator("#session-standing"), page.locator("#session-past")
        expect(standing).to_contain_text("prompting")
        expect(page.locator('[data-rung="agent_process"]')).to_have_attribute("data-hold", "alive")
        expect(page.locator("#session-calls li").first).to_contain_text("sleep 100")
        expect(page.locator("[data-action=stop]")).to_be_enabled()
        os.kill(operator.wait_until(session_id, "work", state="prompting")["pid"], signal.SIGKILL)
        expect(past).to_contain_text("stopped, dead (session dead)")
        expect(past).to_contain_text("Wakeful: revival attempted", timeout=60_000)
        expect(standing).to_contain_text("idle", timeout=60_000)
        expect(standing).to_contain_text("healthy")
        expect(past).to_contain_text("Incident over")
        expect(page.locator(".picture .span-dead")).not_to_have_count(0)
        expect(page.locator(".picture .act")).not_to_have_count(0)
        assert page.evaluate("window.here"), "the page was never loaded again"
