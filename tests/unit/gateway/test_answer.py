"""One answer in a chat, from placeholder to final text, in virtual time: it is there once, whatever Telegram does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from support.fake_chat import LOST, RoomChat
from support.telegram_chats import Refusal
from wakeful.gateway.answer import EMPTY_ANSWER, PLACEHOLDER, REPLACED_MAX, ChatAnswer, ChatAnswers
from wakeful.gateway.ports import ChatFailed, ChatFlooded, ChatRefused
from wakeful.gateway.rules.messages import Button, Place
from wakeful.testing.virtual_clock import VirtualClock

PRIVATE = Place(1, is_private=True)
TOPIC = Place(-100, 7)
PRIVATE_TOPIC = Place(1, 5, is_private=True)
BUTTONS = ((Button("Context", "context"),),)


class AnswersFixture:
    """A chat, its answers, and their stored parts; virtual time runs while something is awaited."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.chat = RoomChat(self.clock)
        self.answers = ChatAnswers(self.chat, self.clock)
        self.kept: dict[int, int] = {}

    def answer(self, place: Place = PRIVATE, parts: dict[int, int] | None = None) -> ChatAnswer:
        return self.answers.answer_for(place, self.keep, parts)

    async def keep(self, part: int, message_id: int) -> None:
        self.kept[part] = message_id

    async def done(self, work: Awaitable[Any], seconds: float = 7200) -> Any:
        """Let time pass until the work is done."""
        task = asyncio.ensure_future(work)
        for _ in range(int(seconds)):
            await self.clock.run_for(1.0)
            if task.done():
                return task.result()
        raise AssertionError(f"not done within {seconds} s")

    @asynccontextmanager
    async def writing(self, place: Place = PRIVATE) -> AsyncIterator[ChatAnswer]:
        answer = self.answer(place)
        await self.done(answer.send_placeholder())
        async with answer.writing():
            yield answer
            await self.clock.run_for(3)

    def history(self, chat: int = 1) -> list[str]:
        return self.chat.rooms.room(chat).messages[0].history

    def seen(self, place: Place = PRIVATE) -> list[str]:
        return self.chat.rooms.seen(place.chat_id, place.thread_id)


@pytest.fixture
def desk() -> AnswersFixture:
    return AnswersFixture()


async def test_an_answer_is_one_message_from_beginning_to_end(desk: AnswersFixture) -> None:
    """Placeholder, growth and final text with its buttons are one message, and its number was kept."""
    async with desk.writing() as answer:
        answer.grow("Hello the")
        await desk.clock.run_for(2)
        answer.grow("Hello there, friend")
    await desk.done(answer.finish("Hello there, friend.", BUTTONS))
    (said,) = desk.chat.rooms.ours(1)
    assert said.history == [PLACEHOLDER, "Hello …", "Hello there, …", "Hello there, friend."]
    assert (said.labels, desk.kept) == (["Context"], {0: said.message_id})


async def test_growth_is_shown_once_a_second_at_most_and_only_the_newest(desk: AnswersFixture) -> None:
    """Fifty chunks in five seconds are a handful of edits, and typing shows meanwhile."""
    async with desk.writing() as answer:
        for number in range(50):
            answer.grow(" ".join(str(each) for each in range(number)))
            await desk.clock.run_for(0.1)
    times = [at for at, _, _ in desk.chat.spoken]
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))
    assert 5 <= len(desk.history()) <= 8
    assert desk.chat.rooms.room(1).actions == 2


async def test_topics_of_one_chat_share_its_pace_and_the_final_words_come_first(desk: AnswersFixture) -> None:
    """Five answers grow in one group; the finished one does not wait for the growth of the others."""
    places = [Place(-100, thread) for thread in range(1, 6)]
    answers = [desk.answer(place) for place in places]
    for answer in answers:
        await desk.done(answer.send_placeholder())
    contexts = [answer.writing() for answer in answers[1:]]
    for context in contexts:
        await context.__aenter__()
    for answer in answers[1:]:
        answer.grow("some words ")
    await desk.clock.run_for(0.5)
    began = desk.clock.now().awake
    await desk.done(answers[0].finish("done"))
    assert desk.clock.now().awake - began <= 2
    times = [at for at, _, chat in desk.chat.spoken if chat == -100]
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))
    for context in contexts:
        await context.__aexit__(None, None, None)
    assert [desk.seen(place)[0] for place in places[:1]] == ["done"]


