"""The action gate, which every action on an agent passes, and the check of open intents after a crash.

The gate runs one action at a time per session: it stores the intent, reads the evidence again, performs the
action, and stores the outcome. A crash in between leaves an open intent. `reconcile` concludes it at the next
start by inspecting the host and never repeats the action: it finds a start by the process that carries the
intent id, or by the conversation that the client named; a stop by the absence of processes; a typed prompt by
its rest in the input line. Anything without a trace is unverified, and the session's note asks a person to
send an unseen prompt again.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.driver import ActionResult, HostProcesses, TypedText
from wakeful.control.ownership import ManagedSessions
from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WakefulError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.leases import ConversationHeld
from wakeful.core.managed_session import INTENT_VARIABLE, SESSION_VARIABLE, ManagedSession
from wakeful.core.process import Process, ProcessState
from wakeful.judging.findings import State
from wakeful.judging.session_record import safe
from wakeful.storage.base import ActionOutcome, Conclusion, Intent, Store

INTERRUPTED: Final = "Wakeful ended in the middle of it: its effect is unknown"


class ActionKind(StrEnum):
    """The actions on an agent."""

    START = "start"
    RESUME = "resume"
    DELIVER = "deliver"
    ANSWER = "answer"
    INTERRUPT = "interrupt"
    STOP = "stop"


class ActionIntent(Struct, frozen=True):
    """The facts by which a restart looks for the effect of an action; `planned` is the session it would start."""

    planned: ManagedSession | None = None
    # Only the length of a prompt: its text is not stored twice.
    prompt_chars: int = 0
    question_id: str = ""
    # The stop that a person asked for: nothing resumes the session.
    final: bool = False


class ActionRecord(Struct, frozen=True):
    """A requested action and its outcome. `words` describe what was seen; `untrusted` is text from a screen."""

    id: str
    act: ActionKind
    session_id: SessionId
    outcome: ActionOutcome
    words: str
    untrusted: str = ""
    # The epoch of the process that got the prompt; 0 if none did.
    epoch: int = 0


_PENDING_STATES: Final = {
    ActionKind.START: State.STARTING,
    ActionKind.RESUME: State.STARTING,
    ActionKind.STOP: State.STOPPING,
}

Precondition = Callable[[], str | None]
"""The reason why an action must not happen now, from the newest evidence; None if there is none."""

PerformAction = Callable[[str], Awaitable[ActionResult]]
"""The action itself. It gets the intent's id, which every process that it starts carries."""


class GateListener(Protocol):
    def refresh(self, session_id: SessionId) -> None:
        """Read everything new about a session, now."""

    def on_action(self, session_id: SessionId) -> None:
        """A start or stop of a session began or ended."""

    def on_concluded(self, session_id: SessionId) -> None:
        """An outcome is stored: data that was kept to find it out can be deleted."""


