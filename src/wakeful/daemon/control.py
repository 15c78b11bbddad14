"""Builds the drivers, the action gate and session ownership, and restores them after a restart of the daemon.

All drivers are in one table and are reached only through the gate. Actions that Wakeful takes by itself use a
second set of the same drivers and gate, which a pause stops.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from wakeful.config.paths import Places
from wakeful.control.controller import Hands
from wakeful.control.driver import Driver, KnowsProcess, NamedByClient, Seen, TypedText, Types
from wakeful.control.gate import ActGate, Objection, reconcile
from wakeful.control.idempotency import OnceHands
from wakeful.control.ownership import Holdings
from wakeful.control.person_stops import PersonStops
from wakeful.control.start import environment
from wakeful.core.clock import Clock, iso
from wakeful.core.ids import SessionId
from wakeful.core.managed_session import Hosting
from wakeful.core.process import Process, Sight
from wakeful.daemon.callers import Callers
from wakeful.daemon.observer import Lookout
from wakeful.integrations.providers import NAMES, every
from wakeful.integrations.tmux.driver import TmuxDriver
from wakeful.integrations.tmux.said import was_said
from wakeful.linux import proc
from wakeful.linux.child_environment import agent_environ, kept_back
from wakeful.linux.owner_only import owner_only
from wakeful.linux.terminate import sweep
from wakeful.sources.tool_processes import TOOL_VARIABLES, is_tool
from wakeful.storage.base import Outcome, Store


class Handwork:
    """The hands of one daemon, and what they need to begin and to go on."""

    def __init__(
        self, lookout: Lookout, places: Places, store: Store, mode: str, forbidden: Objection = lambda: None
    ) -> None:
        self._store = store
        self._lookout = lookout
        self.callers = Callers(lookout.roster, places.tmux)
        self._world = LocalWorld(lookout.clock, Path(places.events))
        self.holdings = Holdings(store, lookout.supervisor, lookout.host, lookout.watch, NAMES)
        table = drivers(places, lookout.clock)
        self._drivers = table
        self._typing = [each for each in table.values() if isinstance(each, Types)]
        self.gate = ActGate(
            store, lookout.clock, self._reread, forbidden, lookout.supervisor.acted, self._forget_typed
        )
        self.hands = self._hands(table, mode)
        self.person_stops = PersonStops(
            store,
            lookout.clock,
            lookout.supervisor.ended_by_person,
            lookout.supervisor.not_ended_by_person,
        )
        self.once = OnceHands(self.hands, store, lambda: lookout.clock.now().wall)
        # For what nobody asked for: the same drivers, the same gate, and a pause stops them.
        self.own_hands = self._hands(table, mode, by_itself=True)

    def _hands(self, table: Mapping[str, Driver], mode: str, *, by_itself: bool = False) -> Hands:
        return Hands(
            clock=self._lookout.clock,
            roster=self._lookout.roster,
            holdings=self.holdings,
            drivers=table,
            gate=self.gate,
            world=self._world,
            mode=mode,
            by_itself=by_itself,
        )

    async def take_up(self) -> None:
        """Find again what an earlier daemon managed, and settle what it left half done."""
        await self.holdings.load()
        typed = [self._proven(text) for each in self._typing for text in await each.settle_typed()]
        await reconcile(self._store, self.gate, self.holdings, self._world, typed, self._find_begun)
        for text in typed:
            self._forget_typed(text.session_id)
        await self._find_ended()

    async def _find_ended(self) -> None:
        """Keep the process of a start that was interrupted before it was kept, if that process has ended since."""
        for hosting in self.holdings.all():
            driver: object = self._drivers.get(hosting.driver)
            newest = driver.newest_process(hosting) if isinstance(driver, KnowsProcess) else None
            if newest is None or not _is_newer(newest, hosting.process):
                continue
            if proc.sight(newest) is Sight.DEAD:
                await self.holdings.keep(msgspec.structs.replace(hosting, process=newest))

    async def _find_begun(self, planned: Hosting, intent_id: str, carriers: Sequence[Process]) -> Seen | None:
        driver: object = self._drivers.get(planned.driver)
        if not isinstance(driver, NamedByClient):
            return None
        return await driver.find_begun(planned, intent_id, carriers)

    def _proven(self, typed: TypedText) -> TypedText:
        """The conversation's own log knows better than a screen what its client took."""
        if not was_said(self._lookout.recall_lines(typed.session_id), typed.text, typed.at):
            return typed
        return msgspec.structs.replace(
            typed, seen=Seen(Outcome.RECOVERED, "its log shows the text: it was sent")
        )

    def _forget_typed(self, session_id: SessionId) -> None:
        for each in self._typing:
            each.forget_typed(session_id)

    async def end_tools(self, session_id: SessionId) -> Sequence[Process]:
        """A person gives up a session whose agent ended: end the tools that outlived it; those that still run."""
        await self.given_up(session_id)
        provider, _, conversation = session_id.partition("-")
        variable = TOOL_VARIABLES.get(provider)
        return (await sweep(variable, conversation)).left if variable is not None else ()

    async def given_up(self, session_id: SessionId) -> None:
        """Its end is what a person wants: no later look, by this daemon or the next, opens its incident again."""
        watched = self._lookout.roster.watched.get(session_id)
        if watched is not None:
            holders = [each.process for each in watched.presence.holders.values()]
            await self.person_stops.order(holders, (session_id,))

    def _reread(self, session_id: SessionId) -> None:
        self._lookout.catch_up(session_id)
        self._lookout.seek_holder(session_id)


class LocalWorld:
    """Processes of this host, as acts need them."""

    def __init__(self, clock: Clock, events: Path) -> None:
        self._clock = clock
        self._events = events

    def carriers(self, variable: str, value: str) -> list[Process]:
        found = proc.carriers(variable, value, os.getuid())
        return [each for each in found if not is_tool(each)]

    def sight(self, process: Process) -> Sight:
        return proc.sight(process)

    def command(self, process: Process) -> tuple[str, ...]:
        return tuple(proc.command(process.pid))

    def kept_back(self, process: Process) -> tuple[str, ...]:
        return tuple(sorted(kept_back(proc.environ(process.pid))))

    def environ(self) -> Mapping[str, str]:
        return agent_environ(os.environ)

    def register(self, name: str, process: Process, cwd: str) -> None:
        opened = {"at": iso(self._clock.now().wall), "event": "opened", "pid": process.pid, "cwd": cwd}
        log = self._events / f"{name}.jsonl"
        with open(log, "ab", opener=owner_only) as file:
            file.write(msgspec.json.encode(opened) + b"\n")


def drivers(places: Places, clock: Clock) -> dict[str, Driver]:
    """Every way of hosting a session, by its name."""
    run = Path(places.run)
    clients = (each.driver(run, clock, environment(agent_environ(os.environ))) for each in every())
    return {driver.name: driver for driver in (*clients, TmuxDriver(places.tmux, str(run), clock))}


def _is_newer(process: Process, known: Process | None) -> bool:
    return known is None or known.boot_id != process.boot_id or process.started > known.started