async def test_words_stay_in_their_thread(desk: AnswersFixture) -> None:
    """Every part of a long answer, and no word in the main thread."""
    answer = desk.answer(TOPIC)
    await desk.done(answer.send_placeholder(reply_to=3))
    await desk.done(answer.finish("word " * 3000))
    assert len(desk.seen(TOPIC)) == 4
    assert desk.seen(Place(-100)) == []
    assert desk.chat.rooms.ours(-100, 7)[0].reply_to == 3


async def test_a_long_answer_is_whole_and_finishing_it_again_changes_nothing(desk: AnswersFixture) -> None:
    """Each part's number is kept before words go in; a second try after a crash fills the same messages."""
    text = "\n\n".join(f"paragraph {number} " + "x " * 400 for number in range(12))
    await desk.done(desk.answer().finish(text, BUTTONS))
    first = desk.seen()
    assert "".join("".join(first).split()) == "".join(text.split())
    await desk.done(desk.answer(parts=desk.kept).finish(text, BUTTONS))
    assert desk.seen() == first
    assert [said.labels for said in desk.chat.rooms.ours(1)] == [[]] * (len(first) - 1) + [["Context"]]


@pytest.mark.parametrize("crash_at", range(1, 11))
async def test_a_crash_anywhere_leaves_the_answer_once(desk: AnswersFixture, crash_at: int) -> None:
    """Cut off before any of its calls, it is finished by the next process; at worst an empty message is left."""
    text = "word " * 3000
    calls = 0

    def crash(_method: str) -> None:
        nonlocal calls
        calls += 1
        if calls == crash_at:
            task.cancel()

    desk.chat.before = crash
    task = asyncio.ensure_future(_whole(desk.answer(), text))
    await desk.clock.run_for(60)
    assert task.cancelled() == (calls >= crash_at)
    desk.chat.before = lambda _: None
    await desk.done(_whole(desk.answer(parts=dict(desk.kept)), text))
    words = [said for said in desk.seen() if said != PLACEHOLDER]
    assert "".join(" ".join(words).split()) == "word" * 3000
    assert len(desk.seen()) - len(words) <= 1


async def _whole(answer: ChatAnswer, text: str) -> None:
    await answer.send_placeholder()
    await answer.finish(text)


async def test_lost_answers_leave_the_words_once(desk: AnswersFixture) -> None:
    """In doubt an edit is repeated, which changes nothing; a placeholder may stand twice, empty."""
    desk.chat.fail("sendMessage", LOST, ChatFailed(reason="cut off"))
    desk.chat.fail("editMessageText", LOST, LOST, ChatFailed(reason="cut off"))
    await desk.done(_whole(desk.answer(), "the answer"))
    assert sorted(desk.seen()) == sorted(["the answer", PLACEHOLDER])


async def test_an_hour_without_telegram_costs_an_hour(desk: AnswersFixture) -> None:
    """A hundred answers wait with growing pauses and are all there soon after it is back, each once."""
    answers = [desk.answer(Place(chat, is_private=True)) for chat in range(1, 101)]
    for answer in answers:
        await desk.done(answer.send_placeholder())
    desk.chat.is_down = True
    tried = len(desk.chat.spoken)
    finishing = asyncio.gather(*(answer.finish(f"answer {n}") for n, answer in enumerate(answers)))
    await desk.clock.run_for(3600)
    assert 60 <= (len(desk.chat.spoken) - tried) / 100 <= 70
    desk.chat.is_down = False
    await desk.done(finishing, 61)
    assert [desk.seen(Place(chat)) for chat in range(1, 101)] == [[f"answer {n}"] for n in range(100)]


