"""Attacks by a supervised agent that wants to decide: every order, by every door, however its process was started."""

import json
import os
import pty
import re
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from redteam.conftest import Redteam
from support import claude_transcripts
from support.daemon_process import CommandResult, RunningDaemon
from support.raw_request import ask_unix
from support.real_clients import end_tmux, wait_for
from support.stub_clients import ToolRunner, stand_in, tool_runner
from support.telegram_server import TOKEN, BotApi
from wakeful.http.caller import RequestClass, classify_path
from wakeful.linux.locks import gateway_name

ORDERS = "orders of an agent"
WAYS = "ways to hide where an agent comes from"
CHAT = "approvals outside the chat"
REFUSED = "Only people may decide"
SECRET = "sk-ant-REDTEAM-0123456789abcdef0123456789abcdef"
BY_NAME = (
    ("adopt", "proj"),
    ("release", "proj"),
    ("stop", "proj"),
    ("resume", "proj", "--done"),
    ("send", "proj", "go on"),
    ("answer", "proj", "allow", "--question", "1"),
    ("interrupt", "proj"),
)
COMMANDS = (
    ("session", "adopt", "{}"),
    ("session", "release", "{}"),
    ("session", "stop", "{}"),
    ("session", "resume", "{}"),
    ("session", "send", "{}", "go on"),
    ("session", "interrupt", "{}"),
    ("session", "revive", "{}", "--yes"),
    ("session", "repair", "{}"),
    # By the name that lists show.
    *BY_NAME,
    ("open", "--revoke", "all"),
    ("run", "--headless", "--", "claude"),
    ("agent", "start", "fox"),
    ("agent", "stop", "fox"),
    ("mute", "--project", "x", "--for", "1h"),
    ("checkpoint", "continue", "1"),
    ("checkpoint", "abort", "1"),
    ("checkpoint", "teach", "--project", "x", "make"),
    ("pause",),
    ("pause", "--for", "2h"),
    ("unpause",),
    ("resume",),
    ("open",),
    ("events", "--archive-before", "1d"),
    ("down",),
)
OFFLINE = (
    ("config", "trust"),
    ("config", "trust", "HEARTBEAT.md"),
    ("config", "merge", "more.toml"),
    ("setup", "--yes"),
    ("setup", "--undo"),
    ("setup", "hooks", "--yes"),
    ("gateway", "pair"),
    ("gateway", "unpair", "7"),
    ("alerts", "test"),
    ("hooks", "install", "claude"),
    ("hooks", "uninstall", "claude"),
    ("autostart", "install"),
    ("autostart", "remove"),
)


class Scene:
    """A daemon with one session whose client runs commands for the attacker."""

    def __init__(self, daemon: RunningDaemon, agent: ToolRunner, conversation: str) -> None:
        self.daemon = daemon
        self.agent = agent
        self.session = f"claude-{conversation}"
        self.marks = {"CLAUDE_CODE_SESSION_ID": conversation, "CLAUDECODE": "1"}

    def shell(self, line: str) -> CommandResult:
        """A line of shell, as one of the client's tools runs it."""
        return self.agent.ask(["/bin/sh", "-c", line], **self.marks)

    def lets(self, line: str, path: Path) -> bool:
        """Whether this line, which writes what the command says to a file, got its decision."""
        path.unlink(missing_ok=True)
        self.shell(line)
        said = wait_for(lambda: _whole(path), f"answer to {line}", 30)
        return REFUSED not in said and "cannot be seen" not in said

    def decision(self, path: Path) -> str:
        """The words of a decision, with the file that gets what it says; its last line is `end`."""
        words = shlex.join(self.daemon.argv("mute", "--project", "x", "--for", "1h"))
        return f"{words} > {path} 2>&1; echo end >> {path}"


def _whole(path: Path) -> str | None:
    said = path.read_text() if path.exists() else ""
    return said if said.endswith("end\n") else None


@contextmanager
def supervised(daemon: RunningDaemon, folder: Path) -> Iterator[Scene]:
    config, conversation = daemon.home / "claude", str(uuid4())
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    with tool_runner(folder, daemon.environ) as agent:
        claude_transcripts.write(config, conversation, claude_transcripts.prompt(time.time(), conversation))
        claude_transcripts.register(config, conversation, agent.pid, "busy")
        daemon.wait_for_session(lambda each: each["pid"] == agent.pid, "supervised session")
        yield Scene(daemon, agent, conversation)


