"""Claims about mutes and pauses: what a mute covers, when it ends, and that a pause stops automatic actions.
Virtual time."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support.supervisor_fixture import SupervisorFixture
from wakeful.alerts.mute_pause import (
    ENDED_SECONDS_MAX,
    MUTES_MAX,
    PAUSE_KIND,
    MutePause,
    PauseNotSaved,
    TooManyMutes,
)
from wakeful.alerts.mute_pause_model import (
    CODES,
    MUTE_SECONDS_MAX,
    Mute,
    MuteKind,
    NoMuteTarget,
    NoSuchCode,
    mute_text,
    parse_target,
    pause_text,
    project_name,
)
from wakeful.control.driver import ActionResult
from wakeful.control.gate import ActionIntent, ActionKind, ActionRecord
from wakeful.core.errors import WorldError
from wakeful.core.ids import SessionId
from wakeful.judging.findings import FindingCode
from wakeful.judging.session_record import SessionRecord
from wakeful.storage.base import ActionOutcome, Note
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

HOUR = 3600.0
A = SessionId("claude-a")


class UnreliableStore(MemoryStore):
    """A memory store that can be full, or slow: with `let_go` it waits where a disk would be waited for."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(now=lambda: clock.now().wall)
        self.full = False
        self.reached = asyncio.Event()
        self.let_go: asyncio.Event | None = None

    async def save_new_note(self, note: Note) -> bool:
        if self.full:
            raise WorldError
        await self._wait()
        return await super().save_new_note(note)

    async def notes(self, kind: str) -> list[Note]:
        found = await super().notes(kind)
        await self._wait()
        return found

    async def _wait(self) -> None:
        if self.let_go is not None:
            self.reached.set()
            await self.let_go.wait()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def record() -> SessionRecord:
    """A session of the project shop."""
    house = SupervisorFixture()
    house.start("a", project="shop")
    house.settle()
    found = house.registry.find("a").record
    assert found is not None
    return found


def mute(kind: MuteKind, value: str, until: float = HOUR) -> Mute:
    return Mute(kind, value, until, "ada")


@pytest.mark.parametrize(
    ("kind", "value", "code", "covered"),
    [
        (MuteKind.SESSION, "claude-a", "loop", True),
        (MuteKind.SESSION, "claude-b", "loop", False),
        (MuteKind.PROJECT, "shop", None, True),
        (MuteKind.PROJECT, "sho", "loop", False),
        (MuteKind.CODE, "loop", FindingCode.LOOP, True),
        (MuteKind.CODE, "loop", "silent", False),
        (MuteKind.CODE, "loop", None, False),
    ],
)
def test_a_mute_covers_what_it_names(
    record: SessionRecord, kind: MuteKind, value: str, code: str | None, covered: bool
) -> None:
    """A session by its id, a project by its name, a problem by its code, and nothing else."""
    assert mute(kind, value).covers(record.id, record.project, {code} if code else ()) is covered


def test_a_trouble_without_a_session_is_covered_by_its_project() -> None:
    """Names are compared as records spell them; a mute of some session does not silence it."""
    codes = {"queue_stalled"}
    assert mute(MuteKind.PROJECT, "shop floor").covers(None, project_name("shop \n floor"), codes)
    assert mute(MuteKind.CODE, "queue_stalled").covers(None, None, codes)
    assert not mute(MuteKind.SESSION, "claude-a").covers(None, "shop", codes)
    assert not mute(MuteKind.PROJECT, "shop").covers(None, None, codes)


def test_only_what_is_told_about_can_be_muted() -> None:
    """A misspelled code or an empty name is refused, with the codes there are."""
    with pytest.raises(NoSuchCode, match="error_cascade"):
        parse_target(MuteKind.CODE, "lop")
    for kind in (MuteKind.PROJECT, MuteKind.SESSION):
        with pytest.raises(NoMuteTarget, match=kind):
            parse_target(kind, "")
    assert {"loop", "network", "queue_stalled", "message_unrouted"} <= CODES


def test_a_mute_ends_even_if_the_clock_is_set_back() -> None:
    """It holds before its end, not at it, and never for longer than a mute may last."""
    one = mute(MuteKind.CODE, "loop", until=100 * HOUR)
    assert [one.is_active(at * HOUR) for at in (99, 99.99, 100, 101)] == [True, True, False, False]
    assert not one.is_active(100 * HOUR - 2 * MUTE_SECONDS_MAX)


def test_words_say_who_and_why() -> None:
    """With a reason if there is one."""
    said = mute_text(Mute(MuteKind.PROJECT, "shop", 1_800_000_000.0, "ada@host", "moving"))
    assert said == "project shop is muted until 2027-01-15T08:00:00.000Z by ada@host: moving"
    assert mute_text(mute(MuteKind.CODE, "loop")).endswith("by ada")


