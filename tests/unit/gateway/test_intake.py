"""Claims about incoming chat messages: allowed users, commands, prompts, and what is ignored."""

import logging
from collections.abc import Sequence

import pytest

from support.fake_sessions_and_answers import held_up, message, press, silent
from support.gateway_virtual import Gateway, GatewayParts, opened
from wakeful.client.errors import DaemonEnded, DaemonNotRunning, DaemonRefused
from wakeful.control.driver import PermissionReply
from wakeful.control.turn_events import Ended, PermissionAsked, PermissionClosed
from wakeful.core.errors import WorldError
from wakeful.gateway.intake import CONFLICT_SECONDS, NOT_DONE, ONLY_TEXT
from wakeful.gateway.permissions import NOT_ASKED, NOT_DONE as QUESTION_NOT_DONE
from wakeful.gateway.ports import BotInUse, BotRejected, ChatFailed, ChatFlooded
from wakeful.gateway.rules.access import PRESS_REFUSAL_TEXTS, PressRefusal
from wakeful.gateway.rules.messages import IgnoredUpdate
from wakeful.storage.base import ActionOutcome, Note

ASKED = PermissionAsked("q1", "Bash", "touch x", "digest of touch x")


async def test_a_stranger_is_told_nothing_and_the_operator_reads_what_to_write(
    caplog: pytest.LogCaptureFixture, parts: GatewayParts, gateway: Gateway
) -> None:
    """Neither a message nor a press of an unknown user does anything; its id is named once."""
    with caplog.at_level(logging.WARNING, "wakeful.gateway"):
        parts.chat.write(
            message(1, user_id=666),
            message(2, "/new", user_id=666),
            press(3, "ask:x:allow_once", user_id=666),
        )
        await parts.clock.run_for(1)
        assert (parts.chat.sent, parts.chat.settled, parts.slate.messages) == ([], [], {})
        assert await gateway.book.find(1) is None
        assert caplog.text.count("[gateway] allow = [666]") == 1