def test_no_command_of_an_agent_decides(daemon: RunningDaemon, tmp_path: Path, redteam: Redteam) -> None:
    """Each is refused in the same words, by the daemon and without one; what only reads is answered."""
    with supervised(daemon, tmp_path) as scene:
        for words in COMMANDS:
            said = scene.agent.ask(daemon.argv(*(word.format(scene.session) for word in words)))
            redteam.attack(ORDERS, " ".join(words), held=said.exit_code == 1 and REFUSED in said.err)
        assert scene.agent.ask(daemon.argv("session", "list", "--json")).exit_code == 0
        for words in BY_NAME:
            said = scene.agent.ask(["setsid", "--wait", *daemon.argv(*words)], **scene.marks)
            redteam.attack(ORDERS, f"setsid {' '.join(words)}", held=REFUSED in said.err)
        assert scene.agent.ask(daemon.argv("why", "proj")).exit_code == 0
        for offline in OFFLINE:
            said = scene.agent.ask(daemon.argv(*offline))
            redteam.attack(ORDERS, f"{' '.join(offline)}, without the daemon", held=REFUSED in said.err)
        assert scene.agent.ask(daemon.argv("hooks", "install", "claude", "--dry-run")).exit_code == 0
    # The person beside it decides.
    assert daemon.run("session", "adopt", scene.session).exit_code == 0


def test_no_route_takes_an_order_of_an_agent(daemon: RunningDaemon, tmp_path: Path, redteam: Redteam) -> None:
    """Every order that is described, over the socket and with the token: refused before anything is understood of it."""
    with supervised(daemon, tmp_path) as scene:
        status = daemon.run("status", "--json").json
        described = json.loads(ask_unix(daemon.socket, "GET", "/api/openapi.json").body)
        orders = [path for path, verbs in described["paths"].items() if "post" in verbs]
        paths = [
            re.sub(r"\{number\}", "1", re.sub(r"\{(?!number)\w+\}", scene.session, each)) for each in orders
        ]
        guarded = [each for each in paths if classify_path(each) is not RequestClass.UNRESTRICTED]
        assert len(guarded) > 25
        token = (Path(daemon.environ["WAKEFUL_HOME"]) / "token").read_text().strip()
        port = re.search(r":(\d+)", " ".join(status["daemon"]["listening"]))
        assert port is not None
        program = Path(__file__).parents[1] / "support" / "raw_request.py"
        for door in ((str(daemon.socket),), (port[1], token)):
            asked = scene.agent.ask([sys.executable, str(program), *door, *guarded])
            codes = json.loads(asked.out)
            for path, code in zip(guarded, codes, strict=True):
                held = code in {"agent-may-not-decide", "wrong-door"}
                redteam.attack(
                    ORDERS, f"POST {path} by {'socket' if len(door) == 1 else 'token'}: {code}", held=held
                )


