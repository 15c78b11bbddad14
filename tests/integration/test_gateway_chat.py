"""The chat as the real client library speaks to it, against a scripted Bot API that speaks the real protocol."""

import asyncio
import logging
import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.telegram_chats import Refusal
from support.telegram_server import TOKEN, BotApi, Fault, bad_gateway, drop, flood, hang, refuse
from wakeful.gateway import answer as answering, telegram as telegram_chat
from wakeful.gateway.answer import PLACEHOLDER, ChatAnswers
from wakeful.gateway.ports import (
    BotInUse,
    BotRejected,
    ChatFailed,
    ChatFlooded,
    ChatRefused,
    ChatUnreachable,
)
from wakeful.gateway.rules.messages import Button, ButtonPress, IgnoredUpdate, IncomingMessage, Place, Quoted
from wakeful.gateway.telegram import TelegramChat
from wakeful.linux.clock import SystemClock

PRIVATE = Place(1, is_private=True)
TOPIC = Place(-100, 7)


@asynccontextmanager
async def chats(token: str = TOKEN) -> AsyncIterator[tuple[BotApi, TelegramChat]]:
    with BotApi() as api:
        chat = TelegramChat(token, api.url, SystemClock())
        try:
            yield api, chat
        finally:
            await chat.close()


async def failure(work: Awaitable[Any]) -> Exception:
    with pytest.raises((ChatFailed, BotInUse, BotRejected)) as caught:
        await work
    return caught.value


async def test_a_bot_knows_its_name_and_a_wrong_token_is_locked_out() -> None:
    """getMe is the proof of a token, and 401 says what to set."""
    async with chats() as (_, chat):
        assert (chat.name, await chat.me(), chat.name) == ("", "scripted_bot", "scripted_bot")
    async with chats("700001:Another-Token-Than-The-Right-One-0000") as (api, chat):
        assert isinstance(await failure(chat.me()), BotRejected)
        assert isinstance(await failure(chat.updates(0, 0)), BotRejected)
        problem = await failure(chat.send(PRIVATE, "hello"))
        assert isinstance(problem, ChatUnreachable)
        assert api.seen() == []


async def test_updates_come_until_they_are_confirmed() -> None:
    """Asking beyond a number is the only thing that lets Telegram forget it."""
    async with chats() as (api, chat):
        first, second = api.says("one"), api.says("two")
        for _ in range(2):
            assert [each.update_id for each in await chat.updates(0, 0)] == [first, second]
        assert [each.update_id for each in await chat.updates(first, 0)] == [second]
        assert api.unconfirmed == 1
        assert await chat.updates(second, 0) == []
        assert api.unconfirmed == 0


async def test_a_long_poll_answers_as_soon_as_somebody_writes() -> None:
    """And with nothing when its time is up."""
    async with chats() as (api, chat):
        assert await chat.updates(0, 1) == []
        waiting = asyncio.create_task(chat.updates(0, 50))
        await asyncio.to_thread(api.wait, lambda: api.polls == 2)
        api.says("hello")
        (update,) = await asyncio.wait_for(waiting, 5)
    assert isinstance(update, IncomingMessage)
    assert (update.text, update.place, update.user_id) == ("hello", PRIVATE, 1)


async def test_a_hundred_messages_in_a_second_all_come_in_order() -> None:
    """Two asks of a hundred at most."""
    async with chats() as (api, chat):
        numbers = [api.says(f"message {number}") for number in range(130)]
        first = await chat.updates(0, 0)
        rest = await chat.updates(first[-1].update_id, 0)
    assert [each.update_id for each in (*first, *rest)] == numbers
    assert len(first) == 100


