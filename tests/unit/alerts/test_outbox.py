"""The outbox of alerts: sent once through every channel, stored until then, silent within a cooldown; virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from wakeful.alerts.delivery import SEND_SECONDS_MAX, NotDelivered, Refused
from wakeful.alerts.digest import MESSAGES_MAX, REFILL_SECONDS
from wakeful.alerts.model import Alert, AlertKind, AlertRules, DigestEntry
from wakeful.alerts.outbox import EPISODES_MAX, KIND, AlertOutbox
from wakeful.alerts.pending import BACKOFF_SECONDS_MAX, RETENTION_SECONDS_MAX, PendingAlert, backoff_seconds
from wakeful.storage.base import Note
from wakeful.storage.sqlite.errors import StoreBusy
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

HOUR = 3600.0


class RecordingChannel:
    """A channel with scripted results that records time and text."""

    def __init__(self, clock: VirtualClock, name: str = "telegram") -> None:
        self.name = name
        self.said: list[str] = []
        self.chats: list[str | None] = []
        self.tried_at: list[float] = []
        self.answer: Callable[[str], Exception | None] = lambda _text: None
        self.hangs = False
        self._clock = clock

    async def send(self, text: str, *, chat: str | None = None) -> None:
        self.tried_at.append(self._clock.now().awake)
        if self.hangs:
            await asyncio.Event().wait()
        problem = self.answer(text)
        if problem is not None:
            raise problem
        self.said.append(text)
        self.chats.append(chat)

    async def close(self) -> None:
        self.answer = lambda _text: AssertionError("used after it was closed")

    def refuse(self, retry_after_seconds: float = 0.0) -> None:
        facts = {"retry_after_seconds": retry_after_seconds}
        self.answer = lambda _text: Refused(channel=self.name, reason="no", **facts)

    def doubt(self) -> None:
        self.answer = lambda _text: NotDelivered(channel=self.name, reason="who knows")

    def work(self) -> None:
        self.answer = lambda _text: None


class FullStore(MemoryStore):
    """Refuses every note while set."""

    refusing = False

    async def save_note(self, note: Note) -> None:
        self._check()
        await super().save_note(note)

    async def save_new_note(self, note: Note) -> bool:
        self._check()
        return await super().save_new_note(note)

    async def drop_note(self, kind: str, key: str) -> bool:
        self._check()
        return await super().drop_note(kind, key)

    def _check(self) -> None:
        if self.refusing:
            raise StoreBusy(path="wakeful.db", seconds=5.0)


class OutboxFixture:
    """A store that outlives its outboxes."""

    def __init__(self, *names: str, rules: AlertRules | None = None) -> None:
        self.clock = VirtualClock()
        self.store = FullStore(now=lambda: self.clock.now().wall)
        self.rules = rules or AlertRules(frozenset(AlertKind))
        self.channels = [RecordingChannel(self.clock, name) for name in names or ("telegram",)]
        self.only = self.channels[0]
        self.desk = self.new_desk()

    def new_desk(self, owner: str = "here") -> AlertOutbox:
        return AlertOutbox(self.store, self.clock, self.channels, self.rules, owner)

    async def stored(self) -> list[str]:
        return [note.key for note in await self.store.notes(KIND)]

    @asynccontextmanager
    async def running(self, desk: AlertOutbox | None = None) -> AsyncIterator[None]:
        """The running outbox; stopped as a crash would."""
        task = asyncio.create_task((desk or self.desk).run())
        await self.clock.run_for(0)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for channel in self.channels:
                channel.work()


@pytest.fixture
def scene() -> OutboxFixture:
    return OutboxFixture()


def trouble(text: str = "it is silent", episode: str = "one") -> Alert:
    return Alert(AlertKind.TROUBLE, episode, text)


async def test_an_alert_is_told_once_through_every_channel() -> None:
    """And not again while the episode lasts, however often and however much later it is reported."""
    scene = OutboxFixture("telegram", "ntfy")
    async with scene.running():
        assert await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
        assert not await scene.desk.enqueue(trouble())
        await scene.clock.run_for(5 * HOUR)
        assert not await scene.desk.enqueue(trouble("still silent"))
        await scene.clock.run_for(HOUR)
    assert [channel.said for channel in scene.channels] == [["it is silent"]] * 2


async def test_an_alert_is_in_the_store_before_anybody_is_told(scene: OutboxFixture) -> None:
    """What `owe` returned for is there after kill -9."""
    await scene.desk.enqueue(trouble())
    assert await scene.stored() == ["one"]
    assert scene.only.said == []


async def test_what_was_owed_before_a_crash_is_told_after_it(scene: OutboxFixture) -> None:
    """What was sent before the crash is not sent again."""
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
    async with scene.running(scene.new_desk()):
        await scene.clock.run_for(1)
    assert scene.only.said == ["it is silent"]
    after = scene.new_desk()
    async with scene.running(after):
        assert not await after.enqueue(trouble())
        await scene.clock.run_for(HOUR)
    assert scene.only.said == ["it is silent"]


async def test_a_channel_that_refuses_is_tried_later_and_later(scene: OutboxFixture) -> None:
    """10 s doubling to 10 min, forever; sent when it works, and later ones at once from then on."""
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(2 * HOUR)
        gaps = [b - a for a, b in zip(scene.only.tried_at, scene.only.tried_at[1:], strict=False)]
        assert gaps[:6] == [10, 20, 40, 80, 160, 320]
        assert set(gaps[6:]) == {BACKOFF_SECONDS_MAX}
        assert list(scene.desk.problems) == ["alerts: telegram refused the message: no. (1 wait)"]
        scene.only.work()
        await scene.clock.run_for(BACKOFF_SECONDS_MAX)
        assert [text.splitlines()[-1] for text in scene.only.said] == ["it is silent"]
        await scene.desk.enqueue(trouble("new", "two"))
        await scene.clock.run_for(0)
        assert scene.only.said[-1] == "new"
        assert not scene.desk.problems


async def test_a_late_alert_says_that_it_is_late(scene: OutboxFixture) -> None:
    """An event of the night does not look like news."""
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(HOUR)
        scene.only.work()
        await scene.clock.run_for(HOUR)
    (said,) = scene.only.said
    assert said.startswith("(delayed alert from 2027-01-15 08:00 UTC)\n")


async def test_a_channel_that_asks_for_time_gets_it(scene: OutboxFixture) -> None:
    """`retry_after` beyond our own pace is obeyed to the second."""
    scene.only.refuse(retry_after_seconds=77)
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(0)
        scene.only.work()
        await scene.desk.enqueue(trouble("another", "two"))
        await scene.clock.run_for(76)
        assert scene.only.said == []
        await scene.clock.run_for(1)
    assert sorted(scene.only.said) == ["another", "it is silent"]


async def test_a_channel_that_hangs_delays_no_other() -> None:
    """The other one tells at once; the hanging one is given up at its deadline and not asked twice."""
    scene = OutboxFixture("telegram", "ntfy")
    scene.only.hangs = True
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(0)
        assert scene.channels[1].said == ["it is silent"]
        await scene.clock.run_for(SEND_SECONDS_MAX + HOUR)
    assert len(scene.only.tried_at) == 1


async def test_what_may_have_arrived_is_not_said_again_through_that_channel(scene: OutboxFixture) -> None:
    """In doubt once, even over a restart; and the others wait for a moment, so that one outage does not swallow all."""
    scene.only.doubt()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.desk.enqueue(trouble("another", "two"))
        await scene.clock.run_for(backoff_seconds(1) - 1)
        assert len(scene.only.tried_at) == 1
        scene.only.work()
        await scene.clock.run_for(HOUR)
    async with scene.running(scene.new_desk()):
        await scene.clock.run_for(HOUR)
    assert scene.only.said == ["another"]


async def test_one_alert_that_is_refused_for_its_own_sake_holds_up_no_other(scene: OutboxFixture) -> None:
    """The others pass it by."""
    scene.only.answer = lambda text: Refused(channel="telegram", reason="bad") if "bad" in text else None
    async with scene.running():
        await scene.desk.enqueue(trouble("bad"))
        await scene.desk.enqueue(trouble("good", "two"))
        await scene.clock.run_for(2 * backoff_seconds(1))
        await scene.desk.enqueue(trouble("better", "three"))
        await scene.clock.run_for(2 * backoff_seconds(1))
    assert scene.only.said == ["good", "better"]


async def test_an_end_is_told_to_whoever_heard_of_the_trouble() -> None:
    """And to no other: a channel that was down all the time gets neither."""
    scene = OutboxFixture("telegram", "ntfy")
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
        assert await scene.desk.resolve("one", "it is over")
        scene.only.work()
        await scene.clock.run_for(HOUR)
    assert [channel.said for channel in scene.channels] == [[], ["it is silent", "it is over"]]


async def test_what_nobody_heard_of_ends_without_a_word(scene: OutboxFixture) -> None:
    """Neither the problem nor its end is sent, and nothing is left in the store."""
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
        await scene.desk.resolve("one", "it is over")
        assert await scene.stored() == []
        scene.only.work()
        await scene.clock.run_for(HOUR)
    assert scene.only.said == []


async def test_an_end_that_comes_while_the_trouble_is_being_told_follows_it(scene: OutboxFixture) -> None:
    """A channel that gets the alert also gets its end."""
    go_on = asyncio.Event()
    send = scene.only.send

    async def slow(text: str, *, chat: str | None = None) -> None:
        await go_on.wait()
        await send(text, chat=chat)

    scene.only.send = slow  # type: ignore[method-assign]
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(0)
        await scene.desk.resolve("one", "it is over")
        go_on.set()
        await scene.clock.run_for(1)
    assert scene.only.said == ["it is silent", "it is over"]


async def test_an_end_is_kept_over_a_restart(scene: OutboxFixture) -> None:
    """The news that it is over are owed like any other."""
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
        scene.only.refuse()
        await scene.desk.resolve("one", "it is over")
        await scene.clock.run_for(1)
    async with scene.running(scene.new_desk()):
        await scene.clock.run_for(1)
    assert scene.only.said == ["it is silent", "it is over"]


async def test_what_comes_back_within_its_cooldown_is_told_at_its_end(scene: OutboxFixture) -> None:
    """Counted from when it was sent; what is over by then is not sent at all."""
    async with scene.running():
        for _ in range(5):
            await scene.desk.enqueue(trouble())
            await scene.clock.run_for(60)
            await scene.desk.resolve("one", "it is over")
            await scene.clock.run_for(60)
        assert scene.only.said == ["it is silent", "it is over"]
        await scene.desk.enqueue(trouble("it is silent again"))
        await scene.clock.run_for(HOUR - 10 * 60 - 1)
        assert len(scene.only.said) == 2
        await scene.clock.run_for(1)
    assert scene.only.said[2:] == ["it is silent again"]


async def test_a_cooldown_begins_when_somebody_was_told(scene: OutboxFixture) -> None:
    """Ninety-seven alerts that were never delivered silence nothing."""
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
        await scene.desk.resolve("one", "it is over")
        scene.only.work()
        await scene.clock.run_for(60)
        await scene.desk.enqueue(trouble("again"))
        await scene.clock.run_for(0)
    assert scene.only.said == ["again"]


async def test_after_its_cooldown_an_episode_leaves_nothing_behind(scene: OutboxFixture) -> None:
    """The store does not grow with every past problem."""
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
        await scene.desk.resolve("one", "it is over")
        await scene.clock.run_for(HOUR)
        await scene.desk.enqueue(Alert(AlertKind.FINISHED, "done", "done"))
        await scene.clock.run_for(1)
    assert await scene.stored() == []


async def test_a_wall_clock_that_was_set_back_silences_nobody(scene: OutboxFixture) -> None:
    """A cooldown that seems to last longer than any does not hold."""
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
        await scene.desk.resolve("one")
        scene.clock.set_wall(scene.clock.now().wall - 1e8)
        await scene.desk.enqueue(trouble("again"))
        await scene.clock.run_for(1)
        assert scene.only.said[-1] == "again"
        await scene.desk.resolve("one")
        await scene.desk.enqueue(trouble("and again"))
        scene.clock.set_wall(scene.clock.now().wall - 1e8)
        await scene.clock.run_for(HOUR)
    assert scene.only.said[-1].endswith("and again")


async def test_of_words_nobody_heard_the_newest_count(scene: OutboxFixture) -> None:
    """A late alert has the current text."""
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble("nothing was done yet"))
        await scene.clock.run_for(1)
        await scene.desk.enqueue(trouble("revived: recovered"))
        scene.only.work()
        await scene.clock.run_for(60)
    assert scene.only.said == ["revived: recovered"]


async def test_a_kind_that_is_switched_off_is_not_kept() -> None:
    """Nor is anything without a channel."""
    quiet = OutboxFixture(rules=AlertRules(frozenset({AlertKind.NEEDS_YOU})))
    assert not await quiet.desk.enqueue(trouble())
    alone = OutboxFixture()
    outbox = AlertOutbox(alone.store, alone.clock, [], alone.rules, "here")
    assert not await outbox.enqueue(trouble())
    assert await quiet.stored() == await alone.stored() == []


async def test_a_store_that_refuses_keeps_nobody_from_being_told(scene: OutboxFixture) -> None:
    """The alert about a full disk does not wait for the disk; it is kept as soon as there is room."""
    scene.store.refusing = True
    async with scene.running():
        await scene.desk.enqueue(trouble("the disk is full"))
        await scene.clock.run_for(1)
        assert scene.only.said == ["the disk is full"]
        scene.store.refusing = False
        await scene.desk.enqueue(trouble("another", "two"))
        await scene.clock.run_for(1)
    assert await scene.stored() == ["one", "two"]


async def test_daemons_on_one_store_tell_an_episode_once(scene: OutboxFixture) -> None:
    """The daemon that stored it first sends it, and restarts of the others change nothing."""
    other = scene.new_desk("there")
    scene.only.refuse()
    async with scene.running(), scene.running(other):
        assert [await outbox.enqueue(trouble()) for outbox in (scene.desk, other)] == [True, False]
        await scene.clock.run_for(1)
    async with scene.running(scene.new_desk("there")):
        await scene.clock.run_for(1)
    assert scene.only.said == []
    async with scene.running(scene.new_desk("here")):
        await scene.clock.run_for(1)
    assert scene.only.said == ["it is silent"]


async def test_words_to_a_chat_are_said_at_most_once() -> None:
    """A crash while they were on their way leaves it in doubt, and what is in doubt is not said again."""
    scene = OutboxFixture("telegram", "ntfy")
    scene.only.hangs = True
    async with scene.running():
        await scene.desk.enqueue(Alert(AlertKind.TROUBLE, "chat", "sorry", chat="42"))
        await scene.clock.run_for(1)
        assert len(scene.only.tried_at) == 1
    scene.only.hangs = False
    async with scene.running(scene.new_desk()):
        await scene.clock.run_for(HOUR)
    assert len(scene.only.tried_at) == 1


async def test_words_to_a_chat_go_there_and_nowhere_else() -> None:
    """Through the channel that knows chats, again after a definite refusal, then once."""
    scene = OutboxFixture("telegram", "ntfy")
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(Alert(AlertKind.TROUBLE, "chat", "sorry", chat="42"))
        await scene.clock.run_for(1)
    after = scene.new_desk()
    async with scene.running(after):
        await scene.clock.run_for(HOUR)
        assert not await after.enqueue(Alert(AlertKind.TROUBLE, "chat", "sorry", chat="42"))
        await scene.clock.run_for(HOUR)
    assert (scene.only.said, scene.only.chats) == (["sorry"], ["42"])
    assert scene.channels[1].tried_at == []


async def test_words_to_a_chat_wait_for_the_store(scene: OutboxFixture) -> None:
    """What could not be written down beforehand might be said twice."""
    async with scene.running():
        scene.store.refusing = True
        await scene.desk.enqueue(Alert(AlertKind.TROUBLE, "chat", "sorry", chat="42"))
        await scene.clock.run_for(5)
        assert scene.only.tried_at == []
        scene.store.refusing = False
        await scene.clock.run_for(HOUR)
    assert scene.only.chats == ["42"]


async def test_an_alert_whose_channels_are_gone_goes_through_the_new_ones(scene: OutboxFixture) -> None:
    """Telegram never worked and was replaced: pending alerts go through the new channel."""
    scene.only.refuse()
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
    scene.channels = [RecordingChannel(scene.clock, "ntfy")]
    async with scene.running(scene.new_desk()):
        await scene.clock.run_for(1)
    assert scene.channels[0].said == ["it is silent"]


async def test_a_new_channel_is_not_told_old_news(scene: OutboxFixture) -> None:
    """An alert sent by one channel is not repeated because another was set up."""
    async with scene.running():
        await scene.desk.enqueue(trouble())
        await scene.clock.run_for(1)
    scene.channels.append(RecordingChannel(scene.clock, "ntfy"))
    async with scene.running(scene.new_desk()):
        await scene.clock.run_for(1)
    assert scene.channels[1].said == []


async def test_the_outbox_is_bounded(scene: OutboxFixture) -> None:
    """By number, the rest is counted in one; and by age, in the store of a daemon that never came back too."""
    scene.only.refuse()
    async with scene.running():
        for number in range(EPISODES_MAX + 3):
            await scene.desk.enqueue(trouble(episode=f"{number:05}"))
        await scene.clock.run_for(1)
        kept = await scene.stored()
        assert len(kept) <= EPISODES_MAX + 1
        (rest,) = [each for each in kept if each.startswith("more/")]
        assert _decoded(await scene.store.note(KIND, rest)).alert.stands_for == 3
    scene.clock.advance(RETENTION_SECONDS_MAX + 1)
    await scene.new_desk("there").restore()
    assert await scene.stored() == []


async def test_many_alerts_at_once_are_one_digest(scene: OutboxFixture) -> None:
    """It has the count, projects and findings, the first few names and where to see all; sent once."""
    async with scene.running():
        for number in range(500):
            await scene.desk.enqueue(gisted(number))
        await scene.clock.run_for(HOUR)
        (digest,) = scene.only.said
        assert digest.splitlines() == [
            "500 problems at once",
            "Projects: shop 250, docs 250",
            "What: silent 500",
            "First: s0; s1; s2; s3; s4",
            "Since: 2027-01-15 08:00 UTC",
            "→ wakeful incidents",
        ]
        await scene.desk.enqueue(trouble("alone again", "later"))
        await scene.clock.run_for(0)
        assert scene.only.said[1:] == ["alone again"]


async def test_a_flood_of_problems_delays_no_question(scene: OutboxFixture) -> None:
    """Each kind has its own budget; questions are sent first, also while problems are gathered."""
    async with scene.running():
        for number in range(100):
            await scene.desk.enqueue(gisted(number))
        await scene.desk.enqueue(Alert(AlertKind.NEEDS_YOU, "asks", "may I?"))
        await scene.clock.run_for(0)
        assert scene.only.said == ["may I?"]


async def test_the_ends_of_many_are_one_digest_too(scene: OutboxFixture) -> None:
    """Channels that got 300 problems get the first few ends one by one, and the others in one message."""
    async with scene.running():
        for number in range(300):
            await scene.desk.enqueue(gisted(number))
        await scene.clock.run_for(60)
        for number in range(300):
            await scene.desk.resolve(f"many {number}", f"Resolved: s{number}")
        await scene.clock.run_for(HOUR)
    heads = [text.splitlines()[0] for text in scene.only.said]
    singles = [each for each in heads if each.startswith("Resolved: ")]
    assert len(singles) < MESSAGES_MAX
    assert [each for each in heads if each not in singles] == [
        "300 problems at once",
        f"{300 - len(singles)} problems resolved",
    ]


async def test_a_lasting_flood_is_told_less_and_less_often(scene: OutboxFixture) -> None:
    """One a second for an hour: twenty messages, then digests that gather twice as long each time."""
    async with scene.running():
        for number in range(3600):
            await scene.desk.enqueue(gisted(number))
            await scene.clock.run_for(1)
        await scene.clock.run_for(HOUR)
    digests = [text for text in scene.only.said if "problems at once" in text]
    single = len(scene.only.said) - len(digests)
    assert single <= MESSAGES_MAX + HOUR / REFILL_SECONDS
    assert 5 <= len(digests) <= 15
    counted = sum(int(text.split(" ", 1)[0].replace(",", "")) for text in digests)
    assert counted + single == 3600


async def test_a_restart_within_a_flood_repeats_nothing(scene: OutboxFixture) -> None:
    """Alerts of a digest count as sent; later ones are in the next digest."""
    async with scene.running():
        for number in range(200):
            await scene.desk.enqueue(gisted(number))
        await scene.clock.run_for(60)
        for number in range(200, 350):
            await scene.desk.enqueue(gisted(number))
    after = scene.new_desk()
    async with scene.running(after):
        for number in range(350):
            await after.enqueue(gisted(number))
        await scene.clock.run_for(HOUR)
    heads = [text.splitlines()[0] for text in scene.only.said]
    assert heads == ["200 problems at once", "150 problems at once"]


async def test_a_refused_digest_is_sent_again_whole(scene: OutboxFixture) -> None:
    scene.only.refuse()
    async with scene.running():
        for number in range(100):
            await scene.desk.enqueue(gisted(number))
        await scene.clock.run_for(60)
        scene.only.work()
        await scene.clock.run_for(HOUR)
    assert [text.splitlines()[0] for text in scene.only.said] == ["100 problems at once"]


def gisted(number: int) -> Alert:
    gist = DigestEntry(f"s{number}", "docs" if number % 2 else "shop", "silent")
    return Alert(AlertKind.TROUBLE, f"many {number}", f"s{number}: silent", gist=gist)


def _decoded(note: Note | None) -> PendingAlert:
    assert note is not None
    return msgspec.json.decode(note.body, type=PendingAlert)


async def test_a_note_of_another_version_silences_nothing(scene: OutboxFixture) -> None:
    """It is dropped, and the episode is sent."""
    await scene.store.save_note(Note(KIND, "one", msgspec.json.encode({"version": 9})))
    async with scene.running():
        assert await scene.desk.enqueue(trouble())
        await scene.clock.run_for(0)
    assert scene.only.said == ["it is silent"]


async def test_other_channels_take_over_what_waits(scene: OutboxFixture) -> None:
    """Without a restart: what the old channel sends is finished, what waits goes through the new one, nothing twice."""
    scene.only.hangs = True
    async with scene.running():
        await scene.desk.enqueue(trouble("on its way"))
        await scene.clock.run_for(1)
        await scene.desk.enqueue(trouble("waits", "two"))
        new = RecordingChannel(scene.clock, "ntfy")
        scene.desk.set_channels([new])
        await scene.clock.run_for(1)
        assert new.said == []
        await scene.clock.run_for(SEND_SECONDS_MAX)
        assert new.said == ["waits"]
        await scene.desk.enqueue(trouble("later", "three"))
        await scene.clock.run_for(1)
        assert new.said == ["waits", "later"]
        assert len(scene.only.tried_at) == 1
        scene.desk.set_channels([])
        scene.desk.set_rules(AlertRules(frozenset()))
        await scene.clock.run_for(1)
        assert not await scene.desk.enqueue(trouble("nobody wants it", "four"))
