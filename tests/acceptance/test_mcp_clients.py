"""`wakeful mcp` inside the real clients: added as the how-to says, their model calls it, and it knows who asks."""

import json
from pathlib import Path
from typing import Any

from support.cli_user import DONE
from support.daemon_process import RunningDaemon
from support.real_clients import UNTIL_TOLD, ClaudeHome, CodexHome, wait_for
from support.run_program import run_program
from wakeful.testing.scripted_model import script

SELF = "mcp__wakeful__self"
ASK = {"tool": SELF, "input": {}}
# The SDK takes more than a second to start, on a busy machine ten: both clients ask their model before that, and it may wait.
READY = {"tool": "WaitForMcpServers", "input": {}}
READY_TIMES = 10


def watch(daemon: RunningDaemon, client: ClaudeHome | CodexHome) -> None:
    """A daemon that sees this client's logs."""
    name = "CLAUDE_CONFIG_DIR" if isinstance(client, ClaudeHome) else "CODEX_HOME"
    daemon.watch(**{name: client.home / f".{client.client.name}"})
    daemon.up()


def records(paths: list[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_claude_code_asks_who_it_is(daemon: RunningDaemon, claude: ClaudeHome) -> None:
    """`claude mcp add`, then a call of the model: the answer is the record of the session that asked."""
    watch(daemon, claude)
    home = f"WAKEFUL_HOME={daemon.environ['WAKEFUL_HOME']}"
    added = run_program(
        ["claude", "mcp", "add", "wakeful", "-e", home, "--", *daemon.argv("mcp")],
        env=claude.environ(),
        cwd=claude.project,
    )
    assert added.returncode == 0, added.stdout + added.stderr
    asked = claude.run_print(script(*[READY] * READY_TIMES, ASK, DONE), "--allowedTools", SELF)
    assert asked.wait(120) == 0
    (session,) = daemon.sessions()
    results = [
        str(part["content"])
        for each in records(claude.logs())
        if each["type"] == "user" and isinstance(each["message"]["content"], list)
        for part in each["message"]["content"]
        if part.get("type") == "tool_result"
    ]
    assert session["id"] in results[-1], results


def test_codex_asks_who_it_is(daemon: RunningDaemon, codex: CodexHome) -> None:
    """The lines of the how-to in config.toml, then a call of the model; Codex hands its tools a bare environment."""
    watch(daemon, codex)
    config, said = codex.home / ".codex" / "config.toml", codex.home / "said"
    # What the server says is listened to: once it has listed its tools, they can be called.
    arguments = ["-c", '"$@" | tee "$0"', str(said), *daemon.argv("mcp")]
    lines = [
        "[mcp_servers.wakeful]",
        'command = "sh"',
        f"args = {json.dumps(arguments)}",
        f'env = {{ WAKEFUL_HOME = "{daemon.environ["WAKEFUL_HOME"]}" }}',
        "startup_timeout_sec = 60",
    ]
    config.write_text(config.read_text() + "\n".join(lines) + "\n")
    asked = codex.exec(script({"run": UNTIL_TOLD}, ASK, DONE))
    wait_for(lambda: (said.exists() and '"tools":[' in said.read_text()) or None, "list of tools")
    codex.let_tool_end()
    out, _ = asked.communicate(timeout=60)
    assert asked.returncode == 0
    (session,) = daemon.sessions()
    assert session["id"].removeprefix("codex-") in out
    calls = [json.loads(line) for line in out.splitlines() if "mcp_tool_call" in line]
    assert calls, out
    assert session["id"] in json.dumps(calls[-1])