async def test_two_readers_of_one_bot_are_told_so() -> None:
    """The older poll ends with 409, whichever program it belongs to."""
    async with chats() as (api, chat):
        other = TelegramChat(TOKEN, api.url, SystemClock())
        waiting = asyncio.create_task(chat.updates(0, 50))
        await asyncio.to_thread(api.wait, lambda: api.polls == 1)
        assert await other.updates(0, 0) == []
        assert isinstance(await failure(waiting), BotInUse)
        await other.close()


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"message_thread_id": 5}, {"place": Place(-100)}),
        ({"message_thread_id": 5, "is_topic_message": True}, {"place": Place(-100, 5)}),
        ({"message_thread_id": 0, "is_topic_message": True}, {"place": Place(-100)}),
        ({"message_thread_id": None, "is_topic_message": True}, {"place": Place(-100)}),
        ({"forward_origin": {"type": "user"}}, {"forwarded": True}),
        ({"text": "", "photo": [{"file_id": "x"}], "caption": "look"}, {"text": "look"}),
        ({"text": "", "voice": {"file_id": "x"}}, {"text": ""}),
        (
            {"reply_to_message": {"from": {"id": 3, "first_name": "Ada", "last_name": "L"}, "text": "why?"}},
            {"quoted": Quoted("Ada L", "why?")},
        ),
        (
            {"reply_to_message": {"sender_chat": {"id": -5, "title": "News"}, "caption": "pic"}},
            {"quoted": Quoted("News", "pic")},
        ),
        ({"reply_to_message": {"forum_topic_created": {"name": "t"}}}, {"quoted": None}),
    ],
)
async def test_a_message_is_read_as_it_was_meant(more: dict[str, Any], expected: dict[str, Any]) -> None:
    """Topics, forwards, captions, media and replies; a reply thread of a plain group is no topic."""
    async with chats() as (api, chat):
        api.says(chat=-100, **({"text": "hello"} | more))
        (update,) = await chat.updates(0, 0)
    assert isinstance(update, IncomingMessage)
    assert {name: getattr(update, name) for name in expected} == expected


async def test_an_edited_message_says_so_and_when() -> None:
    """Its time is the edit's: an old command that is edited is not an old message."""
    async with chats() as (api, chat):
        api.says("/stop")
        api.edits("/new", 1)
        first, second = await chat.updates(0, 0)
    assert isinstance(first, IncomingMessage)
    assert isinstance(second, IncomingMessage)
    assert (second.edited, second.text, second.message_id) == (True, "/new", first.message_id)
    assert second.at == first.at + 60


MALFORMED: list[dict[str, Any]] = [
    {},
    {"message": None},
    {"message": "text"},
    {"message": {"message_id": "1", "chat": {"id": 1}, "from": {"id": 1}, "text": "x"}},
    {"message": {"message_id": 1, "chat": {"id": 1}, "from": {"id": "1"}, "text": "x"}},
    {"message": {"message_id": 1, "chat": {}, "from": {"id": 1}, "text": "x"}},
    {"message": {"message_id": 1, "chat": {"id": 1}, "from": {"id": 1}, "text": ["x"]}},
    {"message": {"message_id": 1, "chat": {"id": 1}, "text": "from nobody"}},
    {"message": {"message_id": 1, "chat": {"id": 1}, "from": {"id": 9, "is_bot": True}, "text": "a bot"}},
    {"message": {"message_id": 1, "chat": {"id": -1}, "from": {"id": 1}, "migrate_to_chat_id": -1001}},
    {"message": {"message_id": 1, "chat": {"id": -1}, "from": {"id": 1}, "new_chat_title": "x"}},
    {"message": {"message_id": 1, "chat": {"id": 2**70}, "from": {"id": 1}, "text": "x"}},
    {"callback_query": {"id": "1", "from": {"id": 1}, "data": "inline", "inline_message_id": "x"}},
    {"callback_query": {"id": 1, "from": {"id": 1}}},
    {"channel_post": {"message_id": 1, "chat": {"id": -1}, "text": "x"}},
    {"something_new": {"nested": [1, 2, 3]}},
]


async def test_what_is_no_message_is_ignored_by_its_number() -> None:
    """Malformed, foreign and service updates neither stop the good ones nor come again."""
    async with chats() as (api, chat):
        numbers = [api.gives(update) for update in MALFORMED]
        good = api.says("still here")
        updates = await chat.updates(0, 0)
        assert await chat.updates(updates[-1].update_id, 0) == []
    assert [each.update_id for each in updates] == [*numbers, good]
    assert [type(each) for each in updates] == [IgnoredUpdate] * len(MALFORMED) + [IncomingMessage]


async def test_an_answer_without_numbers_is_a_failure() -> None:
    """Or it would be asked for again at once, for ever."""
    async with chats() as (api, chat):
        api.answers_instead("getUpdates", [{"update_id": "five"}, {}, None])
        assert type(await failure(chat.updates(0, 0))) is ChatFailed