def test_an_agent_cannot_hide_where_it_comes_from(
    daemon: RunningDaemon, tmp_path: Path, redteam: Redteam
) -> None:
    """It leaves its family and keeps its variables, or drops them and stays: both give it away."""
    answer = tmp_path / "answer"
    with supervised(daemon, tmp_path / "bin") as scene:
        decision = scene.decision(answer)
        quoted = shlex.quote(decision)
        environ = " ".join(shlex.quote(f"{key}={value}") for key, value in daemon.environ.items())
        ways = {
            "a child": decision,
            "setsid": f"setsid sh -c {quoted}",
            "nohup": f"nohup sh -c {quoted} >/dev/null 2>&1",
            "left behind, and below the first process": f"(setsid sh -c {shlex.quote('sleep 0.3; ' + decision)} &) &",
            "a child without variables": f"env -i {environ} sh -c {quoted}",
            "a terminal of its own": f"script -qec {quoted} /dev/null",
            "a terminal of its own, left behind": f"(setsid script -qec {shlex.quote('sleep 0.3; ' + decision)} /dev/null >/dev/null 2>&1 &) &",
            "another name": f"bash -c {shlex.quote('exec -a sshd sh -c ' + quoted)}",
        }
        if os.geteuid() == 0:
            ways["su"] = f"su -s /bin/sh -c {shlex.quote(f'env {environ} sh -c {quoted}')} root"
            ways["su, left behind"] = (
                f"(setsid su -m -s /bin/sh -c {shlex.quote('sleep 0.3; ' + decision)} root &) &"
            )
        server = tmp_path / "agents.sock"
        ways["a tmux server that it started"] = f"tmux -S {server} -f /dev/null new-session -d sh -c {quoted}"
        for what, line in ways.items():
            redteam.attack(WAYS, what, held=not scene.lets(line, answer))
        socket_path = Path(daemon.environ["WAKEFUL_HOME"]) / "tmux.sock"
        pane = f"tmux -S {socket_path} -f /dev/null new-session -d sh -c {quoted}"
        bare = f"env -i PATH={os.environ['PATH']} tmux -S {socket_path} -f /dev/null new-session -d env -i {environ} sh -c {quoted}"
        try:
            redteam.attack(WAYS, "a pane of Wakeful's own tmux server", held=not scene.lets(pane, answer))
            # A server that is about to end with its last pane takes no new one.
            end_tmux(socket_path)
            redteam.attack(WAYS, "a pane there without variables", held=not scene.lets(bare, answer))
        finally:
            end_tmux(socket_path)
            end_tmux(server)
        left = _left_behind(scene, tmp_path / "left")
    # Its client is gone; what it left behind asks now.
    (tmp_path / "left.go").touch()
    said = wait_for(lambda: _whole(left), "answer of an orphan")
    redteam.attack(WAYS, "a tool that outlived its client", held=REFUSED in said)


def _left_behind(scene: Scene, path: Path) -> Path:
    """A tool that waits for a file before it asks."""
    waiting = f"until [ -e {path}.go ]; do sleep 0.1; done; {scene.decision(path)}"
    scene.shell(f"(setsid sh -c {shlex.quote(waiting)} >/dev/null 2>&1 &) &")
    return path


# Connects, and lets a child that is left behind give the order once the one that connected has ended.
_ASK_AND_LEAVE = """
import os, socket, sys, time
asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[1])
first = os.getpid()
if os.fork():
    os._exit(0)
while os.path.exists(f"/proc/{first}"):
    time.sleep(0.01)
asking.sendall(sys.argv[2].encode())
with open(sys.argv[3], "wb") as answer:
    answer.write(asking.recv(65536))
    answer.write(b"end\\n")
"""


def test_a_caller_that_leaves_gets_nothing(daemon: RunningDaemon, tmp_path: Path, redteam: Redteam) -> None:
    """The process that connected is gone when the order comes: its origin cannot be seen."""
    request = _mute_request("gone")
    with supervised(daemon, tmp_path) as scene:
        for number in range(redteam.rounds(2, 20)):
            answer = tmp_path / f"answer-{number}"
            words = [sys.executable, "-c", _ASK_AND_LEAVE, str(daemon.socket), request, str(answer)]
            scene.shell(f"(env -i setsid {shlex.join(words)} &) &")
            said = wait_for(partial(_whole, answer), "answer")
            redteam.attack(WAYS, f"ask and leave: {said[:40]}", held="caller-unseen" in said)