def test_a_mute_lasts_as_long_as_it_was_asked_for(clock: VirtualClock, record: SessionRecord) -> None:
    """Silent at once, for that session only, and alerts again when the time is over."""
    store = MemoryStore()
    mute_pause = MutePause(store, clock)
    asyncio.run(mute_pause.mute(MuteKind.SESSION, "claude-a", 2 * HOUR, by="ada"))

    def silent(after_seconds: float) -> bool:
        return mute_pause.is_muted(record, {"loop"}, clock.now().wall + after_seconds)

    assert [silent(0), silent(2 * HOUR - 1), silent(2 * HOUR)] == [True, True, False]
    assert len(mute_pause.mutes(clock.now().wall)) == 1
    assert mute_pause.mute_lines(clock.now().wall + 2 * HOUR) == []


async def test_the_newest_word_counts_and_can_be_taken_back(
    clock: VirtualClock, record: SessionRecord
) -> None:
    """Muting again replaces; unmuting ends it once, and says whether there was anything."""
    mute_pause = MutePause(MemoryStore(), clock)
    await mute_pause.mute(MuteKind.PROJECT, "shop", 10 * HOUR, by="ada")
    await mute_pause.mute(MuteKind.PROJECT, "shop", 1 * HOUR, by="ben")
    (one,) = mute_pause.mutes(clock.now().wall)
    assert (one.by, one.until) == ("ben", clock.now().wall + HOUR)
    assert [
        await mute_pause.unmute(MuteKind.PROJECT, "shop"),
        await mute_pause.unmute(MuteKind.PROJECT, "shop"),
    ] == [True, False]
    assert not mute_pause.is_muted(record, (), clock.now().wall)


def test_an_ended_mute_cannot_be_taken_back(clock: VirtualClock) -> None:
    """Nothing was silent any more."""
    mute_pause = MutePause(MemoryStore(), clock)
    asyncio.run(mute_pause.mute(MuteKind.CODE, "loop", HOUR, by="ada"))
    clock.advance(HOUR)
    assert asyncio.run(mute_pause.unmute(MuteKind.CODE, "loop")) is False


async def test_everything_is_there_after_a_restart(clock: VirtualClock, record: SessionRecord) -> None:
    """Another daemon on the same store knows mutes and pause as soon as it has read them."""
    store = MemoryStore()
    first, second = MutePause(store, clock), MutePause(store, clock)
    await first.mute(MuteKind.PROJECT, "shop", HOUR, by="ada")
    assert await first.pause("ada", "upgrade")
    assert (second.current_pause, second.is_muted(record, (), clock.now().wall)) == (None, False)
    assert await second.reload() == first.current_pause
    assert second.is_muted(record, (), clock.now().wall)
    assert second.pause_reason() == (
        "PAUSED by ada since 2027-01-15T08:00:00.000Z: upgrade; `wakeful unpause` ends it"
    )


async def test_other_daemons_hear_of_a_pause_within_a_second(clock: VirtualClock) -> None:
    """And of its end, each once."""
    store = MemoryStore()
    first, second = MutePause(store, clock), MutePause(store, clock)
    heard: list[bool] = []
    second.subscribe(lambda: heard.append(second.current_pause is not None))
    following = asyncio.create_task(second.follow())
    await clock.run_for(0.1)
    await first.pause("ada")
    await clock.run_for(0.9)
    assert second.current_pause == first.current_pause
    assert await first.resume()
    await clock.run_for(0.9)
    assert second.current_pause is None
    following.cancel()
    assert heard == [True, False]


async def test_whoever_paused_first_is_named(clock: VirtualClock) -> None:
    """A second pause changes nothing, one end ends it, and a second end says so."""
    store = MemoryStore()
    first, second = MutePause(store, clock), MutePause(store, clock)
    answers = [await first.pause("ada"), await second.pause("ben"), await first.pause("cyd")]
    assert second.current_pause == first.current_pause
    assert first.current_pause is not None
    assert first.current_pause.by == "ada"
    assert [*answers, await second.resume(), await first.resume()] == [True, False, False, True, False]
    assert first.current_pause is None


async def test_a_pause_holds_although_the_disk_is_full(clock: VirtualClock) -> None:
    """It reports that it was not stored, and stays through later reads until a person ends it."""
    mute_pause = MutePause(store := UnreliableStore(clock), clock)
    store.full = True
    with pytest.raises(PauseNotSaved, match="Paused, but not stored"):
        await mute_pause.pause("ada")
    assert await mute_pause.reload() is not None
    assert await mute_pause.resume()
    assert await mute_pause.reload() is None


async def test_a_pause_holds_before_it_is_stored(clock: VirtualClock) -> None:
    """Nothing is done while the disk is waited for."""
    mute_pause = MutePause(store := UnreliableStore(clock), clock)
    heard: list[bool] = []
    mute_pause.subscribe(lambda: heard.append(mute_pause.current_pause is not None))
    store.let_go = asyncio.Event()
    pausing = asyncio.create_task(mute_pause.pause("ada"))
    await store.reached.wait()
    assert mute_pause.pause_reason() is not None
    assert heard == [True]
    store.let_go.set()
    assert await pausing