async def test_words_stay_in_their_thread_as_plain_text() -> None:
    """No markup, no preview, no other thread; buttons carry their choices."""
    async with chats() as (api, chat):
        buttons = ((Button("Allow", "allow:1"), Button("Deny", "deny:1")),)
        number = await chat.send(TOPIC, "<b>*bold*</b>", buttons=buttons, reply_to=3)
        await chat.typing(TOPIC)
        (said,) = api.rooms.ours(-100, 7)
        assert (said.message_id, said.text, said.reply_to) == (number, "<b>*bold*</b>", 3)
        assert said.labels == ["Allow", "Deny"]
        assert said.buttons[0][0]["callback_data"] == "allow:1"
        (given,) = api.calls("sendMessage")
        assert "parse_mode" not in given
        assert given["link_preview_options"] == {"is_disabled": True}
        assert api.calls("sendChatAction") == [
            {"chat_id": "-100", "message_thread_id": "7", "action": "typing"}
        ]


async def test_no_answer_calls_everybody() -> None:
    """Bots in a group act on such words. A person may be named, and an address of mail stays as it is."""
    async with chats() as (api, chat):
        number = await chat.send(TOPIC, "@everyone @Here, @channel: see @bob and a@all.org")
        await chat.edit(TOPIC, number, "again @all")
        await chat.call("sendMessage", {"chat_id": -100, "text": "@room"})
        texts = [
            given["text"] for method in ("sendMessage", "editMessageText") for given in api.calls(method)
        ]
    at = "\uff20"
    assert texts == [
        f"{at}everyone {at}Here, {at}channel: see @bob and a@all.org",
        f"{at}room",
        f"again {at}all",
    ]


async def test_our_own_token_is_never_said() -> None:
    """Not even a short one that redaction takes for a word."""
    async with chats() as (api, chat):
        api.token = chat._token = "1:short"
        await chat.edit(PRIVATE, await chat.send(PRIVATE, "1:short"), "it is 1:short")
        assert api.room(1).messages[0].history == ["[bot token]", "it is [bot token]"]


async def test_an_edit_replaces_and_saying_it_again_is_fine() -> None:
    """A message that says it already is no failure; one that is gone is."""
    async with chats() as (api, chat):
        number = await chat.send(PRIVATE, "…")
        for _ in range(2):
            await chat.edit(PRIVATE, number, "done", buttons=((Button("Context", "c"),),))
        (said,) = api.rooms.ours(1)
        assert (said.history, said.labels) == (["…", "done"], ["Context"])
        api.deletes(said)
        assert isinstance(await failure(chat.edit(PRIVATE, number, "more")), ChatRefused)


async def test_a_press_arrives_and_is_let_go() -> None:
    """With its data as the client sent it; a late one is refused and no more."""
    async with chats() as (api, chat):
        await chat.send(TOPIC, "May I?", buttons=((Button("Allow", "allow:1"),),))
        (said,) = api.rooms.ours(-100, 7)
        press_id = api.presses(said, "forged:everything", user=5)
        (update,) = await chat.updates(0, 0)
        assert isinstance(update, ButtonPress)
        assert (update.press_id, update.choice, update.user_id) == (press_id, "forged:everything", 5)
        assert (update.place, update.message_id) == (TOPIC, said.message_id)
        await chat.answer_press(press_id, "Allowed")
        assert api.rooms.presses[press_id] == "Allowed"
        assert isinstance(await failure(chat.answer_press("99", "late")), ChatRefused)


async def test_drafts_are_for_private_chats() -> None:
    """Elsewhere Telegram refuses, and we say so."""
    async with chats() as (api, chat):
        await chat.draft(PRIVATE, 4, "half a sen")
        assert api.room(1).drafts == ["half a sen"]
        assert isinstance(await failure(chat.draft(TOPIC, 4, "half")), ChatRefused)


