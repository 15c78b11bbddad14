"""Claims about what stands beside health, with a real daemon: the hook hears of a change, timers show, repair mends."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from support.cli_user import Operator
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, wait_for
from wakeful.testing.scripted_model import script


def write(log: Path, *events: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.writelines(json.dumps({"at": time.time(), "event": event}) + "\n" for event in events)


def told(path: Path) -> list[dict[str, Any]] | None:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else None


def test_hook_timers_and_repair(daemon: RunningDaemon, tmp_path: Path) -> None:
    """A program hears of the end of a turn; a running one shows when it would time out; a forgotten one is laid to rest."""
    heard = tmp_path / "heard"
    program = tmp_path / "hook"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(heard)!r}, 'a').write(sys.stdin.read() + '\\n')\n"
    )
    program.chmod(0o700)
    daemon.watch(WAKEFUL_HOOKS__SESSION_HEALTH_UPDATE_AFTER=program)
    log = Path(daemon.environ["WAKEFUL_HOME"]) / "events" / "worker.jsonl"
    daemon.up()
    write(log, "opened", "prompt")
    daemon.wait_for_session(lambda each: each["active_prompt"], "prompt")
    timers = daemon.run("session", "status", "worker", "--json").json["supervision"]
    assert timers["warning_at"] < timers["timeout_at"]
    write(log, "done")
    (update,) = wait_for(lambda: told(heard), "hook")
    assert (update["event"], update["session_id"]) == ("session.health.update.after", "worker")
    assert (update["old_state"], update["state"], update["record"]["id"]) == ("prompting", "idle", "worker")
    # Killed, and meanwhile the log is gone: only the store still says that it is idle.
    daemon.kill()
    log.unlink()
    daemon.up()
    dry = daemon.run("session", "repair", "worker", "--dry-run")
    assert (dry.exit_code, "state: idle -> stopped" in dry.out, "would be repaired" in dry.out) == (
        0,
        True,
        True,
    )
    assert "repaired" in daemon.run("session", "repair", "worker").out
    again = daemon.run("session", "repair", "worker", "--json").json
    assert (again["changes"], again["words"]) == ([], "what is stored is true")
    status = daemon.run("agent", "heartbeat", "status", "fox")
    assert (status.exit_code, "may not be woken: session_not_found" in status.out) == (0, True)


def test_a_prompt_that_times_out_is_cut_short(claude: ClaudeHome, daemon: RunningDaemon) -> None:
    """A real Claude Code whose model never answers: interrupted, it is idle again in the same process and may be woken."""
    daemon.watch(**claude.environ())
    daemon.watch(
        WAKEFUL_SESSION__SUPERVISION__ACTIVITY_HEARTBEAT_INTERVAL="1s",
        WAKEFUL_SESSION__SUPERVISION__INACTIVITY_TIMEOUT="2s",
    )
    daemon.up()
    operator = Operator(daemon, claude)
    silent = script({"text": "never said", "hang": "headers"})
    session_id = operator.start("--headless", "--name", "fox", "--prompt", silent, "--", "claude")
    wait_for(lambda: any("interrupted" in each.read_text() for each in claude.logs()) or None, "end")
    idle = operator.wait_until(session_id, "end of the prompt", state="idle", active_prompt=False)
    assert (idle["health"], idle["attachable"], idle["eligible_for_wake"]) == ("healthy", True, True)
    assert idle["pid"] is not None
    assert claude.model.hanging == 0
