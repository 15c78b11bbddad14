"""Claims about turns: each message is asked once and answered once, in its own conversation, whatever goes wrong."""

import logging
from collections.abc import Callable, Sequence

import pytest

from support.fake_sessions_and_answers import message, silent
from support.gateway_virtual import Gateway, GatewayParts, opened
from wakeful.client.api import ActionReply
from wakeful.client.errors import DaemonEnded, DaemonNotRunning, DaemonRefused, DaemonSilent
from wakeful.control.turn_events import AnswerText, Ended, Gone, PromptTaken, TurnEvent
from wakeful.core.errors import WorldError
from wakeful.gateway.ports import ChatRefused
from wakeful.gateway.rules.breaker import BreakerState
from wakeful.gateway.rules.errors import Category, Fault
from wakeful.gateway.rules.pool import PoolLimits
from wakeful.gateway.rules.turn import TurnStage
from wakeful.gateway.turn_listener import GOES_ON_TEXT, LOST_TEXT, NOT_BEGUN_TEXT, STOPPED_TEXT, UNSURE_TEXT
from wakeful.judging.events import Failure
from wakeful.storage.base import ActionOutcome, Note

# Resilience is proven for both providers: each claim here is made of each.
pytestmark = pytest.mark.usefixtures("provider")


def failing(
    failure: Failure = Failure.PROVIDER, words: str = "API Error: 500"
) -> Callable[[str], Sequence[TurnEvent]]:
    return lambda _prompt: (PromptTaken(), Ended(words, failure))


async def test_a_message_is_asked_once_and_answered_once(parts: GatewayParts) -> None:
    """Placeholder, prompt under the update's own key, words as they come, the whole in the same message."""
    await parts.receive(message(5, "What is new?"))
    assert parts.sessions.delivered == [(f"{parts.provider}-1", "What is new?", "tg-99-5")]
    assert parts.slate.messages == {1: ["…", "Answer to: What is new?."]}
    assert parts.slate.grown == ["Answer to: What is new?."]
    await parts.receive(message(5, "What is new?"), message(6, "And now?"))
    assert [each[0] for each in parts.sessions.delivered] == [
        f"{parts.provider}-1",
        f"{parts.provider}-1",
    ]
    assert parts.slate.answers() == ["Answer to: What is new?.", "Answer to: And now?."]


async def test_a_hundred_messages_in_a_second_are_answered_in_their_order(parts: GatewayParts) -> None:
    """One conversation takes them one after the other; none is lost, none twice."""
    await parts.receive(*(message(n, f"number {n}") for n in range(1, 101)))
    assert [each[1] for each in parts.sessions.delivered] == [f"number {n}" for n in range(1, 101)]
    assert parts.slate.answers() == [f"Answer to: number {n}." for n in range(1, 101)]
    assert len(parts.sessions.known) == 1


async def test_more_than_may_wait_are_refused_with_one_sentence() -> None:
    """A message beyond the queue's bound gets one refusal, and accepted ones are done."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(queue_max=3)
        parts.sessions.reply = silent
        return parts

    async with opened(world) as (parts, _):
        await parts.receive(message(1))
        await parts.receive(*(message(n) for n in range(2, 20)))
        assert [text for _, text, _ in parts.chat.sent] == [
            "Too many messages are waiting. Please wait for the answers, or send /stop."
        ]


async def test_conversations_do_not_wait_for_each_other_and_never_cross(parts: GatewayParts) -> None:
    """Each chat and each topic has a session of its own; a silent one delays no other."""
    parts.sessions.reply = lambda prompt: (PromptTaken(),) if prompt == "hang" else _say(prompt)
    parts.chat.write(message(1, "hang", 1), message(2, "two", 2), message(3, "topic", 2, thread_id=9))
    await parts.receive(message(4, "behind", 1), message(5, "four", 2))
    by_session = {session: prompt for session, prompt, _ in parts.sessions.delivered}
    assert set(by_session.values()) == {"hang", "topic", "four"}
    assert parts.slate.answers() == ["said two", "said topic", "said four"]


def _say(prompt: str) -> Sequence[TurnEvent]:
    return (PromptTaken(), AnswerText(f"said {prompt}"), Ended(f"said {prompt}", stop_reason="end_turn"))


async def test_no_idle_session_is_ended_in_a_pause() -> None:
    """It was not asked for: it is ended once the pause is over. Messages of people still make room for each other."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(active_max=1)
        return parts

    async with opened(world) as (parts, _):
        parts.paused = True
        for n in (1, 2):
            await parts.receive(message(n, f"from {n}", n))
        assert parts.sessions.evicted == [f"{parts.provider}-1"]
        await parts.clock.run_for(7200)
        assert parts.sessions.alive == {f"{parts.provider}-2"}
        parts.paused = False
        await parts.clock.run_for(30)
        assert parts.sessions.alive == set()


