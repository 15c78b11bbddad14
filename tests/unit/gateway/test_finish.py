"""What answers ask for by tags is done once, in their own chat, and only what is open to them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.fake_chat import LOST, RoomChat
from wakeful.gateway.answer import ChatAnswers
from wakeful.gateway.finish import (
    BEGUN,
    DONE,
    KIND,
    UNVERIFIED,
    AnswerFinisher,
    Rights,
    TagResult,
    TagRunner,
    with_line,
)
from wakeful.gateway.ports import ChatFailed, ChatFlooded, ChatRefused, ChatUnreachable
from wakeful.gateway.rules.chat_methods import METHODS, MethodRefused, check_call
from wakeful.gateway.rules.formatting import PARTS_MAX
from wakeful.gateway.rules.messages import Place
from wakeful.gateway.rules.shown_text import messages_of
from wakeful.gateway.rules.tags import ApiCall, FileToSend, Tagged, read_tags
from wakeful.gateway.rules.turn import Turn
from wakeful.gateway.turn_store import TurnStore
from wakeful.testing.memory_store import MemoryStore
from wakeful.testing.virtual_clock import VirtualClock

TOPIC = Place(-100, 7)
FOLDER = Path("/srv/open")
ADMIN = Rights(is_admin=True, send_from=FOLDER)


class FinishFixture:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.chat = RoomChat(self.clock)
        self.kept: dict[int, str] = {}

    async def run(self, tagged: Tagged, rights: Rights = ADMIN, known: dict[int, str] | None = None) -> str:
        return (await self.told(tagged, rights, known)).line

    async def told(
        self, tagged: Tagged, rights: Rights = ADMIN, known: dict[int, str] | None = None
    ) -> TagResult:
        tags = TagRunner(ChatAnswers(self.chat, self.clock), TOPIC, rights, self.keep)
        task = asyncio.ensure_future(tags.run(tagged, known))
        while not task.done():
            # A thread takes its own time.
            await asyncio.sleep(0.001)
            await self.clock.run_for(1)
        return task.result()

    async def keep(self, number: int, stands: str) -> None:
        self.kept[number] = stands

    def called(self) -> list[tuple[str, dict[str, Any]]]:
        return self.chat.rooms.called


@pytest.fixture
def desk() -> FinishFixture:
    return FinishFixture()


async def test_calls_come_before_files_and_go_where_the_answer_goes(desk: FinishFixture) -> None:
    """Whatever chat or thread a tag names."""
    text = (
        'Here. <send-file path="plots/a.png" caption="a plot"/>'
        '<telegram-api method="sendmessage" chat_id="666" message_thread_id="1" text="&lt;b&gt;hi"/>'
    )
    assert await desk.run(read_tags(text)) == ""
    (first, given), (second, _) = desk.called()
    assert (first, second) == ("sendMessage", "sendDocument")
    assert given == {"text": "<b>hi", "chat_id": -100, "message_thread_id": 7}
    assert desk.chat.sent_files == [(Path("plots/a.png"), FOLDER, "a plot")]
    assert desk.kept == {0: DONE, 1: DONE}


@pytest.mark.parametrize(
    "method",
    [
        "setWebhook",
        "deleteWebhook",
        "logOut",
        "close",
        "getFile",
        "getUpdates",
        "getMe",
        "getChat",
        "exportChatInviteLink",
        "banChatMember",
        "promoteChatMember",
        "deleteMessage",
        "forwardMessage",
        "copyMessage",
        "sendDocument",
        "sendPhoto",
        "editMessageText",
        "leaveChat",
        "setMyCommands",
        "SETWEBHOOK",
        "nonsense",
    ],
)
async def test_methods_that_are_not_open_are_refused_by_name(desk: FinishFixture, method: str) -> None:
    """Nothing that reads, deletes, moves or touches the bot itself is called."""
    words = await desk.run(Tagged("", (ApiCall(method, {}),)))
    assert desk.called() == []
    assert words == f"not done: {method} (not a method that answers may use)"


@pytest.mark.parametrize(
    "name", ["parse_mode", "reply_markup", "from_chat_id", "entities", "url", "reply_parameters"]
)
def test_no_method_takes_what_could_do_more_than_speak(name: str) -> None:
    """Markup, buttons and other chats are not for answers to set."""
    for method in METHODS:
        with pytest.raises(MethodRefused):
            check_call(method, {name: "x"}, TOPIC)


async def test_secrets_and_controls_do_not_leave_in_parameters(desk: FinishFixture) -> None:
    """Parameters are text like the answer's own."""
    secret = "700001:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"
    await desk.run(Tagged("", (ApiCall("sendMessage", {"text": f"a\x1b[31m {secret}"}),)))
    assert desk.chat.rooms.seen(-100, 7) == ["a [bot token]"]


async def test_only_admins_call_and_only_open_folders_send(desk: FinishFixture) -> None:
    """A refusal names its tag in one line, and the rest is done."""
    tagged = Tagged("", (ApiCall("sendDice", {}),), (FileToSend("a.txt"), FileToSend("b.txt")), left_out=3)
    words = await desk.run(tagged, Rights(is_admin=False))
    assert desk.called() == []
    assert words.split("; ") == [
        "not done: sendDice (only admins' answers call methods)",
        "not done: a.txt (this chat may not send files)",
        "not done: b.txt (this chat may not send files)",
        "not done: 3 more, beyond what one answer may ask for",
    ]
    assert await desk.run(tagged, Rights(is_admin=False, send_from=FOLDER)) != ""
    assert [path for path, _, _ in desk.chat.sent_files] == [Path("a.txt"), Path("b.txt")]


