"""The outbox of alerts: stored before delivery, delivered once through each channel, removed when resolved.

Delivery is at least once: a crash between a channel's answer and its note repeats the message. Messages to a
user's chat are the exception: they are noted first, and one that may have arrived is not repeated. If the
store refuses, alerts are still sent; only messages to a chat wait for it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import msgspec
from msgspec.structs import replace

from wakeful.alerts.delivery import Courier, Delivery, Messenger
from wakeful.alerts.digest import digest_text, more
from wakeful.alerts.model import Alert, Rules, prefaced
from wakeful.alerts.mute_pause import Calm
from wakeful.alerts.pending import (
    Owed,
    Phase,
    again,
    ended,
    is_done,
    is_same_telling,
    owed,
    recalled,
    taken,
    words,
)
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WorldError
from wakeful.storage.base import Note, Store

KIND: Final = "alert"
# A channel that is out for a week on a bad machine; beyond that the oldest are given up.
EPISODES_MAX: Final = 1000
# Alerts for which there is no room are counted under a key that begins so.
MORE: Final = "more/"
SWEEP_SECONDS: Final = 1.0
# Whether a mute has ended is asked this often.
HUSHED_SECONDS: Final = 60.0
# The only channel that knows chats.
CHAT_CHANNEL: Final = "telegram"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(Owed)

log = logging.getLogger("wakeful.alerts")


class AlertDesk:
    """Episodes in memory, each also a note in the store. Several daemons on one store tell each episode once.

    `owner` says whose notes are ours after a restart. Call `take_up` before anything else. What `calm` mutes is kept
    until the mute has ended, and what is told during a pause says so first.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        channels: Sequence[Messenger],
        rules: Rules,
        owner: str,
        calm: Calm | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self._owner = owner
        self._calm = calm
        self._channels = tuple(channels)
        self._couriers = tuple(Courier(each, self, clock) for each in channels)
        self._names = tuple(each.name for each in channels)
        assert len(set(self._names)) == len(self._names), "two channels of one name could not be told apart"
        self._episodes: dict[str, Owed] = {}
        self._in_flight: Counter[str] = Counter()
        # Not yet known to be ours: another daemon on this store may have been first.
        self._claiming: set[str] = set()
        # Where memory and store differ, most likely because the store refused.
        self._unsaved: set[str] = set()
        self._refusing = False
        self._writing = asyncio.Lock()
        self._taken_up = False
        self._swept_at = -inf

    @property
    def cooldown_seconds(self) -> float:
        return self._rules.cooldown_seconds

    @property
    def troubles(self) -> tuple[str, ...]:
        """Which channels do not work, and how many alerts wait for each; for `wakeful status`."""
        return tuple(
            f"alerts: {each.trouble} ({len(self.pending(each.name))} wait)"
            for each in self._couriers
            if each.trouble is not None
        )

    @property
    def deliveries(self) -> dict[tuple[str, ...], float]:
        """How many messages each channel took, refused or may have lost since the start."""
        return {(each.name, came): each.told[came] for each in self._couriers for came in Delivery}

    @property
    def waiting(self) -> dict[tuple[str, ...], float]:
        """How many messages each channel has yet to take."""
        return {(name,): len(self.pending(name)) for name in self._names}

    async def take_up(self) -> None:
        """Recall what an earlier daemon owed. Raises the store's errors; twice is once."""
        if self._taken_up:
            return
        for note in await self._store.notes(KIND):
            await self._recall(note)
        self._taken_up = True
        self._wake()

    async def run(self) -> None:
        """Deliver until cancelled."""
        await self.take_up()
        try:
            async with asyncio.TaskGroup() as group:
                for each in self._couriers:
                    group.create_task(each.run())
                # Without a channel there is nothing to do, and yet no end.
                await asyncio.Event().wait()
        finally:
            for channel in self._channels:
                await channel.close()

    async def owe(self, alert: Alert) -> bool:
        """Keep it, durably, and have it told. False: nobody is to be told, or somebody was told already."""
        names = self._names_for(alert)
        if not names or not self._rules.wants(alert):
            return False
        await self._forget_done(alert.episode)
        now, known = self._clock.now().wall, self._episodes.get(alert.episode)
        if known is None:
            kept = await self._owe_new(owed(alert, self._owner, names, now))
        else:
            kept = await self._owe_again(known, alert, names, now)
        if kept:
            self._wake()
        return kept

    async def resolve(self, episode: str, text: str | None = None) -> bool:
        """It is over. Whoever was told is told that too, if there is a text; what nobody heard of is dropped.

        False: nothing of it was known.
        """
        known = self._episodes.get(episode)
        if known is None or known.phase is not Phase.TELLING:
            return False
        if self._in_flight[episode]:
            await self._put(episode, replace(known, phase=Phase.ENDING, ending=text))
            return True
        await self._put(episode, ended(known, text))
        self._wake()
        return True

    def hushed_seconds(self, episode: Owed) -> float:
        """How long nobody is to hear of it because somebody muted what it is about; its end is told all the same."""
        topic = episode.alert.topic
        if topic is None or self._calm is None or episode.phase is not Phase.TELLING:
            return 0.0
        return HUSHED_SECONDS if self._calm.hushes(topic) else 0.0

    def worded(self, episodes: Sequence[Owed]) -> str:
        """What is to be said of them now, during a pause with that first; somebody else's chat is not concerned."""
        text = words(episodes[0], self._clock.now().wall) if len(episodes) == 1 else digest_text(episodes)
        concerned = episodes[0].alert.chat is None
        paused = self._calm.paused if self._calm is not None and concerned else None
        return text if paused is None else prefaced(text, paused.by)

    def open_episodes(self, prefix: str) -> list[Owed]:
        """Episodes that began and are not over, by the beginning of their key."""
        return [
            each
            for key, each in self._episodes.items()
            if key.startswith(prefix) and each.phase is Phase.TELLING
        ]

    def pending(self, channel: str) -> list[Owed]:
        """What this channel has yet to tell."""
        return [
            each
            for key, each in self._episodes.items()
            if each.is_telling and channel in each.pending and key not in self._claiming
        ]

    async def begin(self, episodes: Sequence[Owed], channel: str) -> bool:
        """Words to a chat leave only after a note of it; everything else at once."""
        for episode in episodes:
            self._in_flight[episode.alert.episode] += 1
        first = episodes[0]
        if first.alert.chat is None:
            return True
        key = first.alert.episode
        await self._put(key, replace(self._episodes[key], begun=(channel,)))
        if key not in self._unsaved:
            return True
        await self.refused(episodes, channel)
        return False

    async def took(self, episodes: Sequence[Owed], channel: str) -> None:
        """A channel has told them, or may have."""
        now = self._clock.now().wall
        changed = {}
        for episode in episodes:
            key = episode.alert.episode
            known = self._episodes[key]
            changed[key] = taken(known, channel, now) if is_same_telling(known, episode) else known
        await self._landed(changed)

    async def refused(self, episodes: Sequence[Owed], channel: str) -> None:
        """A channel has not told them: they stay owed."""
        changed = {}
        for episode in episodes:
            key = episode.alert.episode
            known = self._episodes[key]
            begun = tuple(each for each in known.begun if each != channel)
            changed[key] = replace(known, begun=begun)
        await self._landed(changed)

    async def _landed(self, changed: Mapping[str, Owed]) -> None:
        """A channel is done speaking; an end that waited for that can take place."""
        news = []
        for key, landed in changed.items():
            known = landed
            self._in_flight[key] -= 1
            if not self._in_flight[key]:
                del self._in_flight[key]
                if known.phase is Phase.ENDING:
                    known = ended(known, known.ending)
                    self._wake()
            if known != self._episodes[key]:
                self._set(key, known)
                news.append(key)
        if news:
            await self._save(*news)

    async def _owe_again(self, known: Owed, alert: Alert, names: Sequence[str], now: float) -> bool:
        renewed = again(known, alert, names, now, self.cooldown_seconds)
        if renewed is None or alert.episode in self._claiming:
            return False
        await self._put(alert.episode, renewed)
        return True

    async def _owe_new(self, new: Owed) -> bool:
        """Claim a new episode, durably; False if another daemon on this store has it."""
        key = new.alert.episode
        if not self._make_room() and new.alert.chat is None:
            return await self._count_more(new)
        self._episodes[key] = new
        self._claiming.add(key)
        try:
            kept = await self._store.keep_new_note(Note(KIND, key, _encode(new)))
        except WorldError as problem:
            self._not_saved(key, problem)
            return True
        finally:
            self._claiming.discard(key)
        if not kept:
            self._episodes.pop(key, None)
        return kept

    async def _put(self, key: str, episode: Owed) -> None:
        self._set(key, episode)
        await self._save(key)

    def _set(self, key: str, episode: Owed) -> None:
        """Take a new value for an episode, and forget it if it is done with."""
        if self._is_done(episode) and not self._in_flight[key]:
            del self._episodes[key]
        else:
            self._episodes[key] = episode

    async def _save(self, *keys: str) -> None:
        """Write what memory says, for these and for all that could not be written before."""
        async with self._writing:
            # Together: the store syncs its file once for all that come at the same time. Shielded: what was told is written
            # down also when Wakeful ends right after it.
            saving = (self._save_one(key) for key in {*keys, *self._unsaved})
            await asyncio.shield(asyncio.gather(*saving))

    async def _save_one(self, key: str) -> None:
        episode = self._episodes.get(key)
        try:
            if episode is None:
                await self._store.drop_note(KIND, key)
            else:
                await self._store.keep_note(Note(KIND, key, _encode(episode)))
        except WorldError as problem:
            self._not_saved(key, problem)
        else:
            self._unsaved.discard(key)
            self._refusing = False

    def _not_saved(self, key: str, problem: WorldError) -> None:
        if not self._refusing:
            log.warning("alerts are told, but not kept over a restart: %s", problem)
        self._refusing = True
        self._unsaved.add(key)

    async def _recall(self, note: Note) -> None:
        try:
            known = _decode(note.body)
        except msgspec.DecodeError:
            # Left there it would keep this episode silent for ever.
            log.warning("an alert of another version was dropped: %s", note.key)
            await self._store.drop_note(KIND, note.key)
            return
        if self._is_done(known):
            await self._store.drop_note(KIND, note.key)
        elif known.owner == self._owner and note.key not in self._episodes:
            self._episodes[note.key] = recalled(known, self._names_for(known.alert))
            await self._put(note.key, self._episodes[note.key])

    def _names_for(self, alert: Alert) -> tuple[str, ...]:
        if alert.chat is None:
            return self._names
        return tuple(name for name in self._names if name == CHAT_CHANNEL)

    async def _forget_done(self, episode: str) -> None:
        """Forget what is done; cooldowns end without an event. In a flood all episodes are checked once a second only."""
        now = self._clock.now().awake
        is_time = now - self._swept_at >= SWEEP_SECONDS
        keys = list(self._episodes) if is_time else [key for key in (episode,) if key in self._episodes]
        self._swept_at = now if is_time else self._swept_at
        for key in keys:
            if self._is_done(self._episodes[key]) and not self._in_flight[key]:
                del self._episodes[key]
                self._unsaved.add(key)
        if self._unsaved:
            await self._save()

    def _is_done(self, episode: Owed) -> bool:
        """A mute may last longer than anything else is kept."""
        done = is_done(episode, self._clock.now().wall, self.cooldown_seconds)
        return done and not (episode.pending and self.hushed_seconds(episode))

    def _make_room(self) -> bool:
        """Forget an episode that is over, else one that was delivered. False: all of them still wait."""
        if len(self._episodes) < EPISODES_MAX:
            return True
        told = [key for key, each in self._episodes.items() if not each.pending and not self._in_flight[key]]
        if not told:
            return False
        key = min(
            told,
            key=lambda each: (self._episodes[each].phase is not Phase.OVER, self._episodes[each].owed_at),
        )
        del self._episodes[key]
        self._unsaved.add(key)
        return True

    async def _count_more(self, new: Owed) -> bool:
        """One alert counts all of its kind for which there is no room; `wakeful incidents` lists every one."""
        prefix = f"{MORE}{new.alert.kind}/"
        open_keys = [key for key, each in self._episodes.items() if key.startswith(prefix) and not each.took]
        key = next((each for each in open_keys if not self._in_flight[each]), f"{prefix}{new.owed_at}")
        known = self._episodes.get(key)
        count = known.alert.stands_for + 1 if known is not None else 1
        if known is None:
            log.warning("more than %s alerts wait: the rest of them is only counted", EPISODES_MAX)
        alert = Alert(new.alert.kind, key, more(count), topic=None, stands_for=count)
        self._episodes[key] = replace(known if known is not None else new, alert=alert)
        await self._save(key)
        return True

    def _wake(self) -> None:
        for each in self._couriers:
            each.wake()
