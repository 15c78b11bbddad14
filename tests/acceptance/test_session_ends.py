"""How turns of the real clients begin and end: a run that ended well is no death, and one that hangs is no idleness."""

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from support.cli_user import DONE, bash
from support.daemon_process import RunningDaemon
from support.real_clients import UNTIL_TOLD, ClaudeHome, wait_for
from support.stub_codex import ScriptedCodex
from wakeful.testing.scripted_model import ScriptedModel, script

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ANSWER = {"tool": "StructuredOutput", "input": {"n": 3}}
LOOKING = {**bash("true"), "loop": True}
FREE = "--dangerously-skip-permissions"
# Far below what the command of the test takes.
SILENCE_SECONDS = 4
Record = dict[str, Any]


@pytest.fixture
def watching(daemon: RunningDaemon, claude: ClaudeHome) -> RunningDaemon:
    daemon.watch(**claude.environ())
    daemon.up()
    return daemon


@pytest.fixture
def watching_codex(daemon: RunningDaemon, tmp_path: Path) -> RunningDaemon:
    daemon.watch(CODEX_HOME=tmp_path / "codex", WAKEFUL_DETECT__SILENCE_SECONDS=str(SILENCE_SECONDS))
    daemon.up()
    return daemon


def codes(record: Record) -> list[str]:
    return [finding["code"] for finding in record["findings"]]


def kinds(record: Record) -> list[str]:
    return [wait["kind"] for wait in record["expected_waits"]]


def alarms(daemon: RunningDaemon) -> list[Any]:
    """Every critical event and every incident so far."""
    events = daemon.run("events", "--json").json["events"]
    return [*events, *daemon.run("incidents", "--json").json["incidents"]]


def stopping(hook: str) -> str:
    """Settings by which this hook lets nothing follow."""
    said = json.dumps({"continue": False, "stopReason": "enough"})
    command = {"type": "command", "command": f"cat >/dev/null; echo {shlex.quote(said)}", "timeout": 5}
    return json.dumps({"hooks": {hook: [{"hooks": [command]}]}})


@pytest.mark.parametrize(
    ("steps", "arguments", "exit_code"),
    [
        pytest.param((ANSWER,), ("--json-schema", json.dumps(SCHEMA)), 0, id="a schema that was filled"),
        pytest.param((LOOKING,), ("--max-turns", "2", FREE), 1, id="as many turns as it may"),
        pytest.param((LOOKING,), ("--max-budget-usd", "0.0007", FREE), 1, id="as much money as it may"),
        pytest.param(
            (DONE,), ("--settings", stopping("UserPromptSubmit")), 0, id="a hook stopped its prompt"
        ),
    ],
)
def test_a_run_that_ended_by_its_own_rules_is_no_death(
    watching: RunningDaemon, claude: ClaudeHome, steps: tuple[Record], arguments: tuple[str], exit_code: int
) -> None:
    """None ends with a text: stopped and healthy, with no event and no incident."""
    assert claude.run_print(script(*steps), *arguments).wait(60) == exit_code
    ended = watching.wait_for_session(lambda each: each["state"] == "stopped", "end")
    assert (ended["health"], codes(ended), alarms(watching)) == ("healthy", [], [])


def test_a_run_whose_answer_never_fits_its_schema_failed(watching: RunningDaemon, claude: ClaudeHome) -> None:
    """Its client gives up after five answers and writes no word of it: a failed turn, not a death."""
    wrong = {**ANSWER, "input": {"n": "three"}, "loop": True}
    assert claude.run_print(script(wrong), "--json-schema", json.dumps(SCHEMA)).wait(60) == 1
    ended = watching.wait_for_session(lambda each: each["state"] == "stopped", "end")
    assert codes(ended) == ["turn_failed"]


def test_a_run_that_is_asked_again_for_its_schema_is_at_work(
    watching: RunningDaemon, claude: ClaudeHome, model: ScriptedModel
) -> None:
    """A text does not fill a schema: the client asks for more by itself, and the model hangs there."""
    process = claude.run_print(script(DONE, {"hang": "mid"}), "--json-schema", json.dumps(SCHEMA))
    assert model.wait_until(lambda: model.hanging > 0, 60)
    working = watching.wait_for_session(lambda each: each["state"] == "prompting", "turn")
    assert kinds(working) == ["model"]
    process.kill()
    dead = watching.wait_for_session(lambda each: each["state"] == "stopped", "end")
    assert (dead["health"], codes(dead)) == ("dead", ["session_dead"])


def test_a_run_whose_first_message_costs_more_than_its_budget_ended_nobody_knows_how(
    watching: RunningDaemon, claude: ClaudeHome
) -> None:
    """Its log ends as after SIGTERM, and nothing in it says what a message costs: unknown, and no alarm."""
    assert claude.run_print(script(LOOKING), "--max-budget-usd", "0.0001", FREE).wait(60) == 1
    ended = watching.wait_for_session(lambda each: each["state"] == "stopped", "end")
    assert (ended["health"], codes(ended), alarms(watching)) == ("unknown", [], [])


