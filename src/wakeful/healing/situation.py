"""Gathers the facts about a session that the plan needs, from evidence and ownership. It decides nothing."""

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Final, Protocol

from wakeful.control.controller import PROGRAMS
from wakeful.control.ownership import Holdings
from wakeful.core.clock import Instant
from wakeful.core.ids import SessionId
from wakeful.core.process import Sight
from wakeful.effects.rules import Effect
from wakeful.healing.plan import AgentWay, Situation
from wakeful.healing.trouble import Trouble
from wakeful.incidents.many_deaths import Deaths
from wakeful.incidents.model import DEATHS, Cause, Origin, Surroundings, lost_with, origin_of
from wakeful.judging.findings import Code, State
from wakeful.judging.interrupted_calls import InterruptedCall, interrupted
from wakeful.judging.session_record import project_shown
from wakeful.judging.summary import quiet_seconds
from wakeful.judging.user_effect_rules import Lesson, apply_lessons
from wakeful.judging.wording import quoted
from wakeful.sessions.session import Watched

_WORST: Final = {Effect.LOCAL: 0, Effect.UNKNOWN: 1, Effect.REMOTE: 2}
# A person said yes: there is nothing left to wait for.
_LONG_ENOUGH_SECONDS: Final = 86_400.0


class Place(Protocol):
    """What healing must know of the host."""

    host: str
    boot_id: str

    def exists(self, folder: str) -> bool:
        """Whether a folder is there."""

    def oom_killed(self) -> bool:
        """Whether the kernel ended processes for want of memory in the last minute."""


