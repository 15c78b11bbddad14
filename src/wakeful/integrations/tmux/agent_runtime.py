"""Runtime for agents in tmux: each agent is the session `agent-<name>` on Wakeful's own tmux server.

There is no container: a small file records each start until the stop. It outlives the daemon, the tmux server
and a reboot, and so distinguishes an agent that ended (stale) from one that was never started. A dead agent's
pane stays, so that its last output can be read. A live pane is no live agent: the process in front of the
terminal shows whether only a shell is left. After the loss of its server an agent is unknown for a few seconds,
and dead if its process has ended too.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.agents.model import AgentObservation, AgentSpec
from wakeful.agents.runtime import CommandMissing, EngineGone, NotReady, UndeclaredAgent
from wakeful.core.clock import Clock
from wakeful.core.decoding import decode_json
from wakeful.core.errors import ClientMissing, WorkingDirectoryGone
from wakeful.core.managed_session import EPOCH_VARIABLE, SESSION_VARIABLE
from wakeful.core.process import Process, ProcessState
from wakeful.integrations.tmux.pane import safe_screen_text
from wakeful.integrations.tmux.panes import DEADLINE_SECONDS, Listing, PaneRow, list_panes, server_state
from wakeful.integrations.tmux.screen import SHELLS, front_group, is_interactive_shell
from wakeful.integrations.tmux.server import TmuxFailed, TmuxServer, discard, exists
from wakeful.integrations.tmux.start import (
    MARK_EPOCH,
    MARK_SESSION,
    SIZE,
    unset_leaked_variables,
    write_script,
)
from wakeful.integrations.tmux.start_clients import (
    UNKNOWN_SCREEN,
    blocking_dialog_text,
    client_started_by,
    dialog_of,
)
from wakeful.integrations.tmux.stop import terminate_program
from wakeful.judging.evidence import DialogKind
from wakeful.linux import proc
from wakeful.linux.child_environment import declared_environ
from wakeful.linux.files import owner_only, read_small
from wakeful.linux.launch import find_program
from wakeful.linux.machine import boot_id
from wakeful.linux.terminate import has_variable, terminate_marked

# A mark has some 200 bytes.
MARK_BYTES_MAX: Final = 64 * 1024


class AgentMark(Struct, frozen=True):
    """A started agent. `process` is the first of its pane; `ready` is false until it was ready once."""

    epoch: int
    process: Process | None
    ready: bool
    # The tmux server of its pane. Marks of earlier versions have none.
    server: Process | None = None
    # Whether that server was seen to end, and the agent with it.
    server_lost: bool = False


class AgentMarks:
    """The marks in one folder that only its owner can read."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def find(self, name: str) -> AgentMark | None:
        """None also for a damaged file, which the next start replaces."""
        try:
            content = read_small(self._path(name), MARK_BYTES_MAX)
            mark = decode_json(content, AgentMark) if content else None
        except msgspec.DecodeError:
            return None
        if mark is None:
            return None
        process, server = (
            None if each is None else proc.with_machine(each) for each in (mark.process, mark.server)
        )
        return replace(mark, process=process, server=server)

    def save(self, name: str, mark: AgentMark) -> None:
        """Replace the file as a whole. Raises TmuxFailed."""
        new_file = self._path(f".{name}.{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(new_file, "wb", opener=owner_only) as file:
                file.write(msgspec.json.encode(mark))
            new_file.replace(self._path(name))
        except OSError as problem:
            raise TmuxFailed(reason=f"{self._folder} cannot be written: {problem.strerror}") from problem

    def drop(self, name: str) -> None:
        discard(str(self._path(name)))

    def has_others(self, name: str) -> bool:
        names = {each.stem for each in self._folder.glob("*.json") if not each.name.startswith(".")}
        return bool(names - {name})

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


EXITED_TO_SHELL: Final = "agent exited to a shell"
ENDED: Final = "session dead"
SERVER_ENDED: Final = "its tmux server ended"


class AgentPaneState(Struct, frozen=True):
    """The state of a pane's agent; `pid` is its process while it is alive."""

    sight: ProcessState
    pid: int | None = None
    reason: str = ""


def inspect_agent(pane_pid: int, command: Sequence[str]) -> AgentPaneState:
    """The state of the agent that was started as `command` in the pane with this first process."""
    try:
        first = proc.identify(pane_pid)
    except proc.ProcessHidden as problem:
        return AgentPaneState(ProcessState.UNKNOWN, pane_pid, str(problem))
    if first is None:
        return AgentPaneState(ProcessState.DEAD, reason=ENDED)
    if not is_interactive_shell(tuple(command)) and _left_a_shell(first):
        return AgentPaneState(ProcessState.DEAD, reason=EXITED_TO_SHELL)
    agent = first
    if _is_shell(first) and not is_interactive_shell(proc.command(first.pid)):
        # A shell that Wakeful started runs the program.
        agent = min(proc.children(first), key=lambda each: each.started, default=first)
    return AgentPaneState(ProcessState.ALIVE, agent.pid)


def _left_a_shell(first: Process) -> bool:
    """Whether a person's shell is in front, with only shells above it up to the pane's first process."""
    front = front_group(first.pid)
    leader = proc.identify_or_none(front) if front is not None and front > 0 else None
    if leader is None or not is_interactive_shell(proc.command(leader.pid)):
        return False
    if leader == first:
        return True
    chain = proc.ancestors(leader.pid)
    if first not in chain:
        return False
    return all(_is_shell(each) for each in chain[: chain.index(first) + 1])


def _is_shell(process: Process) -> bool:
    argv = proc.command(process.pid)
    return bool(argv) and PurePath(argv[0].removeprefix("-")).name in SHELLS


PREFIX: Final = "agent-"
# A program that cannot run ends within this time.
STABLE_SECONDS: Final = 0.5
POLL_SECONDS: Final = 0.03
# Reading a screen costs a process of tmux.
SCREEN_SECONDS: Final = 0.25
# A server's programs end within a second after it; after this time all of its agents count as lost with it.
SERVER_LOSS_SECONDS: Final = 5.0
# A server ends with its last session; its socket stays for a moment.
SERVER_EXIT_SECONDS: Final = 0.1
ATTEMPTS_MAX: Final = 5
_SERVER_EXITED: Final = "server exited unexpectedly"


class TmuxAgentRuntime:
    """Implements agents.runtime.Runtime."""

    name = "tmux"

    def __init__(
        self, socket: str, folder: str, clock: Clock, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._server = TmuxServer(socket, deadline_seconds)
        self._socket = Path(socket)
        self._folder = folder
        self._marks = AgentMarks(folder)
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._next_listing: asyncio.Task[Listing] | None = None
        # When each server was found to have ended; None is a server that no mark names.
        self._lost_since: dict[Process | None, float] = {}
        # Set when a server is found to have ended.
        self._server_missing = asyncio.Event()

    async def start(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> AgentObservation:
        await self._remove_agent(spec)
        # First: after a crash from here on the agent counts as a failed start, not as stopped.
        self._marks.save(spec.name, AgentMark(epoch, None, ready=False))
        try:
            process, server = await self._launch(spec, epoch, environ)
        except BaseException:
            self._marks.drop(spec.name)
            raise
        mark = AgentMark(epoch, process, ready=False, server=server)
        self._marks.save(spec.name, mark)
        await self._wait_until_ready(spec, process)
        self._marks.save(spec.name, replace(mark, ready=True))
        return await self.inspect(spec)

    async def restart_session(
        self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> AgentObservation:
        return await self.start(spec, epoch, environ)

    async def stop(self, spec: AgentSpec) -> AgentObservation:
        await self._remove_agent(spec)
        return await self.inspect(spec)

    async def inspect(self, spec: AgentSpec) -> AgentObservation:
        mark = self._marks.find(spec.name)
        process = mark.process if mark is not None else None
        has_ended = process is not None and proc.state_of(process) is ProcessState.DEAD
        # After the end of the process only the state of its server is open: that needs no listing.
        listing = (
            Listing(self._socket, self._server_state(mark)) if has_ended else await self._shared_listing()
        )
        observation = AgentObservation(
            container=ProcessState.UNKNOWN,
            session=ProcessState.UNKNOWN,
            agent=ProcessState.UNKNOWN,
            tmux_session=f"{PREFIX}{spec.name}",
            tmux_socket=str(self._socket),
            epoch=mark.epoch if mark is not None else 0,
            reason=listing.reason,
        )
        if listing.sight is ProcessState.UNKNOWN:
            return observation
        if listing.sight is ProcessState.DEAD or _lost_its_server(mark):
            return self._without_server(spec, observation, mark)
        self._lost_since.pop(None, None)
        if has_ended:
            return _lost_agent(observation, ENDED)
        row = _row_of(spec, mark, listing)
        if row is None:
            return _lost_agent(observation, ENDED) if mark is not None else _absent_agent(observation)
        return await self._check_ready(spec, mark, _with_session(observation, spec, row))

    async def find_undeclared(self, known: frozenset[str]) -> list[UndeclaredAgent]:
        listing = await self._shared_listing()
        names = {row.session.removeprefix(PREFIX) for row in listing.panes if row.session.startswith(PREFIX)}
        return [UndeclaredAgent(name, None, f"tmux session {PREFIX}{name}") for name in sorted(names - known)]

    def attach_argv(self, spec: AgentSpec) -> tuple[str, ...]:
        return ("tmux", "-u", "-S", str(self._socket), "attach-session", "-t", _target(spec))

    async def changes(self) -> AsyncIterator[str]:
        """Report when the agents of a lost server become dead; pidfds report exits of processes."""
        while True:
            await self._server_missing.wait()
            self._server_missing.clear()
            await self._clock.sleep(SERVER_LOSS_SECONDS)
            yield ""

    async def close(self) -> None:
        """Nothing is open."""

    async def _shared_listing(self) -> Listing:
        """One listing for all callers before it begins: two hundred agents cost one process of tmux."""
        if self._next_listing is None:
            self._next_listing = asyncio.create_task(self._list())
        return await asyncio.shield(self._next_listing)

    async def _list(self) -> Listing:
        self._next_listing = None
        return await list_panes(self._socket, self._deadline_seconds)

    def _server_state(self, mark: AgentMark | None) -> ProcessState:
        """Whether the server of an ended agent is alive, by its identity: another may serve the socket by now."""
        if mark is None or mark.server is None:
            return server_state(self._socket)
        return ProcessState.DEAD if _lost_its_server(mark) else ProcessState.ALIVE

    def _without_server(
        self, spec: AgentSpec, observation: AgentObservation, mark: AgentMark | None
    ) -> AgentObservation:
        """The observation if the socket has no server: no agent without a mark; with one, its state is unknown at first."""
        if mark is None:
            return _absent_agent(observation)
        process = mark.process
        if process is None:
            # It never ran on a server.
            return _lost_agent(observation, ENDED)
        if process.boot_id != boot_id():
            return _lost_agent(observation, "the host was restarted")
        if mark.server_lost:
            return _lost_agent(observation, SERVER_ENDED)
        now = self._clock.now().awake
        if mark.server not in self._lost_since:
            self._lost_since[mark.server] = now
            self._server_missing.set()
        lost_at = self._lost_since[mark.server]
        alive = proc.state_of(process) is not ProcessState.DEAD
        if alive or now - lost_at < SERVER_LOSS_SECONDS:
            lives = f"; process {process.pid} still runs without a terminal" if alive else ""
            return replace(observation, reason=f"the tmux server ended{lives}")
        with suppress(TmuxFailed):
            # Without the saved mark, the next daemon waits the same few seconds.
            self._marks.save(spec.name, replace(mark, server_lost=True))
        return _lost_agent(observation, SERVER_ENDED)

    async def _check_ready(
        self, spec: AgentSpec, mark: AgentMark | None, observation: AgentObservation
    ) -> AgentObservation:
        """Add the readiness of an interrupted or failed start, from its screen."""
        if mark is None or mark.ready or observation.agent is not ProcessState.ALIVE:
            return observation
        try:
            reason = await self._why_unready(spec)
        except TmuxFailed as problem:
            return replace(observation, agent=ProcessState.UNKNOWN, reason=str(problem))
        if reason is not None:
            return replace(observation, ready=False, reason=reason)
        self._marks.save(spec.name, replace(mark, ready=True))
        return observation

    async def _remove_agent(self, spec: AgentSpec) -> None:
        """End the rest of an agent: processes by their identity, then its session, then its mark."""
        listing = await self._shared_listing()
        if listing.sight is ProcessState.UNKNOWN:
            raise EngineGone(address=self._socket, reason=listing.reason)
        mark = self._marks.find(spec.name)
        rows = [row for row in listing.panes if row.session == f"{PREFIX}{spec.name}"]
        in_panes = {proc.identify_or_none(row.pid) for row in rows if not row.dead}
        started = mark.process if mark is not None else None

        def is_own(each: Process) -> bool:
            # The mark's file can name any process.
            return each in in_panes or (
                has_variable(SESSION_VARIABLE, f"{PREFIX}{spec.name}")(each)
                and runs_on_server(str(self._socket), each.pid)
            )

        await asyncio.gather(
            *(terminate_program(each, is_own) for each in {*in_panes, started} if each is not None)
        )
        await terminate_marked(SESSION_VARIABLE, f"{PREFIX}{spec.name}", is_meant=is_own)
        if rows:
            await self._close_session(spec, alone=len({row.session for row in listing.panes}) == 1)
        self._marks.drop(spec.name)

    async def _close_session(self, spec: AgentSpec, *, alone: bool) -> None:
        """Close the agent's session. The server ends with its last session only if no other agent needs it."""
        needed = not alone or self._marks.has_others(spec.name)
        ending = () if needed else ("set-option", "-s", "exit-empty", "on", ";")
        try:
            await self._server.run(*ending, "kill-session", "-t", _target(spec))
        except TmuxFailed:
            # Its last pane may have closed it meanwhile.
            if _row_of(spec, None, await self._shared_listing()) is not None:
                raise

    async def _launch(
        self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> tuple[Process, Process | None]:
        """Returns the first process of its pane, and the server."""
        cwd = spec.workdir or os.environ.get("HOME", "/")
        marks = {SESSION_VARIABLE: f"{PREFIX}{spec.name}", EPOCH_VARIABLE: str(epoch)}
        given = {**declared_environ(os.environ), **environ, **marks}
        try:
            program = find_program(spec.command[0], cwd=cwd, path=given.get("PATH", os.defpath))
        except WorkingDirectoryGone as problem:
            raise CommandMissing(
                command=spec.command[0], where=cwd, reason="there is no such folder"
            ) from problem
        except ClientMissing as problem:
            reason = "install it, or give its whole path"
            raise CommandMissing(
                command=spec.command[0], where="any folder of PATH", reason=reason
            ) from problem
        script = write_script(self._folder, cwd, (program, *spec.command[1:]), given)
        try:
            return await self._new_session(spec, epoch, script)
        except BaseException:
            discard(script)
            raise

    async def _new_session(self, spec: AgentSpec, epoch: int, script: str) -> tuple[Process, Process | None]:
        for _ in range(ATTEMPTS_MAX):
            try:
                printed = await self._server.run(*_new_session_argv(spec, epoch, script))
                break
            except TmuxFailed as problem:
                if _SERVER_EXITED not in str(problem) or not exists(script):
                    raise
                await asyncio.sleep(SERVER_EXIT_SECONDS)
        else:
            raise TmuxFailed(reason=f"no session could be created in {ATTEMPTS_MAX} attempts")
        process, server = (proc.identify_or_none(int(pid)) for pid in printed.split()[-2:])
        await unset_leaked_variables(self._server)
        if process is None:
            raise await self._exit_error(spec)
        return process, server

    async def _wait_until_ready(self, spec: AgentSpec, process: Process) -> None:
        """Wait until the program has stayed alive and its screen shows that it is ready. Raises NotReady."""
        loop = asyncio.get_running_loop()
        began, screen_at = loop.time(), 0.0
        unready = "it was not seen to stay"
        while (now := loop.time()) - began < spec.ready_seconds:
            if proc.state_of(process) is ProcessState.DEAD:
                raise await self._exit_error(spec)
            if now - began >= STABLE_SECONDS and now >= screen_at:
                if (reason := await self._why_unready(spec)) is None:
                    return
                unready = reason
                screen_at = loop.time() + SCREEN_SECONDS
            await asyncio.sleep(POLL_SECONDS)
        raise NotReady(name=spec.name, seconds=spec.ready_seconds, reason=unready)

    async def _why_unready(self, spec: AgentSpec) -> str | None:
        """Why its screen does not show that it is ready; None if it does. Raises TmuxFailed.

        Without a pattern a known client is ready at its input line, and at a dialog: its session says what that asks.
        Of other programs nothing is expected.
        """
        if not spec.ready and client_started_by(spec.command) is None:
            return None
        screen = await self._server.capture(_target(spec))
        if not spec.ready:
            unready = dialog_of(spec.command, screen)
            return UNKNOWN_SCREEN if unready is not None and unready.kind is DialogKind.UNKNOWN else None
        if re.search(spec.ready, "\n".join(screen.rows), re.MULTILINE) is not None:
            return None
        dialog = blocking_dialog_text(spec.name, spec.command, screen)
        return dialog or f"its screen never showed {spec.ready!r}"

    async def _exit_error(self, spec: AgentSpec) -> NotReady:
        """The error of a program that ended at once, with its last output. Removes its session."""
        try:
            output = safe_screen_text(await self._server.last_output(_target(spec)))
        except TmuxFailed:
            output = ""
        await self._remove_agent(spec)
        reason = f"it ended at once: {output}" if output else "it ended at once without any output"
        return NotReady(name=spec.name, seconds=spec.ready_seconds, reason=reason)


def runs_on_server(socket: str, pid: int) -> bool:
    """Whether it was started on this server: a user may run several daemons with agents of one name."""
    return (proc.environ_value(pid, "TMUX") or "").startswith(f"{socket},")


def _lost_agent(
    observation: AgentObservation, reason: str, session: ProcessState = ProcessState.DEAD
) -> AgentObservation:
    """An agent that ended and was not stopped, so that it can be restarted."""
    return replace(
        observation, container=ProcessState.ALIVE, session=session, agent=ProcessState.DEAD, reason=reason
    )


def _absent_agent(observation: AgentObservation) -> AgentObservation:
    """An agent that was never started, or was stopped."""
    dead = ProcessState.DEAD
    return replace(observation, container=dead, session=dead, agent=dead, reason="")


def _lost_its_server(mark: AgentMark | None) -> bool:
    """Whether its server has ended or begun to end: the programs of its panes end before its socket."""
    server = mark.server if mark is not None else None
    return server is not None and (proc.state_of(server) is ProcessState.DEAD or proc.is_ending(server.pid))


def _with_session(observation: AgentObservation, spec: AgentSpec, row: PaneRow) -> AgentObservation:
    if row.dead:
        return _lost_agent(observation, ENDED, session=ProcessState.ALIVE)
    agent = inspect_agent(row.pid, spec.command)
    return replace(
        observation,
        container=ProcessState.ALIVE,
        session=ProcessState.ALIVE,
        agent=agent.sight,
        pid=agent.pid,
        reason=agent.reason,
    )


def _row_of(spec: AgentSpec, mark: AgentMark | None, listing: Listing) -> PaneRow | None:
    """The pane in which the agent was started, else the session's first; a person may have opened others."""
    rows = [row for row in listing.panes if row.session == f"{PREFIX}{spec.name}"]
    pid = mark.process.pid if mark is not None and mark.process is not None else None
    own = next((row for row in rows if row.pid == pid), None)
    if own is None and pid is not None and rows:
        # Only panes that a person opened are left.
        return replace(rows[0], dead=True)
    return own or (rows[0] if rows else None)


def _target(spec: AgentSpec) -> str:
    return f"={PREFIX}{spec.name}:"


def _new_session_argv(spec: AgentSpec, epoch: int, script: str) -> tuple[str, ...]:
    """A single command, so that no crash leaves Wakeful's session without its marks."""
    target = _target(spec)
    options = {
        ("-w", "remain-on-exit"): "on",
        # A person's tmux.conf may end sessions without an attached client.
        ("", "destroy-unattached"): "off",
        ("", MARK_SESSION): f"{PREFIX}{spec.name}",
        ("", MARK_EPOCH): str(epoch),
    }
    argv = ["new-session", "-d", "-P", "-F", "#{pane_pid} #{pid}", "-s", f"{PREFIX}{spec.name}", *SIZE]
    argv += ["--", "/bin/sh", script, ";", "set-option", "-s", "exit-empty", "off"]
    for (flag, option), value in options.items():
        argv += [";", "set-option", *([flag] if flag else []), "-t", target, option, value]
    return tuple(argv)