# Detached, with its variables: gives orders, and ends before they can be answered, earlier or later.
_ASK_AND_END = """
import os, socket, sys, time
for number in range(int(sys.argv[3])):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            asking = socket.socket(socket.AF_UNIX)
            asking.connect(sys.argv[1])
            asking.sendall(sys.argv[2].encode())
            time.sleep(number % 5 * 0.0005)
        os._exit(0)
    os.wait()
    time.sleep(0.004)
"""
# The first thread ends, and with it the variables that can be read; another one gives the order.
_ASK_FROM_A_THREAD = """
import ctypes, os, socket, sys, threading, time
if os.fork():
    os._exit(0)
os.setsid()
first = os.getpid()
asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[1])
def ask():
    while open(f"/proc/{first}/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    asking.sendall(sys.argv[2].encode())
    with open(sys.argv[3], "wb") as answer:
        answer.write(asking.recv(65536))
        answer.write(b"end\\n")
    os._exit(0)
threading.Thread(target=ask).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_caller_that_ends_gets_nothing(daemon: RunningDaemon, tmp_path: Path, redteam: Redteam) -> None:
    """Its variables vanish before the process does: one that ends while it is looked at is no person."""
    count = redteam.rounds(200, 2_000)
    with supervised(daemon, tmp_path) as scene:
        words = [sys.executable, "-c", _ASK_AND_END, str(daemon.socket), _mute_request("ended"), str(count)]
        scene.shell(shlex.join(words))
        answer = tmp_path / "answer"
        words = [sys.executable, "-c", _ASK_FROM_A_THREAD, str(daemon.socket), _mute_request("thread")]
        scene.shell(shlex.join([*words, str(answer)]))
        said = wait_for(partial(_whole, answer), "answer")
        redteam.attack(WAYS, f"the first thread ends: {said[:40]}", held="caller-unseen" in said)
    muted = json.loads(ask_unix(daemon.socket, "GET", "/api/mutes").body)["mutes"]
    redteam.attack(WAYS, f"ask and end: {muted}", held=muted == [])
    redteam.figure("orders whose giver ended while it was looked at, and that were taken", str(len(muted)))


def _mute_request(project: str) -> str:
    order = json.dumps({"kind": "project", "value": project, "for_seconds": 60})
    head = "POST /api/mutes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(order)}\r\n\r\n{order}"


def test_a_persons_terminal_can_always_reduce(
    daemon: RunningDaemon, tmp_path: Path, redteam: Redteam
) -> None:
    """One that an agent's tmux server opened has its variables: pause and down work there, decisions do not."""
    with supervised(daemon, tmp_path) as scene:
        said = {
            words: _in_terminal(daemon, words, scene.marks)
            for words in (("mute", "--project", "x", "--for", "1h"), ("pause",), ("down",))
        }
    redteam.attack(
        ORDERS,
        "mute in a terminal with an agent's variables",
        held=REFUSED in said["mute", "--project", "x", "--for", "1h"],
    )
    redteam.attack(ORDERS, "a person who cannot pause", held="PAUSED" in said["pause",])
    redteam.attack(ORDERS, "a person who cannot end it", held=REFUSED not in said["down",])
    wait_for(lambda: daemon.has_ended() or None, "end of the daemon")


def _in_terminal(daemon: RunningDaemon, words: tuple[str, ...], marks: dict[str, str]) -> str:
    """What a command says in a terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, daemon.argv(*words), {**daemon.environ, **marks})
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:
        # Linux says so when the last one left the terminal.
        pass
    finally:
        os.waitpid(pid, 0)
        os.close(terminal)
    return said.decode()


def test_a_log_cannot_take_a_clients_session(daemon: RunningDaemon, tmp_path: Path, redteam: Redteam) -> None:
    """A killed agent stays dead, whatever other files say in its name; a person's name for it stays its own."""
    config, conversation = daemon.home / "claude", str(uuid4())
    session, events = f"claude-{conversation}", Path(daemon.environ["WAKEFUL_HOME"]) / "events"
    tools = tmp_path / "tools"
    daemon.watch(CLAUDE_CONFIG_DIR=config, WAKEFUL_EYES__TOOL_USE_DIRS=tools)
    daemon.up()
    with stand_in(tmp_path / "bin") as client:
        now = time.time()
        called = claude_transcripts.call(now, conversation, "make")
        claude_transcripts.write(config, conversation, claude_transcripts.prompt(now, conversation), called)
        claude_transcripts.register(config, conversation, client.pid, "busy")
        daemon.wait_for_session(lambda each: each["pid"] == client.pid, "living session")
        assert daemon.run("session", "adopt", session, "--name", "fox").exit_code == 0
    daemon.wait_for_session(lambda each: each["health"] == "dead", "dead session")
    time.sleep(2.5)
    closed = json.dumps({"at": time.time(), "event": "closed"}) + "\n"
    short = session[: len("claude-") + 8]
    for name in (
        session,
        session.upper(),
        conversation,
        f"claude-{session}",
        f"codex-{session}",
        short,
        "fox",
    ):
        (events / f"{name}.jsonl").write_text(closed)
    (tools / session).mkdir(parents=True)
    (tools / session / "tool_use.jsonl").write_text(closed)
    hook = {"session_id": conversation, "hook_event_name": "SessionEnd", "cwd": "/"}
    spool = Path(daemon.environ["WAKEFUL_HOME"]) / "spool"
    for number, event in enumerate(("SessionEnd", "Stop", "Interrupt")):
        # Backdated before the daemon sees it.
        dropped = tmp_path / f"forged-{number}"
        dropped.write_text(json.dumps(hook | {"hook_event_name": event}))
        os.utime(dropped, (now, now))
        dropped.rename(spool / dropped.name)
    daemon.wait_for_session(lambda each: each["id"] == "fox", "log that took the name")
    wait_for(lambda: not list(spool.iterdir()) or None, "empty spool")
    for text, what in (
        (session, "its id"),
        (conversation, "its conversation"),
        (short, "its short id"),
        (session[:-2], "the beginning of its id"),
        ("fox", "its name"),
    ):
        seen: dict[str, Any] = daemon.run("session", "health", text, "--json").json
        held = (seen["id"], seen["health"]) == (session, "dead")
        redteam.attack(
            "ids of another source", f"{what}: {seen['id']} {seen['state']} {seen['health']}", held=held
        )