def test_a_skill_that_hangs_is_at_work_and_dies_in_its_turn(
    watching: RunningDaemon, claude: ClaudeHome, model: ScriptedModel, terminal: Path
) -> None:
    """The client itself wrote the prompt of such a turn: seen before any output, and dead after kill -9."""
    skill = claude.project / ".claude" / "skills" / "deploy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(f"---\nname: deploy\ndescription: deploys\n---\n{script({'hang': 'mid'})}\n")
    pane = claude.in_tmux(terminal, "/deploy now", "a")
    assert model.wait_until(lambda: model.hanging > 0, 60)
    # Its client calls itself busy before its log is on disk; killed in between it leaves nothing to judge.
    wait_for(
        lambda: any(b'"isMeta":true' in log.read_bytes() for log in claude.logs()) or None, "skill in a log"
    )
    working = watching.wait_for_session(lambda each: each["state"] == "prompting", "turn")
    assert kinds(working) == ["model"]
    os.kill(int(pane.shown("pane_pid")), signal.SIGKILL)
    dead = watching.wait_for_session(lambda each: each["state"] == "stopped", "end")
    assert (dead["health"], codes(dead)) == ("dead", ["session_dead"])


def test_an_agent_in_the_background_is_waited_for(
    watching: RunningDaemon, claude: ClaudeHome, terminal: Path
) -> None:
    """Between turns the session says what goes on behind it, until the word of its end."""
    allowed = claude.project / ".claude" / "settings.json"
    allowed.parent.mkdir()
    allowed.write_text(json.dumps({"permissions": {"allow": ["Bash", "Agent"]}}))
    job = {"description": "a job", "prompt": script(bash(UNTIL_TOLD), DONE), "run_in_background": True}
    launch = {"tool": "Agent", "input": {**job, "subagent_type": "general-purpose"}}
    claude.in_tmux(terminal, script(launch, {"text": "Launched"}), "a")
    watching.wait_for_session(lambda each: kinds(each) == ["background"], "agent in the background")
    claude.let_tool_end()
    watching.wait_for_session(lambda each: each["state"] == "idle" and not kinds(each), "end")


def test_how_a_session_ended_whose_log_was_removed_is_unknown(
    watching: RunningDaemon, claude: ClaudeHome, model: ScriptedModel
) -> None:
    """Killed in a turn, its log deleted, Wakeful restarted: only a registry file is left, and that is no good end."""
    process = claude.run_print(script({"hang": "mid"}))
    assert model.wait_until(lambda: model.hanging > 0, 60)
    watching.wait_for_session(lambda each: each["state"] == "prompting", "turn")
    process.kill()
    watching.wait_for_session(lambda each: each["health"] == "dead", "death")
    claude.logs()[0].unlink()
    watching.end()
    watching.up()
    listed = watching.run("session", "list", "--all", "--json").json["sessions"]
    assert [(each["state"], each["health"], codes(each)) for each in listed] == [("stopped", "unknown", [])]


def test_a_command_typed_into_codex_is_no_wait_for_the_model(
    watching_codex: RunningDaemon, tmp_path: Path
) -> None:
    """`!` runs it in a turn of its own that asks nothing of the model: at work, and never silent."""
    home = Path(watching_codex.environ["CODEX_HOME"])
    with ScriptedCodex(home, tmp_path / "project") as codex:
        codex.prompt("hello", approval_policy="on-request")
        codex.tell("task_complete", turn_id="t", last_agent_message="Done.")
        watching_codex.wait_for_session(lambda each: each["state"] == "idle", "end")
        codex.tell("task_started", turn_id="u", root_turn_id="u", turn_attribution={"turn_trigger": None})
        running = watching_codex.wait_for_session(lambda each: each["state"] == "prompting", "command")
        assert kinds(running) == ["tool"]
        held = wait_for(lambda: _held_back(watching_codex, running["id"]), "silence held back")
        assert held["by"] == "tool"
        codex.tell("task_complete", turn_id="u")
        watching_codex.wait_for_session(lambda each: each["state"] == "idle", "end")
    assert alarms(watching_codex) == []


def test_a_plan_of_codex_waits_for_a_person(watching_codex: RunningDaemon, tmp_path: Path) -> None:
    """Its turn is over, and only a person's answer begins the next one: waiting, until that begins."""
    home = Path(watching_codex.environ["CODEX_HOME"])
    with ScriptedCodex(home, tmp_path / "project") as codex:
        codex.prompt("plan it", collaboration_mode={"mode": "plan"})
        codex.tell("item_completed", item={"type": "Plan", "id": "p", "text": "# Plan"})
        codex.tell("task_complete", turn_id="t", last_agent_message="# Plan")
        waiting = watching_codex.wait_for_session(lambda each: each["state"] == "waiting", "plan")
        assert (waiting["attention"], waiting["active_prompt"], codes(waiting)) == ("person", False, [])
        codex.prompt("Implement the plan.")
        watching_codex.wait_for_session(lambda each: each["state"] == "prompting", "turn")
        codex.tell("task_complete", turn_id="t", last_agent_message="Done.")
        watching_codex.wait_for_session(lambda each: each["state"] == "idle", "end")
    assert alarms(watching_codex) == []


def _held_back(daemon: RunningDaemon, session_id: str) -> Record | None:
    """The silence that would have been found by now, were it not for a wait."""
    rules: list[Record] = daemon.run("session", "why", session_id, "--json").json["held_back"]
    return next((rule for rule in rules if rule["code"] == "silent"), None)