async def test_an_empty_list_hears_nobody() -> None:
    """Nothing configured means no user is allowed."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.heard_users = set()
        return parts

    async with opened(world) as (parts, _):
        await parts.receive(message(1))
        assert (parts.sessions.delivered, parts.chat.sent) == ([], [])


@pytest.mark.parametrize(
    ("order", "own_name", "obeyed"),
    [
        ("/stop@our_bot", "our_bot", True),
        ("/stop@OUR_BOT now", "our_bot", True),
        ("/stop@other_bot", "our_bot", False),
        ("/dance@other_bot", "our_bot", False),
        ("/stop@other_bot", "", True),
    ],
)
async def test_a_command_for_another_bot_is_not_ours(
    order: str, own_name: str, *, obeyed: bool, parts: GatewayParts
) -> None:
    """In a group every bot reads it; nothing is stopped and nothing is sent. Before the bot's name is known
    it is accepted."""
    parts.bot_name = own_name
    await parts.receive(message(1, order, -7))
    assert [text for _, text, _ in parts.chat.sent] == (["Nothing is running."] if obeyed else [])


async def test_edited_and_forwarded_commands_are_none(parts: GatewayParts) -> None:
    """An edit is not asked again, a forwarded command is text; what has no text gets one sentence a minute."""
    parts.chat.write(
        message(1, "/new", edited=True),
        message(2, "fixed a typo", edited=True),
        message(3, "/new", forwarded=True),
        *(message(n, " \x07 ") for n in range(4, 9)),
        IgnoredUpdate(9),
    )
    await parts.clock.run_for(1)
    # Claude Code would take a prompt that begins with a slash for a command of its own.
    assert [each[1] for each in parts.sessions.delivered] == ["Forwarded: /new"]
    assert [text for _, text, _ in parts.chat.sent] == [ONLY_TEXT]
    await parts.receive(message(10, "/fly to the moon"), message(11, "/STOP@our_bot now"))
    assert [text for _, text, _ in parts.chat.sent][1:] == [
        "Unknown command /fly. Commands: /new /stop.",
        "Nothing is running.",
    ]


async def test_updates_are_confirmed_only_once_they_are_kept(parts: GatewayParts) -> None:
    """The next question carries the number of what was kept; the same update again is nothing new."""
    await parts.receive(message(7), message(8, user_id=666))
    await parts.receive(message(9))
    assert parts.chat.asked_after == [0, 8, 9]
    assert len(parts.sessions.delivered) == 2


async def test_a_store_that_refuses_one_of_a_batch_loses_none_of_it(
    parts: GatewayParts, gateway: Gateway
) -> None:
    """Full or locked for a while: nothing is begun and nothing confirmed, then all are asked in their order, once."""
    keep, refusing = parts.store.save_new_notes, [True]

    async def refused(notes: Sequence[Note]) -> None:
        if refusing[0] and any(note.key.endswith("2") for note in notes):
            raise WorldError
        await keep(notes)

    parts.store.save_new_notes = refused  # type: ignore[method-assign]
    await parts.receive(message(1, "one"), message(2, "two"), message(3, "three", 8), seconds=100)
    assert (parts.sessions.delivered, set(parts.chat.asked_after), gateway.intake.problem) == (
        [],
        {0},
        "world",
    )
    refusing[0] = False
    await parts.clock.run_for(100)
    assert sorted(each[1] for each in parts.sessions.delivered) == ["one", "three", "two"]
    assert parts.slate.answers() == ["Answer to: one.", "Answer to: three.", "Answer to: two."]
    assert gateway.intake.problem is None


async def test_what_was_kept_though_the_store_said_no_is_begun_all_the_same(parts: GatewayParts) -> None:
    """The rows may exist despite the error: their existence is no sign that they were begun."""
    keep, doubts = parts.store.save_new_notes, [1]

    async def doubtful(notes: Sequence[Note]) -> None:
        await keep(notes)
        if doubts:
            doubts.pop()
            raise WorldError

    parts.store.save_new_notes = doubtful  # type: ignore[method-assign]
    await parts.receive(message(1, "one"), message(2, "two"), seconds=5)
    assert [each[1] for each in parts.sessions.delivered] == ["one", "two"]


async def test_an_order_that_the_store_refuses_is_said_to_be_undone(parts: GatewayParts) -> None:
    """The user learns that it has to be sent again."""
    await parts.receive(message(1, "one"))

    async def refused(kind: str, key: str) -> bool:
        raise WorldError(kind=kind, key=key)

    parts.store.drop_note = refused  # type: ignore[method-assign]
    await parts.receive(message(2, "/new"))
    assert [text for _, text, _ in parts.chat.sent] == [NOT_DONE]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (BotRejected(reason="401"), "Set gateway.token again"),
        (ChatFailed(reason="down"), "down"),
    ],
)
async def test_a_chat_in_trouble_is_asked_again_and_said_once(
    problem: Exception, words: str, caplog: pytest.LogCaptureFixture, parts: GatewayParts, gateway: Gateway
) -> None:
    """Down for an hour: one line when it begins, one when it ends, and nothing lost."""
    with caplog.at_level(logging.WARNING, "wakeful.gateway"):
        parts.chat.problems["updates"] = [problem] * 60
        await parts.receive(message(1), seconds=600)
        during = gateway.intake.problem
        assert caplog.text.count(words) == 1
        await parts.clock.run_for(3000)
        assert (during is None, gateway.intake.problem) == (False, None)
        assert (caplog.text.count("arrive again"), len(parts.slate.answers())) == (1, 1)
        assert [words in each for each in parts.told] == [False, True, False]


async def test_two_that_read_the_same_updates_get_out_of_each_others_way(
    caplog: pytest.LogCaptureFixture, parts: GatewayParts, gateway: Gateway
) -> None:
    """Whatever arrives in between, one backs off more and more, and reports why until the conflict ends."""
    with caplog.at_level(logging.WARNING, "wakeful.gateway"):
        for number in range(1, 30):
            parts.chat.problems["updates"] = [BotInUse()]
            await parts.receive(message(number, f"number {number}"), seconds=61)
            assert gateway.intake.problem == "chat-taken"
        assert caplog.text.count("A token works for one gateway only") == 1
        assert "A token works for one gateway only" in parts.told[-1]
        parts.chat.problems["updates"] = [BotInUse()]
        await parts.receive(message(30), seconds=59)
        assert len(parts.slate.answers()) == 29
        await parts.clock.run_for(CONFLICT_SECONDS)
        await parts.receive(message(31))
        assert (len(parts.slate.answers()), gateway.intake.problem, parts.told[-1]) == (31, None, "")


async def test_a_flooded_chat_gets_the_rest_it_wants() -> None:
    """Not asked before its time is over."""
    async with opened() as (parts, _):
        parts.chat.problems["updates"] = [ChatFlooded(reason="429", retry_after_seconds=40)]
        await parts.receive(message(1), seconds=39)
        assert parts.chat.asked_after == []
        await parts.clock.run_for(2)
        assert len(parts.slate.answers()) == 1


async def asked(parts: GatewayParts, *, update_id: int = 1, question: PermissionAsked = ASKED) -> str:
    """A turn that asks for a permission; the name its buttons carry."""
    parts.sessions.reply = silent
    await parts.receive(message(update_id))
    parts.sessions.say(parts.key_of(update_id), question)
    await parts.clock.run_for(1)
    return parts.slate.asked()[-1][0][0].choice.split(":")[1]


@pytest.mark.parametrize(
    ("choice", "reply"), [("allow_once", PermissionReply.ALLOW), ("deny", PermissionReply.DENY)]
)
async def test_a_question_is_answered_by_a_button(
    choice: str, reply: PermissionReply, parts: GatewayParts
) -> None:
    """Shown once with three buttons, in its thread; answered once; its buttons go."""
    name = await asked(parts)
    (text,), (buttons,) = parts.slate.questions(), parts.slate.asked()
    assert ("Bash" in text, "touch x" in text) == (True, True)
    assert [row[0].label for row in buttons] == ["Allow once", "Allow for this session", "Deny"]
    assert all(len(row[0].choice.encode()) <= 64 for row in buttons)
    await parts.receive(press(2, f"ask:{name}:{choice}"))
    await parts.receive(press(3, f"ask:{name}:{choice}"))
    assert parts.sessions.answers == [("q1", reply)]
    assert parts.chat.settled[1] == ("press-3", PRESS_REFUSAL_TEXTS[PressRefusal.LATE])
    assert (parts.slate.asked(), len(parts.slate.questions())) == ([], 1)


@pytest.mark.parametrize(
    ("user_id", "admins", "answers"), [(43, set(), []), (43, {43}, [("q1", PermissionReply.ALLOW)])]
)
async def test_only_who_asked_or_an_admin_answers_a_question(
    user_id: int, admins: set[int], answers: list[tuple[str, PermissionReply]], parts: GatewayParts
) -> None:
    """In a group all members see the buttons; another member's press changes nothing and gets the reason."""
    parts.heard_users, parts.admins = {42, 43}, admins
    name = await asked(parts)
    await parts.receive(press(2, f"ask:{name}:allow_once", user_id=user_id))
    assert parts.sessions.answers == answers
    if not answers:
        assert parts.chat.settled == [("press-2", PRESS_REFUSAL_TEXTS[PressRefusal.NOT_ASKER])]
        assert len(parts.slate.asked()) == 1, "it is still open for whoever asked"


