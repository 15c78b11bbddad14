"""Arguments that are no text: names of files and of branches may be any bytes, and people paste them."""

import json
import time
from pathlib import Path

from redteam.conftest import Redteam
from support.daemon_process import RunningDaemon

# As Python has a byte that is not UTF-8 in the arguments of a process.
BYTE = "\udcff"
COMMANDS = (
    "why {}", "logs {}", "logs x --since {}", "ls --project {}", "session list --project {}", "adopt {}",
    "adopt x --name {}", "send {} hi", "send x {}", "answer x allow --question {}", "attach {}",
    "session wrong x --expect ok --note {}", "session claim x --owner {}", "open --revoke {}",
    "run --headless --name {} -- claude", "run --headless -- {}", "agent start {}", "mute --project {} --for 1h",
    "mute --project x --for {}", "checkpoint teach --project {} make", "checkpoint teach --project x {}",
    "pause --reason {}", "unpause", "events --since {}", "report --since {}", "config show --config {}", "config trust {}",
    "config import {}", "config merge {}", "work add {}", "work list --state {}", "hooks install {} --dry-run",
    "replay {}", "doctor --bundle {}", "setup {}", "{}",
)  # fmt: skip


def test_no_argument_is_a_bug(daemon: RunningDaemon, redteam: Redteam) -> None:
    """Every command answers, or refuses what is not UTF-8 as a mistake of the person; control characters are not shown."""
    events = Path(daemon.environ["WAKEFUL_HOME"]) / "events"
    events.mkdir(parents=True)
    events.parent.chmod(0o700)
    opened = {"at": time.time(), "event": "opened", "cwd": "/home/u/x", "project": "x"}
    (events / "x.jsonl").write_text(f"{json.dumps(opened)}\n")
    daemon.up()
    for command in COMMANDS:
        for given in (BYTE, "\x1b[2J\u202e"):
            said = daemon.run(*(word.format(given) for word in command.split()))
            shown = (said.out + said.err).replace("\n", "")
            held = said.exit_code in {0, 1, 2, 3} and "Traceback" not in shown and "\x1b" not in shown
            redteam.attack("arguments", f"{command} {given!r}: {said.exit_code} {shown[-200:]}", held=held)
    redteam.attack("arguments", daemon.said(), held="Traceback" not in daemon.said())
