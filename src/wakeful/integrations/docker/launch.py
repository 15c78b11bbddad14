"""Starts an agent in tmux session `agent` of a running container, and waits until it is ready.

One script in the container checks for tmux and the command, creates the session and reports the result. The
pane stays until the agent has stayed alive, so that the last output of one that ends at once can be read. A
declared `ready` pattern alone decides whether it is ready. Without it a known client is ready once it shows its
input line, and any other program once it runs. Nothing is typed.
"""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from wakeful.agents.model import AgentObservation, AgentSpec
from wakeful.agents.runtime import CommandMissing, NotReady
from wakeful.core.errors import OperatorError
from wakeful.core.managed_session import AGENT_VARIABLE, EPOCH_VARIABLE
from wakeful.core.process import ProcessState
from wakeful.integrations.docker.engine import Container, Engine, EngineRefused, ExecResult, safe_text
from wakeful.integrations.docker.spec import AgentRefused, ready_pattern
from wakeful.integrations.tmux.screen import FACTS, Screen, last_output
from wakeful.integrations.tmux.start_clients import (
    UNKNOWN_SCREEN,
    blocking_dialog_text,
    client_started_by,
    dialog_of,
)

SESSION: Final = "agent"
TARGET: Final = f"={SESSION}:"
# A program that cannot run ends within this time.
STABLE_SECONDS: Final = 0.3
LAST_OUTPUT_SECONDS: Final = 0.2
# A start may be one of many on a busy engine, so it gets much time.
RUN_SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 0.1
SCREEN_POLL_SECONDS: Final = 0.5
KILLED_CHECKS_MAX: Final = 10
_KILLED: Final = 137
_NO_TMUX, _NO_COMMAND = 100, 101
_CONTAINER_GONE: Final = "its container was removed while it was starting"
_NOT_RUN: Final = (126, 127)
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# tmux gives a session only those variables of its creating client that are named here.
_SCRIPT: Final = f"""\
command -v tmux >/dev/null 2>&1 || exit {_NO_TMUX}
command -v "$1" >/dev/null 2>&1 || exit {_NO_COMMAND}
names=$2 marks=$3
if tmux has-session -t ={SESSION} 2>/dev/null; then tmux kill-session -t ={SESSION} || exit 1; fi
shift 3
exec tmux -u set-option -g update-environment "$names" ';' \\
  new-session -d -s {SESSION} -x 160 -y 50 /bin/sh -c "$marks" sh "$@" ';' \\
  set-option -w -t {TARGET} remain-on-exit on ';' set-option -t {TARGET} destroy-unattached off
"""

_RELEASE_PANE: Final = ("set-option", "-w", "-t", TARGET, "remain-on-exit", "off")
# Shows the pane as `Screen.parse` reads it.
_CAPTURE: Final = (
    "display-message",
    "-p",
    "-t",
    TARGET,
    FACTS,
    ";",
    "capture-pane",
    "-p",
    "-e",
    "-t",
    TARGET,
)

InspectAgent = Callable[[], Awaitable[AgentObservation]]


class AgentAlreadyRunning(OperatorError):
    """Agent {name} already exists: {reason}."""

    code = "agent-there"
    http_status = 409


def needs_screen(spec: AgentSpec) -> bool:
    """Whether only its screen shows that it is ready. Raises AgentRefused."""
    return ready_pattern(spec) is not None or client_started_by(spec.command) is not None


def _unready_reason(spec: AgentSpec, captured: bytes) -> str | None:
    """Why this screen does not show that it is ready; None if it does. Raises AgentRefused."""
    try:
        screen = Screen.parse(captured)
    except ValueError:
        return "its screen cannot be read"
    pattern = ready_pattern(spec)
    if pattern is not None and pattern.search("\n".join(screen.rows)) is not None:
        return None
    if (dialog := blocking_dialog_text(spec.name, spec.command, screen)) is not None:
        return dialog
    if pattern is not None:
        return f"its screen never showed {spec.ready!r}"
    return None if dialog_of(spec.command, screen) is None else UNKNOWN_SCREEN