@pytest.mark.parametrize(
    ("outcome", "words", "open_questions"),
    [(ActionOutcome.INEFFECTIVE, QUESTION_NOT_DONE, 1), (ActionOutcome.DECLINED, NOT_ASKED, 0)],
)
async def test_an_answer_that_the_agent_did_not_get_is_not_said_to_be_given(
    outcome: ActionOutcome, words: str, open_questions: int, parts: GatewayParts, gateway: Gateway
) -> None:
    """It may be pressed again where the agent still waits; and nothing is allowed for the session by it."""
    name = await asked(parts)
    parts.sessions.answer_outcomes = [outcome]
    await parts.receive(press(2, f"ask:{name}:allow_session"))
    assert parts.chat.settled == [("press-2", words)]
    assert (len(parts.slate.asked()), "Allowed" in str(parts.slate.questions())) == (
        open_questions,
        False,
    )
    assert [each.allowed for each in gateway.conversations.all().values()] == [()]


async def test_an_expired_question_is_denied_until_the_agent_knows(parts: GatewayParts) -> None:
    """For example a full input: the agent waits for its answer, and the chat must not say that it has one."""
    await asked(parts)
    parts.sessions.answer_outcomes = [ActionOutcome.INEFFECTIVE, ActionOutcome.INEFFECTIVE]
    await parts.clock.run_for(parts.limits.question + 1)
    assert (len(parts.sessions.answers), len(parts.slate.asked())) == (1, 1)
    await parts.clock.run_for(11)
    assert (parts.sessions.answers, parts.slate.asked()) == ([("q1", PermissionReply.DENY)] * 3, [])


