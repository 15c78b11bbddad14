"""Claims about the gateway's alerts to its operator: muted they wait, paused they say so, and a failing
channel stops no other."""

import asyncio

import pytest

from support.fake_sessions_and_answers import ScriptedChat
from support.healing_fixture import RecordingMessenger
from wakeful.alerts.delivery import Refused
from wakeful.alerts.mute_pause import MutePause
from wakeful.alerts.mute_pause_model import MuteKind
from wakeful.gateway.host_monitor import AdminNotifier
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock


class RefusingMessenger(RecordingMessenger):
    async def send(self, text: str, *, chat: str | None = None) -> None:
        del text, chat
        raise Refused(channel="deaf", reason="it is")


class NotifierFixture:
    """A gateway's notifier, and the daemon's mutes on the same store."""

    def __init__(self, *channels: RecordingMessenger) -> None:
        self.clock = VirtualClock()
        store = MemoryStore(now=lambda: self.clock.now().wall)
        self.calm = MutePause(store, self.clock)
        self.recorder = RecordingMessenger()
        self.chat = ScriptedChat()
        self.voice = AdminNotifier(MutePause(store, self.clock), (*channels, self.recorder), self.chat, (7,))


async def test_what_is_muted_waits_for_the_end_of_its_mute() -> None:
    """`wakeful mute --code gateway`, given elsewhere: not sent, and not counted as sent."""
    office = NotifierFixture()
    await office.calm.mute(MuteKind.CODE, "gateway", 60.0, by="ada")
    assert await office.voice.notify("warning", "the disk is full") is False
    assert office.recorder.said == []
    await office.clock.run_for(61)
    assert await office.voice.notify("warning", "the disk is full") is True
    assert office.recorder.said == ["warning: the disk is full"]


async def test_a_pause_is_said_first() -> None:
    """Like every other alert."""
    office = NotifierFixture()
    await office.calm.pause("ada")
    await office.voice.notify("info", "logged in again")
    (told,) = office.recorder.said
    assert told.splitlines()[0].startswith("PAUSED by ada")
    assert told.splitlines()[1] == "info: logged in again"


@pytest.mark.parametrize("channels", [(), (RefusingMessenger(),)])
def test_every_channel_is_tried(channels: tuple[RecordingMessenger, ...]) -> None:
    """A channel that refuses stops no other, the admin's own chat included."""
    office = NotifierFixture(*channels)
    assert asyncio.run(office.voice.notify("critical", "no login")) is True
    assert office.recorder.said == ["critical: no login"]
    assert [(place.chat_id, text) for place, text, _ in office.chat.sent] == [(7, "critical: no login")]