async def test_idle_sessions_make_room_and_come_back(caplog: pytest.LogCaptureFixture) -> None:
    """Thirty conversations on three places: who was idle longest goes, and its next message resumes it."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(active_max=3)
        return parts

    with caplog.at_level(logging.INFO, "wakeful.gateway"):
        async with opened(world) as (parts, gateway):
            for n in range(1, 31):
                await parts.receive(message(n, f"from {n}", n))
            assert len(parts.slate.answers()) == 30
            assert (len(parts.sessions.alive), gateway.turns.pool.active) == (3, 3)
            assert parts.sessions.acts[0] == ("stop", f"{parts.provider}-1")
            assert parts.sessions.evicted == [f"{parts.provider}-{n}" for n in range(1, 28)], (
                "no person did that"
            )
            evicted = f"sessionId={parts.provider}-1 evictionReason=lru_limit"
            assert f"conversationKey=chat:1:thread:main {evicted}" in caplog.text
            await parts.receive(message(31, "again", 1))
            assert ("resume", f"{parts.provider}-1") in parts.sessions.acts
            assert parts.sessions.delivered[-1] == (f"{parts.provider}-1", "again", "tg-99-31")
            await parts.clock.run_for(1800)
            assert "evictionReason=idle_ttl" in caplog.text
            assert parts.sessions.alive == set()


async def test_a_conversation_the_healer_began_anew_goes_on_there(
    parts: GatewayParts, gateway: Gateway
) -> None:
    """Its old session is not brought back beside the new one: of one chat one session lives."""
    await parts.receive(message(1, "first"))
    parts.sessions.alive = {f"{parts.provider}-9"}
    parts.sessions.known.add(f"{parts.provider}-9")
    parts.sessions.heirs["chat-7-thread-main"] = f"{parts.provider}-9"
    for n in (2, 3):
        await parts.receive(message(n, f"message {n}"))
    assert [to for to, _, _ in parts.sessions.delivered] == [
        f"{parts.provider}-1",
        f"{parts.provider}-9",
        f"{parts.provider}-9",
    ]
    assert parts.sessions.acts == []
    assert gateway.turns.pool.session_of(message(4).place.key) == f"{parts.provider}-9"


@pytest.mark.parametrize("watched", [True, False])
async def test_a_session_the_healer_began_anew_has_its_place_before_anybody_writes(
    *, watched: bool, parts: GatewayParts, gateway: Gateway
) -> None:
    """The watch gives it the place of the one it replaced; where none came in time, it is ended in its stead."""
    await parts.receive(message(1, "first"))
    parts.sessions.alive = {f"{parts.provider}-9"}
    parts.sessions.heirs["chat-7-thread-main"] = f"{parts.provider}-9"
    if watched:
        await gateway.turns.adopt_replacements()
    held = gateway.turns.pool.session_of(message(1).place.key)
    assert (held, gateway.turns.pool.active) == (
        f"{parts.provider}-9" if watched else f"{parts.provider}-1",
        1,
    )
    await parts.clock.run_for(1801)
    assert (parts.sessions.acts, parts.sessions.alive) == ([("stop", f"{parts.provider}-9")], set())


@pytest.mark.parametrize("flags", [(), ("--flag",)])
async def test_a_conversation_is_held_as_the_configuration_says_now(
    provider: str, flags: tuple[str, ...], parts: GatewayParts, gateway: Gateway
) -> None:
    """Another provider, folder or permission mode begins another one; the session that may do more is ended first."""
    await parts.receive(message(1, "first"))
    parts.provider, parts.flags = provider if flags else "third", flags
    for n in (2, 3):
        await parts.receive(message(n, f"message {n}"))
    old, new = f"{provider}-1", f"{parts.provider}-2"
    assert [session for session, _, _ in parts.sessions.delivered] == [old, new, new]
    assert (parts.sessions.acts, parts.sessions.alive) == ([("stop", old)], {new})
    assert gateway.turns.pool.session_of(message(1).place.key) == new


async def test_a_restart_leaves_work_alone_unless_it_is_the_trouble(
    provider: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """Self-heal ends an idle session; in a turn only one that runs away is replaced, and the turn goes on there."""
    key, session = message(1).place.key, f"{provider}-1"
    await parts.receive(message(1, "first"))
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText("half "))
    await parts.receive(message(2, "long"))
    assert gateway.turns.progressing_keys(300) == {key}
    assert not await gateway.turns.restart(key)
    assert parts.sessions.acts == []
    assert await gateway.turns.restart_all() == 1
    # As a crash: what is stopped is over, and the healer would not go on with its turn.
    assert parts.sessions.acts == [("end_process", session)]
    parts.sessions.say("tg-99-2", Gone(""), PromptTaken(), Ended("whole", stop_reason="end_turn"))
    await parts.clock.run_for(1)
    assert parts.slate.answers()[-1] == "whole"
    await parts.clock.run_for(301)
    assert gateway.turns.progressing_keys(300) == frozenset()
    assert await gateway.turns.restart(key)
    assert parts.sessions.acts[-1] == ("stop", session)


async def test_one_that_cannot_be_restarted_keeps_nobody_from_it(
    provider: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """Memory is short: the others are still brought back."""
    parts.sessions.reply = silent
    await parts.receive(message(1, "one", 1), message(2, "two", 2))
    parts.sessions.problems["end_process"] = [DaemonSilent(seconds=60.0)]
    assert await gateway.turns.restart_all() == 1
    assert parts.sessions.acts == [("end_process", f"{provider}-2")]


@pytest.mark.parametrize("reason", ["lru_limit", "idle_ttl"])
async def test_a_session_that_could_not_be_ended_is_counted(reason: str) -> None:
    """The daemon is away while one makes room: its place stays taken until it was really ended."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(1, 60.0 if reason == "idle_ttl" else 3600.0)
        return parts

    async with opened(world) as (parts, gateway):
        await parts.receive(message(1, "one", 1))
        first = gateway.turns.pool.session_of(message(1, "one", 1).place.key)
        parts.sessions.problems["stop"] = [DaemonNotRunning() for _ in range(6)]
        if reason == "idle_ttl":
            await parts.clock.run_for(61)
            assert gateway.turns.pool.session_of(message(1, "one", 1).place.key) == first
        await parts.receive(message(2, "two", 2), seconds=5)
        assert (len(parts.sessions.alive), len(parts.sessions.delivered)) == (1, 1)
        await parts.clock.run_for(20)
        assert first not in parts.sessions.alive
        assert (len(parts.sessions.alive), len(parts.sessions.delivered)) == (1, 2)