async def test_a_choice_that_was_not_offered_is_forged(parts: GatewayParts) -> None:
    """A call that looks like others cannot be allowed for a session."""
    name = await asked(parts, question=PermissionAsked("q1", "Bash", "touch x"))
    await parts.receive(press(2, f"ask:{name}:allow_session"))
    assert parts.sessions.answers == []
    assert parts.chat.settled == [("press-2", PRESS_REFUSAL_TEXTS[PressRefusal.FORGED])]


async def test_what_is_allowed_for_a_session_is_not_for_the_one_after_it(
    parts: GatewayParts, gateway: Gateway
) -> None:
    """A healer may have started another session before the press."""
    name = await asked(parts)
    await gateway.conversations.replace_session(message(1).place.key, "another-session")
    await parts.receive(press(2, f"ask:{name}:allow_session"))
    assert [each.allowed for each in gateway.conversations.all().values()] == [()]


async def test_what_is_allowed_for_the_session_is_not_asked_again(parts: GatewayParts) -> None:
    """Exactly the same call is answered at once from then on, any other is asked about, and a new session
    asks again."""
    name = await asked(parts)
    await parts.receive(press(2, f"ask:{name}:allow_session"))
    same = PermissionAsked("q2", "Bash", "touch x", "digest of touch x")
    others = (
        PermissionAsked("q3", "Bash", "rm -rf x", "digest of rm -rf x"),
        PermissionAsked("q5", "Bash", "touch x"),
    )
    parts.sessions.say("tg-99-1", PermissionClosed("q1"), same, *others)
    await parts.clock.run_for(1)
    assert parts.sessions.answers == [("q1", PermissionReply.ALLOW), ("q2", PermissionReply.ALLOW)]
    assert len(parts.slate.questions()) == 3
    assert "allows exactly this call" in parts.slate.questions()[0]
    # A call that is not known completely can be allowed only once.
    assert [len(each) for each in parts.slate.asked()] == [3, 2]
    parts.sessions.say("tg-99-1", Ended("done", stop_reason="end_turn"))
    await parts.receive(message(3, "/new"))
    await asked(parts, update_id=4, question=PermissionAsked("q4", "Bash", "touch x", "digest of touch x"))
    assert [text for text in parts.slate.questions() if "use Bash?" in text][1:] != []
    assert ("q4", PermissionReply.ALLOW) not in parts.sessions.answers