@pytest.mark.parametrize(
    ("fault", "kind", "arrived"),
    [
        (drop(taken=False), ChatFailed, 0),
        (drop(taken=True), ChatFailed, 1),
        (hang(taken=True), ChatFailed, 1),
        (bad_gateway(taken=True), ChatFailed, 1),
        (refuse(500, "Internal Server Error"), ChatFailed, 0),
        (refuse(400, "Bad Request: chat not found"), ChatRefused, 0),
        (refuse(403, "Forbidden: bot was blocked by the user"), ChatRefused, 0),
        (
            refuse(400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=-1),
            ChatRefused,
            0,
        ),
        (refuse(413, "Request Entity Too Large"), ChatRefused, 0),
        (refuse(404, "Not Found"), ChatRefused, 0),
        (flood(31), ChatFlooded, 0),
    ],
)
async def test_a_failure_says_whether_it_may_have_arrived(
    fault: Fault, kind: type[Exception], arrived: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In doubt, refused, or flooded with the time that Telegram wants."""
    monkeypatch.setattr(telegram_chat, "ANSWER_SECONDS_MAX", 0.3)
    async with chats() as (api, chat):
        api.fail("sendMessage", fault)
        problem = await failure(chat.send(PRIVATE, "hello"))
        assert type(problem) is kind
        assert len(api.seen()) == arrived
        if isinstance(problem, ChatFlooded):
            assert problem.retry_after_seconds == 31


async def test_a_telegram_that_is_not_there_is_unreachable_and_comes_back() -> None:
    """Nothing arrived, and the same chat works when it is up again."""
    async with chats() as (api, chat):
        await chat.send(PRIVATE, "before")
        api.down()
        assert isinstance(await failure(chat.send(PRIVATE, "meanwhile")), ChatUnreachable)
        assert isinstance(await failure(chat.updates(0, 1)), ChatUnreachable)
        api.up()
        await chat.send(PRIVATE, "after")
        assert api.seen() == ["before", "after"]


async def test_no_log_line_and_no_error_holds_the_token(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every logger at its most talkative, and a server that repeats the token to us."""
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "telegram"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    monkeypatch.setattr(telegram_chat, "ANSWER_SECONDS_MAX", 0.3)
    faults = [refuse(400, f"Bad Request: {TOKEN}"), drop(taken=False), hang(taken=False), bad_gateway()]
    async with chats() as (api, chat):
        api.fail("sendMessage", *faults)
        problems = [await failure(chat.send(PRIVATE, "hello")) for _ in faults]
        api.down()
        problems.append(await failure(chat.send(PRIVATE, "hello")))
    told = [line for problem in problems for line in traceback.format_exception(problem)]
    secret = TOKEN.partition(":")[2]
    assert secret not in "".join(told) + caplog.text
    assert len(problems) == 5


def _link(folder: Path) -> str:
    (folder / "link").symlink_to("/etc/hostname")
    return "link"


def _link_on_the_way(folder: Path) -> str:
    (folder / "way").symlink_to("/etc")
    return "way/hostname"


def _pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return "pipe"


def _large(folder: Path) -> str:
    with (folder / "large").open("wb") as file:
        file.truncate(telegram_chat.FILE_BYTES_MAX + 1)
    return "large"


def _empty(folder: Path) -> str:
    (folder / "empty").touch()
    return "empty"


@pytest.mark.parametrize(
    "make",
    [
        _link,
        _link_on_the_way,
        _pipe,
        _large,
        _empty,
        lambda _: "../outside",
        lambda _: "sub/../../outside",
        lambda folder: f"{folder}/../outside",
        lambda _: "/etc/hostname",
        lambda _: "sub",
        lambda _: ".",
        lambda _: "missing",
        lambda _: "nul\0byte",
        lambda _: "x" * 5000,
    ],
)
async def test_only_regular_files_inside_the_folder_leave(
    make: Callable[[Path], str], tmp_path: Path
) -> None:
    """Links, pipes, folders, whatever is too large, and every way out of the folder are refused unsent."""
    folder = tmp_path / "open"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "outside").write_text("secret")
    wanted = make(folder)
    async with chats() as (api, chat):
        problem = await failure(chat.send_file(TOPIC, Path(wanted), within=folder))
        assert isinstance(problem, ChatRefused)
        assert str(tmp_path) not in str(problem)
        assert api.calls("sendDocument") == []


