"""Carries out one resume, from its issue to its outcome: filed, budgeted, performed, verified and stored.

The budget is spent in the transaction that stores the `Revival`, so of several daemons one acts. A crash at
any point leaves a stored `Revival` that has begun; the next start inspects the state and continues from
there. It never acts twice.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Protocol
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from wakeful.control.controller import Hands, brief_of
from wakeful.control.gate import Deed
from wakeful.control.ownership import Holdings
from wakeful.core.clock import Clock, iso
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WakefulError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.healing.plan import BUDGET_SECONDS, OUTCOME_SECONDS_MAX, REVIVALS_MAX, Decision, Step
from wakeful.healing.rate_limit import Pace
from wakeful.healing.trouble import (
    HAPPENED,
    Revival,
    Stage,
    Trouble,
    WorkStatus,
    completed_remote,
    context,
    steering,
    work_status,
)
from wakeful.incidents.issue_tracker import Forge, Report
from wakeful.judging.events import CallEnded, CallStarted, Event
from wakeful.judging.findings import Code
from wakeful.judging.session_record import safe
from wakeful.sessions.session import Watched
from wakeful.storage.base import Note, Outcome, Store
from wakeful.storage.readable import values

KIND: Final = "revival"
# A person looks at the last few calls; an agent's brief needs the remote ones among many more.
CALLS_FILED_MAX: Final = 20
EVENTS_RECALLED_MAX: Final = 400
# A forge that is down is asked again after this.
FILE_AGAIN_SECONDS: Final = 600.0
# An agent that was seen ready is found in its pane within this; a busy host needs many times what it takes.
AGENT_HEARS_SECONDS_MAX: Final = 30.0
AGENT_POLL_SECONDS: Final = 0.1
# Each attempt to tell it is written down.
AGENT_AGAIN_SECONDS: Final = 1.0
_decode: Final = json_decoder(Revival)
ELSEWHERE: Final = "another daemon on this store brings it back"

log = logging.getLogger("wakeful.healing")


class Past(Protocol):
    """What a session's log said."""

    def recall_events(self, session_id: SessionId, limit: int) -> list[Event]:
        """Its newest events, oldest first."""


