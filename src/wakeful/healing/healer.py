"""The healer: asks the plan about sessions with problems, has each step carried out, and reports results.

`Telling` and `Holding` are its interfaces to alerts and checkpoints. Changes and deadlines wake it
(`schedule.py`), so healthy sessions cost nothing. Everything it must remember is stored before it acts.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from msgspec.structs import replace

from wakeful.alerts.model import called
from wakeful.control.gate import Act, Deed
from wakeful.core.clock import Clock
from wakeful.core.errors import WakefulError, WorldError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId, agent_member
from wakeful.healing.notifier import IncidentPapers
from wakeful.healing.plan import ACTS, Decision, Rules, Step, plan
from wakeful.healing.rate_limit import OUTAGES, Scouts
from wakeful.healing.recovered import WELL, ending_of
from wakeful.healing.revival import ELSEWHERE, Reviver, is_lost
from wakeful.healing.schedule import RETRY_SECONDS, Rounds
from wakeful.healing.situation import Circumstances
from wakeful.healing.trouble import (
    WORKS_AGAIN,
    Revival,
    Trouble,
    WorkStatus,
    inherited,
    is_answered,
    is_asked_anew,
    work_status,
)
from wakeful.healing.trouble_store import Troubles, reason_for
from wakeful.incidents.critical_event import ActionTaken, Happening
from wakeful.incidents.model import DEATHS, Cause, Fate, Incident, Origin
from wakeful.incidents.service import Incidents
from wakeful.judging.evidence import ended_by, why_final
from wakeful.judging.findings import Code
from wakeful.judging.session_record import SessionRecord
from wakeful.judging.summary import still_runs
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched
from wakeful.storage.base import Outcome, Store


class Telling(Protocol):
    """Everything people and programs hear of a trouble."""

    async def logged(
        self, happening: Happening, action: ActionTaken, trouble: Trouble, watched: Watched
    ) -> None:
        """Write a critical event."""

    async def told(
        self, incident: Incident, trouble: Trouble, record: SessionRecord, decision: Decision
    ) -> float | None:
        """Owe people an alert about the incident. Seconds: it is muted, ask again after these."""

    async def resolved(self, incident: Incident) -> None:
        """Owe people the news that it is over."""


class Holding(Protocol):
    """Asks a person about a session that must not go on by itself: its checkpoint."""

    async def hold(self, watched: Watched, trouble: Trouble) -> int:
        """The number of the checkpoint that asks, opened once."""

    async def gone_on(self, number: int, by: str) -> None:
        """It goes on because of this one. Raises AlreadyDecided if a person wanted otherwise."""

    async def called_off(self, number: int) -> None:
        """A person stopped the session it asks about: there is nothing left to decide."""

    async def settled(self, number: int) -> None:
        """What was decided is done, or its memory is kept."""


# Whoever nothing is heard of any more is looked at again: its log may be gone.
LOOK_SECONDS: Final = 3600.0
# Containers show their sessions this long after a start at the latest; who is not there by then is gone.
MISSING_SECONDS: Final = 60.0
VANISHED: Final = "its session is gone, and so is its log"
ABOUT_TO: Final = "it is about to bring back what it manages, one after the other"
BRAKED: Final = "too many revivals failed lately: none is tried for a while"
# What is said of a session without a finding: whether it was idle when it went.
GONE: Final = {True: "idle, and gone with what hosted it", False: "ended again before its work was done"}
ONE_AHEAD: Final = "one goes ahead, and the others follow once it is answered"
WENT_ON: Final = "whoever went on with it"
STOPPED: Final = "{why}: `wakeful session resume {id}` continues it"

log = logging.getLogger("wakeful.healing")


class HeldForPerson(WorldError):
    """{shown} was cut off inside {calls}, which may have happened. Look what is there (wakeful checkpoint list), then: wakeful session revive {shown} --yes"""

    code = "held-for-person"
    exit_code = 1
    http_status = 409


class HealerObserves(WorldError):
    """The mode is observe: Wakeful acts on nothing. What you decided is kept and done once daemon.mode is mine, after a start."""

    code = "healer-observes"
    exit_code = 1
    http_status = 409


class Healer:
    """Troubles in memory, each also a note in the store."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        roster: Roster,
        reviver: Reviver,
        incidents: Incidents,
        telling: Telling,
        holding: Holding,
        circumstances: Circumstances,
        rules: Callable[[], Rules],
    ) -> None:
        self._clock = clock
        self._roster = roster
        self._reviver = reviver
        self._incidents = incidents
        self._telling = telling
        self._holding = holding
        self._around = circumstances
        self._rules = rules
        self._troubles = Troubles(store, clock)
        self._rounds = Rounds(clock, self._treat_one)
        self._papers = IncidentPapers(incidents, reviver)
        self._scouts = Scouts(clock, roster)

    @property
    def concluded(self) -> Counter[tuple[Step, Outcome]]:
        """What was done to sessions since the start, and what came of it."""
        return self._reviver.concluded

    def trouble_of(self, session_id: SessionId) -> Trouble | None:
        return self._troubles.get(session_id)

    def seen(self, session_id: SessionId) -> None:
        """This session was judged anew, or is gone."""
        watched = self._roster.watched.get(session_id)
        if watched is None and session_id in self._troubles:
            self._rounds.look_at(session_id)
        if watched is None or watched.verdict is None or session_id in self._around.queued:
            return
        self._around.notice(watched, self._clock.now())
        if watched.verdict.findings or session_id in self._troubles or self._around.lost(watched) is not None:
            self._rounds.look_at(session_id)

    async def take_up(self) -> None:
        """Go on where an earlier daemon stopped: its troubles, the revivals it had begun, and whom it left lying."""
        await self._incidents.load()
        await self._troubles.load()
        for revival in await self._reviver.written():
            # By tasks of their own: doors open meanwhile.
            self._rounds.occupy(revival.session_id, asyncio.create_task(self._settle(revival)))
        for session_id in list(self._roster.watched):
            self.seen(session_id)
        for session_id in self._troubles.ids():
            if session_id not in self._roster.watched:
                self._rounds.look_at(session_id, MISSING_SECONDS)

    async def _settle(self, revival: Revival) -> None:
        """A revival that was begun is brought to its end, and told if nobody was."""
        try:
            await self._settle_one(revival)
        except WakefulError as error:
            log.warning("the revival of %s could not be settled: %s", revival.session_id, error)
        finally:
            self._rounds.look_at(revival.session_id)

    async def _settle_one(self, revival: Revival) -> None:
        watched = self._roster.watched.get(revival.session_id)
        trouble = self._troubles.get(revival.session_id)
        if watched is None or watched.record is None or trouble is None or trouble.work != revival.work:
            return
        settled = await self._keep_revived(await self._reviver.settle(watched, trouble, revival))
        if not trouble.logged:
            decision = Decision(revival.step, settled.did, spends=True)
            await self._told(watched, settled, decision, ActionTaken.REVIVAL_ATTEMPTED)
        if settled.heir is not None:
            await self._replaced(settled, settled.heir)

    async def revive(
        self, text: str, *, approved: bool, by: str = "somebody", happened: bool = False
    ) -> Deed:
        """A person wants it brought back now, which answers its checkpoint. Raises NotManaged, HeldForPerson, HealerObserves.

        A person's word starts the count anew: what was given up or spent belongs to what went before. `happened`: the
        person looked, and what was cut off has happened; the agent is told so.
        """
        watched = self._roster.find(text)
        session_id = watched.subject.id
        self._around.require_managed(session_id)
        calls = self._around.calls_elsewhere(watched)
        if calls and not approved:
            raise HeldForPerson(shown=session_id, calls="; ".join(calls))
        if self._rules().mode == "observe":
            # Before anything is let go of: what nobody may do answers no checkpoint.
            raise HealerObserves
        await self._rounds.undisturbed(session_id)
        treated = asyncio.ensure_future(self._treat_for_person(watched, by, happened=happened))
        self._rounds.occupy(session_id, treated)
        return await asyncio.shield(treated)

    async def give_up(self, session_id: SessionId, by: str) -> None:
        """A person wants nothing more done about it."""
        await self._rounds.undisturbed(session_id)
        trouble = self._troubles.get(session_id)
        if trouble is not None:
            ended = replace(
                trouble, held=False, approved=False, given_up=True, did=f"gave up: aborted by {by}"
            )
            incident = self._incidents.of(session_id)
            if incident is not None:
                await self._incidents.keep(incident.treated(session_id, Fate.ENDED, ended.did))
            await self._troubles.keep(ended)
            await self._leave_incident(session_id, f"aborted by {by}")

    async def _treat_for_person(self, watched: Watched, by: str, *, happened: bool) -> Deed:
        session_id = watched.subject.id
        known = self._troubles.get(session_id)
        if known is None and watched.record is not None and self._is_in_trouble(watched):
            # A yes may come before the healer has looked at all.
            known = await self._troubles.of(watched, self._code_of(watched))
        if known is not None:
            work = f"{session_id}@{self._clock.now().wall:.3f}"
            anew = replace(known, work=work, approved=True, given_up=False, revivals=0, revived_at=None)
            anew = replace(anew, happened=happened)
            await self._let_go(known, anew, by)
        decision = await self._treat_one(session_id, asked=True)
        trouble = self._troubles.get(session_id)
        if decision is None or trouble is None:
            presence = watched.presence
            why = why_final(presence.heir, by_gateway=presence.by_gateway)
            words = STOPPED.format(why=why, id=session_id) if presence.stopped else "nothing is wrong with it"
            return Deed(session_id, Act.RESUME, session_id, Outcome.DECLINED, words)
        if decision.step not in ACTS:
            return Deed(session_id, Act.RESUME, session_id, Outcome.DECLINED, decision.reason)
        return Deed(session_id, Act.RESUME, session_id, self._reviver.last_outcome(session_id), trouble.did)

    def look_again(self) -> None:
        """Something that binds everybody has changed: a pause, a mode."""
        for session_id in self._troubles.ids():
            self._rounds.look_at(session_id)

    async def run(self) -> None:
        """Treat who is due, until cancelled."""
        await self._rounds.run()

    async def _treat_one(self, session_id: SessionId, *, asked: bool = False) -> Decision | None:
        """What was decided; None if nothing is wrong."""
        if session_id in self._around.restoring:
            self._rounds.look_at(session_id, RETRY_SECONDS)
            return None
        watched = await self._judged(session_id)
        if watched is None:
            return None
        if not self._is_in_trouble(watched):
            await self._calm_down(watched)
            return None
        await self._forget_replaced(watched)
        code = self._code_of(watched)
        trouble = await self._troubles.of(watched, code)
        if not trouble.told:
            await self._around.ask_who_manages(session_id)
        now = self._clock.now()
        # A pause stops what Wakeful does by itself, not what a person asks for.
        rules = replace(self._rules(), paused_by=None) if asked else self._rules()
        decision = plan(self._around.situation(watched, trouble, now), trouble.history(now.wall), rules)
        if decision.step in ACTS and decision.spends and not asked:
            decision = self._put_off(watched, code) or decision
        if decision.step is not Step.WAIT or decision.tells:
            if not trouble.logged:
                summary = _summary(watched)
                trouble = replace(trouble, reason=reason_for(watched, code, now), summary=summary)
            trouble = await self._in_incident(watched, trouble)
            await self._carry_out(watched, trouble, decision, asked=asked)
        elif decision.again_seconds is not None and self._around.is_shared(watched, code):
            # Whoever tells of the cause tells of this one too; what passes leaves again.
            await self._in_incident(watched, trouble, ABOUT_TO)
        if self._around.is_past(watched, code, now):
            await self._leave_incident(session_id)
        again_seconds = LOOK_SECONDS if decision.again_seconds is None else decision.again_seconds
        self._rounds.look_at(session_id, again_seconds)
        return decision

    async def _judged(self, session_id: SessionId) -> Watched | None:
        """The session, if it is there and was judged; the healer is told again once it is."""
        watched = self._found(session_id)
        if watched is None:
            await self._dismiss(session_id, VANISHED)
        return watched if watched is not None and watched.verdict and watched.record else None

    def _found(self, session_id: SessionId) -> Watched | None:
        """None: its log is gone. One that lists fold for its age is there, and its problem is still known."""
        if session_id in self._roster.old and session_id in self._troubles:
            self._roster.unfold(session_id, True)
        return self._roster.watched.get(session_id)

    def _put_off(self, watched: Watched, code: Code | None) -> Decision | None:
        """Why its one revival would be wasted at this moment, if it would."""
        braked_seconds = self._reviver.pace.braked_seconds
        if braked_seconds > 0:
            return Decision(Step.NOTIFY, BRAKED, braked_seconds)
        wait_seconds = self._scouts.wait_seconds(watched.subject.id, self._around.origin(watched, code))
        return Decision(Step.NOTIFY, ONE_AHEAD, wait_seconds) if wait_seconds > 0 else None

    def _is_in_trouble(self, watched: Watched) -> bool:
        return self._code_of(watched) is not None or self._around.lost(watched) is not None

    def _code_of(self, watched: Watched) -> Code | None:
        """What is wrong with it. An agent that ended after its revival, before its work did, is dead without a finding."""
        if watched.verdict is not None and watched.verdict.findings:
            return watched.verdict.findings[0].code
        trouble = self._troubles.get(watched.subject.id)
        lost = trouble is not None and not watched.presence.stopped and is_lost(watched, trouble)
        return Code.SESSION_DEAD if lost else None

    async def _forget_replaced(self, watched: Watched) -> None:
        """A person asked for something else since: what was spent before does not count."""
        trouble = self._troubles.get(watched.subject.id)
        if trouble is not None and is_asked_anew(trouble, watched.activity):
            await self._end(await self._let_go(trouble, trouble, WENT_ON))

    async def _carry_out(
        self, watched: Watched, trouble: Trouble, decision: Decision, *, asked: bool
    ) -> None:
        match decision.step:
            case Step.NOTIFY | Step.WAIT:
                await self._told(watched, trouble, decision, ActionTaken.NONE)
            case Step.HOLD:
                await self._hold(watched, trouble, decision)
            case Step.GIVE_UP:
                await self._give_up(watched, trouble, decision)
            case _:
                await self._act(watched, trouble, decision, asked=asked)

    async def _hold(self, watched: Watched, trouble: Trouble, decision: Decision) -> None:
        """Once for each trouble that is held; it may have been told before, when nothing could be done yet."""
        if not trouble.held:
            number = await self._holding.hold(watched, trouble)
            still = still_runs(watched.presence.orphans)
            did = f"held it: {decision.reason} (checkpoint {number}){f'; {still}' if still else ''}"
            held = replace(trouble, held=True, checkpoint=number, did=did, logged=False, told=False)
            held = replace(held, outcome_due_at=None)
            # At once: somebody may answer before everybody is told.
            trouble = await self._troubles.keep(held)
        await self._told(watched, trouble, decision, ActionTaken.HELD_FOR_APPROVAL)

    async def _let_go(self, held: Trouble, loose: Trouble, by: str) -> Trouble:
        """What was held goes on, and its checkpoint says because of whom; else only kept."""
        asked = held.checkpoint if held.held else None
        if asked is not None:
            await self._holding.gone_on(asked, by)
        kept = await self._troubles.keep(replace(loose, held=False))
        if asked is not None:
            await self._holding.settled(asked)
        return kept

    async def _act(self, watched: Watched, trouble: Trouble, decision: Decision, *, asked: bool) -> None:
        if trouble.held:
            trouble = await self._let_go(trouble, trouble, "what was taught since")
        if decision.spends:
            trouble = await self._troubles.keep(await self._papers.file(watched, trouble))
            reach("heal.filed")
        revived = await self._reviver.revive(watched, trouble, decision, asked=asked)
        if revived is None:
            self._scouts.came_to_nothing(trouble.session_id)
        else:
            await self._keep_revived(revived)
            reach("heal.kept")
        if revived is not None and revived.did != ELSEWHERE:
            await self._conclude(watched, trouble, revived, decision, asked=asked)
        self._rounds.look_at(trouble.session_id, RETRY_SECONDS)

    async def _keep_revived(self, revived: Trouble) -> Trouble:
        """Whoever took its place has its budget, before anything else can happen to it."""
        if revived.heir is not None:
            await self._troubles.keep(inherited(revived, revived.heir))
            self._rounds.look_at(revived.heir)
        return await self._troubles.keep(revived)

    async def _conclude(
        self, watched: Watched, before: Trouble, trouble: Trouble, decision: Decision, *, asked: bool
    ) -> None:
        """What was done here, or could not be: said once."""
        await self._papers.note(trouble, decision)
        # It may have been told before, when nothing could be done yet; whoever asked for it now knows of it.
        news = replace(trouble, logged=False, told=asked and before.told)
        if asked:
            # A person waits for the answer.
            news = replace(news, outcome_due_at=None)
        if trouble.declined:
            self._scouts.came_to_nothing(trouble.session_id)
            await self._told(watched, trouble if before.declined else news, decision, ActionTaken.NONE)
            return
        if decision.spends:
            self._reviver.pace.ended(gave_up=False)
        if decision.spends or before.code is None:
            await self._told(watched, news, decision, ActionTaken.REVIVAL_ATTEMPTED)
        if trouble.heir is not None and trouble.revival_seen:
            await self._replaced(trouble, trouble.heir)

    async def _replaced(self, trouble: Trouble, heir: SessionId) -> None:
        """Another conversation has taken its place, which nobody saw at work yet: this one is over and did not recover."""
        await self._leave_incident(trouble.session_id, ended_by(heir))
        await self._end(trouble)

    async def _end(self, trouble: Trouble) -> None:
        await self._troubles.drop(trouble)
        await self._reviver.forget(trouble)

    async def _give_up(self, watched: Watched, trouble: Trouble, decision: Decision) -> None:
        self._reviver.pace.ended(gave_up=True)
        self._scouts.given_up(trouble.session_id, self._around.origin(watched, trouble.code))
        before = f"{trouble.did}; then " if trouble.did else ""
        did = f"{before}gave up: {decision.reason}"
        ended = replace(trouble, given_up=True, did=did, logged=False, told=False, outcome_due_at=None)
        await self._told(watched, ended, decision, ActionTaken.NONE, Happening.REVIVAL_FAILED)

    async def _told(
        self,
        watched: Watched,
        trouble: Trouble,
        decision: Decision,
        action: ActionTaken,
        happening: Happening = Happening.SESSION_UNHEALTHY,
    ) -> None:
        """One line in the log for each trouble and each turn it takes; one alert, which says what came of a revival."""
        assert watched.record is not None, "judged before it is treated"
        muted_seconds, later_seconds = None, 0.0
        incident = await self._papers.note(trouble, decision)
        if incident is not None and incident.cause is Cause.SESSION and decision.step in ACTS:
            later_seconds = trouble.outcome_in_seconds(self._clock.now().wall)
        if later_seconds:
            self._rounds.look_at(trouble.session_id, later_seconds)
        elif incident is not None and not trouble.told:
            muted_seconds = await self._telling.told(incident, trouble, watched.record, decision)
        # After people are told: a forge may take its time.
        if not trouble.logged:
            if action is not ActionTaken.REVIVAL_ATTEMPTED:
                trouble = await self._papers.file(watched, trouble)
            await self._telling.logged(happening, action, trouble, watched)
        if muted_seconds is not None:
            self._rounds.look_at(trouble.session_id, muted_seconds)
        if not (trouble.logged and trouble.told):
            told = trouble.told or (muted_seconds is None and not later_seconds)
            await self._troubles.keep(replace(trouble, logged=True, told=told))

    async def _tell_outcome(self, watched: Watched, trouble: Trouble, did: str = "") -> Trouble:
        """People hear of a revival now: `did` is what came of it; without it, nothing was seen of it for long."""
        if trouble.outcome_due_at is None:
            return trouble
        in_seconds = trouble.outcome_in_seconds(self._clock.now().wall)
        if not did and in_seconds > 0:
            self._rounds.look_at(trouble.session_id, in_seconds)
            return trouble
        known = replace(trouble, did=f"{trouble.did}; {did}" if did else trouble.did, outcome_due_at=None)
        kept = await self._troubles.keep(known)
        if not kept.told:
            await self._told(watched, kept, Decision(Step.RESUME, kept.did), ActionTaken.REVIVAL_ATTEMPTED)
        return self._troubles.get(trouble.session_id) or kept

    async def _calm_down(self, watched: Watched) -> None:
        """Its finding is gone. The trouble is over when its turn has ended well."""
        trouble = self._troubles.get(watched.subject.id)
        if trouble is None:
            return
        if watched.presence.stopped:
            await self._dismiss(
                trouble.session_id, ended_by(watched.presence.heir, by_gateway=watched.presence.by_gateway)
            )
            return
        assert watched.verdict is not None, "judged before it is treated"
        status = work_status(trouble, watched.activity, watched.verdict)
        if trouble.is_spent and status is WorkStatus.CUT_SHORT:
            await self._dismiss(trouble.session_id, "a person interrupted it")
            return
        if status is WorkStatus.UNCLEAR:
            unclear_since = trouble.unclear_since or self._clock.now().wall
            unclear = replace(trouble, unclear_since=unclear_since, revived_at=None)
            await self._tell_outcome(watched, await self._troubles.keep(unclear))
            return
        if trouble.calm_since is None and self._awaits_answer(watched):
            return
        if trouble.calm_since is None:
            if not await self._seen_well(watched, trouble):
                return
            trouble = await self._tell_outcome(watched, trouble, WORKS_AGAIN)
            if trouble.logged:
                await self._telling.logged(Happening.SESSION_RECOVERED, ActionTaken.NONE, trouble, watched)
            await self._leave_incident(trouble.session_id)
            # A yes was for the calls that were cut off then.
            now = self._clock.now().wall
            calm = replace(trouble, calm_since=now, revived_at=None, approved=False, happened=False)
            trouble = await self._let_go(trouble, calm, WENT_ON)
        if status is not WorkStatus.RUNNING:
            await self._end(trouble)

    async def _seen_well(self, watched: Watched, trouble: Trouble) -> bool:
        """Whether it is well again. One that merely left is out of its incident, which says how; what waits for a
        person's decision goes on waiting."""
        assert watched.verdict is not None, "judged before it is treated"
        now = self._clock.now()
        ending = ending_of(trouble, watched.verdict, watched.activity, watched.presence, now)
        if ending == WELL:
            return True
        if ending.in_seconds > 0:
            self._rounds.look_at(trouble.session_id, ending.in_seconds)
        elif not trouble.held:
            trouble = await self._tell_outcome(watched, trouble, ending.words)
            await self._leave_incident(trouble.session_id, ending.words)
            if watched.activity.in_turn:
                # What comes back after it was said to be closed is said again.
                await self._troubles.keep(replace(trouble, told=False))
            else:
                await self._end(trouble)
        return False

    def _awaits_answer(self, watched: Watched) -> bool:
        """In an outage a turn that has begun proves nothing yet."""
        incident, activity = self._incidents.of(watched.subject.id), watched.activity
        in_outage = incident is not None and incident.cause in OUTAGES
        return in_outage and activity.in_turn and not is_answered(activity)

    async def _dismiss(self, session_id: SessionId, because: str) -> None:
        """Somebody ended it: nothing of it is anybody's trouble any more."""
        trouble = self._troubles.get(session_id)
        if trouble is None:
            return
        await self._leave_incident(session_id, because)
        if trouble.held and trouble.checkpoint is not None:
            await self._holding.called_off(trouble.checkpoint)
        await self._end(trouble)

    async def _leave_incident(self, session_id: SessionId, ended: str = "") -> None:
        """`ended`: how it left, where it was not seen well again."""
        left = await self._incidents.leave(session_id, ended)
        if left is not None and not left.is_open:
            await self._telling.resolved(left)
            self._papers.over(left)
            self._scouts.over(Origin(left.cause, left.scope))

    async def _in_incident(self, watched: Watched, trouble: Trouble, did: str = "") -> Trouble:
        """Filed under its cause, as far as that is known by now. `did` is what to say as long as nothing was done."""
        origin, known = self._around.origin(watched, trouble.code), self._incidents.of(trouble.session_id)
        if known is not None and {known.cause, origin.cause} == {Cause.SESSION, Cause.MANY_DEATHS}:
            # How many others ended is known a moment later; what was told once is not told again for that.
            origin = Origin(known.cause, known.scope)
        summary = _summary(watched) or GONE[trouble.code is None]
        name = called(watched.record) if watched.record is not None else ""
        limit = watched.activity.limit_until if origin.cause is Cause.USAGE_LIMIT else None
        until = limit.wall if limit is not None else None
        agent = agent_member(watched.subject.agent) if watched.subject.agent is not None else None
        died = trouble.code in DEATHS
        incident = await self._incidents.join(
            trouble.session_id, origin, summary, name, until=until, instead_of=agent, died=died
        )
        if did and not incident.did:
            incident = await self._incidents.keep(replace(incident, did=did))
        return await self._troubles.keep(replace(trouble, incident=incident.id))


def _summary(watched: Watched) -> str:
    """Its first finding's own words."""
    findings = watched.verdict.findings if watched.verdict is not None else ()
    return findings[0].summary if findings else ""