async def test_two_who_wait_do_not_share_the_place_of_one() -> None:
    """The daemon is away while the only idle session makes room: who comes second waits for the next place."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(1, 3600.0)
        return parts

    async with opened(world) as (parts, _):
        await parts.receive(message(1, "one", 1))
        parts.sessions.problems["stop"] = [DaemonNotRunning() for _ in range(4)]
        await parts.receive(message(2, "two", 2), seconds=3)
        parts.chat.write(message(3, "three", 3))
        living = []
        for _ in range(30):
            await parts.clock.run_for(1)
            living.append(len(parts.sessions.alive))
        assert (max(living), len(parts.sessions.delivered)) == (1, 3)


async def test_who_makes_room_and_writes_again_waits_for_a_place_of_its_own() -> None:
    """The daemon is away: the idle one that has to go gets a message before it was ended, and its place is taken."""

    def world() -> GatewayParts:
        parts = GatewayParts()
        parts.pool_limits = PoolLimits(2, 3600.0)
        return parts

    async with opened(world) as (parts, _):
        await parts.receive(message(1, "one", 1), message(2, "two", 2))
        living = []
        for number in (3, 7, 11):
            parts.sessions.problems["stop"] = [DaemonNotRunning() for _ in range(4)]
            parts.chat.write(
                message(number, "from a third one", 3), message(number + 1, "from a fourth one", 4)
            )
            await parts.clock.run_for(3)
            parts.chat.write(message(number + 2, "again", 1), message(number + 3, "again", 2))
            for _ in range(30):
                await parts.clock.run_for(1)
                living.append(len(parts.sessions.alive))
        assert (max(living), len(parts.sessions.delivered)) == (2, 14)


async def test_a_smaller_limit_holds_from_the_next_start_on() -> None:
    """Five conversations had a session; with room for two the gateway ends those that were idle longest."""
    parts = GatewayParts()
    gateway = Gateway(parts)
    await gateway.start()
    await parts.receive(*(message(number, "hello", number) for number in range(1, 6)))
    await gateway.end()
    assert len(parts.sessions.alive) == 5
    parts.pool_limits = PoolLimits(2, 3600.0)
    gateway = Gateway(parts)
    await gateway.start()
    await parts.clock.run_for(1)
    await gateway.end()
    assert len(parts.sessions.alive) == 2


@pytest.mark.parametrize("order", ["/new", "restart", "stop_all"])
async def test_a_session_that_a_person_ends_while_the_daemon_is_away_is_ended_later(
    order: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """They are answered at once; what they ended does not run on, and the next message is answered."""
    await parts.receive(message(1, "one"))
    (first,) = parts.sessions.alive
    parts.sessions.problems["stop"] = [DaemonNotRunning() for _ in range(3)]
    if order == "/new":
        parts.chat.write(message(2, "/new"))
    elif order == "restart":
        assert await gateway.turns.restart(message(1).place.key)
    else:
        assert await gateway.turns.stop_all() == (1, 0)
    await parts.clock.run_for(1)
    assert first in parts.sessions.alive
    await parts.receive(message(3, "two"), seconds=10)
    assert ("stop", first) in parts.sessions.acts
    assert (len(parts.sessions.alive), len(parts.sessions.delivered)) == (1, 2)


async def test_stop_cuts_the_turn_short_and_drops_what_waits(parts: GatewayParts) -> None:
    """The words said so far stay, with a mark; the session stays too, and takes the next message."""
    parts.sessions.reply = lambda prompt: (
        (PromptTaken(), AnswerText("half")) if prompt == "long" else _say(prompt)
    )
    await parts.receive(message(1, "long"), message(2, "behind"))
    await parts.receive(message(3, "/stop"))
    assert parts.sessions.acts == [("interrupt", f"{parts.provider}-1")]
    parts.sessions.say("tg-99-1", Ended("half", interrupted=True))
    await parts.clock.run_for(1)
    assert parts.slate.shown == [f"half\n\n{STOPPED_TEXT}"]
    await parts.receive(message(4, "next"))
    assert [each[:2] for each in parts.sessions.delivered] == [
        (f"{parts.provider}-1", "long"),
        (f"{parts.provider}-1", "next"),
    ]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ('Here: <send-file path="a"/> it is', "Here:  it is"),
        ("Here: <send-file pa", "Here:"),
        ("Invalid API key · Fix external API key", ""),
    ],
)
async def test_what_was_stopped_asks_for_nothing_and_complains_of_nothing(
    said: str, left: str, parts: GatewayParts
) -> None:
    """Its tags are not carried out and not shown, no buttons are offered, and a client's complaint stays out."""
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText(said))
    await parts.receive(message(1))
    await parts.receive(message(2, "/stop"), seconds=20)
    assert parts.slate.shown == [f"{left}\n\n{STOPPED_TEXT}".strip()]
    (turn, fault) = parts.plain.ends[0]
    assert (turn.stage, turn.fault, fault, parts.plain.carried_out) == (
        TurnStage.FAILED,
        "stopped",
        None,
        [],
    )


