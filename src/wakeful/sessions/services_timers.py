"""Supervision of running prompts: looks at them every so often and says what their timers say.

It reads sessions and writes none: warnings stand beside the record, events go to whoever listens, and whether a prompt
that timed out is ended is for others to see to.
"""

import logging
from collections.abc import Callable, Iterable

from msgspec import Struct

from wakeful.core.clock import Clock
from wakeful.core.ids import SessionId
from wakeful.core.moment import Instant, iso
from wakeful.judging.findings import State
from wakeful.sessions.domain_timers import Stage, SupervisionEvent, Timer, TimerRules, begun, look, words_of

log = logging.getLogger("wakeful")


class Running(Struct, frozen=True):
    """A session with a prompt in flight, as much of it as a timer needs."""

    session_id: SessionId
    state: State
    progress_at: Instant | None


class SupervisionTimers:
    """One timer for each running prompt."""

    def __init__(
        self,
        clock: Clock,
        running: Callable[[], Iterable[Running]],
        rules: TimerRules,
        tell: Callable[[SupervisionEvent], None],
        timed_out: Callable[[SessionId], None] = lambda _session_id: None,
    ) -> None:
        self._clock = clock
        self._running = running
        self._rules = rules
        self._tell = tell
        self._timed_out = timed_out
        self._timers: dict[SessionId, Timer] = {}

    async def run(self) -> None:
        while True:
            self.look()
            await self._clock.sleep_until(self._clock.now().awake + self._rules.look_seconds)

    def look(self) -> None:
        """Look at every running prompt once; timers of those that ended end with them."""
        now = self._clock.now()
        before, self._timers = self._timers, {}
        for each in self._running():
            timer = before.get(each.session_id) or begun(each.progress_at or now)
            if each.state is State.WAITING:
                # It waits for a person, who may take all night: that silence is nobody's fault.
                self._timers[each.session_id] = begun(now)
                continue
            timer, stage = look(timer, each.progress_at or timer.progress_at, self._rules, now)
            self._timers[each.session_id] = timer
            if stage is not None:
                self._say(each.session_id, timer, stage, now)
            if stage is Stage.TIMEOUT:
                self._timed_out(each.session_id)

    def warnings(self, session_id: SessionId) -> tuple[str, ...]:
        """What is to be said of a session's prompt; nothing while it makes progress."""
        timer = self._timers.get(session_id)
        if timer is None or timer.said is None:
            return ()
        since = iso(timer.progress_at.wall)
        return (f"{timer.said}: no progress since {since}",)

    def _say(self, session_id: SessionId, timer: Timer, stage: Stage, now: Instant) -> None:
        words = words_of(stage, now.seconds_since(timer.progress_at))
        if stage is not Stage.PROGRESS:
            log.info("%s: %s", session_id, words)
        self._tell(SupervisionEvent(session_id, stage, iso(now.wall), iso(timer.progress_at.wall), words))