async def test_a_question_nobody_answers_is_denied(parts: GatewayParts) -> None:
    """After its time; until then the silence is the person's, and the turn is not given up for it."""
    await asked(parts)
    await parts.clock.run_for(590)
    assert parts.sessions.answers == []
    await parts.clock.run_for(20)
    assert parts.sessions.answers == [("q1", PermissionReply.DENY)]
    assert parts.slate.answers() == []
    assert "No answer in time" in parts.slate.questions()[0]


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize(
    ("choice", "said"),
    [("deny", "Denied."), ("allow_once", "Allowed once."), ("", "No answer in time: denied.")],
)
async def test_a_question_says_how_it_was_answered(
    choice: str, said: str, *, is_over: bool, parts: GatewayParts
) -> None:
    """Also if the listener sees the answer, or the turn's end, before the daemon's reply."""
    name = await asked(parts)
    free = held_up(parts.sessions, "answer")
    if choice:
        parts.chat.write(press(2, f"ask:{name}:{choice}"))
    await parts.clock.run_for(1 if choice else 601)
    parts.sessions.say(
        "tg-99-1", PermissionClosed("q1"), *([Ended("x", stop_reason="end_turn")] if is_over else [])
    )
    await parts.clock.run_for(1)
    free.set()
    await parts.clock.run_for(1)
    assert parts.slate.questions()[0].endswith(f"\n\n{said}")


async def test_a_question_that_expires_while_the_daemon_is_away_is_denied_when_it_is_back(
    parts: GatewayParts,
) -> None:
    """What the chat says was denied was denied."""
    await asked(parts)
    parts.sessions.problems["answer"] = [DaemonNotRunning(), DaemonEnded(where="")]
    await parts.clock.run_for(602)
    assert "No answer in time" not in parts.slate.questions()[0]
    await parts.clock.run_for(20)
    assert parts.sessions.answers == [("q1", PermissionReply.DENY)]
    assert "No answer in time" in parts.slate.questions()[0]


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (DaemonNotRunning(), 2),
        (DaemonRefused(detail="it was answered", problem={"code": "no-such-question"}), 1),
    ],
)
async def test_what_was_allowed_and_could_not_be_told_is_asked(
    problem: Exception, shown: int, parts: GatewayParts
) -> None:
    """A turn does not hang for an answer that went nowhere; what was answered before is not asked again."""
    name = await asked(parts)
    await parts.receive(press(2, f"ask:{name}:allow_session"))
    parts.sessions.problems["answer"] = [problem]
    parts.sessions.say(
        "tg-99-1", PermissionClosed("q1"), PermissionAsked("q2", "Bash", "touch x", "digest of touch x")
    )
    await parts.clock.run_for(1)
    assert len(parts.slate.questions()) == shown


@pytest.mark.parametrize(
    "choice", ["ask:forged:allow_once", "ask::", "ask:{name}:", "ask:{name}:root", "ask", "\0", "x" * 64]
)
async def test_a_forged_button_answers_nothing(choice: str, parts: GatewayParts) -> None:
    """Nor does one from another chat."""
    name = await asked(parts)
    await parts.receive(press(2, choice.format(name=name)), press(3, f"ask:{name}:allow_once", chat_id=8))
    assert parts.sessions.answers == []
    assert len(parts.chat.settled) == 2


async def test_a_question_settled_elsewhere_loses_its_buttons(parts: GatewayParts) -> None:
    """Answered at a terminal, or over with its turn."""
    await asked(parts)
    parts.sessions.say("tg-99-1", PermissionClosed("q1"), PermissionAsked("q2", "Write", "y"))
    await parts.clock.run_for(1)
    parts.sessions.say("tg-99-1", Ended("done", stop_reason="end_turn"))
    await parts.clock.run_for(1)
    assert "Answered elsewhere" in parts.slate.questions()[0]
    assert "The turn has ended" in parts.slate.questions()[1]
    assert (parts.slate.asked(), parts.sessions.answers) == ([], [])


async def test_after_a_restart_a_question_is_not_asked_twice_and_its_buttons_work() -> None:
    """The turn is read from its beginning, with the question; the sent message is known."""
    parts = GatewayParts()
    first = Gateway(parts)
    await first.start()
    name = await asked(parts)
    await first.end()
    second = Gateway(parts)
    await second.start()
    await parts.clock.run_for(1)
    assert len(parts.slate.questions()) == 1
    await parts.receive(press(2, f"ask:{name}:allow_once"))
    assert parts.sessions.answers == [("q1", PermissionReply.ALLOW)]
    await second.end()