async def test_a_stop_that_nobody_obeys_is_said_all_the_same(parts: GatewayParts) -> None:
    """A client that does not react to an interrupt does not keep its user waiting."""
    parts.sessions.reply = silent
    await parts.receive(message(1))
    await parts.receive(message(2, "/stop"), seconds=20)
    assert parts.slate.shown == [STOPPED_TEXT]


async def test_new_begins_another_conversation(parts: GatewayParts) -> None:
    """The old session is ended and not resumed; the message behind the command is not lost."""
    await parts.receive(message(1, "first"))
    await parts.receive(message(2, "/new"), message(3, "second"))
    assert parts.sessions.acts == [("stop", f"{parts.provider}-1")]
    assert [each[0] for each in parts.sessions.delivered] == [
        f"{parts.provider}-1",
        f"{parts.provider}-2",
    ]
    assert parts.slate.answers() == ["Answer to: first.", "Answer to: second."]


async def test_a_silent_turn_is_proposed_for_revival_then_given_up(parts: GatewayParts) -> None:
    """No output for the limit: the gate is asked once; without effect the user gets a message, and the turn ends."""
    parts.sessions.reply = silent
    parts.sessions.outcomes["revive"] = ActionReply(ActionOutcome.DECLINED, "nothing is wrong with it")
    await parts.receive(message(1), seconds=599)
    assert parts.slate.answers() == []
    await parts.clock.run_for(2)
    assert [each[0] for each in parts.sessions.acts] == ["revive", "interrupt"]
    assert parts.slate.answers()[0].startswith("This took too long")
    (turn, fault), *_ = parts.plain.ends
    assert fault is not None
    assert (turn.stage, fault.category) == (TurnStage.FAILED, "timeout")


