"""Starts an agent in tmux session `agent` of a running container, and waits until it is ready.

One script in the container checks for tmux and the command, creates the session and reports the result. The
pane is kept until the agent has stayed alive, so that the last output of one that ends at once can be read.
"""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from wakeful.agents.model import AgentSpec, Glimpse
from wakeful.agents.runtime import CommandMissing, NotReady
from wakeful.core.errors import OperatorError
from wakeful.core.managed_session import AGENT_VARIABLE, EPOCH_VARIABLE
from wakeful.core.process import Sight
from wakeful.integrations.docker.engine import Container, Engine, EngineRefused, Ran, shown
from wakeful.integrations.docker.readiness import look_words, needs_screen, unready
from wakeful.integrations.docker.spec import AgentRefused
from wakeful.integrations.tmux.screen import last_words

SESSION: Final = "agent"
TARGET: Final = f"={SESSION}:"
# A program that cannot run ends within this; one that lives longer says itself what is wrong.
SETTLE_SECONDS: Final = 0.3
LAST_WORDS_SECONDS: Final = 0.2
# A start may be one of many on a busy engine: no answer yet is no reason to give it up.
RUN_SECONDS_MAX: Final = 30.0
POLL_SECONDS: Final = 0.1
SCREEN_POLL_SECONDS: Final = 0.5
KILLED_LOOKS_MAX: Final = 10
_KILLED: Final = 137
_NO_TMUX, _NO_COMMAND = 100, 101
_WENT_AWAY: Final = "its container went away while it started"
_NOT_RUN: Final = (126, 127)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# tmux gives a session those variables of the client that made it which are named here, and no others.
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

_LET_GO: Final = ("set-option", "-w", "-t", TARGET, "remain-on-exit", "off")

Look = Callable[[], Awaitable[Glimpse]]


class AgentThere(OperatorError):
    """Agent {name} is there already: {reason}."""

    code = "agent-there"
    http_status = 409