async def test_a_refused_tag_does_not_keep_the_others_from_being_done(desk: FinishFixture) -> None:
    """Telegram's own words say why, on one line."""
    desk.chat.fail("sendPoll", ChatRefused(reason="poll must have\nat least 2 options"))
    tagged = Tagged("", (ApiCall("sendPoll", {"question": "?"}), ApiCall("sendDice", {})))
    assert await desk.run(tagged) == "not done: sendPoll (poll must have at least 2 options)"
    assert [method for method, _ in desk.called()] == ["sendDice"]


@pytest.mark.parametrize("problem", [LOST, ChatFailed(reason="cut off")])
async def test_a_tag_whose_answer_was_lost_is_not_repeated(desk: FinishFixture, problem: ChatFailed) -> None:
    """It is reported as unverified."""
    desk.chat.fail("sendDice", problem)
    words = await desk.run(Tagged("", (ApiCall("sendDice", {}),)))
    assert words == "unconfirmed: sendDice (Telegram's answer was lost)"
    assert desk.kept == {0: UNVERIFIED}
    assert len(desk.called()) == (problem is LOST)


async def test_a_tag_that_surely_did_not_arrive_is_tried_again(desk: FinishFixture) -> None:
    """A flood's time is waited for, and so is Telegram's return."""
    desk.chat.fail(
        "sendDice",
        ChatFlooded(reason="slow down", retry_after_seconds=40),
        ChatUnreachable(reason="no route"),
    )
    assert await desk.run(Tagged("", (ApiCall("sendDice", {}),))) == ""
    assert len(desk.called()) == 1


async def test_after_a_crash_only_what_was_not_begun_is_done(desk: FinishFixture) -> None:
    """Done stays done, begun is unverified, refused says the same again."""
    calls = tuple(ApiCall("sendDice", {"emoji": str(number)}) for number in range(4))
    known = {0: DONE, 1: BEGUN, 2: "poll must have options"}
    words = await desk.run(Tagged("", calls), known=known)
    assert [given["emoji"] for _, given in desk.called()] == ["3"]
    assert words.split("; ") == [
        "unconfirmed: sendDice (Telegram's answer was lost)",
        "not done: sendDice (poll must have options)",
    ]


async def test_twenty_calls_at_most(desk: FinishFixture) -> None:
    """An answer that is nothing but tags, a hundred of them."""
    tagged = read_tags('<telegram-api method="sendDice" emoji="x"/>\n' * 100)
    words = await desk.run(tagged)
    assert len(desk.called()) == 20
    assert words == "not done: 80 more, beyond what one answer may ask for"
    assert with_line(tagged.text, words) == f"({words})"
    assert with_line("text", "") == "text"


LINES = 4_000
LONG = (
    f"First words.\n\n{'Some more of the same. ' * LINES}The very last words, and sk-ant-api03-{'A1b2' * 20}."
)


async def test_an_answer_too_long_for_messages_is_a_file_and_its_beginning(desk: FinishFixture) -> None:
    """One message that says where the rest is, and a file with every word but the secrets."""
    told = await desk.told(read_tags(LONG))
    ((_name, content),) = [given["document"] for _, given in desk.called()]
    assert told.text.startswith("First words.")
    assert told.text.endswith(
        f"[The answer has {len(LONG):,} characters. The file answer.md below has all of them.]"
    )
    assert (len(messages_of(told.text)), told.line) == (1, "")
    text = content.decode()
    assert (text.count("more of the same"), "The very last words" in text) == (LINES, True)
    assert "A1b2A1b2" not in text


@pytest.mark.parametrize("problem", [LOST, ChatFailed(reason="cut off"), ChatRefused(reason="no files here")])
async def test_a_long_answer_whose_file_is_not_there_for_sure_is_in_messages(
    desk: FinishFixture, problem: ChatFailed
) -> None:
    """As far as they go; the file is not sent twice, and after a crash in its middle not either."""
    desk.chat.fail("sendDocument", problem)
    told = await desk.told(read_tags(LONG))
    messages = messages_of(with_line(told.text, told.line))
    assert len(messages) == PARTS_MAX
    assert "the whole answer as a file" in messages[0]
    again = await desk.told(read_tags(LONG), known={0: BEGUN})
    assert again.line == "unconfirmed: sending the whole answer as a file (Telegram's answer was lost)"
    assert len(desk.called()) <= 1


async def test_a_megabyte_is_sent_once_however_often_its_turn_is_finished(desk: FinishFixture) -> None:
    """A crash behind the file: the next gateway says the same words and sends no second one; then it is forgotten."""
    store = MemoryStore(now=lambda: 0.0)
    finishing = AnswerFinisher(
        store=store,
        answers=ChatAnswers(desk.chat, desk.clock),
        turn_store=TurnStore(store, desk.clock, "bot"),
        rights_of=lambda _turn: Rights(is_admin=False),
        buttons=lambda _turn, _text: (),
    )
    text = "words" * 200_000
    turn = Turn(update_id=1, place=TOPIC, message_id=1, user_id=1, at=0.0, prompt="?", text=text)
    task = asyncio.ensure_future(finishing.carry_out(turn))
    while not task.done():
        await asyncio.sleep(0.001)
        await desk.clock.run_for(1)
    said, _ = task.result()
    assert f"[The answer has {len(text):,} characters." in said
    assert await finishing.carry_out(turn) == (said, ())
    assert [method for method, _ in desk.called()] == ["sendDocument"]
    await finishing.on_turn_end(turn, None, 1.0)
    assert await store.notes(KIND) == []
