"""Builds the drivers, the action gate and session ownership, and restores them after a restart of the daemon.

All drivers are in one table and are reached only through the gate. Actions that Wakeful takes by itself use a
second set of the same drivers and gate, which a pause stops.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from wakeful.alerts.mute_pause import MutePause
from wakeful.checkpoints.user_rules import Lessons
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.control.controller import ControlMode, InterruptedCallClassifier, SessionController
from wakeful.control.driver import (
    ActionResult,
    Driver,
    HostProcesses,
    KnowsProcess,
    NamedByClient,
    TypedText,
    TypingDriver,
)
from wakeful.control.driver_table import AgentSessionAccess, DriverTable
from wakeful.control.gate import ActionGate, reconcile
from wakeful.control.idempotency import IdempotentController
from wakeful.control.ownership import ManagedSessions
from wakeful.control.person_stops import PersonStops
from wakeful.control.start import environment
from wakeful.core.clock import Clock, iso
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import SESSION_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.daemon.callers import Callers
from wakeful.daemon.observer import ObservedSessions, SessionObserver
from wakeful.integrations.driver_support import agent_of
from wakeful.integrations.providers import NAMES, all_providers
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.integrations.tmux.prompt_in_log import has_prompt
from wakeful.linux import proc
from wakeful.linux.child_environment import agent_environ, kept_back
from wakeful.linux.files import owner_only
from wakeful.linux.terminate import terminate, terminate_marked
from wakeful.sources.tool_processes import TOOL_VARIABLES, is_tool
from wakeful.storage.base import ActionOutcome, Store


class SessionControllers(msgspec.Struct, frozen=True):
    """Two controllers over the same drivers and gate. A pause stops the automatic one."""

    asked: SessionController
    automatic: SessionController


def build_controllers(
    observer: ObservedSessions,
    *,
    managed_sessions: ManagedSessions,
    drivers: DriverTable,
    gate: ActionGate,
    processes: HostProcesses,
    classifier: InterruptedCallClassifier,
    mode: str,
) -> SessionControllers:
    build = partial(
        SessionController,
        clock=observer.clock,
        registry=observer.registry,
        managed_sessions=managed_sessions,
        drivers=drivers,
        gate=gate,
        processes=processes,
        classifier=classifier,
    )
    return SessionControllers(build(mode=ControlMode(mode)), build(mode=ControlMode(mode, by_itself=True)))


class ControlComponents:
    def __init__(
        self,
        observer: SessionObserver,
        paths: StatePaths,
        store: Store,
        config: Config,
        mute_pause: MutePause,
        agents: AgentSessionAccess,
    ) -> None:
        self._store = store
        self._observer = observer
        self.lessons = Lessons(store, observer.clock)
        names = frozenset(spec.name for spec in config.agents)
        self.callers = Callers(observer.registry, paths.tmux, names)
        self._processes = LocalProcesses(observer.clock, Path(paths.events))
        self.person_stops = PersonStops(store, observer.clock, observer.supervisor)
        self.managed_sessions = ManagedSessions(
            store, observer.supervisor, observer.host, observer.processes, self.person_stops, NAMES
        )
        drivers = build_drivers(paths, observer.clock)
        self._drivers = DriverTable(drivers, agents)
        self._typing_drivers = [each for each in drivers.values() if isinstance(each, TypingDriver)]
        self.gate = ActionGate(
            store, observer.clock, GateEvents(observer, self._typing_drivers), mute_pause.pause_reason
        )
        self.controllers = build_controllers(
            observer,
            managed_sessions=self.managed_sessions,
            drivers=self._drivers,
            gate=self.gate,
            processes=self._processes,
            classifier=self.lessons,
            mode=config.daemon.mode,
        )
        self.controller, self.automatic_controller = self.controllers.asked, self.controllers.automatic
        self.idempotent_controller = IdempotentController(
            self.controller,
            store,
            observer.clock,
            proc.identify_or_none(os.getpid()),
            proc.state_of,
        )

    async def restore(self) -> None:
        """Load the sessions that an earlier daemon managed, and conclude its unfinished actions."""
        await self.managed_sessions.load()
        typed = [
            self._confirm_by_log(text) for each in self._typing_drivers for text in await each.recover_typed()
        ]
        await reconcile(
            self._store, self.gate, self.managed_sessions, self._processes, typed, self._find_started
        )
        for text in typed:
            for driver in self._typing_drivers:
                driver.forget_typed(text.session_id)
        await self._find_ended()

    async def _find_ended(self) -> None:
        """Store the newest process of a start that was interrupted before it stored one, if that process has ended."""
        for managed in self.managed_sessions.all():
            driver: object = self._drivers.get(managed.driver)
            newest = driver.newest_process(managed) if isinstance(driver, KnowsProcess) else None
            known = managed.process
            is_newer = newest is not None and (
                known is None or known.boot_id != newest.boot_id or newest.started > known.started
            )
            if newest is not None and is_newer and proc.state_of(newest) is ProcessState.DEAD:
                await self.managed_sessions.save(msgspec.structs.replace(managed, process=newest))

    async def _find_started(
        self, planned: ManagedSession, intent_id: str, carriers: Sequence[Process]
    ) -> ActionResult | None:
        driver: object = self._drivers.get(planned.driver)
        if not isinstance(driver, NamedByClient):
            return None
        return await driver.find_started(planned, intent_id, carriers)

    def _confirm_by_log(self, typed: TypedText) -> TypedText:
        """The log of a conversation shows more reliably than a screen which text its client took."""
        if not has_prompt(self._observer.sources.read_last_lines(typed.session_id), typed.text, typed.at):
            return typed
        return msgspec.structs.replace(
            typed, seen=ActionResult(ActionOutcome.CONFIRMED, "its log shows the text: it was sent")
        )

    async def stop_tools(self, session_id: SessionId) -> Sequence[Process]:
        """End the remaining tools of a session that a person gives up; returns those that still run."""
        await self.mark_given_up(session_id)
        provider, _, conversation = session_id.partition("-")
        variable = TOOL_VARIABLES.get(provider)
        return (await terminate_marked(variable, conversation)).survivors if variable is not None else ()

    async def mark_given_up(self, session_id: SessionId) -> None:
        """Record that a person wants it to stay ended: no daemon opens its incident again, not even after a restart."""
        session = self._observer.registry.sessions.get(session_id)
        if session is not None:
            holders = [each.process for each in session.presence.holders.values()]
            await self.person_stops.record_order(holders, (session_id,))


class GateEvents:
    """Connects the action gate to the observer and to the drivers that type."""

    def __init__(self, observer: SessionObserver, typing: Sequence[TypingDriver]) -> None:
        self._observer = observer
        self._typing = typing

    def refresh(self, session_id: SessionId) -> None:
        self._observer.catch_up(session_id)

    def on_action(self, session_id: SessionId) -> None:
        self._observer.supervisor.on_action(session_id)

    def on_concluded(self, session_id: SessionId) -> None:
        for each in self._typing:
            each.forget_typed(session_id)
        session = self._observer.registry.sessions.get(session_id)
        if session is not None and session.presence.pane is not None:
            # The action changed its screen: a start may have ended at a dialog.
            self._observer.sources.find_pane(session_id)


# After SIGKILL the kernel may still take a moment.
KILL_SECONDS_MAX: Final = 5.0


class LocalProcesses:
    def __init__(self, clock: Clock, events: Path) -> None:
        self._clock = clock
        self._events = events

    def processes_with_variable(self, variable: str, value: str) -> list[Process]:
        found = proc.processes_with_variable(variable, value, os.getuid())
        return [each for each in found if not is_tool(each)]

    def state_of(self, process: Process) -> ProcessState:
        return proc.state_of(process)

    def command(self, process: Process) -> tuple[str, ...]:
        return tuple(proc.command(process.pid))

    def kept_back(self, process: Process) -> tuple[str, ...]:
        return tuple(sorted(kept_back(proc.environ(process.pid))))

    def environ(self) -> Mapping[str, str]:
        return agent_environ(os.environ)

    async def kill(self, managed: ManagedSession) -> Sequence[ProcessState]:
        # npm's wrapper has the mark too, and the program below it does not end with it.
        found = self.processes_with_variable(SESSION_VARIABLE, managed.session_id)
        known = managed.process
        if known is not None and known not in found and proc.state_of(known) is ProcessState.ALIVE:
            found.append(known)
        is_agent = agent_of(managed.session_id, managed.conversation_id)
        steps = ((signal.SIGKILL, KILL_SECONDS_MAX),)
        return [(await terminate(each, steps, is_meant=is_agent)).sight for each in found]

    def open_event_log(self, name: str, process: Process, cwd: str) -> None:
        opened = {"at": iso(self._clock.now().wall), "event": "opened", "pid": process.pid, "cwd": cwd}
        log = self._events / f"{name}.jsonl"
        with open(log, "ab", opener=owner_only) as file:
            file.write(msgspec.json.encode(opened) + b"\n")


def build_drivers(paths: StatePaths, clock: Clock) -> dict[str, Driver]:
    run = Path(paths.run)
    clients = (each.driver(run, clock, environment(agent_environ(os.environ))) for each in all_providers())
    return {driver.name: driver for driver in (*clients, TmuxDriver(paths.tmux, str(run), clock))}