async def test_a_reading_that_a_pause_overtook_is_not_believed(clock: VirtualClock) -> None:
    """What was read before the pause was stored does not end it."""
    mute_pause = MutePause(store := UnreliableStore(clock), clock)
    store.let_go = asyncio.Event()
    reading = asyncio.create_task(mute_pause.reload())
    await store.reached.wait()
    slow, store.let_go = store.let_go, None
    await mute_pause.pause("ada")
    slow.set()
    assert await reading is not None
    assert mute_pause.pause_reason() is not None


async def test_a_pause_of_another_version_is_a_pause(clock: VirtualClock) -> None:
    """What cannot be read forbids; a mute that cannot be read silences nothing."""
    store = MemoryStore()
    mute_pause = MutePause(store, clock)
    await store.save_note(Note(PAUSE_KIND, "everything", b'{"who": 1}'))
    await store.save_note(Note("mute", "code:loop", b'{"kind": "planet"}'))
    await mute_pause.reload()
    assert mute_pause.current_pause is not None
    assert "another version" in pause_text(mute_pause.current_pause)
    assert mute_pause.mutes(clock.now().wall) == ()


def test_names_and_reasons_are_plain_and_hold_no_secret(clock: VirtualClock) -> None:
    """They appear in terminals, pages and chats; no name is empty."""
    mute_pause = MutePause(MemoryStore(), clock)
    asyncio.run(mute_pause.pause("a\x1b[2Jda\n", "token=hunter2hunter2"))
    assert mute_pause.current_pause is not None
    assert (mute_pause.current_pause.by, "hunter2" in mute_pause.current_pause.reason) == ("ada", False)
    one = asyncio.run(mute_pause.mute(MuteKind.CODE, "loop", HOUR, by=" "))
    assert one.by == "an unknown person"


async def test_mutes_are_bounded_and_old_ones_make_room(clock: VirtualClock) -> None:
    """The thousandth and one is refused; the same one again is not; those that ended are forgotten."""
    store = MemoryStore()
    mute_pause = MutePause(store, clock)
    for number in range(MUTES_MAX):
        note = Note("mute", f"project:{number}", _stored(f"{number}", clock.now().wall + HOUR))
        await store.save_note(note)
    with pytest.raises(TooManyMutes):
        await mute_pause.mute(MuteKind.PROJECT, "one more", HOUR, by="ada")
    await mute_pause.mute(MuteKind.PROJECT, "7", HOUR, by="ada")
    assert len(mute_pause.mute_lines(clock.now().wall)) == 6
    assert mute_pause.mute_lines(clock.now().wall)[-1].startswith("995 more mutes")
    clock.advance(HOUR + ENDED_SECONDS_MAX + 1)
    await mute_pause.mute(MuteKind.PROJECT, "one more", HOUR, by="ada")
    assert len(await store.notes("mute")) == 1


def _stored(project: str, until: float) -> bytes:
    return msgspec.json.encode(Mute(MuteKind.PROJECT, project, until, "ada"))


def passed(
    house: SupervisorFixture, *, by_itself: bool, during: Callable[[], None] = lambda: None
) -> tuple[ActionRecord, list[str]]:
    """Let an act pass the gate; what became of it, and what was done. `during` runs when it has been intended."""
    done: list[str] = []
    reads = 0

    def reread(_session_id: SessionId) -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            during()

    async def perform(intent_id: str) -> ActionResult:
        done.append(intent_id)
        return ActionResult(ActionOutcome.CONFIRMED, "done")

    async def act() -> ActionRecord:
        house.refresh = reread  # type: ignore[method-assign,assignment]
        return (
            await house.gate.execute(
                ActionKind.STOP, A, ActionIntent(), lambda: None, perform, by_itself=by_itself
            )
        )[0]

    return asyncio.run(act()), done


def test_a_pause_stops_what_nobody_asked_for(house: SupervisorFixture) -> None:
    """Requests of a person are still carried out, and after the pause everything is."""
    asyncio.run(house.calm.pause("ada"))
    record, done = passed(house, by_itself=True)
    assert (record.outcome, done) == (ActionOutcome.DECLINED, [])
    assert record.words.startswith("PAUSED by ada since")
    assert passed(house, by_itself=False)[0].outcome is ActionOutcome.CONFIRMED
    asyncio.run(house.calm.resume())
    assert passed(house, by_itself=True)[0].outcome is ActionOutcome.CONFIRMED


def test_a_pause_in_the_middle_stops_the_act_too(house: SupervisorFixture) -> None:
    """It is asked for again between intent and act, and the intent is concluded as declined."""

    def at_once(work: Any) -> None:
        with pytest.raises(StopIteration):
            work.send(None)

    record, done = passed(house, by_itself=True, during=lambda: at_once(house.calm.pause("ada")))
    assert (record.outcome, done) == (ActionOutcome.DECLINED, [])
    assert asyncio.run(house.store.open_intents()) == []
