"""Interface of agent runtimes: a container engine or a tmux server.

Every action has a deadline and reports its result. If something cannot be seen, the observation says `unknown`,
never dead, and no error is raised. An action that cannot be done raises a WorldError or OperatorError that
says what to do.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from msgspec import Struct

from wakeful.agents.model import AgentObservation, AgentSpec
from wakeful.core.errors import OperatorError, WorldError


class EngineGone(WorldError, code="engine-gone", retryable=True):
    """The engine at {address} does not answer: {reason}."""


class ImageMissing(OperatorError, code="image-missing", http_status=409):
    """Image {image!r} is not on this engine. Build or load it first."""


class CommandMissing(OperatorError, code="command-missing", http_status=409):
    """{command!r} was not found in {where}: {reason}."""


class NotReady(WorldError, code="agent-not-ready"):
    """Agent {name} was not ready within {seconds:g} s: {reason}."""


class UndeclaredAgent(Struct, frozen=True):
    """A container or session that looks like an agent and is not declared: reported, never changed."""

    name: str
    container_id: str | None
    words: str


class Runtime(Protocol):
    """One kind of runtime. `name` is the `runtime` of the agents that it serves."""

    name: str

    async def start(self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]) -> AgentObservation:
        """Create the container and the agent in it; return once it is ready.

        Raises ImageMissing, CommandMissing, NotReady, EngineGone.
        """

    async def restart_session(
        self, spec: AgentSpec, epoch: int, environ: Mapping[str, str]
    ) -> AgentObservation:
        """Start a new session in the existing container; return once it is ready. Raises as `start` does."""

    async def stop(self, spec: AgentSpec) -> AgentObservation:
        """End the agent and remove its container; returns the observation afterwards. Raises EngineGone."""

    async def inspect(self, spec: AgentSpec) -> AgentObservation:
        """Observe it now, within 5 s."""

    async def find_undeclared(self, known: frozenset[str]) -> list[UndeclaredAgent]:
        """Containers or sessions that look like agents and are not in `known`."""

    def attach_argv(self, spec: AgentSpec) -> tuple[str, ...]:
        """The command that attaches a terminal to its tmux session."""

    def changes(self) -> AsyncIterator[str]:
        """The names of agents that changed, as it happens; "" stands for all agents."""

    async def close(self) -> None:
        """Close connections."""
