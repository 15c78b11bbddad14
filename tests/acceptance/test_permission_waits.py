"""Claims about calls that wait for a permission: waiting for a person, nowhere cut off."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from support.chromium import chromium, needs_chromium
from support.cli_user import DONE, bash
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from support.stub_codex import ScriptedCodex
from support.tmux_server import Server
from wakeful.testing.scripted_model import script

ESCALATED = {
    "cmd": "until [ -e told ]; do sleep 0.2; done",
    "sandbox_permissions": "require_escalated",
    "justification": "to wait",
    "yield_time_ms": 30_000,
}
Record = dict[str, Any]


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Server]:
    """A terminal for `wakeful top`."""
    server = Server(tmp_path / "top")
    yield server
    server.end()


def calls_of(daemon: RunningDaemon, session_id: str) -> list[str]:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.socket))) as door:
        answer = door.get(f"http://wakeful/api/sessions/{session_id}/calls").json()
    return [call["end"] for call in answer["calls"]]


def is_waiting(record: Record) -> bool:
    return bool(record["state"] == "waiting" and record["attention"] == "person")


def said(daemon: RunningDaemon, session_id: str) -> str:
    """All that the commands about one session print."""
    commands = [
        ("ls",),
        ("report",),
        *(("session", each, session_id) for each in ("why", "status", "inspect")),
    ]
    return "\n".join(daemon.run(*command).out for command in commands)


def show_top(daemon: RunningDaemon, server: Server) -> None:
    words = [f"{name}={shlex.quote(value)}" for name, value in daemon.environ.items()]
    command = f"env -i TERM=tmux-256color {' '.join(words)} {shlex.join(daemon.argv('top'))}"
    server.tmux("new-session", "-d", "-x", "160", "-y", "60", "-s", "top", command)


def calls_on_page(daemon: RunningDaemon, session_id: str) -> str:
    """What the page says of the session, its calls among it."""
    link = daemon.run("open").out.strip()
    with chromium() as browser:
        page = browser.new_page()
        page.goto(link)
        page.locator(f'tr[data-id="{session_id}"] a').click()
        expect(page.locator("#session-log li.call")).to_contain_text("touch made")
        return page.locator("body").inner_text()


@needs_chromium
def test_claude_at_a_permission_prompt_waits(
    daemon: RunningDaemon, claude: ClaudeHome, terminal: Path, top: Server
) -> None:
    """Its call is `waiting` to HTTP, commands, top and page, and nothing calls it cut off; answered, it came back."""
    daemon.watch(**claude.environ())
    daemon.up()
    pane = claude.in_tmux(terminal, script(bash("touch made"), DONE), "a")
    session_id = daemon.wait_for_session(is_waiting, "permission")["id"]
    wait_for(lambda: calls_of(daemon, session_id) == ["waiting"] or None, "call that waits")
    assert "cut off" not in said(daemon, session_id).lower().replace("_", " ")
    show_top(daemon, top)
    shown = wait_for(
        lambda: seen if "◆" in (seen := top.tmux("capture-pane", "-p", "-t", "top")) else None,
        "waiting call in top",
    )
    assert "Bash: touch made" in next(line for line in shown.splitlines() if "◆" in line)
    on_page = calls_on_page(daemon, session_id)
    assert ("waiting for you" in on_page, "cut off" in on_page) == (True, False), on_page
    reached = daemon.run("session", "wait", session_id, "--until", "waiting", "--timeout", "5s")
    assert reached.exit_code == 0, reached.err
    wait_for(lambda: "Do you want to proceed?" in pane.screen() or None, "question on the screen")
    pane.press("Enter")
    daemon.wait_for_session(lambda record: record["state"] == "idle", "end")
    # A client says idle some 50 ms before its log has the result.
    wait_for(lambda: calls_of(daemon, session_id) == ["ok"] or None, "result", 5)


def test_an_escalated_call_of_codex_probably_asks(daemon: RunningDaemon, tmp_path: Path) -> None:
    """At once, told as a guess, no trouble; once it runs it is at work again, and it simply ends."""
    home = tmp_path / "codex"
    daemon.watch(CODEX_HOME=home)
    daemon.up()
    with ScriptedCodex(home, tmp_path / "project") as codex:
        codex.prompt("wait", approval_policy="on-request")
        codex.write(
            "response_item",
            type="function_call",
            name="exec_command",
            call_id="c",
            arguments=json.dumps(ESCALATED),
        )
        waiting = daemon.wait_for_session(is_waiting, "approval")
        session_id = waiting["id"]
        (wait,) = waiting["expected_waits"]
        assert (wait["kind"], wait["probable"], waiting["health"]) == ("person", True, "healthy")
        why = daemon.run("session", "why", session_id).out
        assert why.startswith("probably asks for permission: `until ")
        assert "probably asks for permission · exec_command: until" in daemon.run("ls").out
        assert calls_of(daemon, session_id) == ["waiting"]
        codex.start_tool("sleep 600")
        running = daemon.wait_for_session(lambda record: record["state"] == "prompting", "call that runs")
        assert [each["evidence"] for each in running["expected_waits"]] == [
            "a call is open, and its process was seen alive"
        ]
        codex.write("response_item", type="function_call_output", call_id="c", output="exit code: 0")
        codex.tell("task_complete", turn_id="t", last_agent_message="Done.")
        daemon.wait_for_session(lambda record: record["state"] == "idle", "end")
        wait_for(lambda: calls_of(daemon, session_id) == ["ok"] or None, "result", 5)
    assert daemon.run("incidents", "--all", "--json").json["incidents"] == []
