"""Attacks by files that name a process: none is believed, followed or signalled that is not this user's client."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from redteam.conftest import Redteam
from support import claude_transcripts, stub_clients
from support.daemon_process import RunningDaemon
from support.real_clients import wait_for
from support.stub_clients import stand_in, tool_runner
from support.tmux_server import Server
from wakeful.agents.model import AgentRuntime, AgentSpec
from wakeful.core.ids import ConversationId, SessionId
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.core.process import Process
from wakeful.daemon.control import LocalProcesses
from wakeful.integrations.codex.driver import CodexDriver
from wakeful.integrations.driver_support import RunFolder, agent_of, stop_managed_process
from wakeful.integrations.tmux.agent_runtime import AgentMark, AgentMarks, TmuxAgentRuntime
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.journal.model import StepEntry
from wakeful.journal.processes import StepProcesses
from wakeful.linux import proc
from wakeful.linux.terminate import terminate
from wakeful.testing.virtual_clock import VirtualClock

FORGED = "forged registry entries"
SIGNALS = "signals to a foreign process"
OTHER_USER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")


@contextmanager
def running(*argv: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process that none of Wakeful's signals may reach."""
    process = subprocess.Popen(argv, start_new_session=True, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def known(pid: int) -> Process:
    return wait_for(lambda: proc.identify(pid), f"process {pid}")


# What a forged entry says of the start of its process, beside the true one in clock ticks.
STARTS = {"right start time": 0, "wrong start time": 7, "no start time": None}


def forge(config: Path, pid: int, cwd: Path, *, ago_seconds: float = 0.0, start: int | None = 0) -> str:
    """A conversation in the middle of a turn whose registry entry names this process."""
    conversation = str(uuid4())
    at = time.time() - ago_seconds
    claude_transcripts.write(
        config, conversation, claude_transcripts.prompt(at, conversation) | {"cwd": str(cwd)}
    )
    path = claude_transcripts.register(config, conversation, pid, "busy", cwd=str(cwd))
    if start != 0:
        entry = json.loads(path.read_text())
        true = int(entry.pop("procStart"))
        path.write_text(json.dumps(entry if start is None else {**entry, "procStart": str(true + start)}))
    return conversation


@contextmanager
def foreign_processes(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Processes that hold no session, by what they are."""
    with ExitStack() as stack:
        server = Server(tmp_path / "person.sock")
        stack.callback(server.end)
        shell = server.start("person", "bash")
        other = stack.enter_context(running("sleep", "1000"))
        renamed = stack.enter_context(running("claude", "1000", executable=shutil.which("sleep")))
        editor = stack.enter_context(running("tail", "-f", str(tmp_path / "claude")))
        headless = stack.enter_context(stand_in(tmp_path / "bin", "-p", "--session-id", str(uuid4())))
        found = {
            "the first process": 1,
            "the person's terminal": os.getpid(),
            "an ancestor of the daemon": os.getppid(),
            "a tmux server": server.pid,
            "a shell in a pane": shell,
            "any program": other.pid,
            "a program that calls itself claude": renamed.pid,
            "a program with a file called claude": editor.pid,
            "a client with another conversation": headless.pid,
        }
        if os.geteuid() == 0:
            folder = Path(f"/tmp/{uuid4()}")
            stack.callback(shutil.rmtree, folder)
            folder.mkdir(mode=0o755)
            client = shutil.copy("/bin/sleep", str(folder / "claude"))
            found["another user's client"] = stack.enter_context(running(client, "1000", user=OTHER_USER)).pid
        yield found


def test_a_forged_entry_makes_no_holder_and_locks_nobody_out(
    daemon: RunningDaemon, tmp_path: Path, redteam: Redteam
) -> None:
    """Each names another process; none is believed, the person decides on, and the entries are named in the status."""
    config = daemon.home / "claude"
    (tmp_path / "claude").write_text("")
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    with foreign_processes(tmp_path) as foreign:
        foreign["the daemon"] = daemon.pid
        sessions = {what: f"claude-{forge(config, pid, tmp_path)}" for what, pid in foreign.items()}
        ids = set(sessions.values())
        wait_for(lambda: ids <= {each["id"] for each in daemon.sessions()} or None, "forged sessions")
        seen = {each["id"]: each for each in daemon.sessions()}
        for what, session_id in sessions.items():
            redteam.attack(FORGED, what, held=seen[session_id]["pid"] is None)
        for words in (("pause",), ("resume",), ("open",), ("mute", "--project", "x", "--for", "1h")):
            redteam.attack(FORGED, f"locked out of {words[0]}", held=daemon.run(*words).exit_code == 0)
        adopted = daemon.run("session", "adopt", sessions["any program"])
        redteam.attack(FORGED, "locked out of adopt", held=adopted.exit_code == 0)
        # Adopted and stopped by a person: what the entry names is not ended.
        daemon.run("session", "stop", sessions["any program"])
        redteam.attack(SIGNALS, "stop of a forged session", held=_lives(foreign["any program"]))
        told = daemon.run("status", "--json").json["daemon"]["eyes"]
        left_out = next(each["left_out"] for each in told if each["name"] == "claude-registry")
        redteam.attack(FORGED, "an entry that is not shown", held="1.json: process 1 is" in (left_out or ""))
        redteam.attack(FORGED, "locked out of down", held=daemon.run("down").exit_code == 0)


def test_an_event_log_that_names_a_persons_shell_leaves_the_person_in_charge(
    daemon: RunningDaemon, tmp_path: Path, redteam: Redteam
) -> None:
    """Any program may write such a log, with any process in it. One that has the log open is believed, as its writer."""
    daemon.up()
    events = Path(daemon.environ["WAKEFUL_HOME"]) / "events"
    muting = daemon.argv("mute", "--project", "x", "--for", "1h")
    with tool_runner(tmp_path / "bin", daemon.environ, name="shell") as shell:
        for pid in (shell.pid, daemon.pid, 1):
            opened = {"at": time.time(), "event": "opened", "pid": pid, "cwd": "/"}
            (events / f"forged-{pid}.jsonl").write_text(f"{json.dumps(opened)}\n")
        daemon.wait_for_session(lambda each: each["pid"] == shell.pid, "session of a forged log")
        redteam.attack(FORGED, "a person's shell in an event log", held=shell.ask(muting).exit_code == 0)
        seen = {each["id"]: each["pid"] for each in daemon.sessions()}
        for pid in (daemon.pid, 1):
            redteam.attack(FORGED, f"process {pid} in an event log", held=seen.get(f"forged-{pid}") is None)
        daemon.run("session", "stop", f"forged-{shell.pid}")
        redteam.attack(SIGNALS, "stop of a forged log's session", held=_lives(shell.pid))


def test_a_forged_end_ends_no_living_session(daemon: RunningDaemon, tmp_path: Path, redteam: Redteam) -> None:
    """Entries that say of a living client that it ended: by its own pid with another start time, or by other pids."""
    config = daemon.home / "claude"
    daemon.watch(CLAUDE_CONFIG_DIR=config)
    daemon.up()
    with stand_in(tmp_path / "bin") as client, stand_in(tmp_path / "other") as other:
        conversation = forge(config, client.pid, tmp_path)
        session_id = f"claude-{conversation}"
        wait_for(lambda: holder_of(daemon, session_id) == client.pid or None, "the living client")
        path = claude_transcripts.register(config, conversation, client.pid, "busy", cwd=str(tmp_path))
        entry = json.loads(path.read_text())
        for pid, ticks in ((client.pid, -1), (client.pid, 1), (client.pid, -100_000), (2**22 - 1, 0)):
            forged = {**entry, "pid": pid, "procStart": str(max(int(entry["procStart"]) + ticks, 1))}
            (config / "sessions" / f"{pid}.json").write_text(json.dumps(forged))
            # The registry is read in order: once this one is known, the forged entry has been read.
            beacon = f"claude-{forge(config, other.pid, tmp_path)}"
            wait_for(partial(lambda each: holder_of(daemon, each), beacon), "a later entry")
            held = holder_of(daemon, session_id) == client.pid
            redteam.attack(FORGED, f"an end of {pid} with a start time {ticks} ticks off", held=held)
        client.kill()
        client.wait()
        wait_for(lambda: holder_of(daemon, session_id) is None or None, "the real end")


def holder_of(daemon: RunningDaemon, session_id: str) -> int | None:
    """The process that the daemon believes to run this session."""
    pids: list[int | None] = [each["pid"] for each in daemon.sessions() if each["id"] == session_id]
    return next(iter(pids), None)


@pytest.mark.parametrize("first_start", STARTS.values(), ids=STARTS)
def test_in_mode_all_a_forged_entry_ends_no_process(
    daemon: RunningDaemon, tmp_path: Path, redteam: Redteam, first_start: int | None
) -> None:
    """Sessions that were silent for long, each said to be held by a process that is no client: none is signalled."""
    config = daemon.home / "claude"
    daemon.watch(
        CLAUDE_CONFIG_DIR=config,
        WAKEFUL_DAEMON__MODE="all",
        WAKEFUL_DETECT__SILENCE_SECONDS="1",
        WAKEFUL_HEAL__CONFIRM_SECONDS="0.1",
        WAKEFUL_HEAL__PACE_SECONDS="0.1",
    )
    with ExitStack() as stack:
        foreign = {name: stack.enter_context(running("sleep", "1000")) for name in STARTS}
        victims = [(f"any program, {name}", each.pid, STARTS[name]) for name, each in foreign.items()]
        victims.append(("the first process", 1, first_start))
        sessions = {
            what: (pid, f"claude-{forge(config, pid, tmp_path, ago_seconds=100, start=start)}")
            for what, pid, start in victims
        }
        daemon.up()
        real = stack.enter_context(stand_in(tmp_path / "bin"))
        truly = f"claude-{forge(config, real.pid, tmp_path, ago_seconds=100)}"
        # The real one is ended, so that the daemon has come to act; the forged ones are not.
        wait_for(lambda: real.poll() is not None or None, f"end of the silent client of {truly}")
        time.sleep(2)
        for what, (pid, session_id) in sessions.items():
            redteam.attack(SIGNALS, f"{what} in mode all", held=_lives(pid))
            redteam.attack(FORGED, f"{what} in mode all", held=holder_of(daemon, session_id) != pid)


def hosting(process: Process, session_id: str = "", **known: object) -> ManagedSession:
    """A kept record that names this process: the store is a file of this user."""
    conversation = str(uuid4())
    return ManagedSession(
        session_id=SessionId(session_id or f"claude-{conversation}"),
        conversation_id=ConversationId(conversation),
        driver="claude",
        cwd="/",
        argv=("claude",),
        epoch=1,
        since=0.0,
        process=process,
        **known,  # type: ignore[arg-type]
    )


async def _stop_by_driver(process: Process, folder: Path) -> None:
    managed = hosting(process)
    await stop_managed_process(managed, RunFolder(folder, managed.session_id), "CLAUDE_CODE_SESSION_ID")


async def _interrupt_codex(process: Process, folder: Path) -> None:
    driver = CodexDriver(folder, VirtualClock(), {})
    await driver.interrupt(hosting(process, f"codex-{uuid4()}"))


async def _stop_in_tmux(process: Process, folder: Path) -> None:
    driver = TmuxDriver(str(folder / "own.sock"), str(folder), VirtualClock())
    pane = PaneAddress(str(folder / "own.sock"), "%0", "person", process)
    await driver.stop(hosting(process, pane=pane))


async def _stop_agent(process: Process, folder: Path) -> None:
    AgentMarks(str(folder)).save("fox", AgentMark(1, process, ready=True))
    agents = TmuxAgentRuntime(str(folder / "own.sock"), str(folder), VirtualClock())
    await agents.stop(AgentSpec(name="fox", runtime=AgentRuntime.TMUX, command=("sleep", "1")))


async def _end_for_gateway(process: Process, folder: Path) -> None:
    await LocalProcesses(VirtualClock(), folder).kill(hosting(process))


async def _end_step(process: Process, folder: Path) -> None:
    for mark in ("", "a mark that it does not carry"):
        entry = StepEntry(pid=process.pid, started=process.started, boot_id=process.boot_id, mark=mark)
        await asyncio.to_thread(StepProcesses(folder).terminate, entry)


SITES = {
    "driver's stop": _stop_by_driver,
    "interrupt of Codex": _interrupt_codex,
    "stop in a pane": _stop_in_tmux,
    "stop of a hub's agent": _stop_agent,
    "end of a runaway by the gateway": _end_for_gateway,
    "end of a journal's step": _end_step,
}


@pytest.mark.parametrize("site", SITES)
def test_no_place_signals_what_a_record_names(site: str, tmp_path: Path, redteam: Redteam) -> None:
    """Records of Wakeful are files of this user too: a process that is no client and carries no mark is not signalled."""
    config = tmp_path / "config"
    environ = {**os.environ, "CLAUDE_CONFIG_DIR": str(config)}
    with stand_in(tmp_path / "bin", environ=environ) as client, running("sleep", "1000") as foreign:
        claude_transcripts.register(config, str(uuid4()), client.pid, "busy")
        for what, process in (("any program", foreign), ("the client of another conversation", client)):
            asyncio.run(SITES[site](known(process.pid), tmp_path))
            redteam.attack(SIGNALS, f"{site}: {what}", held=process.poll() is None)


def test_what_is_never_signalled(tmp_path: Path, redteam: Redteam) -> None:
    """Whatever a caller means: not the first process, not Wakeful, not what started it, not another user's."""

    def ended(pid: int, **options: bool) -> bool:
        steps = ((signal.SIGCONT, 0.1),)
        return (
            asyncio.run(terminate(known(pid), steps, is_meant=lambda _process: True, **options)).signal
            is not None
        )

    never = {"the first process": 1, "Wakeful": os.getpid(), "what started Wakeful": os.getppid()}
    for what, pid in never.items():
        redteam.attack(SIGNALS, what, held=not ended(pid))
        redteam.attack(SIGNALS, f"{what}, as if in a container", held=not ended(pid, any_user=True))
    with foreign_processes(tmp_path) as foreign:
        if "another user's client" in foreign:
            redteam.attack(
                SIGNALS, "another user's process", held=not ended(foreign["another user's client"])
            )
        # What may be signalled is: the same call reaches a process of this user.
        assert ended(foreign["any program"])


def test_a_process_that_is_swapped_before_the_signal_is_spared(tmp_path: Path, redteam: Redteam) -> None:
    """It was the client when the entry was read, and is another program when the signal is due: exec keeps the number."""
    source = "import os, sys; sys.stdin.readline(); os.execvp('sleep', ['sleep', '1000'])"
    for _ in range(redteam.rounds(2, 10)):
        with subprocess.Popen(stub_clients.program(tmp_path, source), stdin=subprocess.PIPE) as swapped:
            assert swapped.stdin is not None
            process = known(swapped.pid)
            meant = agent_of(SessionId(f"claude-{uuid4()}"), str(uuid4()))
            wait_for(partial(_true, meant, process), "client")
            swapped.stdin.write(b"\n")
            swapped.stdin.flush()
            wait_for(partial(_true, _sleeps, process), "other program")
            result = asyncio.run(terminate(process, is_meant=meant))
            redteam.attack(SIGNALS, "exec between entry and signal", held=result.signal is None)
            swapped.kill()


def _true(fits: Callable[[Process], bool], process: Process) -> bool | None:
    return fits(process) or None


def _sleeps(process: Process) -> bool:
    return proc.comm(process.pid) == "sleep"


def _lives(pid: int) -> bool:
    return proc.identify_or_none(pid) is not None
