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

from wakeful.alerts.delivery import ChannelDelivery, DeliveryOutcome, Messenger
from wakeful.alerts.digest import digest_text, overflow_text
from wakeful.alerts.model import Alert, AlertRules, with_pause_line
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.pending import (
    AlertPhase,
    PendingAlert,
    is_done,
    is_same_message,
    mark_delivered,
    mark_over,
    message_text,
    new_pending_alert,
    renew_alert,
    restore_alert,
)
from wakeful.core.clock import Clock
from wakeful.core.decoding import json_decoder
from wakeful.core.errors import WorldError
from wakeful.storage.base import Note, Store

KIND: Final = "alert"
# Enough for a channel that is down for a week. Beyond that, resolved and delivered alerts are dropped first;
# if all still wait, further ones are only counted.
EPISODES_MAX: Final = 1000
# The key of an alert that counts those without room begins with this.
OVERFLOW_PREFIX: Final = "more/"
SWEEP_SECONDS: Final = 1.0
# How often to check whether a mute has ended.
MUTED_SECONDS: Final = 60.0
# The only channel that supports chats.
CHAT_CHANNEL: Final = "telegram"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = json_decoder(PendingAlert)

log = logging.getLogger("wakeful.alerts")


class AlertOutbox:
    """Episodes in memory, each also a note in the store. Several daemons on one store send each episode once.

    `owner` marks the notes that this daemon restores. Call `restore` before anything else. A muted alert waits
    until the mute ends; a message during a pause begins with the pause.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        channels: Sequence[Messenger],
        rules: AlertRules,
        owner: str,
        mute_pause: MutePause | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self._owner = owner
        self._mute_pause = mute_pause
        self._use_channels(channels)
        # The channels to change to, and whether there are any: `run` finishes with the old ones first.
        self._next_channels: Sequence[Messenger] = ()
        self._channels_changed = asyncio.Event()
        self._episodes: dict[str, PendingAlert] = {}
        self._in_flight: Counter[str] = Counter()
        # Episodes whose claim is not stored yet: another daemon on this store may have been first.
        self._claiming: set[str] = set()
        # Episodes that differ between memory and store, usually because the store refused a write.
        self._unsaved: set[str] = set()
        self._is_store_failing = False
        self._write_lock = asyncio.Lock()
        self._restored = False
        self._swept_at = -inf

    def _use_channels(self, channels: Sequence[Messenger]) -> None:
        self._channels = tuple(channels)
        self._channel_deliveries = tuple(ChannelDelivery(each, self, self._clock) for each in channels)
        self._names = tuple(each.name for each in channels)
        assert len(set(self._names)) == len(self._names), "two channels of one name could not be told apart"

    @property
    def cooldown_seconds(self) -> float:
        return self._rules.cooldown_seconds

    def set_rules(self, rules: AlertRules) -> None:
        """The configuration has changed; queued alerts stay."""
        self._rules = rules
        self._wake()

    def set_channels(self, channels: Sequence[Messenger]) -> None:
        """Deliver through these from now on. A message that is being sent is finished first."""
        self._next_channels = channels
        self._channels_changed.set()
        for each in self._channel_deliveries:
            each.stop()

    @property
    def problems(self) -> tuple[str, ...]:
        """Which channels do not work, and how many alerts wait for each; for `wakeful status`."""
        return tuple(
            f"alerts: {each.problem} ({len(self.pending(each.name))} wait)"
            for each in self._channel_deliveries
            if each.problem is not None
        )

    @property
    def delivery_counts(self) -> dict[tuple[str, ...], float]:
        """How many messages each channel took, refused or may have lost since the start."""
        return {
            (each.name, outcome): each.outcome_counts[outcome]
            for each in self._channel_deliveries
            for outcome in DeliveryOutcome
        }

    @property
    def pending_counts(self) -> dict[tuple[str, ...], float]:
        return {(name,): len(self.pending(name)) for name in self._names}

    async def restore(self) -> None:
        """Load the pending alerts of an earlier daemon. Raises the store's errors; a repeated call changes nothing."""
        if self._restored:
            return
        for note in await self._store.notes(KIND):
            await self._restore_note(note)
        self._restored = True
        self._wake()

    async def run(self) -> None:
        """Deliver until cancelled."""
        await self.restore()
        try:
            while True:
                async with asyncio.TaskGroup() as group:
                    for each in self._channel_deliveries:
                        group.create_task(each.run())
                    # Without a channel there is nothing to do, but the task must not end.
                    await self._channels_changed.wait()
                await self._change_channels()
        finally:
            await self._close_channels()

    async def _change_channels(self) -> None:
        self._channels_changed.clear()
        await self._close_channels()
        self._use_channels(self._next_channels)
        for key, alert in list(self._episodes.items()):
            restored = restore_alert(alert, self._names_for(alert.alert))
            if key in self._claiming:
                # Only its claim may store it: another daemon may have been first.
                self._episodes[key] = restored
            else:
                await self._update(key, restored)

    async def _close_channels(self) -> None:
        for channel in self._channels:
            await channel.close()

    async def enqueue(self, alert: Alert) -> bool:
        """Store it for delivery. False: no channel wants it, or it was queued before."""
        names = self._names_for(alert)
        if not names or not self._rules.wants(alert):
            return False
        await self._forget_done(alert.episode)
        now, known = self._clock.now().wall, self._episodes.get(alert.episode)
        if known is None:
            enqueued = await self._enqueue_new(new_pending_alert(alert, self._owner, names, now))
        else:
            enqueued = await self._enqueue_again(known, alert, names, now)
        if enqueued:
            self._wake()
        return enqueued

    async def resolve(self, episode: str, text: str | None = None) -> bool:
        """End it. Channels that delivered it also deliver `text`, if given; an undelivered alert is dropped.

        False: no such alert is open.
        """
        known = self._episodes.get(episode)
        if known is None or known.phase is not AlertPhase.ACTIVE:
            return False
        if self._in_flight[episode]:
            await self._update(episode, replace(known, phase=AlertPhase.ENDING, ending=text))
            return True
        await self._update(episode, mark_over(known, text))
        self._wake()
        return True

    def muted_seconds(self, alert: PendingAlert) -> float:
        """How long it waits because its topic is muted; its end is delivered nevertheless."""
        topic = alert.alert.topic
        if topic is None or self._mute_pause is None or alert.phase is not AlertPhase.ACTIVE:
            return 0.0
        return MUTED_SECONDS if self._mute_pause.is_topic_muted(topic) else 0.0

    def message_text(self, episodes: Sequence[PendingAlert]) -> str:
        """Their current text. During a pause it begins with the pause, except in a user's chat."""
        text = (
            message_text(episodes[0], self._clock.now().wall) if len(episodes) == 1 else digest_text(episodes)
        )
        if self._mute_pause is None or episodes[0].alert.chat is not None:
            return text
        pause = self._mute_pause.current_pause
        return text if pause is None else with_pause_line(text, pause.by)

    def open_episodes(self, prefix: str) -> list[PendingAlert]:
        """Episodes that began and are not over, by the beginning of their key."""
        return [
            each
            for key, each in self._episodes.items()
            if key.startswith(prefix) and each.phase is AlertPhase.ACTIVE
        ]

    def pending(self, channel: str) -> list[PendingAlert]:
        return [
            each
            for key, each in self._episodes.items()
            if each.is_deliverable and channel in each.pending and key not in self._claiming
        ]

    async def begin_delivery(self, episodes: Sequence[PendingAlert], channel: str) -> bool:
        """A message to a chat is sent only after it is noted in the store, all others at once."""
        for alert in episodes:
            self._in_flight[alert.alert.episode] += 1
        first = episodes[0]
        if first.alert.chat is None:
            return True
        key = first.alert.episode
        await self._update(key, replace(self._episodes[key], begun=(channel,)))
        if key not in self._unsaved:
            return True
        await self.on_refused(episodes, channel)
        return False

    async def on_delivered(self, episodes: Sequence[PendingAlert], channel: str) -> None:
        """A channel delivered them, or may have."""
        now = self._clock.now().wall
        changed = {}
        for alert in episodes:
            key = alert.alert.episode
            known = self._episodes[key]
            changed[key] = mark_delivered(known, channel, now) if is_same_message(known, alert) else known
        await self._on_delivery_end(changed)

    async def on_refused(self, episodes: Sequence[PendingAlert], channel: str) -> None:
        """A channel did not deliver them: they stay pending."""
        changed = {}
        for alert in episodes:
            key = alert.alert.episode
            known = self._episodes[key]
            begun = tuple(each for each in known.begun if each != channel)
            changed[key] = replace(known, begun=begun)
        await self._on_delivery_end(changed)

    async def _on_delivery_end(self, changed: Mapping[str, PendingAlert]) -> None:
        """Store the results of a delivery; an alert that was resolved during its last delivery is over now."""
        unsaved = []
        for key, alert in changed.items():
            newest = alert
            self._in_flight[key] -= 1
            if not self._in_flight[key]:
                del self._in_flight[key]
                if newest.phase is AlertPhase.ENDING:
                    newest = mark_over(newest, newest.ending)
                    self._wake()
            if newest != self._episodes[key]:
                self._set(key, newest)
                unsaved.append(key)
        if unsaved:
            await self._save(*unsaved)

    async def _enqueue_again(
        self, known: PendingAlert, alert: Alert, names: Sequence[str], now: float
    ) -> bool:
        renewed = renew_alert(known, alert, names, now, self.cooldown_seconds)
        if renewed is None or alert.episode in self._claiming:
            return False
        await self._update(alert.episode, renewed)
        return True

    async def _enqueue_new(self, new: PendingAlert) -> bool:
        """Claim a new episode durably; False if another daemon on this store has it."""
        key = new.alert.episode
        if not self._make_room() and new.alert.chat is None:
            return await self._count_overflow(new)
        self._episodes[key] = new
        self._claiming.add(key)
        try:
            is_claimed = await self._store.save_new_note(Note(KIND, key, _encode(new)))
        except WorldError as problem:
            self._on_save_failed(key, problem)
            return True
        finally:
            self._claiming.discard(key)
        if not is_claimed:
            self._episodes.pop(key, None)
        return is_claimed

    async def _update(self, key: str, alert: PendingAlert) -> None:
        self._set(key, alert)
        await self._save(key)

    def _set(self, key: str, alert: PendingAlert) -> None:
        """Set a new value for an episode, or delete it if it is done."""
        if self._is_done(alert) and not self._in_flight[key]:
            del self._episodes[key]
        else:
            self._episodes[key] = alert

    async def _save(self, *keys: str) -> None:
        """Store the current values of these episodes, and of all that could not be stored before."""
        async with self._write_lock:
            # Together: the store syncs its file once for all simultaneous writes. Shielded: the result of a delivery
            # is stored even if Wakeful shuts down right after it.
            saving = (self._save_one(key) for key in {*keys, *self._unsaved})
            await asyncio.shield(asyncio.gather(*saving))

    async def _save_one(self, key: str) -> None:
        alert = self._episodes.get(key)
        try:
            if alert is None:
                await self._store.drop_note(KIND, key)
            else:
                await self._store.save_note(Note(KIND, key, _encode(alert)))
        except WorldError as problem:
            self._on_save_failed(key, problem)
        else:
            self._unsaved.discard(key)
            self._is_store_failing = False

    def _on_save_failed(self, key: str, problem: WorldError) -> None:
        if not self._is_store_failing:
            log.warning("alerts are sent, but a restart may lose or repeat them: %s", problem)
        self._is_store_failing = True
        self._unsaved.add(key)

    async def _restore_note(self, note: Note) -> None:
        try:
            known = _decode(note.body)
        except msgspec.DecodeError:
            # A note that stayed would prevent every alert with this key.
            log.warning("an alert from another version was dropped: %s", note.key)
            await self._store.drop_note(KIND, note.key)
            return
        if self._is_done(known):
            await self._store.drop_note(KIND, note.key)
        elif known.owner == self._owner and note.key not in self._episodes:
            self._episodes[note.key] = restore_alert(known, self._names_for(known.alert))
            await self._update(note.key, self._episodes[note.key])

    def _names_for(self, alert: Alert) -> tuple[str, ...]:
        if alert.chat is None:
            return self._names
        return tuple(name for name in self._names if name == CHAT_CHANNEL)

    async def _forget_done(self, episode: str) -> None:
        """Delete done episodes, because cooldowns end without an event. All episodes are checked once a second at most."""
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

    def _is_done(self, alert: PendingAlert) -> bool:
        # A mute may last longer than the retention.
        done = is_done(alert, self._clock.now().wall, self.cooldown_seconds)
        return done and not (alert.pending and self.muted_seconds(alert))

    def _make_room(self) -> bool:
        """Delete the oldest resolved episode, else the oldest delivered one. False: all of them still wait."""
        if len(self._episodes) < EPISODES_MAX:
            return True
        sent = [key for key, each in self._episodes.items() if not each.pending and not self._in_flight[key]]
        if not sent:
            return False
        key = min(
            sent,
            key=lambda each: (
                self._episodes[each].phase is not AlertPhase.OVER,
                self._episodes[each].owed_at,
            ),
        )
        del self._episodes[key]
        self._unsaved.add(key)
        return True

    async def _count_overflow(self, new: PendingAlert) -> bool:
        """Queue one alert that counts all alerts of its kind without room; `wakeful incidents` lists each problem."""
        prefix = f"{OVERFLOW_PREFIX}{new.alert.kind}/"
        open_keys = [key for key, each in self._episodes.items() if key.startswith(prefix) and not each.took]
        key = next((each for each in open_keys if not self._in_flight[each]), f"{prefix}{new.owed_at}")
        known = self._episodes.get(key)
        count = known.alert.stands_for + 1 if known is not None else 1
        if known is None:
            log.warning("more than %s alerts wait: the others are only counted", EPISODES_MAX)
        alert = Alert(new.alert.kind, key, overflow_text(count), topic=None, stands_for=count)
        self._episodes[key] = replace(known if known is not None else new, alert=alert)
        await self._save(key)
        return True

    def _wake(self) -> None:
        for each in self._channel_deliveries:
            each.wake()
