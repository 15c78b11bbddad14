"""Restarts stale agents whose declaration asks for it, and opens one incident for each lost runtime.

A task has one automatic restart: an agent that ends again soon after it stays stale, and people get an alert.
Agents in an unknown state are left alone; an agent whose session ended inside a turn is left to the healer.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import uuid4

from wakeful.agents.commands import Orders
from wakeful.agents.model import AgentRecord, AgentState, Restart
from wakeful.agents.table import Agent, AgentBook
from wakeful.alerts.model import News, Topic, incident as incident_text, resolved, text_of
from wakeful.core.clock import Clock, iso
from wakeful.core.ids import SessionId
from wakeful.core.text import plain
from wakeful.healing.plan import BUDGET_SECONDS, REVIVALS_MAX, Rules
from wakeful.healing.rate_limit import Pace
from wakeful.incidents.model import Cause, Fate, Incident, Origin, words_of
from wakeful.incidents.service import Incidents
from wakeful.judging.findings import Code
from wakeful.storage.base import Note, Outcome, Store

KIND: Final = "agent-revival"
# Of any number that a store keeps.
EPOCH_DIGITS_MAX: Final = 18
# Agents that one server took along are seen within this time of each other.
GATHER_SECONDS: Final = 2.0
# An agent that ran this long is well: what ends it later is another trouble with a budget of its own.
SETTLED_SECONDS: Final = 600.0
REASON_CHARS_MAX: Final = 200

_SETTLED: Final = frozenset({AgentState.RUNNING, AgentState.STOPPED})

log = logging.getLogger("wakeful.hub")

Tell = Callable[[str, str, Topic], Awaitable[None]]
"""Tell people something about an episode, once: its key, its words, and what may mute it."""
Resolve = Callable[[str, str], Awaitable[None]]
"""Tell whoever heard of an episode that it is over: its key and words."""


class Losses:
    """Runtimes that cannot be asked: one incident each, however many agents they host."""

    def __init__(self, incidents: Incidents, scopes: Mapping[str, str], told: "Telling") -> None:
        self._incidents = incidents
        self._scopes = scopes
        self._told = told

    async def settle(self, agent: Agent) -> None:
        """Let it join or leave."""
        known = self._incidents.of(agent.key)
        if known is None and self._is_lost(agent) and not self._has_session_in_one(agent):
            reason = plain(agent.record.reason, REASON_CHARS_MAX)
            await self._incidents.join(agent.key, self._origin(agent), reason, f"agent {agent.name}")
            known = self._incidents.of(agent.key)
            assert known is not None, "joined just now"
            self._told.soon(known)
        if known is not None:
            await self._tell_fate(known, agent)
        if known is not None and agent.state in _SETTLED:
            left = await self._incidents.leave(agent.key)
            if left is not None and not left.is_open:
                await self._told.over(left)

    def _has_session_in_one(self, agent: Agent) -> bool:
        """Whether the healer put its session into an incident, which then speaks for the agent too."""
        session_id = agent.record.session_id
        return session_id is not None and self._incidents.of(session_id) is not None

    def _is_lost(self, agent: Agent) -> bool:
        """Whoever was not there when its runtime was lost, or had ended before, has lost nothing."""
        lost = agent.state is AgentState.UNKNOWN and agent.runtime_lost and agent.placed
        return lost and agent.was is not AgentState.STALE

    async def _tell_fate(self, incident: Incident, agent: Agent) -> None:
        """What becomes of an agent that is in it."""
        treated = incident.treated(agent.key, *_fate(agent))
        if treated != incident:
            await self._incidents.keep(treated)

    def _origin(self, agent: Agent) -> Origin:
        cause = Cause.ENGINE if agent.runtime.name == "docker" else Cause.TMUX_SERVER
        return Origin(cause, self._scopes.get(agent.runtime.name, agent.runtime.name))


def _fate(agent: Agent) -> tuple[Fate, str]:
    reason = plain(agent.record.reason, REASON_CHARS_MAX)
    match agent.state:
        case AgentState.STALE if agent.given_up_since == agent.work_since:
            return Fate.GIVEN_UP, "brought it back once, which did not last; gave up"
        case AgentState.STALE if agent.spec.restart is Restart.AUTO:
            return Fate.OPEN, "waits for its turn"
        case AgentState.STALE:
            return Fate.LEFT_ALONE, f"nothing (restart is manual: `wakeful attach {agent.name}`)"
        case AgentState.STARTING:
            return Fate.OPEN, "is being started"
        case AgentState.RUNNING if agent.was is AgentState.STARTING:
            return Fate.REVIVED, "started again"
        case AgentState.RUNNING:
            return Fate.OPEN, "seen again"
        case AgentState.STOPPED:
            return Fate.ENDED, reason
        case AgentState.ERROR:
            return Fate.GIVEN_UP, reason
        case _:
            return Fate.UNSEEN, f"nothing ({reason})"


class Telling:
    """One message for each incident, a moment after it began, and one when it is over."""

    def __init__(
        self,
        clock: Clock,
        newest: Callable[[Incident], Incident],
        tell: Tell,
        resolve: Resolve,
    ) -> None:
        self._clock = clock
        self._newest = newest
        self._tell = tell
        self._resolve = resolve
        self._gathering: dict[str, asyncio.Task[None]] = {}

    def soon(self, incident: Incident) -> None:
        if incident.id in self._gathering:
            return
        task = asyncio.create_task(self._gather(incident))
        self._gathering[incident.id] = task
        task.add_done_callback(lambda _done: self._gathering.pop(incident.id, None))

    async def over(self, incident: Incident) -> None:
        await self._resolve(incident.id, resolved(words_of(incident), iso(incident.opened_at)))

    async def say(self, key: str, words: str, topic: Topic) -> None:
        await self._tell(key, words, topic)

    async def end(self, key: str, words: str) -> None:
        await self._resolve(key, words)

    async def close(self) -> None:
        for task in tuple(self._gathering.values()):
            task.cancel()
        await asyncio.gather(*self._gathering.values(), return_exceptions=True)

    async def _gather(self, incident: Incident) -> None:
        await self._clock.sleep_until(self._clock.now().awake + GATHER_SECONDS)
        topic = Topic((incident.cause, Code.RUNTIME_LOST))
        await self._tell(incident.id, incident_text(self._newest(incident)), topic)


class AutoRestart:
    """Brings stale agents back whose declaration asks for it."""

    def __init__(
        self,
        *,
        book: AgentBook,
        orders: Orders,
        store: Store,
        clock: Clock,
        pace: Pace,
        rules: Callable[[], Rules],
        told: Telling,
        is_cut_off: Callable[[SessionId], bool],
    ) -> None:
        self._is_cut_off = is_cut_off
        self._book = book
        self._orders = orders
        self._store = store
        self._clock = clock
        self._pace = pace
        self._rules = rules
        self._told = told
        self._given_up: set[str] = set()
        # Agents that people were told are given up: the key of that alert, what it said and since when.
        self._mourned: dict[str, tuple[str, str, str]] = {}
        # Restarts that an earlier daemon began and that are still under way.
        self._left: dict[str, Note] = {}
        self._obstacles: dict[str, str | None] = {}
        self._restarting: dict[str, asyncio.Task[None]] = {}

    async def take_up(self) -> None:
        """A restart that a crash cut off before it began is given back; one that came to something was paid for."""
        for note in await self._store.notes(KIND):
            name, _ = _restart_of(note)
            agent = self._book.agents.get(name)
            if agent is None:
                await self._store.drop_note(KIND, note.key)
                continue
            self._left[agent.name] = note
            await self._settle_left(agent)

    async def _settle_left(self, agent: Agent) -> None:
        """What became of a restart that an earlier daemon began, as soon as the agent can be seen."""
        note = self._left.get(agent.name)
        if note is None or agent.state in (AgentState.STARTING, AgentState.UNKNOWN):
            return
        del self._left[agent.name]
        _, epoch_before = _restart_of(note)
        if agent.state is AgentState.STALE and agent.epoch_seen <= epoch_before:
            await self._store.give_back(_budget(agent), note)
        else:
            await self._ended(agent, note)

    def consider(self, agent: Agent) -> None:
        """Begin a restart, if there is something to restart and nobody does yet."""
        now = self._clock.now().wall
        if agent.state is AgentState.RUNNING and now - agent.moved_at >= SETTLED_SECONDS:
            agent.work_since = max(agent.work_since, agent.moved_at)
        if not self._wanted(agent) or agent.name in self._restarting:
            return
        task = asyncio.create_task(self._restart(agent))
        self._restarting[agent.name] = task
        task.add_done_callback(lambda done: self._done(agent.name, done))

    async def close(self) -> None:
        for task in tuple(self._restarting.values()):
            task.cancel()
        await asyncio.gather(*self._restarting.values(), return_exceptions=True)

    async def settle(self, agent: Agent) -> None:
        """Tell people what became of an agent that was given up, and of a restart that an earlier daemon began."""
        await self._settle_left(agent)
        if agent.name not in self._mourned or agent.state not in _SETTLED:
            return
        key, what, since = self._mourned.pop(agent.name)
        well = agent.state is AgentState.RUNNING
        await self._told.end(key, resolved(what, since, because=f"it is {agent.state}", well=well))

    def _wanted(self, agent: Agent) -> bool:
        rules = self._rules()
        return (
            agent.spec.restart is Restart.AUTO
            and agent.state is AgentState.STALE
            and not agent.orders
            and not agent.stop_ordered
            and rules.mode != "observe"
            and rules.paused_by is None
            and _budget(agent) not in self._given_up
            and agent.name not in self._left
            and not self._pace.braked_seconds
            and not self._is_healers(agent)
        )

    def _is_healers(self, agent: Agent) -> bool:
        """Whether its session ended in the middle of a turn: the healer goes on with it, or holds it for a person."""
        session_id = agent.record.session_id
        return session_id is not None and self._is_cut_off(session_id)

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        self._restarting.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("agent %s could not be brought back: %s", name, error)

    async def _restart(self, agent: Agent) -> None:
        await self._clock.sleep_until(self._clock.now().awake + self._rules().confirm_seconds)
        if not self._wanted(agent) or self._obstructed(agent):
            return
        note = Note(KIND, uuid4().hex, f"{agent.name} {agent.epoch_seen}".encode())
        budget = _budget(agent)
        if not await self._store.spend(budget, note, times_max=REVIVALS_MAX, window_seconds=BUDGET_SECONDS):
            await self._give_up(agent)
            return
        await self._pace.turn()
        if not self._wanted(agent):
            await self._store.give_back(budget, note)
            return
        deed = await self._orders.revive(agent)
        log.info("agent %s: brought back: %s (%s)", agent.name, deed.outcome, deed.words)
        if deed.outcome is Outcome.DECLINED:
            await self._store.give_back(budget, note)
        else:
            self._pace.ended(gave_up=False)
            if deed.outcome is not Outcome.RECOVERED:
                self._pace.ended(gave_up=True)
            await self._ended(agent, note)

    async def _ended(self, agent: Agent | None, note: Note) -> None:
        """A restart came to its end, and was paid for: one attempt is all an agent has."""
        if agent is not None and agent.state is AgentState.ERROR:
            await self._give_up(agent)
        await self._store.drop_note(KIND, note.key)

    def _obstructed(self, agent: Agent) -> bool:
        """Whether something speaks against it that may pass; said once, for it is asked at every sync."""
        reason = self._orders.obstacle(agent)
        if reason is not None and self._obstacles.get(agent.name) != reason:
            log.info("agent %s is not brought back: %s", agent.name, reason)
        self._obstacles[agent.name] = reason
        return reason is not None

    async def _give_up(self, agent: Agent) -> None:
        self._given_up.add(_budget(agent))
        agent.given_up_since = agent.work_since
        news = given_up_news(agent.record, agent.moved_at)
        log.warning("%s", news.what)
        topic = Topic((Code.AGENT_EXITED,), session_id=agent.record.session_id)
        what = f"agent {agent.name} {_trouble(agent.record)}"
        self._mourned[agent.name] = _budget(agent), what, iso(agent.moved_at)
        await self._told.say(_budget(agent), text_of(news), topic)


def _restart_of(note: Note) -> tuple[str, int]:
    """The agent, and the newest epoch that was seen of it before; an earlier version kept the name alone."""
    name, _, epoch = note.body.decode("utf-8", "replace").partition(" ")
    return name, int(epoch) if epoch.isdecimal() and len(epoch) <= EPOCH_DIGITS_MAX else sys.maxsize


def given_up_news(record: AgentRecord, since: float) -> News:
    """Its budget is spent: it ended again, or the restart failed."""
    if record.state is AgentState.ERROR:
        did, command = "tried to start it once, which failed; gave up", "agent start"
    else:
        did, command = "brought it back once, which did not last; gave up", "attach"
    session = f", session {record.session_id}" if record.session_id else ""
    return News(
        what=f"Agent {record.name} {_trouble(record)}: {plain(record.reason, REASON_CHARS_MAX)}",
        where=f"agent {record.name} ({record.runtime}){session}",
        since=since,
        did=did,
        otherwise=f"it stays {record.state}; nothing more is tried",
        command=f"wakeful {command} {record.name}",
    )


def _trouble(record: AgentRecord) -> str:
    if record.state is AgentState.ERROR:
        return "ended and could not be brought back"
    return "was brought back once and ended again"


def _budget(agent: Agent) -> str:
    return f"agent-{agent.name}@{iso(agent.work_since)}"
