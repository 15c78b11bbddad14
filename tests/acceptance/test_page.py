"""The page of a real daemon in a real browser, before it a real Claude Code: it dies at work, it asks."""

import os
import signal
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from support.chromium import chromium, is_live, needs_chromium
from support.cli_user import DONE, Operator, assert_ended_quietly, bash
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from wakeful.testing.scripted_model import script

pytestmark = needs_chromium


@pytest.fixture
def operator(claude: ClaudeHome, daemon: RunningDaemon) -> Operator:
    daemon.watch(**claude.environ(), WAKEFUL_HEAL__CONFIRM_SECONDS="1")
    daemon.up()
    return Operator(daemon, claude)


@pytest.fixture
def page(operator: Operator) -> Iterator[Page]:
    """Logged in by the link that is printed."""
    with chromium() as browser:
        opened = browser.new_page()
        opened.goto(operator.daemon.run("open").out.strip())
        is_live(opened)
        yield opened


def test_a_real_agent_dies_and_comes_back_before_ones_eyes(
    operator: Operator, claude: ClaudeHome, page: Page
) -> None:
    """Without a reload: busy, gone, resumed by Wakeful, done; the page reports each."""
    page.evaluate("window.here = true")
    session_id = operator.start("--headless", "--prompt", script(bash("sleep 100"), DONE), "--", "claude")
    page.locator(f'tr[data-id="{session_id}"] a').click()
    claude.wait_for_tool("sleep")
    standing, past = page.locator("#session-standing"), page.locator("#session-past")
    expect(standing).to_contain_text("running")
    expect(page.locator('[data-rung="agent_process"]')).to_have_attribute("data-hold", "alive")
    expect(page.locator("#session-log .call").first).to_contain_text("sleep 100")
    expect(page.locator("[data-action=stop]")).to_be_enabled()
    os.kill(operator.wait_until(session_id, "work", state="prompting")["pid"], signal.SIGKILL)
    expect(past).to_contain_text("stopped, dead (session dead)")
    expect(past).to_contain_text("Wakeful: revival attempted", timeout=60_000)
    expect(standing).to_contain_text("idle", timeout=60_000)
    expect(standing).to_contain_text("healthy")
    expect(past).to_contain_text("Incident resolved")
    expect(page.locator(".picture .span-dead")).not_to_have_count(0)
    expect(page.locator(".picture .act")).not_to_have_count(0)
    assert page.evaluate("window.here"), "the page was never loaded again"


def test_a_real_question_is_answered_and_a_turn_stopped_on_the_page(
    operator: Operator, claude: ClaudeHome, page: Page
) -> None:
    """Two clicks allow what it asks, and the tool runs. Its next prompt is sent there; stopped in that turn, it raises no alert."""
    asking = script(bash("touch allowed"), DONE)
    session_id = operator.start("--headless", "--prompt", asking, "--", "claude")
    page.locator(f'tr[data-id="{session_id}"] a').click()
    page.locator("[data-action=allow]").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Bash: touch allowed")
    dialog.get_by_role("button", name="Allow", exact=True).click()
    expect(dialog.get_by_role("status")).to_have_attribute("data-outcome", "done")
    wait_for(lambda: (claude.project / "allowed").exists() or None, "the tool's effect")
    dialog.get_by_role("button", name="Close").click()
    standing = page.locator("#session-standing")
    expect(standing).to_contain_text("idle")
    expect(page.locator("[data-action=allow]")).to_have_count(0)
    log = page.locator("#session-log")
    expect(log.locator(".call")).to_contain_text("Bash: touch allowed")
    expect(log.locator('[data-by="agent"]')).to_contain_text("done")

    page.locator("#prompt").fill(script({"hang": "mid", "loop": True}))
    page.locator("#prompt-send").click()
    expect(page.locator("#prompt-said")).to_have_attribute("data-outcome", "done")
    expect(standing).to_contain_text("running")
    page.locator("[data-action=stop]").click()
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(dialog.get_by_role("status")).to_have_attribute("data-outcome", "done", timeout=30_000)
    assert_ended_quietly(operator.daemon, session_id, quiet_seconds=2.0)


def test_a_login_outlives_the_daemon(daemon: RunningDaemon) -> None:
    """Killed and started again: the page comes back by itself and may still act; revoked in a terminal, it is logged out."""
    daemon.up()
    link = daemon.run("open").out.strip()
    with chromium() as browser:
        opened = browser.new_page()
        opened.goto(link)
        is_live(opened)
        opened.evaluate("window.here = true")
        daemon.kill()
        expect(opened.locator("#link-text")).to_have_text("connection lost")
        daemon.up(port=urlsplit(link).port)
        is_live(opened)
        assert opened.evaluate("window.here"), "the page was never loaded again"
        assert opened.get_by_text("Read-only tab").count() == 0
        [line] = daemon.run("open", "--list").out.splitlines()
        assert "Chrome" in line
        assert daemon.run("open", "--revoke", line.split()[0]).out == "1 browser logged out\n"
        expect(opened.locator("#door-text")).to_contain_text("Session expired")
        assert opened.locator("#sessions").is_hidden()