@pytest.mark.parametrize(
    "words", [("mute", "--project", f"p?key={SECRET}", "--for", "1h"), ("config", "trust")]
)
def test_a_refused_decision_is_told_once(
    daemon: RunningDaemon, tmp_path: Path, redteam: Redteam, words: tuple[str, ...]
) -> None:
    """However often it tries, also what no daemon does: one alert, with the session that asked, and without a secret."""
    with BotApi() as api:
        daemon.watch(
            WAKEFUL_ALERTS__TELEGRAM_TOKEN=TOKEN,
            WAKEFUL_ALERTS__TELEGRAM_CHAT="7",
            WAKEFUL_ALERTS__TELEGRAM_API=api.url,
        )
        with supervised(daemon, tmp_path) as scene:
            for _ in range(redteam.rounds(5, 30)):
                said = scene.agent.ask(daemon.argv(*words))
                assert REFUSED in said.err
            api.wait(lambda: bool(api.seen(7)))
            time.sleep(1)
            told = [each for each in api.seen(7) if "Decision refused" in each]
        redteam.attack(ORDERS, f"a flood of {len(told)} alerts", held=len(told) == 1)
        redteam.attack(ORDERS, "an alert without the one that asked", held=scene.session in told[0])
        redteam.attack(ORDERS, "a secret in the alert", held=SECRET not in told[0])


def test_approval_can_be_limited_to_the_chat(daemon: RunningDaemon, tmp_path: Path, redteam: Redteam) -> None:
    """A person's command is refused with a clear line; the process that serves the chat is not."""
    token = f"{uuid4().int % 10**9}:{uuid4().hex}"
    daemon.watch(
        CLAUDE_CONFIG_DIR=tmp_path / "claude",
        WAKEFUL_GATEWAY__TOKEN=token,
        WAKEFUL_GATEWAY__APPROVE_ONLY_IN_CHAT="true",
    )
    conversation = str(uuid4())
    claude_transcripts.write(
        tmp_path / "claude", conversation, claude_transcripts.prompt(time.time(), conversation)
    )
    daemon.up("--no-gateway")
    for words in (
        ("session", "revive", conversation, "--yes"),
        ("session", "answer", conversation, "allow", "--question", "q"),
        ("checkpoint", "continue", "1"),
        ("checkpoint", "abort", "1"),
        ("checkpoint", "teach", "--project", "x", "make"),
    ):
        said = daemon.run(*words)
        held = said.exit_code == 1 and "only in the chat" in said.err
        redteam.attack(CHAT, f"{' '.join(words)}: {said.err}", held=held)
    # What is no approval is decided as before.
    assert daemon.run("pause").exit_code == 0
    order = json.dumps({"by": "person in the chat"}).encode()
    path = "/api/checkpoints/1/abort"
    refused = json.loads(ask_unix(daemon.socket, "POST", path, order).body)["code"]
    redteam.attack(CHAT, f"HTTP: {refused}", held=refused == "only-in-chat")
    with socket.socket(socket.AF_UNIX) as name:
        # As the gateway does, which this process stands for.
        name.bind(f"\0{gateway_name(token)}")
        name.listen()
        allowed = json.loads(ask_unix(daemon.socket, "POST", path, order).body)["code"]
    assert allowed == "checkpoint-not-found"
