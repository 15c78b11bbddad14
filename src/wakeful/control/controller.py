"""Performs actions on managed sessions: start, deliver, answer, interrupt, resume, stop, adopt and release.

Every action on an agent process passes the action gate with its own objections, read from the newest
evidence; the store confirms ownership right before. A resume is refused while an interrupted call may have
had effects elsewhere and no person has checked; the resumed agent gets a brief about its interrupted calls.
This module does not know how a client is driven, and does not decide that an action is needed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from wakeful.control.briefs import InterruptedCall, brief, fresh_brief
from wakeful.control.driver import Driver, KnowsPrompts, Order, Question, Reply, Seen, Speaker, World
from wakeful.control.gate import INTERRUPTED, Act, ActGate, Deed, Objection, Purpose
from wakeful.control.ownership import Holdings, NothingToRelease
from wakeful.control.start import RunRequest, Starter, carried, environment, plain_name
from wakeful.core.clock import Clock, iso
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.fault_points import reach
from wakeful.core.ids import SessionId
from wakeful.core.leases import conversation_id_for, prompt_id_for
from wakeful.core.managed_session import Hosting, PaneAddress
from wakeful.core.process import Process, Sight
from wakeful.effects.rules import Effect
from wakeful.judging import interrupted_calls as effects
from wakeful.judging.available_actions import OBSERVING
from wakeful.judging.evidence import Holder, Pane, why_final
from wakeful.judging.session_record import safe
from wakeful.judging.summary import still_runs
from wakeful.judging.wake_eligibility import Reach
from wakeful.judging.wording import quoted
from wakeful.sessions.registry import Roster
from wakeful.sessions.session import Watched
from wakeful.storage.base import Outcome


class CutOffElsewhere(WorldError):
    """{shown} was cut off inside {calls}, which may have happened. Look what is there, then: wakeful session revive {shown} --yes"""

    code = "cut-off-elsewhere"
    exit_code = 1
    http_status = 409


CutOff = Callable[[Watched], Sequence[effects.InterruptedCall]]
"""The calls of a session that had not come back, classed."""


class HolderAlive(WorldError):
    """{shown} is run by process {pid} since {since}: one conversation has one owner. Stop that one first."""

    code = "holder-alive"
    exit_code = 1
    http_status = 409


class CannotResume(OperatorError):
    """{shown} cannot be continued: {reason}."""

    code = "cannot-resume"
    http_status = 409


def by_the_rules(watched: Watched) -> Sequence[effects.InterruptedCall]:
    """Classed without what anybody taught."""
    return effects.interrupted(watched.activity)


def unseen(watched: Watched, cut_off: CutOff) -> list[effects.InterruptedCall]:
    """The calls that were cut off and may have happened elsewhere."""
    return [each for each in cut_off(watched) if each.verdict.effect is not Effect.LOCAL]


def refuse_unseen(watched: Watched, cut_off: CutOff) -> None:
    """Whoever goes on inside a call to the outside may repeat it: somebody has to look first."""
    calls = unseen(watched, cut_off)
    if calls:
        named = "; ".join(f"{each.tool} {quoted(each.verdict.words)}" for each in calls)
        raise CutOffElsewhere(shown=watched.subject.id, calls=named)


def brief_of(watched: Watched, now: float, context: str) -> str | None:
    """What the agent must be told: nothing, if it had finished what it was asked and nobody has more to say."""
    if not watched.activity.in_turn:
        return f"{brief(())} {context}" if context else None
    calls = [
        InterruptedCall(
            call.tool, f"{call.tool} {safe(call.input.decode(errors='replace'))}", now - call.since.wall
        )
        for call in watched.activity.calls.values()
    ]
    told = brief(calls, [safe(orphan.command) for orphan in watched.presence.orphans])
    return f"{told} {context}".strip()


def adopted(
    watched: Watched,
    process: Process | None,
    program: str | None,
    command: Callable[[Process], tuple[str, ...]],
    *,
    epoch: int,
    since: float,
) -> Hosting:
    """Its hosting under a new claim. `program` continues its conversation. Raises CannotResume."""
    subject, pane = watched.subject, watched.presence.pane
    cwd = watched.activity.cwd or watched.presence.cwd
    conversation = watched.activity.conversation_id or subject.conversation_id
    if program is None or cwd is None or conversation is None:
        raise CannotResume(shown=subject.id, reason="only Claude Code and Codex sessions can be handed over")
    in_pane = pane is not None and pane.sight is Sight.ALIVE
    return Hosting(
        session_id=subject.id,
        conversation_id=conversation,
        driver="tmux" if in_pane else program,
        cwd=cwd,
        # Its own flags are worth keeping where a person sees it; without a terminal they were for one run.
        argv=command(process) if process is not None and in_pane else (program,),
        epoch=epoch,
        since=since,
        process=process,
        pane=address_of(pane) if pane is not None and in_pane else None,
        adopted=True,
        name=subject.name,
    )


def address_of(pane: Pane) -> PaneAddress:
    """Where a pane is found again."""
    return PaneAddress(pane.socket, pane.target, pane.session, pane.process, pane.server)


FENCED: Final = "somebody else has claimed this conversation since"
LET_GO: Final = "it is not managed any more: its start failed, or it was released"
# Which program continues a conversation that was never started by us.
PROGRAMS: Final = {"claude": "claude", "codex": "codex"}


class Hands:
    """Everything that can be done to a managed session."""

    def __init__(
        self,
        *,
        clock: Clock,
        roster: Roster,
        holdings: Holdings,
        drivers: Mapping[str, Driver],
        gate: ActGate,
        world: World,
        mode: str,
        by_itself: bool = False,
    ) -> None:
        self._clock = clock
        self._roster = roster
        self._holdings = holdings
        self._drivers = drivers
        self._gate = gate
        self._world = world
        self._mode = mode
        # Nobody asked for what these hands do: a pause stops them.
        self._by_itself = by_itself
        # Set by whoever knows what people taught about their projects.
        self.cut_off: CutOff = by_the_rules
        # Where a session of the hub's agents can be spoken to: it is ours by its agent, and only the hub ends it.
        self.guest_of: Callable[[Watched], Hosting | None] = lambda _watched: None
        # By what the hub's agents are spoken to where nobody is hosted: in containers.
        self.speakers: dict[str, Speaker] = {}
        self._starter = Starter(
            clock=clock,
            holdings=holdings,
            drivers=drivers,
            gate=gate,
            world=world,
            mode=mode,
            by_itself=by_itself,
        )

    async def run(self, request: RunRequest, key: str | None = None) -> Deed:
        """Start a new managed session. Raises what the plan and the driver raise; then nothing was started.

        What is started by a key is known by it again, where the client can be given names.
        """
        return await self._starter.run(request, key)

    def begun_by(self, key: str) -> SessionId | None:
        """The managed session that this key began: named by it, or known by a driver that wrote down for which prompt."""
        hosting = self._holdings.find(SessionId(f"claude-{conversation_id_for(key)}"))
        if hosting is not None:
            return hosting.session_id
        prompt_id = str(prompt_id_for(key))
        return next(
            (each.session_id for each in self._holdings.all() if self._was_given(each, prompt_id)), None
        )

    def _was_given(self, hosting: Hosting, prompt_id: str) -> bool:
        driver: object = self._drivers.get(hosting.driver)
        return isinstance(driver, KnowsPrompts) and driver.was_given(hosting, prompt_id)

    def reach(self, session_id: SessionId) -> Reach:
        """Whether a prompt would arrive at this session now, proven: by its driver, and by tmux if it is in a pane.

        And whether it never will again, and what is being done to it: all that an agent's own evidence cannot show.
        """
        underway = self._gate.underway(session_id)
        watched = self._roster.watched.get(session_id)
        hosting = (self._current(watched) or self.guest_of(watched)) if watched is not None else None
        if watched is None or hosting is None or hosting.is_ended:
            return Reach(ours=True, underway=underway)
        pane, speaker = watched.presence.pane, self._speaker(hosting)
        shown = hosting.driver != "tmux" or (pane is not None and pane.runtime is Sight.ALIVE)
        # A dialog takes no prompt; whoever typed there could answer it.
        path_open = shown and watched.presence.dialog is None and speaker.is_open(hosting)
        # Whoever showed the pane was seen gone: its socket may still lie there.
        server_gone = hosting.driver == "tmux" and pane is not None and pane.runtime is Sight.DEAD
        path_lost = not path_open and (server_gone or speaker.is_lost(hosting))
        return Reach(ours=True, path_open=path_open, path_lost=path_lost, underway=underway)

    def is_held(self, session_id: SessionId) -> bool:
        """Whether going on with it is refused until somebody looked at what was cut off."""
        watched = self._roster.watched.get(session_id)
        return watched is not None and bool(unseen(watched, self.cut_off))

    async def deliver(
        self,
        text: str,
        prompt: str,
        caller: Mapping[str, str] | None = None,
        *,
        unless: Objection = lambda: None,
        key: str | None = None,
        again: bool = False,
    ) -> Deed:
        """Give the agent a prompt, `unless` something else speaks against it once its turn has come.

        Where that needs a new process, it gets the caller's environment. `again`: nobody knows whether the prompt of
        this key was delivered before; then only a client that can tell is given it.
        """
        watched = self._roster.find(text)
        session_id = watched.subject.id
        hosting = self._holdings.find(session_id) or self.guest_of(watched) or self._holdings.get(session_id)
        speaker = self._speaker(hosting)
        environ = None if caller is None else environment(caller)

        def objection() -> str | None:
            if self._mode == "observe":
                return OBSERVING
            # One process per turn: there a prompt starts one, and the driver declines while one lives. And a process
            # that is gone may have had what is asked for again: only its driver can say.
            if not again and not self._is_per_turn(hosting) and not watched.presence.living:
                return f"its process is gone: `wakeful session resume {watched.subject.id}` brings it back"
            return _at_dialog(watched) or unless()

        epoch = 0

        async def delivered(current: Hosting) -> Seen:
            nonlocal epoch
            if key is not None and isinstance(speaker, KnowsPrompts):
                seen = await speaker.deliver_once(
                    current, prompt, str(prompt_id_for(key)), again=again, environ=environ
                )
            elif again:
                return Seen(Outcome.UNVERIFIED, INTERRUPTED)
            else:
                seen = await speaker.deliver(current, prompt, environ)
            epoch = 0 if seen.by_earlier else current.epoch
            kept = seen.hosting or current
            taken = seen.outcome is Outcome.RECOVERED and kept.note
            return replace(seen, hosting=replace(kept, note="")) if taken else seen

        purpose = Purpose(prompt_chars=len(prompt))
        return replace(await self._act(Act.DELIVER, watched, purpose, objection, delivered), epoch=epoch)

    async def questions(self, text: str) -> tuple[Question, ...]:
        """What the agent asks permission for now."""
        watched, _ = self._managed(text)
        hosting = self._current(watched)
        assert hosting is not None, "managed, as was just seen"
        return await self._drivers[hosting.driver].questions(hosting)

    async def answer(self, text: str, question_id: str, reply: Reply) -> Deed:
        """Answer a permission question."""
        watched, hosting = self._managed(text)
        driver = self._drivers[hosting.driver]
        return await self._act(
            Act.ANSWER,
            watched,
            Purpose(question_id=question_id),
            lambda: self._needs_life(watched),
            lambda current: driver.answer(current, question_id, reply),
        )

    async def interrupt(self, text: str, *, unless: Objection = lambda: None) -> Deed:
        """Cut the running turn short, `unless` something speaks against it once its time has come; the agent stays."""
        watched, hosting = self._managed(text)
        driver = self._drivers[hosting.driver]
        return await self._act(
            Act.INTERRUPT, watched, Purpose(), lambda: self._needs_life(watched) or unless(), driver.interrupt
        )

    async def stop(self, text: str, *, final: bool = True, by_gateway: bool = False) -> Deed:
        """End the agent and what it left behind. A person's stop is final: nothing revives it.

        One that is still being started is ended once its start has come to its end.
        """
        watched, hosting = self._managed(text)
        driver = self._drivers[hosting.driver]

        async def stopped(current: Hosting) -> Seen:
            stopped, by = (final, by_gateway) if final else (current.stopped, current.by_gateway)
            await self._holdings.keep(replace(current, stopped=stopped, by_gateway=by))
            return await driver.stop(current)

        return await self._act(
            Act.STOP,
            watched,
            Purpose(planned=self._current(watched), final=final),
            lambda: OBSERVING if self._mode == "observe" else None,
            stopped,
        )

    async def resume(
        self,
        text: str,
        caller: Mapping[str, str] | None = None,
        *,
        context: str = "",
        approved: bool = False,
    ) -> Deed:
        """Continue a conversation whose agent is gone, in its own place. Raises HolderAlive, CannotResume, CutOffElsewhere.

        The agent gets the caller's environment, else the daemon's own, and is told what was interrupted; and, if
        there is one, the context it was brought back in.
        """
        watched, hosting = self._managed(text)
        if hosting.driver == "tmux" and watched.subject.provider not in PROGRAMS:
            raise CannotResume(
                shown=watched.subject.id, reason="its program keeps no conversation to return to"
            )
        self._refuse_while_held(watched)
        if not approved:
            refuse_unseen(watched, self.cut_off)
        prompt = brief_of(watched, self._clock.now().wall, context)
        environ = environment(self._world.environ() if caller is None else caller)
        driver = self._drivers[hosting.driver]

        async def perform(intent_id: str) -> Seen:
            # Only now, when nothing speaks against it: a new epoch fences whoever was started under the old one.
            following = await self._holdings.advance(self._holdings.get(hosting.session_id))
            order = Order(
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
            seen = await driver.resume(self._current(watched) or following, order)
            if seen.hosting is not None:
                # Before anybody else's turn: whoever asks next must find it held.
                await self._holdings.keep_seen(replace(seen.hosting, adopted=hosting.adopted))
            return seen

        deed, _ = await self._gate.pass_through(
            Act.RESUME,
            hosting.session_id,
            Purpose(hosting, len(prompt or "")),
            lambda: self._held_by(watched) or self._ended_on_purpose(watched),
            perform,
            by_itself=self._by_itself,
        )
        return deed

    async def begin_anew(self, text: str, context: str, key: str) -> Deed:
        """A new conversation in the place of one that cannot go on; the old one is over once the new one runs.

        What was begun by this key before a crash is not begun twice. Where nothing was ever said, and there is nothing to say, it waits for its first prompt as that one did.
        """
        watched, hosting = self._managed(text)
        self._refuse_while_held(watched)
        async with self._gate.turn(hosting.session_id):
            if (begun := self.begun_by(key)) is not None:
                await self._holdings.keep(replace(self._holdings.get(hosting.session_id), heir=begun))
                return Deed(key, Act.START, begun, Outcome.RECOVERED, "it was begun before Wakeful ended")
            # Whoever was at it before us may have brought it back.
            if (reason := self._held_by(watched) or self._ended_on_purpose(watched)) is not None:
                raise CannotResume(shown=hosting.session_id, reason=reason)
            return await self._replaced(watched, self._holdings.get(hosting.session_id), context, key)

    async def _replaced(self, watched: Watched, hosting: Hosting, context: str, key: str) -> Deed:
        brief = f"{fresh_brief(hosting.conversation_id)} {context}".strip()
        request = RunRequest(
            argv=hosting.argv if hosting.driver != "codex" else (hosting.argv[0], "exec", *hosting.argv[1:]),
            cwd=hosting.cwd,
            environ=dict(self._world.environ()),
            name=hosting.name,
            terminal=hosting.driver == "tmux",
            prompt=brief if context or watched.activity.known else None,
        )
        deed = await self._starter.run(request, key)
        reach("heal.begun_anew")
        if deed.outcome is Outcome.RECOVERED:
            await self._holdings.keep(replace(hosting, heir=deed.session_id))
        return deed

    def pane(self, text: str) -> PaneAddress | None:
        """Where a session is shown, managed or found."""
        watched = self._roster.find(text)
        pane, hosting = watched.presence.pane, self._holdings.find(watched.subject.id)
        if pane is not None:
            return address_of(pane) if pane.sight is Sight.ALIVE else None
        return hosting.pane if hosting is not None else None

    async def adopt(self, text: str, *, named: str | None = None, name: str | None = None) -> Hosting:
        """Manage a session that was merely found.

        Raises ConversationHeld, HolderAlive (twins), CannotResume, NameTaken, HostedByAgent.

        `named`: it was shown in a terminal that is gone, under this name, and will be shown in one again. `name`: what a
        person calls it from now on, also one that is managed already.
        """
        watched = self._roster.find(text)
        session_id = watched.subject.id
        self._starter.require_free(name, session_id)
        known = self._holdings.find(session_id)
        if known is None:
            self._holdings.require_no_agent(session_id)
        hosting = known or await self._claimed(watched, named)
        hosting = replace(hosting, name=name or hosting.name)
        if hosting != known:
            await self._holdings.keep(hosting)
        return hosting

    async def _claimed(self, watched: Watched, named: str | None) -> Hosting:
        holder = self._only_holder(watched)
        process = holder.process if holder is not None else None
        lease = await self._holdings.claim(watched.subject.id, process)
        try:
            hosting = adopted(
                watched,
                process,
                PROGRAMS.get(watched.subject.provider),
                self._world.command,
                epoch=lease.epoch,
                since=self._clock.now().wall,
            )
        except OperatorError:
            await self._holdings.yield_(lease)
            raise
        if process is not None:
            return replace(hosting, kept_back=self._world.kept_back(process))
        return hosting if named is None else replace(hosting, driver="tmux", name=plain_name(named))

    async def release(self, text: str) -> Hosting:
        """Let go of a managed session; its agent goes on. Raises NothingToRelease, HostedByAgent."""
        session_id = self._roster.find(text).subject.id
        hosting = self._holdings.find(session_id)
        if hosting is None:
            self._holdings.require_no_agent(session_id)
            raise NothingToRelease(shown=session_id)
        await self._holdings.drop(hosting)
        return hosting

    def still_runs(self, session_id: SessionId) -> str:
        """Which commands outlived their agent and run at this moment, in words; empty if none does."""
        watched = self._roster.watched.get(session_id)
        left = watched.presence.orphans if watched is not None else ()
        return still_runs([each for each in left if self._world.sight(each.process) is not Sight.DEAD])

    def _ended_on_purpose(self, watched: Watched) -> str | None:
        """Said once more inside the gate: a person may have stopped it while it was being brought back."""
        hosting = self._holdings.find(watched.subject.id)
        if not self._by_itself or hosting is None or not hosting.is_ended:
            return None
        return why_final(hosting.heir, by_gateway=hosting.by_gateway)

    def _is_per_turn(self, hosting: Hosting) -> bool:
        driver = self._drivers.get(hosting.driver)
        return driver is not None and driver.per_turn

    def _speaker(self, hosting: Hosting) -> Speaker:
        return self.speakers.get(hosting.driver) or self._drivers[hosting.driver]

    def _managed(self, text: str) -> tuple[Watched, Hosting]:
        watched = self._roster.find(text)
        return watched, self._holdings.get(watched.subject.id)

    async def _act(
        self,
        act: Act,
        watched: Watched,
        purpose: Purpose,
        objection: Objection,
        perform: Callable[[Hosting], Awaitable[Seen]],
    ) -> Deed:
        session_id = watched.subject.id

        async def guarded(_intent_id: str) -> Seen:
            hosting = self._current(watched)
            guest = self.guest_of(watched) if hosting is None and act is Act.DELIVER else None
            if guest is not None:
                return await perform(guest)
            if hosting is None:
                return Seen(Outcome.DECLINED, LET_GO)
            if not await self._holdings.is_ours(hosting):
                return Seen(Outcome.DECLINED, FENCED)
            seen = await perform(hosting)
            if seen.hosting is not None:
                await self._holdings.keep_seen(seen.hosting)
            return seen

        deed, _ = await self._gate.pass_through(
            act, session_id, purpose, objection, guarded, by_itself=self._by_itself
        )
        return deed

    def _current(self, watched: Watched) -> Hosting | None:
        """Where the session is now: processes and panes change while an address is kept."""
        hosting = self._holdings.find(watched.subject.id)
        if hosting is None:
            return None
        living, pane = watched.presence.living, watched.presence.pane
        return replace(
            hosting,
            process=living[0].process if living else hosting.process,
            pane=address_of(pane) if pane is not None and pane.sight is Sight.ALIVE else hosting.pane,
        )

    def _needs_life(self, watched: Watched) -> str | None:
        if self._mode == "observe":
            return OBSERVING
        return None if watched.presence.living else "its process is gone"

    def _held_by(self, watched: Watched) -> str | None:
        if self._mode == "observe":
            return OBSERVING
        living = watched.presence.living
        if living:
            return f"process {living[0].process.pid} holds it"
        return carried(self._world, watched.subject.id)

    def _refuse_while_held(self, watched: Watched) -> None:
        living = watched.presence.living
        if living:
            raise _alive(watched.subject.id, living[0])

    def _only_holder(self, watched: Watched) -> Holder | None:
        living = watched.presence.living
        if len(living) > 1:
            raise CannotResume(
                shown=watched.subject.id,
                reason=f"{len(living)} processes hold it ({', '.join(str(each.process.pid) for each in living)})",
            )
        return living[0] if living else None


def _at_dialog(watched: Watched) -> str | None:
    """Why no prompt would be taken: a dialog of the client is open, which only a person may answer."""
    dialog = watched.presence.dialog
    if dialog is None or not watched.presence.living:
        return None
    place = watched.subject.agent or watched.subject.id
    return f"a dialog of its client is open ({dialog.kind}): `wakeful attach {place}`, answer it, then send again"


def _alive(session_id: SessionId, holder: Holder) -> HolderAlive:
    return HolderAlive(shown=session_id, pid=holder.process.pid, since=iso(holder.seen_at.wall))
