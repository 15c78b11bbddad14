"""Claims about waking real programs: Claude Code is refused while it is quiet, woken when that ends, and answers."""

import os
import signal
import struct
import time
from pathlib import Path

from support.cli_user import DONE, Operator
from support.daemon_process import RunningDaemon
from support.real_clients import ClaudeHome, require_tmux, tmux, wait_for
from wakeful.testing.scripted_model import script

PLACE = "Test/Soon"
# The quiet window of the test ends at this time of a day at its place.
MORNING_SECONDS = 6 * 3600
QUIET_SECONDS = 8


def found_a_place(folder: Path, morning: int) -> None:
    """A time zone whose clocks show six in the morning at this moment, to the second."""
    offset = (MORNING_SECONDS - morning) % 86_400
    offset -= 86_400 if offset > 43_200 else 0
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    zone = b"TZif\0" + bytes(15) + counts + struct.pack(">lBB", offset, 0, 0) + b"TST\0"
    path = folder / PLACE
    path.parent.mkdir(parents=True)
    path.write_bytes(zone)


def test_a_quiet_window_ends_and_claude_code_answers(
    claude: ClaudeHome, daemon: RunningDaemon, tmp_path: Path
) -> None:
    """The wake is refused with its reason, then comes by itself, says what it is, and is answered in the same process."""
    places = tmp_path / "places"
    places.mkdir()
    daemon.watch(**claude.environ())
    daemon.watch(
        PYTHONTZPATH=f"{places}:/usr/share/zoneinfo",
        WAKEFUL_AGENTS__HEARTBEAT__CYCLE="1s",
        WAKEFUL_AGENTS__HEARTBEAT__DEFAULT_INTERVAL="1s",
    )
    daemon.up()
    operator = Operator(daemon, claude)
    session_id = operator.start("--headless", "--name", "fox", "--prompt", script(DONE), "--", "claude")
    idle = operator.wait_until(session_id, "end of the first turn", state="idle", eligible_for_wake=True)
    assert (idle["attachable"], idle["ineligibility_reason"]) == (True, None)
    # Clocks of places know whole seconds only.
    morning = int(time.time()) + QUIET_SECONDS
    found_a_place(places, morning)
    heartbeat = Path(daemon.environ["WAKEFUL_HOME"]) / "agents" / "fox" / "HEARTBEAT.md"
    heartbeat.parent.mkdir(parents=True)
    window = f"{{timezone: {PLACE}, start: 22:00, end: 06:00}}"
    words = script({"text": "Good morning"})
    heartbeat.write_text(f"---\npreferences:\n  quiet_windows:\n    - {window}\n---\n{words}\n")
    refused = operator.type("agent", "heartbeat", "wake", "fox", "--json")
    assert (refused.exit_code, refused.json["reason"]) == (1, "quiet_window")
    (transcript,) = claude.logs()
    wait_for(lambda: "Good morning" in transcript.read_text() or None, "answer")
    assert time.time() >= morning
    said = transcript.read_text()
    assert "not a message from a person" in said
    assert refused.json["snapshot_id"] in said
    woken = operator.wait_until(session_id, "end of the wake's turn", state="idle")
    assert woken["pid"] == idle["pid"]
    status = operator.type("agent", "heartbeat", "status", "fox", "--json").json
    assert (status["last_audit"]["outcome"], status["last_audit"]["trigger"]) == ("sent", "schedule")
    cooling = operator.type("agent", "heartbeat", "wake", "fox")
    assert (cooling.exit_code, "cooldown_active" in cooling.out) == (1, True)


def test_any_program_in_a_terminal_is_woken(daemon: RunningDaemon) -> None:
    """One that knows nothing but lines gets one, and answers by what it does with lines."""
    require_tmux()
    daemon.up()
    started = daemon.run("run", "--detach", "--name", "lynx", "--", "cat")
    assert started.exit_code == 0, started.out + started.err
    heartbeat = Path(daemon.environ["WAKEFUL_HOME"]) / "agents" / "lynx" / "HEARTBEAT.md"
    heartbeat.parent.mkdir(parents=True)
    heartbeat.write_text("Say hello.\n\nThen go on.\n")
    daemon.wait_for_session(lambda each: each["id"] == "lynx" and each["attachable"], "way to it")
    woken = daemon.run("agent", "heartbeat", "wake", "lynx")
    assert (woken.exit_code, "lynx: sent" in woken.out) == (0, True), woken.out + woken.err
    socket = Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock"

    def shown() -> int:
        return tmux(socket, "capture-pane", "-p", "-J", "-t", "=lynx:").count("Say hello. Then go on.")

    # As it was typed, and as it came back.
    wait_for(lambda: shown() == 2 or None, "answer")


def test_an_agent_that_outlived_its_tmux_server_is_detached(daemon: RunningDaemon) -> None:
    """It lives and is idle, its server's socket is still a file, and no way leads to it."""
    require_tmux()
    daemon.up()
    deaf = ("sh", "-c", "trap '' HUP; exec sleep 300")
    assert daemon.run("run", "--detach", "--name", "mole", "--", *deaf).exit_code == 0
    heartbeat = Path(daemon.environ["WAKEFUL_HOME"]) / "agents" / "mole" / "HEARTBEAT.md"
    heartbeat.parent.mkdir(parents=True)
    heartbeat.write_text("Say hello.\n")
    daemon.wait_for_session(lambda each: each["id"] == "mole" and each["attachable"], "way to it")
    socket = Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock"
    os.kill(int(tmux(socket, "display-message", "-p", "#{pid}")), signal.SIGKILL)
    lost = daemon.wait_for_session(lambda each: each["state"] == "detached", "lost way")
    assert (lost["health"], lost["session_alive"], lost["attachable"]) == ("healthy", True, False)
    refused = daemon.run("agent", "heartbeat", "wake", "mole", "--json")
    assert (refused.exit_code, refused.json["reason"]) == (1, "session_not_attachable")
    assert daemon.run("session", "stop", "mole").exit_code == 0
    daemon.wait_for_session(lambda each: each["state"] == "stopped", "end")
