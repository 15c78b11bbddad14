"""The advised command, read where a person reads it and run from another folder: it goes to where the session was."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

from support.chromium import chromium, needs_chromium
from support.daemon_process import RunningDaemon
from support.real_clients import require_tmux, wait_for
from support.tmux_server import Server
from wakeful.testing.scripted_agent import ScriptedAgent

pytestmark = needs_chromium
# Blanks, both kinds of quotes, and what a shell would run.
FOLDER: Final = """it's a "shop" of $(touch made) & co"""
# Wide enough that nothing is broken into rows.
SHOWN_COLUMNS: Final = 900


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Server]:
    require_tmux()
    server = Server(tmp_path / "top")
    yield server
    server.end()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """With a client that only says where it was started, and with what."""
    client = tmp_path / "bin" / "claude"
    client.parent.mkdir()
    client.write_text('#!/bin/sh\nprintf "%s|" "$PWD" "$@"\n')
    client.chmod(0o700)
    return f"{client.parent}:/usr/bin:/bin"


def in_top(daemon: RunningDaemon, server: Server) -> str:
    """The line of `wakeful top` that says what to do."""
    words = [f"{name}={shlex.quote(value)}" for name, value in daemon.environ.items()]
    command = f"env -i TERM=tmux-256color {' '.join(words)} {shlex.join(daemon.argv('top'))}"
    server.tmux("new-session", "-d", "-x", str(SHOWN_COLUMNS), "-y", "60", "-s", "top", command)

    def shown() -> str | None:
        rows = server.tmux("capture-pane", "-p", "-t", "top").splitlines()
        row = next((row for row in rows if "→ " in row), None)
        return None if row is None else row.partition("→ ")[2].partition("  ")[0]

    return wait_for(shown, "advice in top")


def in_page(daemon: RunningDaemon, session_id: str) -> str:
    """The command that the page offers to copy."""
    link = daemon.run("open").out.strip()
    with chromium() as browser:
        page = browser.new_page()
        page.goto(link)
        page.locator(f'tr[data-id="{session_id}"] a').click()
        code = page.locator("#session-step code")
        expect(code).to_contain_text("claude --resume")
        return code.inner_text()


def test_the_command_works_from_any_folder_wherever_it_is_read(
    daemon: RunningDaemon, top: Server, tmp_path: Path, path: str
) -> None:
    """CLI, top and page say the same, and a shell elsewhere that is given it goes to the odd folder, and only there."""
    project, elsewhere = tmp_path / FOLDER, tmp_path / "elsewhere"
    elsewhere.mkdir()
    daemon.watch(CLAUDE_CONFIG_DIR=tmp_path / "claude-home")
    daemon.up()
    agent = ScriptedAgent(tmp_path / "claude-home", project)
    with agent.start(
        {"prompt": "go"}, {"tool": "Bash", "input": {"command": "make"}, "seconds": 600}
    ) as runs:
        runs.wait_for_tool(60.0)
        runs.process.kill()
        session_id = daemon.wait_for_session(lambda each: each["health"] == "dead", "death")["id"]
        why = daemon.run("session", "why", session_id).out
        in_cli = next(line for line in why.splitlines() if line.startswith("do ")).partition("do ")[2].strip()
        advised = {"cli": in_cli, "top": in_top(daemon, top), "page": in_page(daemon, session_id)}
    assert set(advised.values()) == {in_cli}, advised
    ran = subprocess.run(
        ("sh", "-c", in_cli), cwd=elsewhere, env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{project}|--resume|{agent.conversation}|"
    assert list(tmp_path.rglob("made")) == []
