"""Claims about allowed users: the list, a one-time code, and no others."""

import pytest

from support.fake_sessions_and_answers import ScriptedChat, message, press
from wakeful.gateway.people import WELCOME, People, begin_pairing, unpair
from wakeful.gateway.rules.access import PAIRING_SECONDS, TRIES_MAX, Access, Role
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

RANDOM = bytes(range(16))
WRONG = "AAAA-BBBB-CCCCC"


class PeopleFixture:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(now=lambda: self.clock.now().wall)
        self.chat = ScriptedChat()
        self.people = People(self.store, self.chat, self.clock, Access(frozenset({42}), frozenset({42})))

    async def code(self) -> str:
        return await begin_pairing(self.store, RANDOM, self.clock.now().wall)


@pytest.fixture
async def room() -> PeopleFixture:
    return PeopleFixture()


async def test_the_list_is_heard_and_nobody_else(room: PeopleFixture) -> None:
    """Messages and presses alike."""
    assert room.people.is_allowed(message(1, user_id=42))
    assert not room.people.is_allowed(message(2, user_id=66))
    assert not room.people.is_allowed(press(3, "x", user_id=66))


async def test_an_admin_who_is_not_heard_is_not_counted_as_one(room: PeopleFixture) -> None:
    """What the greeting says is what is true of them."""
    access = Access(frozenset({42, 43}), frozenset({42, 66}))
    people = People(room.store, room.chat, room.clock, access)
    assert (people.count, people.count_of(Role.ADMIN)) == (2, 1)


async def test_the_code_lets_one_person_in_once(room: PeopleFixture) -> None:
    """They are welcomed and allowed, also by the next gateway; the same code admits no second person."""
    code = await room.code()
    assert await room.people.try_pairing(message(1, code.lower(), chat_id=66, user_id=66))
    assert [text for _, text, _ in room.chat.sent] == [WELCOME]
    assert room.people.role_of(66) is Role.USER
    assert not await room.people.try_pairing(message(2, code, chat_id=67, user_id=67))
    after = People(room.store, room.chat, room.clock, Access())
    await after.reload()
    assert after.role_of(66) is Role.USER


async def test_strangers_cost_tries_only_with_what_looks_like_a_code(room: PeopleFixture) -> None:
    """Five wrong codes close the pairing; small talk does not."""
    code = await room.code()
    for number in range(20):
        assert not await room.people.try_pairing(message(number, "hello?", user_id=66))
    for number in range(TRIES_MAX):
        assert not await room.people.try_pairing(message(30 + number, WRONG, user_id=66))
    assert not await room.people.try_pairing(message(40, code, user_id=66))
    assert room.chat.sent == []


async def test_a_code_does_not_outlive_its_time_nor_count_in_public(room: PeopleFixture) -> None:
    """Ten minutes; and what a group can read is no secret."""
    code = await room.code()
    assert not await room.people.try_pairing(message(1, code, chat_id=-100, user_id=66))
    assert not await room.people.try_pairing(message(2, code, user_id=66, forwarded=True))
    room.clock.advance(PAIRING_SECONDS)
    assert not await room.people.try_pairing(message(3, code, user_id=66))


async def test_whoever_is_unpaired_is_heard_no_more(room: PeopleFixture) -> None:
    """Once the gateway has looked again."""
    await room.people.try_pairing(message(1, await room.code(), user_id=66))
    assert await unpair(room.store, 66)
    assert not await unpair(room.store, 66)
    await room.people.reload()
    assert room.people.role_of(66) is Role.NOBODY