async def test_a_file_arrives_whole_in_its_thread(tmp_path: Path) -> None:
    """By a name inside the folder, relative or not, and also where the folder itself is a link."""
    folder = tmp_path / "open"
    (folder / "sub").mkdir(parents=True)
    content = bytes(range(256)) * 2000
    (folder / "sub" / "plot ä.bin").write_bytes(content)
    (tmp_path / "door").symlink_to(folder)
    async with chats() as (api, chat):
        await chat.send_file(TOPIC, Path("sub/plot ä.bin"), "a <b>plot</b>", within=tmp_path / "door")
        await chat.send_file(TOPIC, folder / "sub" / "plot ä.bin", within=folder)
        await chat.send_file(TOPIC, folder / "sub" / "plot ä.bin")
        sent = api.rooms.ours(-100, 7)
    assert [said.file for said in sent] == [("plot ä.bin", content)] * 3
    assert sent[0].text == "a <b>plot</b>"


async def test_a_text_is_sent_as_a_file_without_the_token() -> None:
    """A megabyte of it, whole; what Telegram would not take is refused unsent."""
    text = f"ä {TOKEN} {'words ' * 170_000}"
    async with chats() as (api, chat):
        await chat.send_as_file(TOPIC, "answer.md", text)
        (sent,) = api.rooms.ours(-100, 7)
        problem = await failure(
            chat.send_as_file(TOPIC, "answer.md", "x" * (telegram_chat.FILE_BYTES_MAX + 1))
        )
        assert isinstance(problem, ChatRefused)
        assert len(api.calls("sendDocument")) == 1
    assert sent.file == ("answer.md", text.replace(TOKEN, "[bot token]").encode())


async def test_a_chat_that_refuses_its_topic_gets_nothing_elsewhere() -> None:
    """A closed topic is no reason to speak in the main thread."""
    async with chats() as (api, chat):
        api.room(-100).threads = {8}
        assert isinstance(await failure(chat.send(TOPIC, "hello")), ChatRefused)
        api.room(-100).refusal = Refusal(403, "Forbidden: bot was kicked from the group chat")
        assert isinstance(await failure(chat.send(Place(-100), "hello")), ChatRefused)
        assert api.room(-100).messages == []


async def test_an_answer_survives_what_telegram_does_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the real protocol: cut off before and after, flooded, deleted, gone; the words are there once."""
    monkeypatch.setattr(answering, "PAUSE_SECONDS_MIN", 0.02)
    monkeypatch.setattr(answering, "LATE_SECONDS", 0.1)
    kept: dict[int, int] = {}

    async def keep(part: int, message_id: int) -> None:
        kept[part] = message_id

    text = "".join(f"line {number} of a long answer\n" for number in range(300))
    async with chats() as (api, chat):
        answer = ChatAnswers(chat, SystemClock(), edit_seconds=0.02).answer_for(TOPIC, keep)
        api.fail("sendMessage", drop(taken=False))
        api.fail("editMessageText", drop(taken=True))
        await answer.send_placeholder()
        async with answer.writing():
            for end in range(0, len(text), 500):
                answer.grow(text[:end])
                await asyncio.sleep(0.01)
            placeholder = api.room(-100).messages[0]
            api.deletes(placeholder)
        api.down()
        finishing = asyncio.create_task(answer.finish(text, ((Button("Context", "c"),),)))
        await asyncio.sleep(0.05)
        api.fail("editMessageText", bad_gateway(taken=True), flood(1))
        api.up()
        await asyncio.wait_for(finishing, 20)
        seen = api.seen(-100, 7)
    assert "".join("".join(seen).split()) == "".join(text.split())
    assert len(seen) == len(kept) == 2
    assert len(placeholder.history) > 2


async def test_a_crowd_in_one_chat_is_answered_at_telegram_s_own_pace() -> None:
    """Twenty answers at once in a chat that limits fast senders: each is there once, and no placeholder is left."""

    async def keep(_part: int, _message_id: int) -> None: ...

    async def one(answers: ChatAnswers, number: int) -> None:
        answer = answers.answer_for(PRIVATE, keep)
        await answer.send_placeholder()
        await answer.finish(f"answer {number}")

    async with chats() as (api, chat):
        api.pace_seconds = 0.002
        answers = ChatAnswers(chat, SystemClock(), edit_seconds=0.02)
        await asyncio.gather(*(one(answers, number) for number in range(20)))
        assert sorted(api.seen()) == sorted(f"answer {number}" for number in range(20))
        assert PLACEHOLDER not in api.seen()
