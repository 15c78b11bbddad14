"""Alerts about agents that ended and stay stale: given up, or left alone. Each is raised once and resolved once.

The agent stores that it was raised, so a restart of the daemon repeats none and still sends its end.
"""

import logging
from typing import Final

from msgspec.structs import replace

from wakeful.agents.model import AgentRecord, AgentState
from wakeful.agents.table import Agent, AgentTable, GivenUp
from wakeful.alerts.model import AlertBody, Topic, resolved_text
from wakeful.alerts.notifier import Notifier
from wakeful.core.clock import iso
from wakeful.core.text import plain
from wakeful.incidents.model import NO_ACTION
from wakeful.incidents.service import Incidents
from wakeful.judging.findings import FindingCode

REASON_CHARS_MAX: Final = 200
STABLE_STATES: Final = frozenset({AgentState.RUNNING, AgentState.STOPPED})

log = logging.getLogger("wakeful.hub")


class StaleAlerts:
    def __init__(self, table: AgentTable, notifier: Notifier, incidents: Incidents) -> None:
        self._table = table
        self._notifier = notifier
        self._incidents = incidents

    def is_told(self, agent: Agent) -> bool:
        """Whether an alert or the incident of its runtime says that it ended."""
        given_up = agent.given_up
        is_raised = given_up is not None and not given_up.is_over
        return is_raised or self._incidents.of(agent.key) is not None

    async def raise_given_up(self, agent: Agent) -> None:
        """Its one restart is spent, or failed."""
        what = f"agent {agent.name} {_problem_text(agent.record)}"
        given_up = GivenUp(agent.work_since, what, iso(agent.moved_at))
        await self._raise(agent, given_up, given_up_alert(agent.record, agent.moved_at))

    async def raise_left_stale(self, agent: Agent, because: str) -> None:
        """Nothing restarts it."""
        given_up = GivenUp(agent.moved_at, f"agent {agent.name} ended", iso(agent.moved_at), restarted=False)
        await self._raise(agent, given_up, left_stale_alert(agent.record, agent.moved_at, because))

    async def resolve_if_over(self, agent: Agent) -> None:
        """Resolve its alert once it runs again or was stopped."""
        given_up = agent.given_up
        if given_up is None or given_up.is_over or agent.state not in STABLE_STATES:
            return
        agent.given_up = replace(given_up, is_over=True)
        well = agent.state is AgentState.RUNNING
        text = resolved_text(given_up.what, given_up.since, because=f"it is {agent.state}", well=well)
        await self._notifier.resolve(budget_of(agent.name, given_up.work_since), text)
        await self._table.save(agent)

    async def _raise(self, agent: Agent, given_up: GivenUp, body: AlertBody) -> None:
        log.warning("%s", body.what)
        agent.given_up = given_up
        topic = Topic((FindingCode.AGENT_EXITED,), session_id=agent.record.session_id)
        await self._notifier.raise_alert(budget_of(agent.name, given_up.work_since), body, topic)
        # Afterwards: a daemon that ends in between raises it again, under the same key.
        await self._table.save(agent)


def budget_of(name: str, work_since: float) -> str:
    """The name of its budget, which is the key of the alert that it is spent."""
    return f"agent-{name}@{iso(work_since)}"


def given_up_alert(record: AgentRecord, since: float) -> AlertBody:
    """The alert for a spent budget: the agent ended again, or the restart failed."""
    if record.state is AgentState.ERROR:
        did, command = "tried to start it once; that failed; gave up", "agent start"
    else:
        did, command = "restarted it once; it ended again; gave up", "attach"
    session = f", session {record.session_id}" if record.session_id else ""
    return AlertBody(
        what=f"Agent {record.name} {_problem_text(record)}: {plain(record.reason, REASON_CHARS_MAX)}",
        where=f"agent {record.name} ({record.runtime}){session}",
        since=since,
        did=did,
        otherwise=f"it stays {record.state}; Wakeful does not retry",
        command=f"wakeful {command} {record.name}",
    )


def left_stale_alert(record: AgentRecord, since: float, because: str) -> AlertBody:
    """The alert for an agent that ended and that nothing restarts."""
    return AlertBody(
        what=f"Agent {record.name} ended: {plain(record.reason, REASON_CHARS_MAX)}",
        where=f"agent {record.name} ({record.runtime})",
        since=since,
        did=f"{NO_ACTION}{because}",
        otherwise=f"it stays {record.state}",
        command=f"wakeful attach {record.name}",
    )


def _problem_text(record: AgentRecord) -> str:
    if record.state is AgentState.ERROR:
        return "ended and could not be restarted"
    return "ended again after one restart"