async def test_a_turn_that_talks_is_never_too_long(parts: GatewayParts) -> None:
    """What limits a turn is silence: one that says a word every five minutes goes on for hours."""
    parts.sessions.reply = silent
    parts.chat.write(message(1))
    for _ in range(50):
        await parts.clock.run_for(300)
        parts.sessions.say("tg-99-1", AnswerText("still here. "))
    parts.sessions.say("tg-99-1", Ended("done at last", stop_reason="end_turn"))
    await parts.clock.run_for(1)
    assert parts.slate.answers() == ["done at last"]


async def test_a_revived_turn_fills_the_same_message(parts: GatewayParts) -> None:
    """The gate brought it back: what the new process says is the answer, in the same place."""
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText("half a"))
    await parts.receive(message(1))
    parts.sessions.say("tg-99-1", Gone("killed"))
    await parts.clock.run_for(30)
    assert parts.slate.answers() == []
    parts.sessions.say(
        "tg-99-1", PromptTaken(), AnswerText("all"), Ended("all of it", stop_reason="end_turn")
    )
    await parts.clock.run_for(1)
    assert parts.slate.messages == {1: ["…", "all of it"]}
    # What the dead process had said is not put before it.
    assert parts.slate.grown == ["half a", "all"]


async def test_a_process_that_does_not_come_back_is_told(parts: GatewayParts) -> None:
    """It is not brought back in time: one clear sentence, counted as a crash."""
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText("half"), Gone("segmentation fault"))
    await parts.receive(message(1), seconds=181)
    assert parts.slate.answers() == [
        "The agent stopped in the middle of its work. Please send your message again."
    ]
    assert parts.plain.ends[0][1] is not None
    assert parts.plain.ends[0][1].category == "process_crash"


async def test_a_failed_turn_is_left_to_its_user_before_that_is_told(parts: GatewayParts) -> None:
    """The daemon is asked first: only what it does not continue may be asked for again."""
    parts.sessions.reply = failing()
    parts.sessions.problems["leave_to_user"] = [DaemonNotRunning(), DaemonNotRunning()]
    await parts.receive(message(1), seconds=3)
    assert (parts.slate.answers(), parts.sessions.left_to_users) == ([], [])
    await parts.clock.run_for(2)
    assert parts.slate.answers() == ["Something went wrong with the agent. Please try again later."]
    assert parts.sessions.left_to_users == [f"{parts.provider}-1"]


async def test_a_failed_turn_that_goes_on_is_listened_to(parts: GatewayParts) -> None:
    """The healer was first: its user gets the answer, and is not asked to repeat anything."""
    parts.sessions.reply = failing()
    parts.sessions.outcomes["leave_to_user"] = ActionReply(
        ActionOutcome.DECLINED, "sent a prompt to continue"
    )
    await parts.receive(message(1), seconds=30)
    assert parts.slate.answers() == []
    parts.sessions.say("tg-99-1", PromptTaken(), Ended("done after all", stop_reason="end_turn"))
    await parts.clock.run_for(1)
    assert parts.slate.answers() == ["done after all"]