class AgentLaunch:
    def __init__(self, engine: Engine, container: Container, spec: AgentSpec, inspect: InspectAgent) -> None:
        self._engine = engine
        self._container = container
        self._spec = spec
        self._inspect = inspect
        self._needs_screen = needs_screen(spec)

    async def launch(self, epoch: int, environ: Mapping[str, str]) -> AgentObservation:
        """Create the session and return once the agent is ready. Raises as Runtime.start, and AgentAlreadyRunning."""
        spec = self._spec
        if not spec.command or spec.command[0].startswith("-"):
            raise AgentRefused(name=spec.name, reason="it has no command")
        passed = {name: environ[name] for name in spec.env if name in environ}
        names = " ".join(name for name in passed if _VARIABLE_NAME.match(name))
        # The pane becomes the agent, with marks that only its own pane may have: variables of the session would be
        # in every window.
        marks = f'{AGENT_VARIABLE}={shlex.quote(spec.name)} {EPOCH_VARIABLE}={epoch} exec "$@"'
        try:
            ran = await self._engine.run(
                self._container.id,
                ("/bin/sh", "-c", _SCRIPT, "sh", spec.command[0], names, marks, *spec.command),
                environ=passed,
                workdir=spec.workdir,
                seconds_max=RUN_SECONDS_MAX,
            )
            if ran.exit_code != 0 and await self._has_container_ended(ran.exit_code):
                raise self._not_ready(_CONTAINER_GONE)
            self._check_exit_code(ran)
            return await self._wait_until_ready()
        except EngineRefused as refusal:
            # 404: the container was removed meanwhile; 409: it no longer runs.
            raise self._not_ready(f"{_CONTAINER_GONE}: {refusal.reason}") from refusal

    async def _has_container_ended(self, exit_code: int) -> bool:
        """Whether the container has ended. A program in it is killed a moment before the engine reports that."""
        for _ in range(KILLED_CHECKS_MAX if exit_code == _KILLED else 1):
            if (await self._inspect()).container is ProcessState.DEAD:
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    def _check_exit_code(self, ran: ExecResult) -> None:
        where = f"image {self._container.image}"
        if ran.exit_code in (_NO_TMUX, *_NOT_RUN):
            missing = "tmux" if ran.exit_code == _NO_TMUX else "/bin/sh"
            raise CommandMissing(command=missing, where=where, reason=ran.text or "it is not on its PATH")
        if ran.exit_code == _NO_COMMAND:
            reason = "it is not on its PATH, or is not executable"
            raise CommandMissing(command=self._spec.command[0], where=where, reason=reason)
        if b"duplicate session" in ran.output:
            raise AgentAlreadyRunning(
                name=self._spec.name, reason="another process started it at the same moment"
            )
        if ran.exit_code != 0:
            reason = ran.text or f"it ended with {ran.exit_code}"
            raise self._not_ready(f"tmux could not create its session: {reason}")

    async def _wait_until_ready(self) -> AgentObservation:
        """Return the agent once it has stayed alive and its screen shows that it is ready."""
        loop = asyncio.get_running_loop()
        began, alive_since = loop.time(), None
        unready = "it was not seen to stay"
        observation = await self._inspect_twice()
        while loop.time() - began < self._spec.ready_seconds:
            if _is_lost(observation):
                raise await self._exit_error(observation)
            if observation.agent is ProcessState.ALIVE:
                alive_since = alive_since or loop.time()
                if loop.time() - alive_since >= STABLE_SECONDS:
                    if (reason := await self._why_unready()) is None:
                        return await self._release_pane()
                    unready = reason
            await asyncio.sleep(SCREEN_POLL_SECONDS if self._needs_screen else POLL_SECONDS)
            observation = await self._inspect_twice()
        raise self._not_ready(observation.reason or unready)

    async def _why_unready(self) -> str | None:
        if not self._needs_screen:
            return None
        return _unready_reason(self._spec, (await self._tmux(*_CAPTURE)).output)

    async def _release_pane(self) -> AgentObservation:
        """Let the session end with its agent from now on."""
        await self._tmux(*_RELEASE_PANE)
        observation = await self._inspect_twice()
        if _is_lost(observation):
            raise await self._exit_error(observation)
        return observation

    async def _inspect_twice(self) -> AgentObservation:
        # While tmux, its shell and the agent replace each other, one inspection may see none of them.
        observation = await self._inspect()
        if not _is_lost(observation):
            return observation
        await asyncio.sleep(POLL_SECONDS)
        return await self._inspect()

    async def _exit_error(self, observation: AgentObservation) -> NotReady:
        if observation.container is ProcessState.DEAD:
            return self._not_ready(_CONTAINER_GONE)
        # tmux may notice the end before it has read the last output, and scrolls that to make room for its mark.
        await asyncio.sleep(LAST_OUTPUT_SECONDS)
        screen = await self._tmux("capture-pane", "-p", "-S", "-20", "-t", TARGET)
        output = safe_text(last_output(screen.output.decode(errors="replace").split("\n")))
        await self._tmux("kill-session", "-t", TARGET)
        return self._not_ready(
            f"it ended at once: {output}" if output else "it ended at once without any output"
        )

    async def _tmux(self, *arguments: str) -> ExecResult:
        argv = ("tmux", "-u", *arguments)
        return await self._engine.run(self._container.id, argv, seconds_max=RUN_SECONDS_MAX)

    def _not_ready(self, reason: str) -> NotReady:
        return NotReady(name=self._spec.name, seconds=self._spec.ready_seconds, reason=reason)


async def check_ready(engine: Engine, container_id: str, spec: AgentSpec) -> str | None:
    """Why the agent is not ready; None if it was ready before, or if its screen shows it now.

    Until then its pane stays after the end of the agent. Raises EngineGone, EngineRefused.
    """

    async def tmux(*arguments: str) -> bytes:
        return (await engine.run(container_id, ("tmux", "-u", *arguments))).output

    if (await tmux("show-options", "-w", "-v", "-t", TARGET, "remain-on-exit")).strip() != b"on":
        return None
    reason = _unready_reason(spec, await tmux(*_CAPTURE))
    if reason is None:
        await tmux(*_RELEASE_PANE)
    return reason


async def close_session(engine: Engine, container_id: str) -> None:
    """End the tmux session of the agent, and with it the agent. Raises EngineGone, EngineRefused."""
    await engine.run(container_id, ("tmux", "-u", "kill-session", "-t", TARGET))


def _is_lost(observation: AgentObservation) -> bool:
    return ProcessState.DEAD in (observation.container, observation.session, observation.agent)