class Reviver:
    """Carries out what was planned, within the work's budget."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        hands: Hands,
        asked: Hands,
        holdings: Holdings,
        pace: Pace,
        past: Past,
        forge: Forge | None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._hands = hands
        # The same hands when a person asked: a pause does not stop those.
        self._asked = asked
        self._holdings = holdings
        self.pace = pace
        self._past = past
        self._forge = forge
        # Set by whoever has a hub: starts the agent that hosts a session, in its conversation; None where none does.
        self.start_agent: Callable[[SessionId], Awaitable[Deed] | None] = lambda _session_id: None
        self._outcomes: dict[SessionId, Outcome] = {}
        # What was done since the start, and what came of it.
        self.concluded: Counter[tuple[Step, Outcome]] = Counter()

    def last_outcome(self, session_id: SessionId) -> Outcome:
        """How its last act ended, as far as this daemon did one."""
        return self._outcomes.get(session_id, Outcome.UNVERIFIED)

    async def file(self, watched: Watched, trouble: Trouble) -> Trouble:
        """Have an issue about it, if one is wanted; never later than the forge's own deadline."""
        now = self._clock.now().wall
        tried_lately = trouble.filed_at is not None and now - trouble.filed_at < FILE_AGAIN_SECONDS
        if self._forge is None or trouble.issue_url is not None or trouble.code is None or tried_lately:
            return trouble
        filing = await self._forge.file(self._report(watched, trouble))
        if filing.url is None:
            log.warning("no issue for %s: %s", trouble.session_id, filing.words)
        return replace(trouble, issue_url=filing.url, filed_at=now)

    async def revive(
        self, watched: Watched, trouble: Trouble, decision: Decision, *, asked: bool = False
    ) -> Trouble | None:
        """Do it, if its budget allows; the trouble with what was done. `asked`: a person wants it.

        None: it has passed while it waited for its turn, and whoever goes on now is not disturbed.
        """
        await self.pace.turn()
        if _has_passed(watched, trouble):
            return None
        hosting = self._holdings.find(trouble.session_id)
        now = self._clock.now().wall
        revival = Revival(
            id=uuid4().hex,
            session_id=trouble.session_id,
            work=trouble.work,
            step=decision.step,
            began_at=now,
            epoch=hosting.epoch if hosting is not None else 0,
        )
        if decision.spends and not await self._spend(revival):
            # Somebody else revives it, or did, and tells people: what comes of that is seen, not repeated.
            return replace(trouble, revivals=REVIVALS_MAX, revived_at=now, did=ELSEWHERE)
        reach("heal.spent")
        return await self.carry_out(watched, trouble, revival, spent=decision.spends, asked=asked)

    async def carry_out(
        self,
        watched: Watched,
        trouble: Trouble,
        revival: Revival,
        *,
        spent: bool = True,
        asked: bool = False,
    ) -> Trouble:
        """The act of a revival that has begun, and its outcome."""
        try:
            deed = await self._act(self._asked if asked else self._hands, watched, trouble, revival)
            outcome, words = deed.outcome, deed.words
            revival = replace(revival, heir=self._heir_of(trouble, deed))
        except WakefulError as error:
            outcome, words = Outcome.DECLINED, str(error)
        reach("heal.acted")
        self._outcomes[revival.session_id] = outcome
        self.concluded[revival.step, outcome] += 1
        if spent:
            await self._conclude(revival, outcome, words)
        reach("heal.concluded")
        return self._marked(trouble, revival, outcome, words, spent=spent)

    def _heir_of(self, trouble: Trouble, deed: Deed) -> SessionId | None:
        """The conversation that was begun in its place, if one was and is there."""
        is_other = deed.session_id != trouble.session_id
        return deed.session_id if is_other and self._holdings.find(deed.session_id) is not None else None

    async def written(self) -> list[Revival]:
        """Every revival that is remembered, oldest first: what a restart has to look at."""
        found = values(await self._store.notes(KIND), _decode)
        return sorted(found, key=lambda each: each.began_at)

    async def settle(self, watched: Watched, trouble: Trouble, revival: Revival) -> Trouble:
        """Go on with a revival a crash cut off: nothing reached the session yet, or it is seen what did."""
        if revival.stage is Stage.DONE and trouble.revival_id == revival.id:
            # Kept before the restart: what became of it since is newer.
            return trouble
        if revival.stage is Stage.DONE:
            return self._marked(trouble, revival, Outcome(revival.outcome), revival.words, spent=True)
        hosting = self._holdings.find(revival.session_id)
        last_at = watched.activity.last_at
        heard_since = last_at is not None and last_at.wall >= revival.began_at
        follows = hosting is not None and hosting.epoch > revival.epoch and watched.presence.living
        # A new conversation is known by its revival: whoever begins it again finds it.
        if revival.step is Step.FRESH or (not heard_since and not follows):
            await self.pace.turn()
            return await self.carry_out(watched, trouble, revival)
        words = "Wakeful ended in the middle of it; the session was heard since"
        await self._conclude(revival, Outcome.RECOVERED, words)
        self.concluded[revival.step, Outcome.RECOVERED] += 1
        return self._marked(trouble, revival, Outcome.RECOVERED, words, spent=True)

    async def forget(self, trouble: Trouble) -> None:
        """The trouble is over; that its budget was spent is remembered elsewhere."""
        if trouble.revival_id is not None:
            await self._store.drop_note(KIND, trouble.revival_id)

    async def _spend(self, revival: Revival) -> bool:
        note = _note(revival)
        return await self._store.spend(
            revival.work, note, times_max=REVIVALS_MAX, window_seconds=BUDGET_SECONDS
        )

    async def _conclude(self, revival: Revival, outcome: Outcome, words: str) -> None:
        if outcome is Outcome.DECLINED:
            # Nothing was done: what was not used is given back.
            await self._store.give_back(revival.work, _note(revival))
        else:
            done = replace(revival, stage=Stage.DONE, outcome=outcome.value, words=words)
            await self._store.keep_note(_note(done))

    def _marked(
        self, trouble: Trouble, revival: Revival, outcome: Outcome, words: str, *, spent: bool
    ) -> Trouble:
        now = self._clock.now().wall
        trouble = replace(trouble, acted_at=now)
        if outcome is Outcome.DECLINED:
            return replace(trouble, did=f"could not {_VERBS[revival.step]}: {words}", declined=True)
        trouble = replace(trouble, declined=False)
        did = f"{_NAMES[revival.step]}: {outcome} ({words})"
        if not spent and revival.step is Step.STEER:
            limited = trouble.code is Code.USAGE_LIMITED
            return replace(trouble, did=did, steered_at=now, continued_after_limit=limited)
        limited = trouble.continued_after_limit or trouble.code is Code.USAGE_LIMITED
        # Not counted twice where a restart looks at it again.
        revivals = trouble.revivals + (1 if spent and trouble.revival_id != revival.id else 0)
        return replace(
            trouble,
            did=did,
            revivals=revivals,
            revived_at=now,
            revival_began_at=revival.began_at,
            revival_seen=outcome is Outcome.RECOVERED,
            revival_id=revival.id if spent else trouble.revival_id,
            heir=revival.heir,
            # A conversation that was replaced is over: nothing more comes of it.
            outcome_due_at=now + OUTCOME_SECONDS_MAX if spent and revival.step is not Step.FRESH else None,
            continued_after_limit=limited,
        )

    async def _act(self, hands: Hands, watched: Watched, trouble: Trouble, revival: Revival) -> Deed:
        session_id = trouble.session_id
        if self._holdings.find(session_id) is None:
            if (starting := self.start_agent(session_id)) is not None:
                # Why is known before it runs again.
                context = self._context(watched, trouble)
                return await self._with_agent(hands, watched, await starting, context)
            await hands.adopt(session_id)
        match revival.step:
            case Step.STEER:
                return await self._steer(hands, trouble)
            case Step.INTERRUPT:
                return await self._interrupt(hands, watched, trouble)
            case Step.FRESH:
                return await self._fresh(hands, watched, trouble, revival.id)
            case _:
                return await self._resume(hands, watched, trouble)

    async def _with_agent(self, hands: Hands, watched: Watched, started: Deed, context: str) -> Deed:
        """Tell a session what was cut off, once its agent of the hub is back and can be spoken to."""
        if started.outcome is not Outcome.RECOVERED:
            return started
        reach("heal.agent_started")
        session_id = watched.subject.id
        until = self._clock.now().awake + AGENT_HEARS_SECONDS_MAX
        while not hands.reach(session_id).path_open and self._clock.now().awake < until:
            await self._clock.sleep_until(self._clock.now().awake + AGENT_POLL_SECONDS)
        prompt = brief_of(watched, self._clock.now().wall, context)
        if prompt is None:
            return started
        told = await hands.deliver(session_id, prompt)
        while told.outcome is Outcome.DECLINED and self._clock.now().awake < until:
            # Nothing was typed: a client that calls itself idle may have yet to show its input line.
            await self._clock.sleep_until(self._clock.now().awake + AGENT_AGAIN_SECONDS)
            told = await hands.deliver(session_id, prompt)
        if told.outcome is Outcome.INEFFECTIVE:
            # A client that has just come up may lose a paste. Enter was not pressed, and a draft would refuse it.
            told = await hands.deliver(session_id, prompt)
        outcome = told.outcome if told.outcome is Outcome.RECOVERED else Outcome.UNVERIFIED
        return replace(started, outcome=outcome, words=f"{started.words}; its prompt: {told.words}")

    async def _steer(self, hands: Hands, trouble: Trouble) -> Deed:
        return await hands.deliver(trouble.session_id, steering(trouble.code))

    async def _interrupt(self, hands: Hands, watched: Watched, trouble: Trouble) -> Deed:
        """Cut its turn short and tell it why; where that does not help, replace its process."""
        deed = await hands.interrupt(trouble.session_id)
        if deed.outcome is not Outcome.RECOVERED:
            return await self._resume(hands, watched, trouble)
        return await self._steer(hands, trouble)

    async def _resume(self, hands: Hands, watched: Watched, trouble: Trouble) -> Deed:
        """The old owner ends and is seen dead; then a new one goes on in the same conversation."""
        if watched.presence.living or watched.presence.orphans:
            # Tools that outlived their agent go with it: it will run them again.
            ended = await hands.stop(trouble.session_id, final=False)
            if ended.outcome is not Outcome.RECOVERED and watched.presence.living:
                return ended
            still = hands.still_runs(trouble.session_id)
            if ended.outcome is not Outcome.RECOVERED and still:
                # Tried again: once it has ended, its agent can run it again.
                return replace(ended, outcome=Outcome.DECLINED, words=still)
            reach("heal.stopped")
        context = self._context(watched, trouble)
        resumed = await hands.resume(trouble.session_id, context=context, approved=True)
        still = hands.still_runs(trouble.session_id)
        return replace(resumed, words=f"{resumed.words}; {still}") if still else resumed

    async def _fresh(self, hands: Hands, watched: Watched, trouble: Trouble, key: str) -> Deed:
        if watched.presence.living:
            ended = await hands.stop(trouble.session_id, final=False)
            if ended.outcome is not Outcome.RECOVERED:
                return ended
        return await hands.begin_anew(trouble.session_id, self._context(watched, trouble), key)

    def _context(self, watched: Watched, trouble: Trouble) -> str:
        if trouble.code is None:
            return HAPPENED if trouble.happened else ""
        events = self._past.recall_events(trouble.session_id, EVENTS_RECALLED_MAX)
        why, remote = _why(watched, trouble), completed_remote(events)
        return context(why, trouble.issue_url, remote, happened=trouble.happened)

    def _report(self, watched: Watched, trouble: Trouble) -> Report:
        started = watched.activity.first_at
        now = self._clock.now()
        return Report(
            project=trouble.project,
            session_id=trouble.session_id,
            reason=str(trouble.code),
            summary=_why(watched, trouble),
            duration_seconds=now.wall - started.wall if started is not None else 0.0,
            calls=tuple(_calls(self._past.recall_events(trouble.session_id, EVENTS_RECALLED_MAX))),
        )