@pytest.mark.parametrize("end", [Ended("API Error: 500", Failure.PROVIDER), Gone("killed")])
async def test_a_failed_turn_that_goes_on_unheard_is_not_asked_for_again(
    parts: GatewayParts, end: TurnEvent
) -> None:
    """Its answer does not come: the message advises to look first."""
    parts.sessions.reply = lambda _prompt: (PromptTaken(), end)
    parts.sessions.outcomes["leave_to_user"] = ActionReply(ActionOutcome.DECLINED, "a person decides")
    await parts.receive(message(1), seconds=181)
    assert parts.slate.answers() == [GOES_ON_TEXT]
    assert parts.plain.ends[0][1] is not None


async def test_what_the_healer_cut_short_is_waited_for(parts: GatewayParts) -> None:
    """After the healer's prompt the next turn is the answer; without one, the text so far is."""
    cut = Ended("in circles", interrupted=True)
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText("in circles"), cut)
    await parts.receive(message(1, "one", 1), message(2, "two", 2), seconds=10)
    parts.sessions.say("tg-99-1", PromptTaken(), Ended("another way", stop_reason="end_turn"))
    await parts.clock.run_for(60)
    assert parts.slate.answers() == ["another way", f"in circles\n\n{STOPPED_TEXT}"]


