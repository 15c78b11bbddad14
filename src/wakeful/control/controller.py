"""Performs actions on managed sessions: start, deliver, answer, interrupt, resume, stop, adopt and release.

Every action on an agent process passes the action gate with its own objections, read from the newest
evidence; the store confirms ownership right before. A resume is refused while an interrupted call may have
had effects elsewhere and no person has checked; the resumed agent gets a brief about its interrupted calls.
This module does not know how a client is driven, and does not decide that an action is needed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from wakeful.control.briefs import PROMPT_FOLLOWS, BriefedCall, brief, fresh_brief
from wakeful.control.driver import (
    ActionResult,
    HostProcesses,
    KnowsPrompts,
    PermissionQuestion,
    PermissionReply,
    StartRequest,
)
from wakeful.control.driver_table import DriverTable
from wakeful.control.gate import INTERRUPTED, ActionGate, ActionIntent, ActionKind, ActionRecord, Precondition
from wakeful.control.ownership import ManagedSessions, NothingToRelease
from wakeful.control.start import RunRequest, Starter, environment, plain_name, running_process_reason
from wakeful.core.clock import Clock, Instant, iso
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.fault_points import fault_point
from wakeful.core.ids import SessionId
from wakeful.core.leases import conversation_id_for, prompt_id_for
from wakeful.core.managed_session import ManagedSession, PaneAddress
from wakeful.core.process import Process, ProcessState
from wakeful.effects.rules import Effect
from wakeful.judging import interrupted_calls as effects
from wakeful.judging.available_actions import OBSERVING, adoption_refusal
from wakeful.judging.evidence import AgentProcess, Pane, why_final
from wakeful.judging.session_record import safe
from wakeful.judging.summary import still_running_text
from wakeful.judging.wake_eligibility import Reachability
from wakeful.judging.wording import quote
from wakeful.sessions.registry import SessionRegistry
from wakeful.sessions.session import TrackedSession
from wakeful.storage.base import ActionOutcome


class RemoteCallInterrupted(WorldError, code="cut-off-elsewhere", http_status=409, exit_code=1):
    """{shown} was interrupted during {calls}; the call may have taken effect. Check, then run: wakeful resume {shown} --yes"""


class InterruptedCallClassifier(Protocol):
    """Classifies the unfinished calls of a session by their effects."""

    def classify_interrupted(self, session: TrackedSession) -> Sequence[effects.InterruptedCall]: ...


class AgentProcessAlive(WorldError, code="holder-alive", http_status=409, exit_code=1):
    """{shown} is in use by process {pid} since {since}. A conversation has one owner: stop that process first."""


class CannotResume(OperatorError, code="cannot-resume", http_status=409):
    """{shown} cannot be resumed: {reason}."""


class CannotAdopt(CannotResume):
    """{shown} cannot be adopted: {reason}."""


def remote_interrupted_calls(
    session: TrackedSession, classifier: InterruptedCallClassifier
) -> list[effects.InterruptedCall]:
    """The interrupted calls that may have had effects elsewhere."""
    return [
        each for each in classifier.classify_interrupted(session) if each.verdict.effect is not Effect.LOCAL
    ]


def refuse_unchecked_calls(session: TrackedSession, classifier: InterruptedCallClassifier) -> None:
    """Raises RemoteCallInterrupted: a resumed agent may repeat such a call, so a person has to check first."""
    calls = remote_interrupted_calls(session, classifier)
    if calls:
        named = "; ".join(f"{each.tool} {quote(each.verdict.words)}" for each in calls)
        raise RemoteCallInterrupted(shown=session.shown_name, calls=named)


def brief_of(session: TrackedSession, now: float, context: str) -> str | None:
    """The brief for the agent; None if its turn was finished and there is no context."""
    if not session.activity.in_turn:
        return f"{brief(())} {context}" if context else None
    calls = [
        BriefedCall(
            call.tool, f"{call.tool} {safe(call.input.decode(errors='replace'))}", now - call.since.wall
        )
        for call in session.activity.calls.values()
    ]
    text = brief(calls, [safe(orphan.command) for orphan in session.presence.orphans])
    return f"{text} {context}".strip()


def managed_session_of(
    session: TrackedSession,
    process: Process | None,
    program: str | None,
    command: Callable[[Process], tuple[str, ...]],
    *,
    epoch: int,
    since: float,
) -> ManagedSession:
    """The managed session under a new claim. `program` continues its conversation. Raises CannotResume."""
    identity, pane = session.subject, session.presence.pane
    cwd = session.activity.cwd or session.presence.cwd
    conversation = session.activity.conversation_id or identity.conversation_id
    refused = adoption_refusal(identity, session.activity, session.presence)
    if refused or program is None or cwd is None or conversation is None:
        raise CannotAdopt(shown=session.shown_name, reason=refused)
    in_pane = pane is not None and pane.sight is ProcessState.ALIVE
    return ManagedSession(
        session_id=identity.id,
        conversation_id=conversation,
        driver="tmux" if in_pane else program,
        cwd=cwd,
        # Keep the flags of a session in a terminal; without one they were for a single run.
        argv=command(process) if process is not None and in_pane else (program,),
        epoch=epoch,
        since=since,
        process=process,
        pane=pane_address_of(pane) if pane is not None and in_pane else None,
        adopted=True,
        name=identity.name,
    )


def pane_address_of(pane: Pane) -> PaneAddress:
    return PaneAddress(pane.socket, pane.target, pane.session, pane.process, pane.server)


FENCED: Final = "another process has claimed this conversation since"
NOT_MANAGED_ANY_MORE: Final = "it is no longer managed: its start failed, or it was released"
# The program that continues a conversation which Wakeful did not start, by provider.
CLIENT_PROGRAMS: Final = {"claude": "claude", "codex": "codex"}


class ControlMode(Struct, frozen=True):
    """`mode` is daemon.mode. `by_itself`: no person asked for these actions, so a pause stops them."""

    mode: str
    by_itself: bool = False


class SessionController:
    def __init__(
        self,
        *,
        clock: Clock,
        registry: SessionRegistry,
        managed_sessions: ManagedSessions,
        drivers: DriverTable,
        gate: ActionGate,
        processes: HostProcesses,
        mode: ControlMode,
        classifier: InterruptedCallClassifier,
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._managed_sessions = managed_sessions
        self._drivers = drivers
        self._gate = gate
        self._processes = processes
        self._mode = mode.mode
        self._automatic = mode.by_itself
        self._classifier = classifier
        self._starter = Starter(
            clock=clock,
            managed_sessions=managed_sessions,
            drivers=drivers.drivers,
            gate=gate,
            processes=processes,
            mode=mode.mode,
            by_itself=mode.by_itself,
        )

    async def run(self, request: RunRequest, key: str | None = None) -> ActionRecord:
        """Start a new managed session. Raises the errors of the plan and the driver; then nothing was started.

        `session_started_by` finds a session by the key of its start, if the client accepts names.
        """
        return await self._starter.run(request, key)

    def session_started_by(self, key: str) -> SessionId | None:
        """The managed session that this key started: named by it, or recorded by a driver with its prompt."""
        managed = self._managed_sessions.find(SessionId(f"claude-{conversation_id_for(key)}"))
        if managed is not None:
            return managed.session_id
        prompt_id = str(prompt_id_for(key))
        for each in self._managed_sessions.all():
            driver: object = self._drivers.get(each.driver)
            if isinstance(driver, KnowsPrompts) and driver.has_prompt(each, prompt_id):
                return each.session_id
        return None

    def last_prompt_at(self, session_id: SessionId) -> Instant | None:
        """When the newest prompt was delivered here; its log may not show it yet."""
        return self._gate.last_prompt_at(session_id)

    def reach(self, session_id: SessionId) -> Reachability:
        """Whether a prompt would arrive at this session now, by its driver, and by tmux if it is in a pane.

        Also whether no prompt ever will again, and the action under way: an agent's own evidence does not show these.
        """
        underway = self._gate.pending_state(session_id)
        session = self._registry.sessions.get(session_id)
        managed = None
        if session is not None:
            managed = self._current_address(session) or self._drivers.agent_session_of(session)
        if session is None or managed is None or managed.is_ended:
            return Reachability(ours=True, underway=underway)
        pane, driver = session.presence.pane, self._drivers.prompt_driver(managed.driver)
        has_pane = managed.driver != "tmux" or (pane is not None and pane.runtime is ProcessState.ALIVE)
        # A dialog takes no prompt; typed text could answer it.
        path_open = has_pane and session.presence.dialog is None and driver.is_open(managed)
        # The tmux server of the pane is gone; its socket may still be there.
        server_gone = managed.driver == "tmux" and pane is not None and pane.runtime is ProcessState.DEAD
        path_lost = not path_open and (server_gone or driver.is_lost(managed))
        return Reachability(ours=True, path_open=path_open, path_lost=path_lost, underway=underway)

    def is_per_turn(self, managed: ManagedSession) -> bool:
        """Whether its client runs one process for each turn, which is started with its prompt."""
        driver = self._drivers.get(managed.driver)
        return driver is not None and driver.per_turn

    def needs_approval(self, session_id: SessionId) -> bool:
        """Whether a resume is refused until a person has checked the interrupted calls."""
        session = self._registry.sessions.get(session_id)
        return session is not None and bool(remote_interrupted_calls(session, self._classifier))

    async def deliver(
        self,
        text: str,
        prompt: str,
        caller: Mapping[str, str] | None = None,
        *,
        unless: Precondition = lambda: None,
        key: str | None = None,
        again: bool = False,
    ) -> ActionRecord:
        """Give the agent a prompt; inside the gate, `unless` may return a reason to decline.

        A new process for it gets the caller's environment. `again`: the prompt of this key may have been delivered
        before; then it is delivered only if the client can tell.
        """
        session = self._registry.find(text)
        session_id = session.subject.id
        managed = (
            self._managed_sessions.find(session_id)
            or self._drivers.agent_session_of(session)
            or self._managed_sessions.get(session_id)
        )
        prompt_driver = self._drivers.prompt_driver(managed.driver)
        environ = None if caller is None else environment(caller)

        def refusal_reason() -> str | None:
            if self._mode == "observe":
                return OBSERVING
            # A client with one process per turn starts one for a prompt; its driver declines while one lives. With
            # `again`, a process that is gone may have had the prompt, and only the driver can tell.
            if not again and not self.is_per_turn(managed) and not session.presence.living_processes:
                return f"its process is gone: `wakeful resume {session.shown_name}` brings it back"
            return _dialog_reason(session) or unless()

        epoch = 0

        async def perform(current: ManagedSession) -> ActionResult:
            nonlocal epoch
            if key is not None and isinstance(prompt_driver, KnowsPrompts):
                result = await prompt_driver.deliver_once(
                    current, prompt, str(prompt_id_for(key)), again=again, environ=environ
                )
            elif again:
                return ActionResult(ActionOutcome.UNVERIFIED, INTERRUPTED)
            else:
                result = await prompt_driver.deliver(current, prompt, environ)
            epoch = 0 if result.by_earlier else current.epoch
            after = result.hosting or current
            if result.outcome is not ActionOutcome.CONFIRMED:
                return result
            if not result.by_earlier:
                await self._withdraw_stop(session_id)
            # A confirmed prompt clears the note about an earlier one.
            return replace(result, hosting=replace(after, note="")) if after.note else result

        intent = ActionIntent(prompt_chars=len(prompt))
        record = await self._run_action(ActionKind.DELIVER, session, intent, refusal_reason, perform)
        return replace(record, epoch=epoch)

    async def questions(self, text: str) -> tuple[PermissionQuestion, ...]:
        """What it asks permission for; nothing once its process is gone."""
        session, _ = self._find_managed(text)
        managed = self._current_address(session)
        assert managed is not None, "checked just before"
        if not session.presence.living_processes:
            return ()
        return await self._drivers[managed.driver].questions(managed)

    async def answer(self, text: str, question_id: str, reply: PermissionReply) -> ActionRecord:
        session, managed = self._find_managed(text)
        driver = self._drivers[managed.driver]
        return await self._run_action(
            ActionKind.ANSWER,
            session,
            ActionIntent(question_id=question_id),
            lambda: self._dead_reason(session),
            lambda current: driver.answer(current, question_id, reply),
        )

    async def interrupt(self, text: str, *, unless: Precondition = lambda: None) -> ActionRecord:
        """Interrupt the running turn; the agent stays. Inside the gate, `unless` may return a reason to decline."""
        session, managed = self._find_managed(text)
        driver = self._drivers[managed.driver]
        return await self._run_action(
            ActionKind.INTERRUPT,
            session,
            ActionIntent(),
            lambda: self._dead_reason(session) or unless(),
            driver.interrupt,
        )

    async def stop(self, text: str, *, final: bool = True, by_gateway: bool = False) -> ActionRecord:
        """End the agent and its remaining tools. A person's stop is final: nothing resumes the session.

        A session that is being started is stopped after its start.
        """
        session, managed = self._find_managed(text)
        driver = self._drivers[managed.driver]

        async def perform(current: ManagedSession) -> ActionResult:
            stopped, by = (final, by_gateway) if final else (current.stopped, current.by_gateway)
            await self._managed_sessions.save(replace(current, stopped=stopped, by_gateway=by, note=""))
            return await driver.stop(current)

        return await self._run_action(
            ActionKind.STOP,
            session,
            ActionIntent(planned=self._current_address(session), final=final),
            lambda: OBSERVING if self._mode == "observe" else None,
            perform,
        )

    async def mark_failure_told(self, text: str, unless: Precondition) -> str | None:
        """Note that its user reads that its turn failed; returns the reason of `unless` not to, after the newest evidence."""
        session, managed = self._find_managed(text)
        async with self._gate.lock_for(managed.session_id):
            self._gate.refresh(managed.session_id)
            if (reason := unless()) is not None:
                return reason
            current = self._managed_sessions.get(session.subject.id)
            await self._managed_sessions.save(replace(current, failure_told_at=self._clock.now().wall))
        return None

    async def _withdraw_stop(self, session_id: SessionId) -> None:
        """A person gave it other work: the stop before it failed, and does not explain a later end."""
        managed = self._managed_sessions.find(session_id)
        if not self._automatic and managed is not None and managed.stopped:
            await self._managed_sessions.save(replace(managed, stopped=False, by_gateway=False))

    async def end_process(self, text: str) -> ActionRecord:
        """End its process as a crash would: its turn is not over, and the tools of the turn are left as they are."""
        session, _ = self._find_managed(text)

        async def perform(current: ManagedSession) -> ActionResult:
            newest = session.presence.newest_process
            # Stored before it is killed, so that no observer calls its end a death of its own.
            ended_process = newest.process if newest is not None else current.process
            await self._managed_sessions.save(replace(current, ended_process=ended_process))
            states = await self._processes.kill(current)
            if not states:
                return ActionResult(ActionOutcome.INEFFECTIVE, "it has no process")
            if any(each is not ProcessState.DEAD for each in states):
                return ActionResult(
                    ActionOutcome.UNVERIFIED, "its process was killed, but its end was not confirmed"
                )
            return ActionResult(ActionOutcome.CONFIRMED, "its process was killed")

        return await self._run_action(
            ActionKind.STOP,
            session,
            ActionIntent(planned=self._current_address(session)),
            lambda: self._dead_reason(session) or self._stopped_reason(session),
            perform,
        )

    async def resume(
        self,
        text: str,
        caller: Mapping[str, str] | None = None,
        *,
        context: str = "",
        approved: bool = False,
        unless: Precondition = lambda: None,
        prompt_follows: bool = False,
    ) -> ActionRecord:
        """Continue a conversation whose agent is gone. Raises AgentProcessAlive, CannotResume, RemoteCallInterrupted.

        The agent gets the caller's environment, else the daemon's own, and a brief about the interrupted calls,
        followed by `context`. Inside the gate, `unless` may return a reason to decline. `prompt_follows`: its user's next
        message follows, so it is not to go on with an interrupted turn.
        """
        session, managed = self._find_managed(text)
        if managed.driver == "tmux" and session.subject.provider not in CLIENT_PROGRAMS:
            raise CannotResume(shown=session.shown_name, reason="its program has no conversation to resume")
        self._refuse_while_alive(session)
        if not approved:
            refuse_unchecked_calls(session, self._classifier)
        if prompt_follows and session.activity.in_turn:
            context = f"{context} {PROMPT_FOLLOWS}".strip()
        prompt = brief_of(session, self._clock.now().wall, context)
        environ = environment(self._processes.environ() if caller is None else caller)
        driver = self._drivers[managed.driver]

        async def perform(intent_id: str) -> ActionResult:
            # After the last check: a new epoch fences processes of the old one.
            following = await self._managed_sessions.advance_epoch(
                self._managed_sessions.get(managed.session_id)
            )
            request = StartRequest(
                session_id=following.session_id,
                conversation_id=following.conversation_id,
                epoch=following.epoch,
                intent_id=intent_id,
                cwd=following.cwd,
                argv=following.argv,
                environ=environ,
                resume=True,
                prompt=prompt,
                name=following.name,
            )
            result = await driver.resume(self._current_address(session) or following, request)
            if result.hosting is not None:
                # Inside the gate: the next action must find the new process.
                await self._managed_sessions.save_result(replace(result.hosting, adopted=managed.adopted))
            return result

        record, _ = await self._gate.execute(
            ActionKind.RESUME,
            managed.session_id,
            ActionIntent(managed, len(prompt or "")),
            lambda: self._owner_alive_reason(session) or self._stopped_reason(session) or unless(),
            perform,
            by_itself=self._automatic,
        )
        return record

    async def start_replacement(self, text: str, context: str, key: str) -> ActionRecord:
        """Start a new conversation in place of one that cannot go on; the old one ends once the new one runs.

        A key starts one conversation, also across a crash. Without a context and an earlier prompt, the new
        conversation waits for its first prompt.
        """
        session, managed = self._find_managed(text)
        self._refuse_while_alive(session)
        async with self._gate.lock_for(managed.session_id):
            current = self._managed_sessions.get(managed.session_id)
            if (started := self.session_started_by(key)) is not None:
                await self._managed_sessions.save(replace(current, heir=started))
                words = "it started before Wakeful ended"
                return ActionRecord(key, ActionKind.START, started, ActionOutcome.CONFIRMED, words)
            # An action before this one may have resumed it.
            if (reason := self._owner_alive_reason(session) or self._stopped_reason(session)) is not None:
                raise CannotResume(shown=session.shown_name, reason=reason)
            return await self._start_replacement(session, current, context, key)

    async def _start_replacement(
        self, session: TrackedSession, managed: ManagedSession, context: str, key: str
    ) -> ActionRecord:
        brief = f"{fresh_brief(managed.conversation_id)} {context}".strip()
        request = RunRequest(
            argv=managed.argv if managed.driver != "codex" else (managed.argv[0], "exec", *managed.argv[1:]),
            cwd=managed.cwd,
            environ=dict(self._processes.environ()),
            name=managed.name,
            terminal=managed.driver == "tmux",
            prompt=brief if context or session.activity.known else None,
        )
        record = await self._starter.run(request, key)
        fault_point("heal.begun_anew")
        if record.outcome is ActionOutcome.CONFIRMED:
            await self._managed_sessions.save(replace(managed, heir=record.session_id))
        return record

    def pane(self, text: str) -> PaneAddress | None:
        session = self._registry.find(text)
        pane, managed = session.presence.pane, self._managed_sessions.find(session.subject.id)
        if pane is not None:
            return pane_address_of(pane) if pane.sight is ProcessState.ALIVE else None
        return managed.pane if managed is not None else None

    async def adopt(self, text: str, *, named: str | None = None, name: str | None = None) -> ManagedSession:
        """Manage a session that was only watched. Raises ConversationHeld, CannotResume, NameTaken, HostedByAgent.

        `named`: the ended tmux session, which a resume makes again. `name`: the new name, also for a session that is
        managed already.
        """
        session = self._registry.find(text)
        session_id = session.subject.id
        self._starter.require_free(name, session_id)
        known = self._managed_sessions.find(session_id)
        if known is None:
            self._managed_sessions.require_here(session_id)
            self._managed_sessions.require_no_agent(session_id)
        managed = known or await self._claim(session, named)
        managed = replace(managed, name=name or managed.name)
        if managed != known:
            await self._managed_sessions.save(managed)
        return managed

    async def _claim(self, session: TrackedSession, named: str | None) -> ManagedSession:
        agent_process = self._only_agent_process(session)
        process = agent_process.process if agent_process is not None else None
        lease = await self._managed_sessions.claim(session.subject.id, process)
        try:
            managed = managed_session_of(
                session,
                process,
                CLIENT_PROGRAMS.get(session.subject.provider),
                self._processes.command,
                epoch=lease.epoch,
                since=self._clock.now().wall,
            )
        except OperatorError:
            await self._managed_sessions.release_lease(lease)
            raise
        if process is not None:
            return replace(managed, kept_back=self._processes.kept_back(process))
        return managed if named is None else replace(managed, driver="tmux", name=plain_name(named))

    async def release(self, text: str) -> ManagedSession:
        """Stop managing a session; its agent goes on. Raises NothingToRelease, HostedByAgent."""
        session = self._registry.find(text)
        managed = self._managed_sessions.find(session.subject.id)
        if managed is None:
            self._managed_sessions.require_here(session.subject.id)
            self._managed_sessions.require_no_agent(session.subject.id)
            raise NothingToRelease(shown=session.shown_name)
        await self._managed_sessions.release(managed)
        return managed

    def running_tools_text(self, session_id: SessionId) -> str:
        """The commands that outlived their agent and run now, as text; empty if there are none."""
        session = self._registry.sessions.get(session_id)
        orphans = session.presence.orphans if session is not None else ()
        return still_running_text(
            [each for each in orphans if self._processes.state_of(each.process) is not ProcessState.DEAD]
        )

    def _stopped_reason(self, session: TrackedSession) -> str | None:
        """Why no automatic action may resume it, checked inside the gate: a person may have stopped it meanwhile."""
        managed = self._managed_sessions.find(session.subject.id)
        if not self._automatic or managed is None or not managed.is_ended:
            return None
        return why_final(managed.heir, by_gateway=managed.by_gateway)

    def _find_managed(self, text: str) -> tuple[TrackedSession, ManagedSession]:
        session = self._registry.find(text)
        return session, self._managed_sessions.get(session.subject.id)

    async def _run_action(
        self,
        action: ActionKind,
        session: TrackedSession,
        intent: ActionIntent,
        precondition: Precondition,
        perform: Callable[[ManagedSession], Awaitable[ActionResult]],
    ) -> ActionRecord:
        session_id = session.subject.id

        async def perform_if_owned(_intent_id: str) -> ActionResult:
            managed = self._current_address(session)
            if managed is None and action is ActionKind.DELIVER:
                agent_session = self._drivers.agent_session_of(session)
                if agent_session is not None:
                    return await perform(agent_session)
            if managed is None:
                return ActionResult(ActionOutcome.DECLINED, NOT_MANAGED_ANY_MORE)
            if not await self._managed_sessions.confirm_lease(managed):
                return ActionResult(ActionOutcome.DECLINED, FENCED)
            result = await perform(managed)
            if result.hosting is not None:
                await self._managed_sessions.save_result(result.hosting)
            return result

        record, _ = await self._gate.execute(
            action, session_id, intent, precondition, perform_if_owned, by_itself=self._automatic
        )
        return record

    def _current_address(self, session: TrackedSession) -> ManagedSession | None:
        """The managed session with its current process and pane."""
        managed = self._managed_sessions.find(session.subject.id)
        if managed is None:
            return None
        living, pane = session.presence.living_processes, session.presence.pane
        return replace(
            managed,
            process=living[0].process if living else managed.process,
            pane=pane_address_of(pane)
            if pane is not None and pane.sight is ProcessState.ALIVE
            else managed.pane,
        )

    def _dead_reason(self, session: TrackedSession) -> str | None:
        if self._mode == "observe":
            return OBSERVING
        return None if session.presence.living_processes else "its process is gone"

    def _owner_alive_reason(self, session: TrackedSession) -> str | None:
        if self._mode == "observe":
            return OBSERVING
        living = session.presence.living_processes
        if living:
            return f"process {living[0].process.pid} holds it"
        return running_process_reason(self._processes, session.subject.id)

    def _refuse_while_alive(self, session: TrackedSession) -> None:
        living = session.presence.living_processes
        if living:
            pid, since = living[0].process.pid, iso(living[0].seen_at.wall)
            raise AgentProcessAlive(shown=session.shown_name, pid=pid, since=since)

    def _only_agent_process(self, session: TrackedSession) -> AgentProcess | None:
        living = session.presence.living_processes
        if len(living) > 1:
            raise CannotResume(
                shown=session.shown_name,
                reason=f"{len(living)} processes hold it ({', '.join(str(each.process.pid) for each in living)})",
            )
        return living[0] if living else None


def _dialog_reason(session: TrackedSession) -> str | None:
    """The reason to decline a prompt while a dialog of the client is open, which only a person may answer."""
    dialog = session.presence.dialog
    if dialog is None or not session.presence.living_processes:
        return None
    return f"a dialog of its client is open ({dialog.kind}): `wakeful attach {session.shown_name}`, answer it, then send again"