async def test_a_placeholder_is_there_a_minute_after_telegram_is_back(desk: AnswersFixture) -> None:
    """What never arrived may be sent often; only what may have is not sent again every minute."""
    desk.chat.is_down = True
    placing = asyncio.ensure_future(desk.answer().send_placeholder())
    await desk.clock.run_for(3600)
    desk.chat.is_down = False
    await desk.done(placing, 61)
    assert desk.seen() == [PLACEHOLDER]


async def test_a_storm_of_floods_is_obeyed(desk: AnswersFixture) -> None:
    """No message is sent in that chat until the time is over; other chats go on."""
    await desk.done(desk.answer().send_placeholder())
    desk.chat.spoken.clear()
    desk.chat.fail("editMessageText", *(_flood(seconds) for seconds in (30, 60, 5)), chat=1)
    began = desk.clock.now().awake
    both = asyncio.gather(
        desk.answer(parts={0: 1}).finish("first"), desk.answer().finish("second"), _growing(desk)
    )
    await desk.done(desk.answer(Place(2)).finish("elsewhere"), 5)
    await desk.done(both)
    times = [at - began for at, _, chat in desk.chat.spoken if chat == 1]
    assert [at for at in times if 2 < at < 30 or 32 < at < 90] == []
    assert sorted(desk.seen()) == ["first", "second"]
    assert desk.seen(Place(2)) == ["elsewhere"]


async def _growing(desk: AnswersFixture) -> None:
    answer = desk.answer(parts={0: 1})
    async with answer.writing():
        answer.grow("still growing ")
        await desk.clock.sleep(1)


def _flood(seconds: int) -> ChatFlooded:
    return ChatFlooded(reason="Too Many Requests", retry_after_seconds=seconds)


async def test_a_message_deleted_while_it_grows_comes_again_whole(desk: AnswersFixture) -> None:
    """A person deletes the placeholder: nothing grows any more, and the answer is a new message."""
    async with desk.writing() as answer:
        answer.grow("some words ")
        await desk.clock.run_for(2)
        desk.chat.rooms.room(1).messages[0].is_deleted = True
        answer.grow("some more words ")
    await desk.done(answer.finish("the whole answer"))
    assert desk.seen() == ["the whole answer"]
    assert desk.kept == {0: 2}


async def test_who_deletes_every_message_does_not_want_it(desk: AnswersFixture) -> None:
    """It is offered a few times, and then the refusal is the caller's."""
    desk.chat.fail("editMessageText", *[ChatRefused(reason="message to edit not found")] * 99)
    with pytest.raises(ChatRefused):
        await desk.done(_whole(desk.answer(), "unwanted"))
    assert len(desk.seen()) == REPLACED_MAX + 1


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(403, "Forbidden: bot was blocked by the user"),
        Refusal(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-9),
    ],
)
async def test_a_chat_that_will_not_have_it_ends_the_matter(desk: AnswersFixture, refusal: Refusal) -> None:
    """Blocked or moved: a refusal to the caller at once, not a wait for ever."""
    await desk.done(desk.answer().send_placeholder())
    desk.chat.rooms.room(1).refusal = refusal
    for work in (desk.answer().send_placeholder(), desk.answer(parts=desk.kept).finish("words")):
        with pytest.raises(ChatRefused):
            await desk.done(work, 5)


async def test_an_edit_that_is_late_does_not_overwrite_the_answer(desk: AnswersFixture) -> None:
    """A growing edit whose answer never came is carried out behind the final one; the final text stays."""
    async with desk.writing() as answer:
        desk.chat.fail("editMessageText", ChatFailed(reason="no answer"))
        answer.grow("half of the ")
        await desk.clock.run_for(1.5)
        task = asyncio.ensure_future(answer.finish("half of the answer"))
        await desk.clock.run_for(10)
        assert desk.seen() == ["half of the answer"]
        desk.chat.rooms.room(1).messages[0].history.append("half of the …")
        await desk.done(task)
    assert desk.seen() == ["half of the answer"]


