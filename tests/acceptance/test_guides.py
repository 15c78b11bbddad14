"""The guides and the tutorial, typed as written: each command line in a fresh home, with real clients and a real daemon."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from support.cli_user import DONE, Operator, bash
from support.daemon_process import RunningDaemon
from support.guide_reader import DOCS, GuideReader, Prepare, TypedLine, blocks, is_one_of, lines_of
from support.real_clients import ClaudeHome, CodexHome, end_tmux, tmux, wait_for
from support.telegram_sink import Webhook
from wakeful.testing.scripted_model import script

# The conversations that the guides name.
FOX: Final = "3f2a91bc-0000-4000-8000-000000000001"
WORKER: Final = "5a74ada3-0000-4000-8000-000000000002"
_INSTALL: Final = "it installs packages: test_install.py"
_MANAGER: Final = "it needs the user manager of systemd: test_user_manager.py"
_TELEGRAM: Final = "it needs Telegram: test_gateway.py"
# Lines that cannot be typed here, as file patterns: why, and the test that covers them with a stand-in.
ELSEWHERE: Final[Mapping[str, Mapping[str, str]]] = {
    "autostart": {"wakeful autostart install": _MANAGER, "loginctl *": _MANAGER},
    "first-minute": {"git clone *": _INSTALL, "make run": _INSTALL},
    "gateway": {
        "pip install *": _INSTALL,
        "export WAKEFUL_GATEWAY__TOKEN=*": _TELEGRAM,
        "wakeful gateway*": _TELEGRAM,
    },
    "github-issues": {"gh auth login": "it needs GitHub: test_github_issues.py"},
    "hooks": {"claude plugin *": "it needs a clone: test_plugin.py"},
    "mcp": {"pip install *": _INSTALL},
    "share-a-store": {"wakeful why docs": "it needs two machines: test_shared_store.py"},
    "setup": {"wakeful setup": "it asks on a terminal: test_setup.py"},
    "uninstall": {"uv tool *": _INSTALL},
    "upgrade": {"uv tool *": _INSTALL},
}
# What a reader types in this order, with one daemon.
ACTING: Final = ("run-and-adopt", "page", "heartbeat")
READING: Final = (
    "logs", "top", "report", "mute-and-pause", "metrics", "wait-in-scripts", "watch-any-program",
    "critical-events", "work-queue", "a-verdict-was-wrong", "judge-recorded-logs",
)  # fmt: skip
INSTALLING: Final = (
    "first-minute", "setup", "hooks", "mcp", "alerts", "autostart", "journal", "recover", "upgrade", "uninstall",
)  # fmt: skip
DECIDING: Final = ("checkpoints",)
DECLARING: Final = ("agents",)
# They have a configuration, commands within the text, or a program that test_redis_failures.py runs.
WITHOUT_LINES: Final = ("healing", "watchdog-in-your-program", "when-something-looks-wrong")
# The results that are not all 0, in the order in which the line is typed.
EXIT_CODES: Final = {
    ("critical-events", "wakeful events --since 2h --follow"): [
        124
    ],  # it ends with Ctrl-C, here from `timeout`
    ("journal", "python release.py --crash"): [-signal.SIGKILL],
    ("journal", "python release.py"): [1, 0],
    # One of its cases is labelled as wrong.
    ("judge-recorded-logs", "wakeful replay cases.jsonl"): [1],
    # A different answer later is refused, as the guide says.
    ("checkpoints", "wakeful checkpoint abort 1"): [1],
    ("checkpoints", "wakeful checkpoint continue 1 --done"): [1],
}


@pytest.fixture
def reader(claude: ClaudeHome, daemon: RunningDaemon, tmp_path: Path) -> Iterator[GuideReader]:
    """A person at home, without a daemon."""
    state = claude.home / ".local" / "state" / "wakeful"
    daemon.watch(**claude.environ(), WAKEFUL_HOME=state, WAKEFUL_DAEMON__PORT="0", TMUX_TMPDIR=claude.home)
    found = GuideReader(Operator(daemon, claude), tmp_path)
    yield found
    found.end()


@pytest.fixture
def typed() -> Iterator[list[TypedLine]]:
    """What was typed. The test fails with all lines whose exit code is not the documented one."""
    found: list[TypedLine] = []
    yield found
    told = {line: list(codes) for line, codes in EXIT_CODES.items()}
    wrong = []
    for each in found:
        codes = told.get((each.guide, each.line))
        if "(quiet_window)" in each.out:
            codes = [1]  # at night in Berlin, as its guide says
        if each.exit_code != (codes.pop(0) if codes else 0):
            wrong.append(each)
    assert wrong == [], "\n".join(
        f"{each.guide}: {each.line}: exit {each.exit_code}\n{each.out}" for each in wrong
    )


def test_every_guide_is_typed_or_named() -> None:
    """Each guide is in one list; what is not typed is a line of its guide, with a test that exists."""
    guides = {page.stem for kind in ("how-to", "tutorial") for page in (DOCS / kind).glob("*.md")}
    read = {*ACTING, *READING, *INSTALLING, *DECIDING, *DECLARING}
    apart = {*ELSEWHERE} - read
    assert guides == read | apart | {*WITHOUT_LINES}
    for guide in (*apart, *WITHOUT_LINES):
        assert [line for line in lines_of(guide) if not is_one_of(line, ELSEWHERE.get(guide, ()))] == []
    for guide, patterns in ELSEWHERE.items():
        for pattern, why in patterns.items():
            assert any(is_one_of(line, [pattern]) for line in lines_of(guide)), (guide, pattern)
            assert list(DOCS.parent.glob(f"tests/*/{why.rpartition(' ')[2]}")), why


def type_all(
    reader: GuideReader,
    typed: list[TypedLine],
    guides: Sequence[str],
    before: Mapping[str, Mapping[str, Prepare]],
) -> None:
    for guide in guides:
        typed.extend(reader.read(guide, before=before.get(guide), besides=ELSEWHERE.get(guide, ())))


def start_claude(reader: GuideReader, name: str, *, conversation: str) -> None:
    """A session that a person started in their own tmux."""
    home = reader.operator.home
    variables = [f"-e{each}={value}" for each, value in home.environ().items()]
    place = ["-d", "-s", name, "-c", str(home.project), *variables]
    client = ["claude", "--session-id", conversation, "hello"]
    tmux(reader.terminal, "new-session", *place, "--", *client, environ=home.environ())


def test_acting(reader: GuideReader, codex: CodexHome, typed: list[TypedLine]) -> None:
    """Run, prompt, answer, interrupt, stop, resume, adopt, wake."""
    operator, home = reader.operator, reader.operator.home
    operator.daemon.watch(
        CODEX_HOME=codex.home / ".codex",
        SCRIPTED_KEY=codex.environ()["SCRIPTED_KEY"],
    )
    reader.environ |= operator.daemon.environ | {"PATH": reader.environ["PATH"]}
    # Codex works in repositories only.
    subprocess.run(["git", "init", "--quiet"], cwd=home.project, check=True)
    (home.project / "plan.md").write_text("Plan the docs")
    operator.daemon.up()
    state = Path(operator.daemon.environ["WAKEFUL_HOME"])
    push = script({"tool": "Bash", "input": {"command": "git push"}}, DONE)

    def write_heartbeat() -> None:
        (state / "agents" / "fox" / "HEARTBEAT.md").write_text("".join(blocks("heartbeat", "markdown")))

    def clone_heartbeat() -> None:
        reader.go_home()
        folder = home.project / ".wakeful" / "agents" / "fox"
        folder.mkdir(parents=True)
        (folder / "HEARTBEAT.md").write_text("Look.\n")

    def start_own() -> None:
        start_claude(reader, "own", conversation=FOX)
        reader.settle(FOX)

    def end_own() -> None:
        end_tmux(reader.terminal)
        reader.settle(FOX, "stopped")

    before: dict[str, dict[str, Prepare]] = {
        "run-and-adopt": {
            "wakeful send": lambda: reader.settle("docs"),
            "wakeful session questions": lambda: reader.send("docs", push, "waiting"),
            "wakeful interrupt": lambda: reader.send(
                "docs", script(bash("sleep 100"), DONE), "prompting", "waiting"
            ),
            "wakeful stop": lambda: reader.settle("docs"),
            "wakeful adopt": start_own,
        },
        "heartbeat": {
            "wakeful run": end_own,
            "wakeful agent heartbeat validate": write_heartbeat,
            "wakeful agent heartbeat status": lambda: reader.settle("fox"),
            "wakeful config trust": clone_heartbeat,
        },
    }
    type_all(reader, typed, ACTING, before)


def test_declaring(reader: GuideReader, typed: list[TypedLine]) -> None:
    """Agents declared as in the guide. There is no engine: containers are covered by test_docker_agents.py."""
    daemon, home = reader.operator.daemon, reader.operator.home.home
    (home / "docs").mkdir()
    trust(home, home / "docs")
    configuration = home / ".config" / "wakeful" / "wakeful.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("".join(blocks("agents", "toml")))
    configuration.chmod(0o600)
    daemon.watch(DOCKER_HOST="tcp://127.0.0.1:1")
    daemon.up()
    type_all(reader, typed, DECLARING, {})
    assert "agent-docs      running" in {each.line: each.out for each in typed}["wakeful services"]


def trust(home: Path, folder: Path) -> None:
    """Claude Code may start there without a question."""
    file = home / ".claude.json"
    settings = json.loads(file.read_text())
    settings["projects"][str(folder)] = {"hasTrustDialogAccepted": True}
    file.write_text(json.dumps(settings))


def test_reading(reader: GuideReader, typed: list[TypedLine]) -> None:
    """What the lists, files and scripts say about sessions that exist."""
    operator, home = reader.operator, reader.operator.home
    operator.daemon.up()
    operator.start("--detach", "--name", "docs", "--", "claude")
    start_claude(reader, "fox", conversation=FOX)
    start_claude(reader, "worker", conversation=WORKER)
    for each in ("docs", FOX, WORKER):
        reader.settle(each)
    reader.send("docs", "hello")
    # It has been silent for 15 minutes.
    events = home.home / ".local/state/wakeful/events/quiet.jsonl"
    at = time.strftime("%FT%TZ", time.gmtime(time.time() - 900))
    events.parent.mkdir(exist_ok=True)
    events.write_text("".join(json.dumps({"at": at, "event": each}) + "\n" for each in ("opened", "prompt")))
    (home.project / "Makefile").write_text("nightly:\n\t@echo built\n")
    reader.install("my-agent", "cat >/dev/null")
    reader.install("sleep", "exec /bin/sleep 1")
    logs, wrong = home.project / "logs", home.home / ".local/state/wakeful/cases/wrong.jsonl"

    def keep_logs() -> None:
        shutil.copytree(home.home / ".claude" / "projects", logs)
        shutil.copy(wrong, home.project / "cases.jsonl")
        for name in ("old", "new"):
            (home.project / f"{name}.toml").write_text("[detect]\nsilence_seconds = 700\n")

    reader.words |= {"NAME": "quiet", f"{FOX[:8]}-…": FOX}
    before: dict[str, dict[str, Prepare]] = {"judge-recorded-logs": {"wakeful replay ~": keep_logs}}
    type_all(reader, typed, READING, before)
    said = {each.line.split("\n")[0]: each.out for each in typed}
    assert said["wakeful session wait 5a74ada3 --until idle --timeout 30m"].endswith("reached\n")
    assert 'wakeful_attention{attention="none"}' in "".join(said.values())
    assert [each["id"] for each in operator.daemon.sessions() if each["id"].endswith("nightly-build")] != []
    typed += [
        reader.run_program(each, text)
        for each in ("critical-events", "work-queue")
        for text in blocks(each, "python")
    ]


def test_installing(reader: GuideReader, typed: list[TypedLine]) -> None:
    """From the first list to the last line of the page that removes Wakeful."""
    home = reader.operator.home
    reader.install("systemctl", 'case "$*" in *is-active*) exit 3;; esac')
    webhook = Webhook()
    reader.environ["WAKEFUL_ALERTS__URLS"] = webhook.address
    for client in (".claude", ".codex"):
        (home.home / client).mkdir(exist_ok=True)
    (home.project / ".venv").symlink_to(Path(sys.prefix))
    (program,) = blocks("journal", "python")
    (home.project / "release.py").write_text(program)
    try:
        type_all(reader, typed, INSTALLING, {})
        assert webhook.messages
    finally:
        webhook.end()
        # Ended by the last line that was typed, unless the test failed before.
        reader.operator.daemon.run("down")
    assert (home.project / "elsewhere" / "mails").read_text() == "1.2 is out\n"
    assert not (home.home / ".claude" / "settings.json").exists()


def test_deciding(reader: GuideReader, typed: list[TypedLine]) -> None:
    """An agent was killed in a command that Wakeful does not know."""
    operator, home = reader.operator, reader.operator.home
    operator.daemon.watch(WAKEFUL_HEAL__CONFIRM_SECONDS="1")
    operator.daemon.up()
    (home.project / "sync-fixtures.sh").write_text("#!/bin/sh\ntouch begun\nsleep 100\n")
    (home.project / "sync-fixtures.sh").chmod(0o755)
    prompt = script(bash("./sync-fixtures.sh"), DONE)
    session_id = operator.start("--headless", "--prompt", prompt, "--", "claude", "--allowedTools", "Bash")
    wait_for(lambda: (home.project / "begun").exists() or None, "command")
    os.kill(operator.daemon.pid_of(session_id), signal.SIGKILL)
    wait_for(lambda: operator.type("checkpoint", "list", "--json").json["checkpoints"] or None, "checkpoint")
    type_all(reader, typed, DECIDING, {})