class Circumstances:
    """Sessions as the plan sees them."""

    def __init__(
        self,
        holdings: Holdings,
        place: Place,
        own_tmux: str,
        taught: Callable[[str], Sequence[Lesson]] = lambda _project: (),
    ) -> None:
        self._holdings = holdings
        self._place = place
        self._own_tmux = own_tmux
        # Set by whoever has a hub.
        self.agent_of: Callable[[SessionId], str | None] = lambda _session_id: None
        self.agent_way: Callable[[SessionId], AgentWay] = lambda _session_id: AgentWay.TELL
        # Sessions of a queue: its own watchdog sees to them.
        self.queued: frozenset[SessionId] = frozenset()
        # Those a person has brought back at this moment: nobody else does meanwhile.
        self.restoring: set[SessionId] = set()
        # What people said about a project's commands.
        self._taught = taught
        self._deaths = Deaths()

    def require_managed(self, session_id: SessionId) -> None:
        """Raises NotManaged; HostedByAgent, unless its agent is one that Wakeful brings back."""
        if self._holdings.find(session_id) is not None or self.agent_way(session_id) is AgentWay.TELL:
            self._holdings.get(session_id)

    async def ask_who_manages(self, session_id: SessionId) -> None:
        """Another daemon on this store may have started it a moment ago: found is only what nobody manages."""
        if self._holdings.find(session_id) is None:
            await self._holdings.read_again()

    def situation(self, watched: Watched, trouble: Trouble, now: Instant) -> Situation:
        verdict, activity = watched.verdict, watched.activity
        assert verdict is not None, "judged before it is treated"
        hosting = self._holdings.find(watched.subject.id)
        cwd = hosting.cwd if hosting is not None else activity.cwd
        program = hosting.argv[0] if hosting is not None and hosting.argv else ""
        is_client = watched.subject.provider in PROGRAMS
        limit = activity.limit_until
        found = next((each.since for each in verdict.findings if each.code is trouble.code), None)
        # Its folder may be one of a container: whoever starts it there sees whether it is gone.
        agent_name = self.agent_of(watched.subject.id)
        return Situation(
            code=trouble.code,
            state=verdict.state,
            agent=verdict.agent,
            # What a person stopped and went on with elsewhere is not Wakeful's to bring back.
            managed=hosting is not None and (trouble.approved or not hosting.is_ended),
            for_seconds=_LONG_ENOUGH_SECONDS if trouble.approved else now.wall - trouble.code_since,
            found_seconds=now.wall - found.wall if found is not None else None,
            since_progress_seconds=quiet_seconds(activity, now),
            effect=max(
                (each.verdict.effect for each in self.cut_off(watched)), key=_WORST.__getitem__, default=None
            ),
            resumable=is_client and activity.known > 0,
            renewable=is_client or PurePath(program).name in PROGRAMS,
            place_gone=cwd is not None and agent_name is None and not self._place.exists(cwd),
            stopped=self._is_stopped(watched) and not trouble.approved,
            lost=self.lost(watched) is not None,
            limit_in_seconds=limit.wall - now.wall if limit is not None else None,
            agent_name=agent_name,
            agent_way=self.agent_way(watched.subject.id),
        )

    def _is_stopped(self, watched: Watched) -> bool:
        """It ended on purpose: the session, or the process that ran it."""
        hosting, holder = self._holdings.find(watched.subject.id), watched.presence.newest
        process = holder.process if holder is not None else None
        return watched.presence.stopped or (hosting is not None and hosting.is_ended_in(process))

    def cut_off(self, watched: Watched) -> tuple[InterruptedCall, ...]:
        """The calls that had not come back, classed by the rules and by what was taught about its project."""
        project = project_shown(watched.subject, watched.activity, watched.presence)
        return apply_lessons(interrupted(watched.activity), self._taught(project))

    def calls_elsewhere(self, watched: Watched) -> list[str]:
        """The calls that were cut off and may have had effects elsewhere, in words."""
        return [_named(each) for each in self.cut_off(watched) if each.verdict.effect is not Effect.LOCAL]

    def lost(self, watched: Watched) -> Origin | None:
        """What took an idle managed session along, if it is gone and nobody stopped or closed it.

        A tmux server of somebody else's may have ended because its last window was closed: that is no loss.
        """
        hosting = self._holdings.find(watched.subject.id)
        verdict = watched.verdict
        if hosting is None or hosting.is_ended or hosting.closed:
            return None
        if verdict is None or verdict.state is not State.STOPPED:
            return None
        if verdict.agent is not Sight.DEAD or watched.subject.provider not in PROGRAMS:
            return None
        origin = lost_with(watched.presence, self._around(watched))
        if origin is not None and origin.cause is Cause.TMUX_SERVER and origin.scope != self._own_tmux:
            return None
        return origin

    def is_past(self, watched: Watched, code: Code | None, now: Instant) -> bool:
        """Whether its cause is over by itself: a limit was lifted, and going on is up to whoever runs it."""
        limit = watched.activity.limit_until
        if code is not Code.USAGE_LIMITED or limit is None or self._holdings.find(watched.subject.id):
            return False
        return limit.wall <= now.wall

    def is_shared(self, watched: Watched, code: Code | None) -> bool:
        """Whether its cause is one that others suffer from as well."""
        return self.origin(watched, code).cause is not Cause.SESSION

    def origin(self, watched: Watched, code: Code | None) -> Origin:
        """The cause its trouble is filed under."""
        around = self._around(watched)
        if code is None:
            lost = lost_with(watched.presence, around)
            assert lost is not None, "a session without a finding is treated only if it was lost"
            return lost
        origin = origin_of(code, watched.activity, watched.presence, around)
        alone = origin.cause is Cause.SESSION and code in DEATHS
        if alone and self._deaths.are_many(watched.subject.id):
            return Origin(Cause.MANY_DEATHS, around.host)
        return origin

    def notice(self, watched: Watched, now: Instant) -> None:
        """Count a session that was found dead, before any of those found with it is treated."""
        for finding in watched.verdict.findings if watched.verdict is not None else ():
            if finding.code in DEATHS:
                self._deaths.noticed(watched.subject.id, finding.since.wall, now.awake)

    def _around(self, watched: Watched) -> Surroundings:
        return Surroundings(
            provider=watched.subject.provider,
            session_id=watched.subject.id,
            host=self._place.host,
            boot_id=self._place.boot_id,
            oom_killed=self._place.oom_killed(),
        )


def _named(call: InterruptedCall) -> str:
    return f"{call.tool} {quoted(call.verdict.words)} ({call.verdict.effect})"
