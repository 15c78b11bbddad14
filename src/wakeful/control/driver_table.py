"""All drivers by name, and the access to sessions that agents host."""

from collections.abc import Mapping
from typing import Protocol

from wakeful.control.driver import Driver, PromptDriver
from wakeful.core.managed_session import ManagedSession
from wakeful.sessions.session import TrackedSession


class AgentSessionAccess(Protocol):
    """Sessions of the hub's agents: Wakeful may prompt them, and only the hub ends them."""

    def managed_session_of(self, session: TrackedSession) -> ManagedSession | None:
        """The address of an agent's session; None if no agent hosts it, or its agent does not run."""

    def prompt_driver(self, name: str) -> PromptDriver | None:
        """The driver for prompts to sessions that no driver hosts: those in containers."""


class DriverTable:
    def __init__(self, drivers: Mapping[str, Driver], agents: AgentSessionAccess | None = None) -> None:
        self.drivers = drivers
        self._agents = agents

    def __getitem__(self, name: str) -> Driver:
        return self.drivers[name]

    def get(self, name: str) -> Driver | None:
        return self.drivers.get(name)

    def prompt_driver(self, name: str) -> PromptDriver:
        driver = self._agents.prompt_driver(name) if self._agents is not None else None
        return driver or self.drivers[name]

    def agent_session_of(self, session: TrackedSession) -> ManagedSession | None:
        return self._agents.managed_session_of(session) if self._agents is not None else None