class Launching:
    """One launch of one agent in one container."""

    def __init__(self, engine: Engine, container: Container, spec: AgentSpec, look: Look) -> None:
        self._engine = engine
        self._container = container
        self._spec = spec
        self._look = look
        self._needs_screen = needs_screen(spec)

    async def launch(self, epoch: int, environ: Mapping[str, str]) -> Glimpse:
        """Make the session and return once the agent is ready. Raises what the port names, and AgentThere."""
        spec = self._spec
        if not spec.command or spec.command[0].startswith("-"):
            raise AgentRefused(name=spec.name, reason="it has no command")
        passed = {name: environ[name] for name in spec.env if name in environ}
        names = " ".join(name for name in passed if _WORD.match(name))
        try:
            ran = await self._engine.run(
                self._container.id,
                ("/bin/sh", "-c", _SCRIPT, "sh", spec.command[0], names, _marks(spec, epoch), *spec.command),
                environ=passed,
                workdir=spec.workdir,
                seconds_max=RUN_SECONDS_MAX,
            )
            if ran.exit_code != 0 and await self._has_gone(ran.exit_code):
                raise self._not_ready(_WENT_AWAY)
            self._judge(ran)
            return await self._settled()
        except EngineRefused as refusal:
            # 404: it was removed meanwhile; 409: it no longer runs.
            raise self._not_ready(f"{_WENT_AWAY}: {refusal.reason}") from refusal

    async def _has_gone(self, exit_code: int) -> bool:
        """Whether its container is gone; what was killed in it died a moment before that can be seen."""
        for _ in range(KILLED_LOOKS_MAX if exit_code == _KILLED else 1):
            if (await self._look()).container is Sight.DEAD:
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    def _judge(self, ran: Ran) -> None:
        where = f"image {self._container.image}"
        if ran.exit_code in (_NO_TMUX, *_NOT_RUN):
            missing = "tmux" if ran.exit_code == _NO_TMUX else "/bin/sh"
            raise CommandMissing(command=missing, where=where, reason=ran.words or "it is not on its PATH")
        if ran.exit_code == _NO_COMMAND:
            reason = "it is not on its PATH, or is not executable"
            raise CommandMissing(command=self._spec.command[0], where=where, reason=reason)
        if b"duplicate session" in ran.output:
            raise AgentThere(name=self._spec.name, reason="somebody else started it at the same moment")
        if ran.exit_code != 0:
            words = ran.words or f"it ended with {ran.exit_code}"
            raise self._not_ready(f"tmux could not make its session: {words}")

    async def _settled(self) -> Glimpse:
        """The agent, seen alive long enough and showing what it shows when it is ready."""
        loop = asyncio.get_running_loop()
        began, alive_since = loop.time(), None
        unsettled = "it was not seen to stay"
        glimpse = await self._look_twice()
        while loop.time() - began < self._spec.ready_seconds:
            if _is_lost(glimpse):
                raise await self._ended(glimpse)
            if glimpse.agent is Sight.ALIVE:
                alive_since = alive_since or loop.time()
                if loop.time() - alive_since >= SETTLE_SECONDS:
                    if (reason := await self._why_unready()) is None:
                        return await self._let_go()
                    unsettled = reason
            await asyncio.sleep(SCREEN_POLL_SECONDS if self._needs_screen else POLL_SECONDS)
            glimpse = await self._look_twice()
        raise self._not_ready(glimpse.reason or unsettled)

    async def _why_unready(self) -> str | None:
        if not self._needs_screen:
            return None
        return unready(self._spec, (await self._tmux(*look_words(TARGET))).output)

    async def _let_go(self) -> Glimpse:
        """From now on the session ends with its agent."""
        await self._tmux(*_LET_GO)
        glimpse = await self._look_twice()
        if _is_lost(glimpse):
            raise await self._ended(glimpse)
        return glimpse

    async def _look_twice(self) -> Glimpse:
        """While tmux, its shell and the agent take each other's place one look may catch nobody; two do not."""
        glimpse = await self._look()
        if not _is_lost(glimpse):
            return glimpse
        await asyncio.sleep(POLL_SECONDS)
        return await self._look()

    async def _ended(self, glimpse: Glimpse) -> NotReady:
        if glimpse.container is Sight.DEAD:
            return self._not_ready(_WENT_AWAY)
        # tmux may learn of its end before it has read its last words, and scrolls them to make room for its mark.
        await asyncio.sleep(LAST_WORDS_SECONDS)
        screen = await self._tmux("capture-pane", "-p", "-S", "-20", "-t", TARGET)
        words = shown(last_words(screen.output.decode(errors="replace").split("\n")))
        await self._tmux("kill-session", "-t", TARGET)
        return self._not_ready(
            f"it ended at once: {words}" if words else "it ended at once, and no word of it was seen"
        )

    async def _tmux(self, *words: str) -> Ran:
        argv = ("tmux", "-u", *words)
        return await self._engine.run(self._container.id, argv, seconds_max=RUN_SECONDS_MAX)

    def _not_ready(self, reason: str) -> NotReady:
        return NotReady(name=self._spec.name, seconds=self._spec.ready_seconds, reason=reason)


async def why_unready(engine: Engine, container_id: str, spec: AgentSpec) -> str | None:
    """Why its agent is not ready; None if it was seen ready before, or shows it now: until then its pane is kept.

    Raises EngineGone, EngineRefused.
    """

    async def tmux(*words: str) -> bytes:
        return (await engine.run(container_id, ("tmux", "-u", *words))).output

    if (await tmux("show-options", "-w", "-v", "-t", TARGET, "remain-on-exit")).strip() != b"on":
        return None
    reason = unready(spec, await tmux(*look_words(TARGET)))
    if reason is None:
        await tmux(*_LET_GO)
    return reason


async def close_session(engine: Engine, container_id: str) -> None:
    """End the tmux session of the agent, and with it the agent. Raises EngineGone, EngineRefused."""
    await engine.run(container_id, ("tmux", "-u", "kill-session", "-t", TARGET))


def _is_lost(glimpse: Glimpse) -> bool:
    return Sight.DEAD in (glimpse.container, glimpse.session, glimpse.agent)


def _marks(spec: AgentSpec, epoch: int) -> str:
    """The shell's words that make the pane become the agent, with the marks by which we know it."""
    # Only the agent's own pane is to carry them: a session's environment would be that of every window in it.
    return f'{AGENT_VARIABLE}={shlex.quote(spec.name)} {EPOCH_VARIABLE}={epoch} exec "$@"'
