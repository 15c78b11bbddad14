"""Tells people of journals' checkpoints that wait for them, each once for ever, and that they were decided.

Whoever opened it, and whenever: a program, `wakeful recover` or the daemon itself. Agents' are told by their healer.
"""

from typing import Final

from wakeful.alerts.alerts import Alert, AlertKind, Matter, Topic, checkpoint_opened, resolved
from wakeful.alerts.outbox import AlertDesk
from wakeful.checkpoints.checkpoints import Checkpoints
from wakeful.checkpoints.model import Checkpoint, CheckpointKind
from wakeful.core.clock import Clock
from wakeful.core.moment import iso
from wakeful.storage.store import Note, Store

KIND: Final = "checkpoint-told"
INTERVAL_SECONDS: Final = 30.0
_EPISODES: Final = "checkpoint/"


class Announcer:
    """One for each daemon; several on one store tell each checkpoint once."""

    def __init__(self, checkpoints: Checkpoints, alerts: AlertDesk, store: Store, clock: Clock) -> None:
        self._checkpoints = checkpoints
        self._alerts = alerts
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.check()
            await self._clock.sleep_until(self._clock.now().awake + INTERVAL_SECONDS)

    async def check(self) -> None:
        """Owe what nobody was told of, and the end of what was decided."""
        journals = [each for each in await self._checkpoints.listed() if each.kind is CheckpointKind.JOURNAL]
        told = {note.key for note in await self._store.notes(KIND)}
        for each in journals:
            if each.is_open and _key(each) not in told:
                await self._tell(each)
        decided = {_episode(each): each for each in journals if not each.is_open}
        for episode in (owed.alert.episode for owed in self._alerts.open_episodes(_EPISODES)):
            if episode in decided:
                await self._alerts.resolve(episode, _end(decided[episode]))

    async def _tell(self, checkpoint: Checkpoint) -> None:
        """Owed first and noted then: killed in between, the outbox knows the episode. Without a channel it waits."""
        episode = _episode(checkpoint)
        topic = Topic((Matter.CHECKPOINT,), checkpoint.project)
        await self._alerts.owe(Alert(AlertKind.NEEDS_YOU, episode, _words(checkpoint), topic=topic))
        if self._alerts.open_episodes(episode):
            await self._store.keep_new_note(Note(KIND, _key(checkpoint), b""))


def _key(checkpoint: Checkpoint) -> str:
    return str(checkpoint.number)


def _episode(checkpoint: Checkpoint) -> str:
    # The slash at its end keeps 1 apart from 10.
    return f"{_EPISODES}{checkpoint.number}/"


def _words(checkpoint: Checkpoint) -> str:
    first, *others = checkpoint.may_have or ("nothing is known",)
    return checkpoint_opened(
        checkpoint.project or checkpoint.subject,
        where=f"journal {checkpoint.subject}",
        since=iso(checkpoint.opened_at),
        doubt=f"{first}{f' (and {len(others)} more)' if others else ''}",
        number=checkpoint.number,
    )


def _end(checkpoint: Checkpoint) -> str:
    did = f"{checkpoint.state.replace('_', ' ')} by {checkpoint.decided_by}"
    what = f"{checkpoint.project or checkpoint.subject}, checkpoint {checkpoint.number}"
    return resolved(what, iso(checkpoint.opened_at), because=did)
