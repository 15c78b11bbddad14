"""Restarts stale agents that declare `restart = "auto"`, and opens one incident for each lost runtime.

A task has one automatic restart: an agent that ends again soon after it stays stale, and people get an alert.
They also get one about an agent that nothing restarts, unless its session is known and judged by itself. Agents
in an unknown state are left alone; an agent whose session ended inside a turn is left to the healer.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from math import inf
from typing import Final
from uuid import uuid4

from wakeful.agents.commands import AgentCommands
from wakeful.agents.model import AgentState, Restart
from wakeful.agents.stale_alerts import REASON_CHARS_MAX, STABLE_STATES, StaleAlerts, budget_of
from wakeful.agents.table import Agent, AgentTable
from wakeful.alerts.model import Topic
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.process import ProcessState
from wakeful.core.text import plain
from wakeful.healing.budget import RevivalBudget
from wakeful.healing.plan import ACTING_STEPS, CaseHistory, HealingDecision, HealingRules, Situation, plan
from wakeful.healing.rate_limit import RevivalLimiter
from wakeful.incidents.model import NO_ACTION, Cause, MemberStatus, Origin
from wakeful.incidents.service import Incidents
from wakeful.judging.findings import FindingCode, State
from wakeful.storage.base import ActionOutcome, Note, Store

KIND: Final = "agent-revival"
# SQLite's integers have 19 digits; a longer number in a note is not an epoch.
EPOCH_DIGITS_MAX: Final = 18
# An agent that ran this long is healthy: a later end is another problem with its own budget.
STABLE_SECONDS: Final = 600.0

log = logging.getLogger("wakeful.hub")


class RuntimeLosses:
    """Opens one incident for each runtime that does not answer, however many agents it hosts."""

    def __init__(self, incidents: Incidents, scopes: Mapping[str, str], notifier: Notifier) -> None:
        self._incidents = incidents
        self._scopes = scopes
        self._notifier = notifier

    async def update(self, agent: Agent) -> None:
        """Let the agent join or leave the incident of its runtime."""
        known, session_id = self._incidents.of(agent.key), agent.record.session_id
        # An agent that did not exist or had ended when its runtime was lost is not part of the incident.
        is_unseen = agent.state is AgentState.UNKNOWN and agent.runtime_lost and agent.is_present
        is_lost = is_unseen and agent.previous_state is not AgentState.STALE
        # An incident of its session covers the agent too.
        is_covered = session_id is not None and self._incidents.of(session_id) is not None
        if known is None and is_lost and not is_covered:
            cause = Cause.ENGINE if agent.runtime.name == "docker" else Cause.TMUX_SERVER
            origin = Origin(cause, self._scopes.get(agent.runtime.name, agent.runtime.name))
            reason = plain(agent.record.reason, REASON_CHARS_MAX)
            await self._incidents.join(agent.key, origin, reason, f"agent {agent.name}")
            known = self._incidents.of(agent.key)
            assert known is not None, "joined just now"
            await self._notifier.raise_incident(known, Topic((known.cause, FindingCode.RUNTIME_LOST)))
            known = self._incidents.of(agent.key)
        if known is not None:
            treated = known.with_treatment(agent.key, *_member_status(agent))
            if treated != known:
                await self._incidents.update(treated)
        if known is not None and agent.state in STABLE_STATES:
            left = await self._incidents.leave(agent.key)
            if left is not None and not left.is_open:
                await self._notifier.resolve_incident(left)


def _member_status(agent: Agent) -> tuple[MemberStatus, str]:
    reason = plain(agent.record.reason, REASON_CHARS_MAX)
    match agent.state:
        case AgentState.STALE if agent.is_given_up:
            return MemberStatus.GIVEN_UP, "restarted it once; it ended again; gave up"
        case AgentState.STALE if agent.spec.restart is Restart.AUTO:
            return MemberStatus.OPEN, "waits for its turn"
        case AgentState.STALE:
            return MemberStatus.LEFT_ALONE, f"{NO_ACTION}restart is manual: `wakeful attach {agent.name}`"
        case AgentState.STARTING:
            return MemberStatus.OPEN, "starting"
        case AgentState.RUNNING if agent.previous_state is AgentState.STARTING:
            return MemberStatus.REVIVED, "started again"
        case AgentState.RUNNING:
            return MemberStatus.OPEN, "reachable again"
        case AgentState.STOPPED:
            return MemberStatus.ENDED, reason
        case AgentState.ERROR:
            return MemberStatus.GIVEN_UP, reason
        case _:
            return MemberStatus.UNSEEN, f"{NO_ACTION}{reason}"


class AutoRestart:
    def __init__(
        self,
        *,
        table: AgentTable,
        commands: AgentCommands,
        store: Store,
        clock: Clock,
        limiter: RevivalLimiter,
        rules: Callable[[], HealingRules],
        alerts: StaleAlerts,
        is_cut_off: Callable[[SessionId], bool],
    ) -> None:
        self._is_cut_off = is_cut_off
        self._table = table
        self._commands = commands
        self._store = store
        self._budget = RevivalBudget(store)
        self._clock = clock
        self._limiter = limiter
        self._rules = rules
        self._alerts = alerts
        # Restarts that an earlier daemon began and that are still under way.
        self._unfinished: dict[str, Note] = {}
        self._obstacles: dict[str, str | None] = {}
        self._restart_tasks: dict[str, asyncio.Task[None]] = {}

    async def restore(self) -> None:
        """Refund a restart that a crash interrupted before it began; conclude one that had an effect."""
        for note in await self._store.notes(KIND):
            name, _ = _restart_of(note)
            agent = self._table.agents.get(name)
            if agent is None:
                await self._store.drop_note(KIND, note.key)
                continue
            self._unfinished[agent.name] = note
            await self._finish_left_restart(agent)

    async def _finish_left_restart(self, agent: Agent) -> None:
        """Conclude a restart that an earlier daemon began, once the agent's state is known."""
        note = self._unfinished.get(agent.name)
        if note is None or agent.state in (AgentState.STARTING, AgentState.UNKNOWN):
            return
        del self._unfinished[agent.name]
        _, epoch_before = _restart_of(note)
        if agent.state is AgentState.STALE and agent.epoch_seen <= epoch_before:
            await self._budget.refund(budget_of(agent.name, agent.work_since), note)
        else:
            await self._finish_restart(agent, note)

    def restart_if_stale(self, agent: Agent) -> None:
        """Begin a restart, if one is wanted and none is under way."""
        now = self._clock.now().wall
        if agent.state is AgentState.RUNNING and now - agent.moved_at >= STABLE_SECONDS:
            agent.work_since = max(agent.work_since, agent.moved_at)
        if not self._is_wanted(agent) or agent.name in self._restart_tasks:
            return
        task = asyncio.create_task(self._restart(agent))
        self._restart_tasks[agent.name] = task
        task.add_done_callback(lambda done: self._on_task_done(agent.name, done))

    async def close(self) -> None:
        for task in tuple(self._restart_tasks.values()):
            task.cancel()
        await asyncio.gather(*self._restart_tasks.values(), return_exceptions=True)

    async def reconcile(self, agent: Agent) -> None:
        """Alert about an agent that nothing restarts, resolve that alert, and conclude a restart of an earlier daemon."""
        await self._finish_left_restart(agent)
        if self._is_left_stale(agent):
            is_manual = agent.spec.restart is Restart.MANUAL
            because = "restart is manual" if is_manual else self._decide(agent).reason
            await self._alerts.raise_left_stale(agent, because)
        await self._alerts.resolve_if_over(agent)

    def _is_left_stale(self, agent: Agent) -> bool:
        """Whether it ended by itself, nothing restarts it, and no other alert says so."""
        return (
            agent.state is AgentState.STALE
            and not (agent.spec.restart is Restart.AUTO and self._rules().may_act)
            and not agent.stop_ordered
            and not agent.commands_running
            # A known session is judged: it ended well, or has an alert of its own.
            and agent.record.session_id is None
            and not self._alerts.is_told(agent)
            and self._clock.now().wall - agent.moved_at >= self._rules().confirm_seconds
        )

    def _is_wanted(self, agent: Agent) -> bool:
        """Whether it ended, its declaration asks for a restart, nothing else treats it, and the plan says so."""
        session_id = agent.record.session_id
        return (
            agent.spec.restart is Restart.AUTO
            and agent.state is AgentState.STALE
            and not agent.commands_running
            and agent.name not in self._unfinished
            # The healer treats a session that ended in the middle of a turn.
            and (session_id is None or not self._is_cut_off(session_id))
            and self._decide(agent).step in ACTING_STEPS
        )

    def _decide(self, agent: Agent, for_seconds: float = inf) -> HealingDecision:
        """The plan's decision about an agent that ended `for_seconds` ago, outside a turn."""
        situation = Situation(
            code=FindingCode.AGENT_EXITED,
            state=State.STOPPED,
            agent=ProcessState.DEAD,
            managed=True,
            for_seconds=for_seconds,
            stopped=agent.stop_ordered,
            breaker_seconds=self._limiter.breaker_seconds,
        )
        history = CaseHistory(given_up=agent.is_given_up)
        return plan(situation, history, self._rules())

    def _on_task_done(self, name: str, task: asyncio.Task[None]) -> None:
        self._restart_tasks.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("agent %s could not be restarted: %s", name, error)

    async def _restart(self, agent: Agent) -> None:
        # The first decision waits, because the agent may come back by itself.
        await self._clock.sleep(self._decide(agent, 0.0).again_seconds or 0.0)
        if not self._is_wanted(agent) or self._has_obstacle(agent):
            return
        note = Note(KIND, uuid4().hex, f"{agent.name} {agent.epoch_seen}".encode())
        budget = budget_of(agent.name, agent.work_since)
        if not await self._budget.spend(budget, note):
            await self._give_up(agent)
            return
        await self._limiter.acquire()
        if not self._is_wanted(agent):
            await self._budget.refund(budget, note)
            return
        record = await self._commands.revive(agent)
        log.info("agent %s: restart: %s (%s)", agent.name, record.outcome, record.words)
        if record.outcome is ActionOutcome.DECLINED:
            await self._budget.refund(budget, note)
        else:
            self._limiter.record_result(gave_up=False)
            await self._finish_restart(agent, note)

    async def _finish_restart(self, agent: Agent, note: Note) -> None:
        """Give up the agent if its one restart failed; either way the budget is spent."""
        if agent.state is AgentState.ERROR:
            await self._give_up(agent)
        await self._store.drop_note(KIND, note.key)

    def _has_obstacle(self, agent: Agent) -> bool:
        """Whether a restart must wait; logged once, because every sync asks."""
        reason = self._commands.obstacle(agent)
        if reason is not None and self._obstacles.get(agent.name) != reason:
            log.info("agent %s is not restarted: %s", agent.name, reason)
        self._obstacles[agent.name] = reason
        return reason is not None

    async def _give_up(self, agent: Agent) -> None:
        self._limiter.record_result(gave_up=True)
        await self._alerts.raise_given_up(agent)


def _restart_of(note: Note) -> tuple[str, int]:
    """The agent's name and its newest epoch before the restart; an earlier version stored only the name."""
    name, _, epoch = note.body.decode("utf-8", "replace").partition(" ")
    return name, int(epoch) if epoch.isdecimal() and len(epoch) <= EPOCH_DIGITS_MAX else sys.maxsize