async def test_growth_that_is_on_its_way_is_waited_for(desk: AnswersFixture) -> None:
    """The final text never races with an earlier edit."""
    async with desk.writing() as answer:
        answer.grow("some words ")
        await desk.clock.run_for(0.005)
        await desk.done(answer.finish("final words"))
    assert desk.history() == [PLACEHOLDER, "some words …", "final words"]


async def test_drafts_are_shown_in_private_topics_until_one_is_refused(desk: AnswersFixture) -> None:
    """A refusal turns them off for this answer; growth and final words do not mind."""
    async with desk.writing(PRIVATE_TOPIC) as answer:
        answer.grow("one ")
        await desk.clock.run_for(2)
        desk.chat.fail("sendMessageDraft", ChatRefused(reason="no drafts here"))
        for text in ("one two ", "one two three ", "one two three four "):
            answer.grow(text)
            await desk.clock.run_for(2)
    await desk.done(answer.finish("one two three four five"))
    assert desk.chat.rooms.room(1).drafts == ["one …"]
    assert "one two three …" in desk.history()
    assert desk.seen(PRIVATE_TOPIC) == ["one two three four five"]
    for place in (PRIVATE, TOPIC):
        async with AnswersFixture().writing(place) as other:
            other.grow("words ")
    assert len(desk.chat.rooms.room(1).drafts) == 1


SECRET = "700001:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"


async def test_a_token_never_shows_not_even_half_of_it(desk: AnswersFixture) -> None:
    """Letter by letter as a model writes it, in the growing text and in the final one."""
    text = f"the token is {SECRET} and that is all"
    async with desk.writing() as answer:
        for end in range(len(text)):
            answer.grow(text[:end])
            await desk.clock.run_for(1.1)
    await desk.done(answer.finish(text))
    assert len(desk.history()) > 5
    assert all("AAbb" not in said for said in desk.history())
    assert desk.seen() == ["the token is [bot token] and that is all"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b>bold</b> & <script>x</script>", "<b>bold</b> & <script>x</script>"),
        ("a\x1b[31mred\x1b[0m\x00b\u202e\r\nc\td", "aredb\nc\td"),
        ("", EMPTY_ANSWER),
        (" \n\u200b ", EMPTY_ANSWER),
        ("half \ud800 character", "half  character"),
    ],
)
async def test_text_is_text(desk: AnswersFixture, text: str, expected: str) -> None:
    """Markup does nothing, invisible characters are gone, line breaks stay, and no message is empty."""
    await desk.done(_whole(desk.answer(), text))
    assert desk.seen() == [expected]


@pytest.mark.parametrize("text", ["w" * 1_000_000, "word " * 200_000, "😀 lines\n" * 125_000])
async def test_a_megabyte_is_twenty_messages_and_says_so(desk: AnswersFixture, text: str) -> None:
    """It grows as one message, and ends as twenty of which the last says what is missing."""
    async with desk.writing() as answer:
        answer.grow(text)
    await desk.done(answer.finish(text, BUTTONS))
    seen = desk.seen()
    assert len(seen) == 20
    assert "1,000,000 characters" in seen[-1]
    assert desk.chat.rooms.ours(1)[-1].labels == ["Context"]


async def test_a_failure_takes_the_place_of_what_was_growing(desk: AnswersFixture) -> None:
    """One clear message, and nothing of the half answer."""
    async with desk.writing() as answer:
        answer.grow("I will now ")
    await desk.done(answer.finish("That did not work: the agent ended. Try again."))
    assert desk.seen() == ["That did not work: the agent ended. Try again."]


async def test_being_ended_in_the_middle_of_growing_takes_no_time(desk: AnswersFixture) -> None:
    """A gateway that ends does not wait for Telegram."""
    answer = desk.answer()
    await desk.done(answer.send_placeholder())
    desk.chat.is_down = True

    async def writing() -> None:
        async with answer.writing():
            answer.grow("words ")
            await asyncio.Event().wait()

    task = _started(writing())
    await desk.clock.run_for(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)
