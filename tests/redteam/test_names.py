"""Names that imitate another session: an order to a name reaches the session that lists show so, or none."""

import json
import time
from contextlib import ExitStack
from pathlib import Path

from redteam.conftest import Redteam
from support import claude_transcripts as claude
from support.daemon_process import RunningDaemon
from support.stub_clients import stand_in

NAMES = "names of another session"
# By project: what people call them.
HONEST = {
    "fe": "11112222-0000-4000-8000-00000000000a",
    "api": "3f2a0000-0000-4000-8000-00000000000c",
    "docs": "44440000-0000-4000-8000-00000000000b",
}
# Projects and ids that agents chose. `api` has two sessions from here on.
HOSTILE = (
    ("other", "fe001111-0000-4000-8000-00000000000b"),
    ("other", "d0c50000-0000-4000-8000-00000000000b"),
    ("api", "99990000-0000-4000-8000-00000000000d"),
    ("api-3f2a", "77770000-0000-4000-8000-00000000000e"),
    (f"claude-{HONEST['api']}", "66660000-0000-4000-8000-00000000000f"),
    (HONEST["docs"], "55550000-0000-4000-8000-000000000010"),
    ("docs\u200b2", "ffff0000-0000-4000-8000-000000000011"),
    ("\u202efe\u202c", "eeee0000-0000-4000-8000-000000000012"),
)
LOGS = ("docs", "api-3f2a", "api-9999", "claude-fe")
TYPED = ("fe", "docs", "api-3f2a", "api-9999", f"claude-{HONEST['api']}", HONEST["docs"], "44440000", "3f2a")


def test_an_order_reaches_no_session_that_only_looks_like_it(
    daemon: RunningDaemon, tmp_path: Path, redteam: Redteam
) -> None:
    """Each is adopted, which needs neither a terminal nor an answer of the client."""
    config, logs = daemon.home / "claude", Path(daemon.environ["WAKEFUL_HOME"]) / "events"
    logs.mkdir(parents=True)
    logs.parent.chmod(0o700)
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    now = time.time()
    with ExitStack() as clients:
        for number, (project, conversation) in enumerate((*HONEST.items(), *HOSTILE)):
            pid = clients.enter_context(stand_in(tmp_path / str(number))).pid
            cwd = f"/home/u/{project}"
            message = {"role": "user", "content": "please"}
            prompt = claude.record("user", now - 50, conversation, cwd, message=message)
            claude.write(config, conversation, prompt)
            claude.register(config, conversation, pid, "idle", cwd)
        for name in LOGS:
            opened = {"at": now - 40, "event": "opened", "cwd": "/home/u/x", "project": "x"}
            (logs / f"{name}.jsonl").write_text(f"{json.dumps(opened)}\n")
        wanted = len(HONEST) + len(HOSTILE) + len(LOGS)
        daemon.wait_for_session(
            lambda each: each["id"] == LOGS[-1] and len(daemon.sessions()) == wanted, "every session"
        )
        shown = {each["id"]: each["short_name"] for each in daemon.sessions()}
        names = {*shown.values()}
        redteam.attack(NAMES, f"shown alike: {shown}", held=len(names) == wanted)
        redteam.attack(NAMES, f"shown as another's id: {shown}", held=not names & {*HONEST.values()})
        for text in (*TYPED, *shown.values()):
            _type(daemon, text, shown, redteam)


def _type(daemon: RunningDaemon, text: str, shown: dict[str, str], redteam: Redteam) -> None:
    meant = {f"claude-{conversation}" for project, conversation in HONEST.items() if text == project}
    meant |= {each for each, name in shown.items() if name == text}
    meant |= {each for each in shown if each.startswith("claude-") and text in each}
    said = daemon.run("adopt", text)
    reached = {each["id"] for each in daemon.sessions() if each["managed"]}
    for each in reached:
        daemon.run("release", each)
    held = reached <= meant if said.exit_code == 0 else not reached
    redteam.attack(NAMES, f"adopt {text}: {reached} {said.out}{said.err}", held=held)
    # Scripts read a log by its whole id, whatever else is called so.
    why = daemon.run("session", "inspect", text, "--json")
    read = why.json["id"] if why.out.startswith("{") else None
    redteam.attack(NAMES, f"inspect {text}: {read}", held=read in {None, *meant, *LOGS})
