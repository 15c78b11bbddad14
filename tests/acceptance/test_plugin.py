"""The plugin in the real Claude Code: valid, installed twice as once, its hook and MCP server at work, no report twice."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import plugin

from support.cli_user import DONE, bash
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from support.run_program import run_program
from wakeful.testing.scripted_model import ScriptedModel, script

ROOT = Path(__file__).parents[2]
SELF = "mcp__plugin_wakeful_wakeful__self"
# The SDK takes more than a second to start, on a busy machine ten.
READY = {"tool": "WaitForMcpServers", "input": {}}
READY_TIMES = 10
# What a run of one prompt reports: its start, its prompt, its turn's end, its own end.
REPORTS = ["SessionEnd", "SessionStart", "Stop", "UserPromptSubmit"]


class PluginHome(ClaudeHome):
    """A home whose PATH has `wakeful`, and whose variables name the daemon's state folder."""

    def __init__(self, tmp_path: Path, model: ScriptedModel, daemon: RunningDaemon) -> None:
        super().__init__(tmp_path, model)
        self.state = daemon.environ["WAKEFUL_HOME"]
        self.tools = tmp_path / "tools"
        self.tools.mkdir()
        (self.tools / "wakeful").write_text(f'#!/bin/sh\nexec {sys.executable} -m wakeful "$@"\n')
        (self.tools / "wakeful").chmod(0o755)

    def environ(self) -> dict[str, str]:
        usual = super().environ()
        return usual | {"WAKEFUL_HOME": self.state, "PATH": f"{self.tools}:{usual['PATH']}"}

    def client_command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        done = run_program(["claude", *words], env=self.environ(), cwd=self.project)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def install(self) -> None:
        self.client_command("plugin", "marketplace", "add", str(ROOT))
        self.client_command("plugin", "install", "wakeful@wakeful")

    def kept(self) -> dict[str, object]:
        """Every file of the plugin, and the settings, whose order the client changes."""
        files = (each for each in (self.home / ".claude/plugins/cache").rglob("*") if each.is_file())
        settings: object = json.loads((self.home / ".claude/settings.json").read_text())
        return {"settings": settings, **{str(each): each.read_bytes() for each in files}}


@pytest.fixture
def home(
    tmp_path: Path, model: ScriptedModel, daemon: RunningDaemon, claude: ClaudeHome
) -> Iterator[PluginHome]:
    # The usual home brings the check that the client is there.
    del claude
    folder = tmp_path / "plugin"
    folder.mkdir()
    with PluginHome(folder, model, daemon) as found:
        yield found


def reports(daemon: RunningDaemon) -> list[str]:
    """The events in the spool that no daemon has read."""
    spool = Path(daemon.environ["WAKEFUL_HOME"]) / "spool"
    return sorted(json.loads(each.read_bytes())["hook_event_name"] for each in spool.iterdir())


def test_the_made_files_are_current() -> None:
    """`make docs` writes them from the same hooks that `hooks install` adds."""
    assert (plugin.PLUGIN / "hooks/hooks.json").read_text() == plugin.hooks()
    assert plugin.MANIFEST.read_text() == plugin.manifest()


def test_it_is_valid_and_installed_twice_as_once(home: PluginHome, daemon: RunningDaemon) -> None:
    """By the client's own check; doctor knows it; the second installation changes no file."""
    for folder in (ROOT, plugin.PLUGIN):
        assert "Validation passed" in home.client_command("plugin", "validate", str(folder)).stdout
    home.install()
    daemon.environ["CLAUDE_CONFIG_DIR"] = str(home.home / ".claude")
    hooks = {each["name"]: each for each in daemon.run("doctor", "--json").json["checks"]}["claude hooks"]
    assert hooks["said"] == "the plugin is installed, no report yet: only new sessions report"
    once = home.kept()
    assert any(name.endswith("hooks.json") for name in once)
    home.install()
    assert home.kept() == once


def test_its_hook_and_that_of_the_settings_report_once(home: PluginHome, daemon: RunningDaemon) -> None:
    """With the plugin each event is in the spool once; with `hooks install` beside it, too; without a spool, nowhere."""
    home.install()
    assert home.run_print(script(DONE)).wait(120) == 0
    assert not Path(daemon.environ["WAKEFUL_HOME"]).exists()
    daemon.up()
    daemon.end()
    assert home.run_print(script(DONE)).wait(120) == 0
    assert reports(daemon) == REPORTS
    for each in (Path(daemon.environ["WAKEFUL_HOME"]) / "spool").iterdir():
        each.unlink()
    daemon.environ["CLAUDE_CONFIG_DIR"] = str(home.home / ".claude")
    assert daemon.run("hooks", "install", "claude").exit_code == 0
    assert home.run_print(script(DONE)).wait(120) == 0
    assert reports(daemon) == REPORTS


def test_its_hook_tells_a_question_at_once(
    home: PluginHome, daemon: RunningDaemon, terminal: Path, tmp_path: Path
) -> None:
    """A daemon that sees no log and no registry knows that the session waits; doctor names the plugin."""
    daemon.watch(CLAUDE_CONFIG_DIR=tmp_path / "no-claude", CODEX_HOME=tmp_path / "no-codex")
    daemon.up()
    home.install()
    pane = home.in_tmux(terminal, script(bash("touch made"), DONE), "a")
    wait_for(lambda: "Do you want to proceed?" in pane.screen() or None, "dialog")
    daemon.wait_for_session(
        lambda each: each["state"] == "waiting" and each["attention"] == "person", "wait", 10
    )
    checks = daemon.run("doctor", "--json").json["checks"]
    assert next(each for each in checks if each["name"] == "claude hooks")["said"].startswith(
        "the plugin reports"
    )


def test_its_mcp_server_answers_the_model(home: PluginHome, daemon: RunningDaemon) -> None:
    """The model's call of `self` returns the record of its own session."""
    daemon.watch(CLAUDE_CONFIG_DIR=home.home / ".claude")
    daemon.up()
    home.install()
    asked = home.run_print(
        script(*[READY] * READY_TIMES, {"tool": SELF, "input": {}}, DONE), "--allowedTools", SELF
    )
    assert asked.wait(180) == 0
    (session,) = daemon.sessions()
    text = "".join(log.read_text() for log in home.logs())
    results = [line for line in text.splitlines() if '"tool_result"' in line]
    assert session["id"] in results[-1], results[-1]