_NAMES: Final = {
    Step.STEER: "told it to go on",
    Step.INTERRUPT: "cut its turn short",
    Step.RESUME: "resumed its conversation",
    Step.FRESH: "began anew",
}

_VERBS: Final = {
    Step.STEER: "tell it to go on",
    Step.INTERRUPT: "cut its turn short",
    Step.RESUME: "resume its conversation",
    Step.FRESH: "begin anew",
}


def _note(revival: Revival) -> Note:
    return Note(KIND, revival.id, msgspec.json.encode(revival))


def _has_passed(watched: Watched, trouble: Trouble) -> bool:
    """Whether what it was to be revived for is not found any more: somebody else, or it itself, was quicker."""
    findings = watched.verdict.findings if watched.verdict is not None else ()
    if trouble.code is None or (not findings and is_lost(watched, trouble)):
        return bool(watched.presence.living)
    return all(each.code is not trouble.code for each in findings)


def is_lost(watched: Watched, trouble: Trouble) -> bool:
    """Whether its agent was ended in the middle of its work and no finding says so."""
    assert watched.verdict is not None, "judged before it is treated"
    return work_status(trouble, watched.activity, watched.verdict) is WorkStatus.LOST


def _why(watched: Watched, trouble: Trouble) -> str:
    """The finding's own words, else its code."""
    findings = watched.verdict.findings if watched.verdict is not None else ()
    found = next((each for each in findings if each.code is trouble.code), None)
    return found.summary if found is not None else str(trouble.code)


def _calls(events: Sequence[Event]) -> Iterator[tuple[str, str, str, str]]:
    """The newest calls: when, which tool, about what, and how it ended."""
    ends = {each.call: each for each in events if isinstance(each, CallEnded)}
    started = [each for each in events if isinstance(each, CallStarted)]
    for call in started[-CALLS_FILED_MAX:]:
        end = ends.get(call.call)
        how = "open" if end is None else "error" if end.is_error else "ok"
        yield iso(call.at), call.tool, safe(call.input.decode(errors="replace")), how