class ActionGate:
    """The only path to a driver. `automatic_precondition`: for actions that no person asked for, such as a pause."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        listener: GateListener,
        automatic_precondition: Precondition = lambda: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._listener = listener
        self._automatic_precondition = automatic_precondition
        self._pending_states: dict[SessionId, State] = {}
        self._locks: defaultdict[SessionId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._completed_counts: Counter[SessionId] = Counter()
        self._last_prompts: dict[SessionId, Instant] = {}

    def completed_count(self, session_id: SessionId) -> int:
        """The number of actions on this session that were not declined. If it grows, another action came first."""
        return self._completed_counts[session_id]

    def pending_state(self, session_id: SessionId) -> State | None:
        """`starting` or `stopping`, while such an action is under way."""
        return self._pending_states.get(session_id)

    def last_prompt_at(self, session_id: SessionId) -> Instant | None:
        """When the newest prompt was delivered here; its log may not show it yet."""
        return self._last_prompts.get(session_id)

    def refresh(self, session_id: SessionId) -> None:
        """Read the newest evidence about a session."""
        self._listener.refresh(session_id)

    def lock_for(self, session_id: SessionId) -> asyncio.Lock:
        """Excludes all other actions on this session, for code that replaces it by another one."""
        return self._locks[session_id]

    async def execute(
        self,
        action: ActionKind,
        session_id: SessionId,
        intent: ActionIntent,
        precondition: Precondition,
        perform: PerformAction,
        *,
        by_itself: bool = False,
    ) -> tuple[ActionRecord, ManagedSession | None]:
        """Perform the action unless `precondition` gives a reason not to. Raises the driver's error: nothing was done.

        `by_itself`: no person asked for it, so `automatic_precondition` (a pause) applies as well.
        """

        def refusal_reason() -> str | None:
            return (self._automatic_precondition() if by_itself else None) or precondition()

        async def locked() -> tuple[ActionRecord, ManagedSession | None]:
            async with self._locks[session_id]:
                return await self._execute(action, session_id, intent, refusal_reason, perform)

        # Shielded: if the caller disconnects, an action that has begun is still finished and stored.
        return await asyncio.shield(locked())

    async def _execute(
        self,
        action: ActionKind,
        session_id: SessionId,
        purpose: ActionIntent,
        precondition: Precondition,
        perform: PerformAction,
    ) -> tuple[ActionRecord, ManagedSession | None]:
        intent = Intent(uuid4().hex, session_id, action, msgspec.json.encode(purpose), self._clock.now().wall)
        self._listener.refresh(session_id)
        if (reason := precondition()) is not None:
            # Refused before the intent was stored: a restart has nothing to look for.
            return ActionRecord(intent.id, action, session_id, ActionOutcome.DECLINED, reason), None
        await self._store.save_intent(intent)
        fault_point("act.intended")
        with self._show_pending_state(action, session_id):
            result = await self._attempt(intent, precondition, perform)
            fault_point("act.done")
            await self.conclude(intent, result)
        record = ActionRecord(
            intent.id, action, session_id, result.outcome, result.words, safe(result.untrusted)
        )
        return record, result.hosting

    @contextmanager
    def _show_pending_state(self, action: ActionKind, session_id: SessionId) -> Iterator[None]:
        """Show that a start or a stop is under way."""
        if action not in _PENDING_STATES:
            yield
            return
        self._pending_states[session_id] = _PENDING_STATES[action]
        self._listener.on_action(session_id)
        try:
            yield
        finally:
            del self._pending_states[session_id]
            self._listener.on_action(session_id)

    async def _attempt(
        self, intent: Intent, precondition: Precondition, perform: PerformAction
    ) -> ActionResult:
        """Check again, because the store took time; then act."""
        self._listener.refresh(intent.session_id)
        if (reason := precondition()) is not None:
            return ActionResult(ActionOutcome.DECLINED, reason)
        began = self._clock.now()
        try:
            result = await perform(intent.id)
        except WakefulError as error:
            await self.conclude(intent, ActionResult(ActionOutcome.DECLINED, str(error)))
            raise
        if result.outcome is not ActionOutcome.DECLINED:
            self._completed_counts[intent.session_id] += 1
            if intent.act == ActionKind.DELIVER:
                self._last_prompts[intent.session_id] = began
        return result

    async def conclude(self, intent: Intent, result: ActionResult) -> None:
        await self._store.save_conclusion(
            Conclusion(intent.id, result.outcome, result.words, self._clock.now().wall)
        )
        self._listener.on_concluded(intent.session_id)


_decode_intent: Final = json_decoder(ActionIntent)

FindStarted = Callable[[ManagedSession, str, Sequence[Process]], Awaitable[ActionResult | None]]
"""Finds the conversation of a start whose client names it, by plan, intent and living processes."""


async def find_no_start(
    _planned: ManagedSession, _intent_id: str, _carriers: Sequence[Process]
) -> ActionResult | None:
    """For clients that do not name their conversation: there is nothing to find."""
    return None


async def reconcile(
    store: Store,
    gate: ActionGate,
    managed_sessions: ManagedSessions,
    processes: HostProcesses,
    typed: Sequence[TypedText] = (),
    find_started: FindStarted = find_no_start,
) -> list[ActionResult]:
    """Conclude every open intent by the state of the host now, oldest first.

    `typed`: the texts that were being typed into terminals, and what became of them.
    """
    reconciler = _Reconciler(managed_sessions, processes, find_started)
    concluded = []
    for intent in await store.open_intents():
        # An older text was typed for another intent, which is concluded.
        texts = [each for each in typed if each.session_id == intent.session_id and each.at >= intent.at]
        text = max(texts, key=lambda each: each.at, default=None)
        result = await reconciler.reconcile(intent, _read_intent(intent), text)
        await gate.conclude(intent, result)
        concluded.append(result)
    return concluded


class _Reconciler:
    """Finds the result of an open intent. `purpose` is what the intent was for; `prompted`: the fate of its prompt."""

    def __init__(
        self, managed_sessions: ManagedSessions, processes: HostProcesses, find_started: FindStarted
    ) -> None:
        self._managed_sessions = managed_sessions
        self._processes = processes
        self._find_started_by_client = find_started

    async def reconcile(self, intent: Intent, purpose: ActionIntent, text: TypedText | None) -> ActionResult:
        """The result, applied to the managed session. `text`: the text that was being typed for the intent."""
        prompted = text.seen if text is not None else None
        if text is not None and text.is_command:
            # A prompt is typed after the command that starts its agent.
            prompted = ActionResult(ActionOutcome.INEFFECTIVE, "the text was not typed, nothing was sent")
        if text is not None and text.is_command and text.seen.outcome is ActionOutcome.INEFFECTIVE:
            # The command that should start it never ran.
            result = text.seen
        elif (started := await self._find_started(intent, purpose)) is not None:
            result = started
            prompted = started if started.outcome is ActionOutcome.CONFIRMED else None
        else:
            result = self._infer_result(intent, purpose, prompted)
        await self._apply_result(intent, purpose, result, prompted)
        return result

    async def _find_started(self, intent: Intent, purpose: ActionIntent) -> ActionResult | None:
        """The conversation of a start that got its name after Wakeful ended, claimed now; None if there is none."""
        planned = purpose.planned
        if intent.act != ActionKind.START or planned is None or planned.conversation_id:
            return None
        carriers = self._processes.processes_with_variable(INTENT_VARIABLE, intent.id)
        result = await self._find_started_by_client(planned, intent.id, carriers)
        if result is None or result.hosting is None:
            return None
        try:
            lease = await self._managed_sessions.claim(result.hosting.session_id, result.hosting.process)
        except ConversationHeld as problem:
            return ActionResult(ActionOutcome.UNVERIFIED, str(problem))
        return replace(result, hosting=replace(result.hosting, epoch=lease.epoch))

    async def _apply_result(
        self, intent: Intent, purpose: ActionIntent, result: ActionResult, prompted: ActionResult | None
    ) -> None:
        hosting, sessions = result.hosting, self._managed_sessions
        known = sessions.find(hosting.session_id if hosting is not None else intent.session_id)
        if purpose.final and known is not None:
            # The stop is final whatever its result, for the process of that time.
            process = purpose.planned.process if purpose.planned is not None else known.process
            note = _stop_note(intent, result) or known.note
            await sessions.save(replace(known, stopped=True, process=process, note=note))
        elif hosting is not None:
            # A resume claims its epoch after its intent is stored; the stored session has it.
            epoch = known.epoch if known is not None else hosting.epoch
            note = _prompt_note(intent, purpose, prompted)
            await sessions.save(replace(hosting, epoch=epoch, note=note))
        elif intent.act == ActionKind.DELIVER and known is not None:
            await sessions.save(replace(known, note=_prompt_note(intent, purpose, prompted)))
        elif intent.act == ActionKind.START and purpose.planned is not None and known is None:
            # Release the claim of a start that began nothing: its name is free again.
            await sessions.abandon(purpose.planned)

    def _infer_result(
        self, intent: Intent, purpose: ActionIntent, prompted: ActionResult | None
    ) -> ActionResult:
        match intent.act:
            case ActionKind.START | ActionKind.RESUME:
                return self._infer_start(intent, purpose, prompted)
            case ActionKind.STOP:
                return self._infer_stop(intent, purpose)
            case ActionKind.DELIVER if prompted is not None:
                return prompted
            case _:
                return ActionResult(ActionOutcome.UNVERIFIED, INTERRUPTED)

    def _infer_start(
        self, intent: Intent, purpose: ActionIntent, prompted: ActionResult | None
    ) -> ActionResult:
        carriers = self._processes.processes_with_variable(INTENT_VARIABLE, intent.id)
        if not carriers:
            words = "no process of this start is alive; it may have run and ended unseen"
            return ActionResult(ActionOutcome.UNVERIFIED, words)
        oldest = min(carriers, key=lambda process: process.started)
        managed = next((each for each in self._managed_sessions.all() if each.process in carriers), None)
        # Without a conversation id the plan is no address: the client had not named its conversation yet.
        if managed is None and purpose.planned is not None and purpose.planned.conversation_id:
            managed = replace(purpose.planned, process=oldest)
        if managed is None:
            words = f"process {oldest.pid} is alive, but it is unknown which session it is: `wakeful ls`, then adopt it"
            return ActionResult(ActionOutcome.UNVERIFIED, words)
        words = f"process {oldest.pid} of this start was found running"
        if not purpose.prompt_chars:
            return ActionResult(ActionOutcome.CONFIRMED, words, managed)
        if prompted is None:
            words = f"{words}; it is unknown whether it received its prompt"
            return ActionResult(ActionOutcome.UNVERIFIED, words, managed)
        is_sent = prompted.outcome is ActionOutcome.CONFIRMED
        outcome = ActionOutcome.CONFIRMED if is_sent else ActionOutcome.UNVERIFIED
        return ActionResult(outcome, f"{words}; its prompt: {prompted.words}", managed)

    def _infer_stop(self, intent: Intent, purpose: ActionIntent) -> ActionResult:
        running = self._processes.processes_with_variable(SESSION_VARIABLE, intent.session_id)
        process = purpose.planned.process if purpose.planned is not None else None
        if process is not None and self._processes.state_of(process) is not ProcessState.DEAD:
            running.append(process)
        if running:
            return ActionResult(ActionOutcome.INEFFECTIVE, f"process {running[0].pid} still runs")
        return ActionResult(ActionOutcome.CONFIRMED, "none of its processes runs")


def _stop_note(intent: Intent, result: ActionResult) -> str:
    if result.outcome is not ActionOutcome.INEFFECTIVE:
        return ""
    return f"Wakeful ended while it carried out the stop of {iso(intent.at)}: {result.words}. Stop it again"


def _prompt_note(intent: Intent, purpose: ActionIntent, prompted: ActionResult | None) -> str:
    if not purpose.prompt_chars or (prompted is not None and prompted.outcome is ActionOutcome.CONFIRMED):
        return ""
    which = f"the prompt of {iso(intent.at)} ({purpose.prompt_chars:,} characters)"
    if prompted is not None and prompted.outcome is ActionOutcome.INEFFECTIVE:
        return f"Wakeful ended while it typed {which}: {prompted.words}. Send it again"
    return f"Wakeful ended before it saw {which} taken: send it again if the conversation does not show it"


def _read_intent(intent: Intent) -> ActionIntent:
    try:
        return _decode_intent(intent.evidence)
    except msgspec.DecodeError:
        # Written by another version: its meaning is unknown.
        return ActionIntent()