async def test_three_failures_open_the_breaker_and_two_successes_close_it(
    provider: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """While it is open nothing is asked; after its rest one test at a time; both providers alike."""
    parts.sessions.reply = failing()
    for n in range(1, 4):
        await parts.receive(message(n))
    assert gateway.guard.state(provider, 7) is BreakerState.OPEN
    await parts.receive(message(4))
    assert len(parts.sessions.delivered) == 3
    assert "requests are on hold" in parts.slate.answers()[3]
    parts.sessions.reply = _say
    for n in (5, 6):
        await parts.clock.run_for(31)
        await parts.receive(message(n, f"try {n}"))
    assert gateway.guard.state(provider, 7) is BreakerState.CLOSED
    assert parts.slate.answers()[4:] == ["said try 5", "said try 6"]


async def test_a_missing_login_locks_the_provider_and_is_never_shown(
    provider: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """Its text stays out of the chat, growing or final; the breaker stays closed."""
    words = "Invalid API key · Fix external API key"
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText(words), Ended(words, Failure.AUTH))
    for n in (1, 2):
        await parts.receive(message(n))
    assert len(parts.sessions.delivered) == 1
    assert parts.slate.answers() == ["The agent is not logged in at the moment."] * 2
    assert not any(words in text for text in parts.slate.grown)
    assert gateway.guard.breaker(provider).failures == 0


async def test_an_answer_that_reads_like_a_login_prompt_is_not_shown_and_locks_nobody_out(
    provider: str, parts: GatewayParts
) -> None:
    """Any user can make a model say that: a probe finds out whether the login is gone."""
    words = "Invalid API key · Fix external API key"
    parts.sessions.reply = lambda _prompt: (PromptTaken(), AnswerText(words), Ended(words))
    for n in (1, 2):
        await parts.receive(message(n))
    assert len(parts.sessions.delivered) == 2
    assert parts.door.told == [("suspected", provider)] * 2
    assert not any(words in text for text in (*parts.slate.grown, *parts.slate.shown))


async def test_an_error_that_speaks_of_credentials_is_a_doubt_about_the_login(
    provider: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """It is no answer anyway; what it is counted as leads to a probe, never to a restart or an open breaker."""
    words = 'API Error: 401 {"type": "error", "message": "credentials expired"}'
    parts.sessions.reply = lambda _prompt: (
        PromptTaken(),
        AnswerText(words),
        Ended(words, stop_reason="end_turn"),
    )
    await parts.receive(message(1))
    assert parts.door.told == [("suspected", provider)]
    assert parts.plain.ends[0][1] == Fault(Category.INVALID_RESPONSE, "auth_required")
    assert (gateway.guard.breaker(provider).failures, words in parts.slate.shown) == (0, False)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("", "invalid_response"),
        ("I don't understand.", "confusion"),
        ("Error: ENOENT: no such file", "invalid_response"),
    ],
)
async def test_a_rejected_answer_is_not_shown(
    provider: str, text: str, category: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """One clear sentence stands in its place, and it counts as a failure."""
    parts.sessions.reply = lambda _prompt: (PromptTaken(), Ended(text, stop_reason="end_turn"))
    await parts.receive(message(1))
    assert text not in parts.slate.answers()
    assert parts.plain.ends[0][1] is not None
    assert parts.plain.ends[0][1].category == category
    assert gateway.guard.breaker(provider).failures == 1


async def test_a_daemon_that_is_away_is_asked_again_under_the_same_key(parts: GatewayParts) -> None:
    """Not running, silent or cut off in the middle: the prompt arrives once it is back, and once."""
    away = [DaemonNotRunning(), DaemonSilent(seconds=60.0), DaemonEnded(where="")]
    parts.sessions.problems["start"] = list(away)
    await parts.receive(message(1, "hello"), seconds=10)
    assert [each[2] for each in parts.sessions.delivered] == ["tg-99-1"]
    assert parts.slate.answers() == ["Answer to: hello."]
    parts.sessions.problems["send"] = [DaemonNotRunning() for _ in range(1000)]
    await parts.receive(message(2), seconds=700)
    assert parts.slate.answers()[1] == NOT_BEGUN_TEXT


async def test_a_refusal_is_told_and_an_unknown_session_begins_anew(parts: GatewayParts) -> None:
    """An impossible start is a failure; for a lost conversation a new one is started for its user."""
    missing = DaemonRefused(detail="Program 'claude' not found", problem={"code": "client-missing"})
    parts.sessions.problems["start"] = [missing]
    await parts.receive(message(1))
    # Nothing of what the host said.
    assert parts.slate.answers() == [NOT_BEGUN_TEXT]
    await parts.receive(message(2, "two"))
    parts.sessions.known.clear()
    await parts.receive(message(3, "three"))
    await parts.receive(message(4, "four"))
    assert parts.slate.answers()[1:] == ["Answer to: two.", "Answer to: three.", "Answer to: four."]
    assert [each[0] for each in parts.sessions.delivered] == [
        f"{parts.provider}-1",
        f"{parts.provider}-2",
        f"{parts.provider}-2",
    ]


async def test_a_prompt_nobody_saw_arrive_is_not_waited_for(parts: GatewayParts) -> None:
    """Unverified and nothing running, or no effect and no output: reported at once, not after the limit."""
    parts.sessions.reply = lambda _prompt: ()
    parts.sessions.outcomes = {
        "one": ActionReply(
            ActionOutcome.UNVERIFIED, "it runs and has not answered yet", f"{parts.provider}-1"
        ),
        "two": ActionReply(ActionOutcome.INEFFECTIVE, "its input is no longer read", f"{parts.provider}-2"),
    }
    await parts.receive(message(1, "one", 1), message(2, "two", 2), seconds=6)
    # A user who reads that it could not be asked sends it again, and it may be done already.
    assert parts.slate.answers() == [UNSURE_TEXT, NOT_BEGUN_TEXT]


async def test_a_chat_that_sent_the_bot_away_costs_nobody_else(parts: GatewayParts) -> None:
    """A turn that cannot be answered is over; the session was never asked."""
    parts.slate.refusing = ChatRefused(reason="Forbidden: bot was kicked")
    await parts.receive(message(1))
    assert (parts.sessions.delivered, parts.plain.ends[0][0].stage) == ([], TurnStage.FAILED)
    parts.slate.refusing = None
    await parts.receive(message(2, "two"))
    assert parts.slate.answers() == ["Answer to: two."]


async def test_after_a_restart_turns_go_on_and_a_lost_one_is_told_once() -> None:
    """A turn is read from its beginning; a lost session is reported as lost."""
    parts = GatewayParts()
    parts.sessions.reply = silent
    first = Gateway(parts)
    await first.start()
    await parts.receive(message(1, "one", 1), message(2, "two", 2))
    await first.end()
    parts.sessions.say("tg-99-1", AnswerText("meanwhile"), Ended("meanwhile", stop_reason="end_turn"))
    parts.sessions.known.discard(f"{parts.provider}-2")
    second = Gateway(parts)
    await second.start()
    await parts.clock.run_for(1)
    assert parts.slate.messages == {1: ["…", "meanwhile"], 2: ["…", LOST_TEXT]}
    await second.end()
    third = Gateway(parts)
    assert await third.turns.restore() == 0
    assert third.turns.pool.session_of(message(9, "", 1).place.key) == f"{parts.provider}-1"


async def test_the_newest_answer_is_the_one_that_came_last(parts: GatewayParts, gateway: Gateway) -> None:
    """By time, because Telegram may restart its update numbers; of its own conversation; a question has none yet."""
    key = message(900).place.key
    assert await gateway.book.newest_answer(key) is None
    for number in (900, 12):
        await parts.receive(message(number))
    await parts.receive(message(13, chat_id=8))
    newest = await gateway.book.newest_answer(key)
    assert newest is not None
    assert newest.update_id == 12


async def test_old_turns_are_forgotten(parts: GatewayParts, gateway: Gateway) -> None:
    """After a day they cannot be asked about any more."""
    await parts.receive(message(900))
    assert await gateway.book.find(900) is not None
    await parts.clock.run_for(90_000)
    assert await gateway.book.find(900) is None


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_service_that_begins_again_with_smaller_numbers_loses_nothing(*, is_restarted: bool) -> None:
    """Whether the gateway runs on or is started then: nothing is confirmed that was not read."""
    parts = GatewayParts()
    gateway = Gateway(parts)
    await gateway.start()
    await parts.receive(message(900))
    parts.chat.be_quiet()
    await parts.clock.run_for(1)
    if is_restarted:
        await gateway.end()
        parts.chat.write(message(3, "lower"))
        gateway = Gateway(parts)
        await gateway.start()
    for number in (3, 4):
        await parts.receive(message(number, f"lower {number}"))
    assert [each[1].startswith("lower") for each in parts.sessions.delivered] == [False, True, True]
    assert len(parts.slate.answers()) == 3
    await gateway.end()


async def test_a_store_that_refuses_delays_a_turn_and_loses_nothing(parts: GatewayParts) -> None:
    """A disk full for minutes in the middle of a turn: it goes on where it was kept last, before what waits behind it."""
    keep, refused = parts.store.save_note, [8]

    async def refusing(note: Note) -> None:
        if b'"stage":"asked"' in note.body and refused[0]:
            refused[0] -= 1
            raise WorldError
        await keep(note)

    parts.store.save_note = refusing  # type: ignore[method-assign]
    await parts.receive(message(1, "one"), message(2, "two"), seconds=241)
    assert [each[2] for each in parts.sessions.delivered] == ["tg-99-1", "tg-99-2"]
    assert parts.slate.messages == {1: ["…", "Answer to: one."], 2: ["…", "Answer to: two."]}


async def test_a_new_conversation_may_repeat_what_the_old_one_said(parts: GatewayParts) -> None:
    """Loop detection compares answers of one conversation; /new begins without them."""
    text = "This is a rather long answer that is given word for word, however often somebody says that it may go on."
    parts.sessions.reply = lambda _prompt: (PromptTaken(), Ended(text, stop_reason="end_turn"))
    for n, words in enumerate(("go on", "go on", "go on", "/new", "go on"), 1):
        await parts.receive(message(n, words))
    assert [each == text for each in parts.slate.answers()] == [True, True, False, True]


async def test_a_stopped_turn_says_nothing_about_its_provider(
    provider: str, parts: GatewayParts, gateway: Gateway
) -> None:
    """Neither a success nor a failure: the third failure opens the breaker as if nothing had been stopped."""
    parts.sessions.reply = lambda prompt: (PromptTaken(),) if prompt == "long" else failing()(prompt)
    for n, words in enumerate(("fail", "fail", "long", "/stop", "fail"), 1):
        await parts.receive(message(n, words), seconds=20)
    assert len(parts.slate.answers()) == 4
    assert gateway.guard.state(provider, 7) is BreakerState.OPEN


async def test_an_ended_session_has_no_place_after_a_restart() -> None:
    """What was evicted is not counted again; its conversation is still known."""
    parts = GatewayParts()
    first = Gateway(parts)
    await first.start()
    await parts.receive(message(1, "one"), seconds=1801)
    await first.end()
    second = Gateway(parts)
    await second.start()
    assert second.turns.pool.active == 0
    await parts.receive(message(2, "two"))
    assert [each[0] for each in parts.sessions.delivered] == [
        f"{parts.provider}-1",
        f"{parts.provider}-1",
    ]
    await second.end()
