"""Claims about the commands of the chat: who may give them, what they answer, and that decisions are asked back."""

import logging
from itertools import count

import pytest

from support.fake_sessions_and_answers import held_up, message, plainly, press, silent
from support.gateway_virtual import Gateway, GatewayParts
from wakeful.client.api import DaemonSummary, OpenCheckpoint
from wakeful.client.errors import DaemonNotRunning, DaemonRefused
from wakeful.control.login import AuthMode, AuthState
from wakeful.core.ids import SessionId
from wakeful.gateway.commands import FOR_ADMINS, LEFT_UNCHANGED, OFFER_SECONDS, ChatCommands, Decisions, Views
from wakeful.gateway.rules.access import Access
from wakeful.judging.thresholds import Policy
from wakeful.reports.model import Report, ReportHistory, make_report
from wakeful.testing.virtual_clock import START_WALL

ADMIN, USER, STRANGER = 1, 42, 66
ACCESS = Access(frozenset({ADMIN, USER}), frozenset({ADMIN}))
CHECKPOINT = OpenCheckpoint(
    3,
    "claude-a \x1b[31m",
    ("happened: git push",),
    (("continue", "goes on"), ("abort", "is given up"), ("dance", "unknown to us")),
)


class ScriptedDaemon:
    """Implements client.api.DaemonApi; records decisions."""

    def __init__(self) -> None:
        self.decided: list[tuple[object, ...]] = []
        self.is_away = False

    async def summary(self) -> DaemonSummary:
        if self.is_away:
            raise DaemonNotRunning
        return DaemonSummary("mine", "ada")

    async def checkpoints(self) -> tuple[OpenCheckpoint, ...]:
        return (CHECKPOINT,)

    async def decide(self, number: int, choice: str, by: str) -> str:
        self.decided.append((number, choice, by))
        return "it goes on"

    async def pause(self, by: str) -> None:
        self.decided.append(("pause", by))

    async def resume(self, by: str) -> None:
        if self.is_away:
            raise DaemonNotRunning
        self.decided.append(("resume", by))

    async def mute(self, session_id: SessionId, seconds: float, by: str) -> None:
        self.decided.append(("mute", session_id, seconds, by))

    async def report(self, since: str) -> Report:
        if since == "teatime":
            raise DaemonRefused(detail="'teatime' is no moment", problem={"code": "bad-moment"})
        hours = {"12h": 12, "22:00": 9}[since]
        history = ReportHistory(START_WALL - hours * 3600, {}, (), {})
        return make_report((), history, {}, Policy(), START_WALL)


class CommandsFixture:
    """A chat with its commands, in virtual time."""

    def __init__(self) -> None:
        self.parts = GatewayParts()
        self.house = ScriptedDaemon()
        self.patterns: list[tuple[str, int, float]] = []
        self.acts = ["restart_key chat:7:thread:main"]
        self.auth = [AuthMode("claude")]
        self.chat = self.parts.chat
        numbers = count()
        gateway = Gateway(self.parts)
        self.decisions = Decisions(self.chat, self.parts.clock, ACCESS.role_of, lambda: f"t{next(numbers)}")
        views = Views(
            breaker=gateway.guard.state,
            auth=lambda: self.auth,
            host=lambda: "disk 41 %, memory 30 %",
            patterns=lambda: self.patterns,
            acts=lambda: self.acts,
            last_words=lambda _session: "panic: key sk-ant-api03-" + "a" * 40,
            provider_of=lambda _key: "claude",
            problem=lambda: None,
            log="gateway.log",
        )
        self.orders = ChatCommands(
            clock=self.parts.clock,
            role_of=ACCESS.role_of,
            turns=gateway.turns,
            daemon=self.house,
            decisions=self.decisions,
            views=views,
        )
        self.gateway = gateway

    async def say(self, text: str, user_id: int = ADMIN) -> str:
        name, _, arguments = text[1:].partition(" ")
        return await self.orders.commands()[name](message(1, text, user_id=user_id), arguments)

    def choice(self, label: str) -> str:
        """What the newest button with this label carries."""
        for _, _, buttons in reversed(self.chat.sent):
            for row in buttons:
                for button in row:
                    if button.label == label:
                        return button.choice
        raise AssertionError(f"no button {label}")


@pytest.fixture
async def room() -> CommandsFixture:
    return CommandsFixture()


@pytest.mark.parametrize(
    "command", ["/health", "/errors", "/session", "/report", "/checkpoints", "/pause", "/resume", "/mute"]
)
async def test_what_tells_about_the_host_is_for_admins(command: str, room: CommandsFixture) -> None:
    """A user who is no admin learns nothing and changes nothing."""
    assert await room.say(command, USER) == FOR_ADMINS
    assert (room.chat.sent, room.house.decided) == ([], [])


async def test_everybody_may_stop_and_begin_anew(room: CommandsFixture) -> None:
    """The two commands a user needs, and the help that names them."""
    assert await room.say("/stop", USER) == "Nothing is running."
    assert "next message" in await room.say("/new", USER)
    assert "/stop" in await room.say("/help", USER)


async def test_an_admin_ends_all_sessions_once_asked_back(
    caplog: pytest.LogCaptureFixture, room: CommandsFixture
) -> None:
    """What runs is cut short, what waits is dropped, each session is ended; the next message resumes its own."""
    with caplog.at_level(logging.INFO, "wakeful.gateway"):
        sessions, slate = room.parts.sessions, room.parts.slate
        await room.gateway.start()
        room.chat.write(message(1, "one", 1), message(2, "two", 2))
        await room.parts.clock.run_for(1)
        sessions.reply = silent
        room.chat.write(message(3, "three", 1), message(4, "four", 1))
        await room.parts.clock.run_for(1)
        assert await room.say("/stop all", USER) == FOR_ADMINS
        assert await room.say("/stop all") == ""
        assert sessions.acts == []
        await room.decisions.on_press(press(5, room.choice("Yes, stop all"), user_id=ADMIN))
        await room.parts.clock.run_for(20)
        assert sessions.alive == set()
        assert slate.answers()[-1] == "Stopped."
        assert caplog.text.count("evictionReason=stop_all") == 2
        assert sessions.evicted == [], "a person did that"
        sessions.reply = plainly
        room.chat.write(message(6, "six", 2))
        await room.parts.clock.run_for(1)
        assert slate.answers()[-1] == "Answer to: six."
        await room.gateway.end()


@pytest.mark.parametrize(
    ("chats", "starting", "said"),
    [
        (1, False, "1 session ended."),
        (2, False, "2 sessions ended."),
        (2, True, "0 sessions ended, 2 that are starting will end right after."),
    ],
)
async def test_the_ended_sessions_are_counted(
    chats: int, starting: bool, said: str, room: CommandsFixture
) -> None:
    """One is not several, and one that has no name yet is ended later."""
    if starting:
        held_up(room.parts.sessions, "start")
    await room.gateway.start()
    room.chat.write(*(message(each, "hello", each) for each in range(1, chats + 1)))
    await room.parts.clock.run_for(1)
    await room.say("/stop all")
    await room.decisions.on_press(press(9, room.choice("Yes, stop all"), user_id=ADMIN))
    assert said in room.chat.edits[-1][1]
    await room.gateway.end()


async def test_health_says_mode_host_login_and_the_next_step(room: CommandsFixture) -> None:
    """The reading order begins here: a login that is gone comes before anything else."""
    well = await room.say("/health")
    assert "Mode: mine · PAUSED by ada" in well
    assert "Host: disk 41 %, memory 30 %" in well
    assert "Next: nothing to do" in well
    room.patterns = [("timeout", 3, 0.0)]
    assert "Next: /errors patterns" in await room.say("/health")
    room.auth = [AuthMode("claude", AuthState.REFUSED, 1.0)]
    assert "Next: on the host: claude auth login" in await room.say("/health")


async def test_health_keeps_the_reading_order(room: CommandsFixture) -> None:
    """Quick state, patterns, the breaker, the log of the watches, and last what the provider itself said."""
    (line,) = [
        each
        for each in (await room.say("/health")).splitlines()
        if each.startswith("If something looks wrong")
    ]
    read = ("/health", "/errors patterns", "breaker in /session", "gateway.log", "last message in /session")
    assert [line.index(each) for each in read] == sorted(line.index(each) for each in read)


async def test_health_answers_without_a_daemon(room: CommandsFixture) -> None:
    """The command answers even if the daemon is what is wrong."""
    room.house.is_away = True
    assert "the daemon does not answer" in await room.say("/health")


async def test_errors_and_session_say_what_an_admin_needs(room: CommandsFixture) -> None:
    """Category, count and last seen; key, provider, breaker, queue, redacted last words and what self-heal did."""
    assert await room.say("/errors patterns") == "No failures in the last 10 minutes."
    room.patterns = [("timeout", 3, 60.0)]
    assert "timeout: 3, last " in await room.say("/errors patterns")
    now = room.parts.clock.now().awake
    room.gateway.turns.pool.hold(message(1).place.key, "claude-a", now)
    shown = await room.say("/session")
    assert "Key: chat:7:thread:main" in shown
    assert "Provider: claude, breaker closed" in shown
    assert "Session: claude-a" in shown
    assert "sk-ant" not in shown
    assert "restart_key" in shown
    room.acts = [f"act {n}: {'long ' * 100}" for n in range(20)]
    shown = await room.say("/session")
    assert ("act 19" in shown, "act 14" in shown, len(shown) < 4096) == (True, False, True)


async def test_a_checkpoint_is_decided_by_two_presses_of_an_admin(room: CommandsFixture) -> None:
    """Shown, asked back, carried out once; both buttons are dead afterwards."""
    assert await room.say("/checkpoints") == ""
    assert "\x1b" not in room.chat.sent[0][1]
    assert [button.label for button in room.chat.sent[0][2][0]] == ["Continue", "Abort"]
    first = room.choice("Continue")
    assert await room.decisions.on_press(press(2, first, user_id=ADMIN))
    assert room.house.decided == []
    yes = f"do:t{2}"
    await room.decisions.on_press(press(3, yes, user_id=ADMIN))
    assert room.house.decided == [(3, "continue", "Telegram user 1")]
    assert room.chat.edits[-1] == (1, "Continue checkpoint 3? goes on\nit goes on")
    for choice in (yes, first):
        await room.decisions.on_press(press(4, choice, user_id=ADMIN))
    assert len(room.house.decided) == 1


async def test_no_leaves_everything_as_it_is(room: CommandsFixture) -> None:
    """Asked back, an admin may think better of it."""
    await room.say("/pause")
    await room.decisions.on_press(press(2, room.choice("No"), user_id=ADMIN))
    assert room.house.decided == []
    assert room.chat.edits[-1][1].endswith(LEFT_UNCHANGED)


@pytest.mark.parametrize("user_id", [USER, STRANGER])
async def test_a_press_of_somebody_else_decides_nothing(user_id: int, room: CommandsFixture) -> None:
    """All members of a group see the buttons; only an admin's press counts."""
    await room.say("/pause")
    await room.decisions.on_press(press(2, room.choice("Yes, pause"), user_id=user_id))
    assert room.house.decided == []
    await room.decisions.on_press(press(3, room.choice("Yes, pause"), user_id=ADMIN))
    assert room.house.decided == [("pause", "Telegram user 1")]


async def test_forged_late_and_carried_off_presses_decide_nothing(room: CommandsFixture) -> None:
    """A token fits one place and one time; any other press gets the answer that the button is not in use."""
    await room.say("/mute claude-a 30m")
    yes = room.choice("Yes, mute")
    await room.decisions.on_press(press(2, "do:guessed", user_id=ADMIN))
    await room.decisions.on_press(press(3, yes, chat_id=8, user_id=ADMIN))
    room.parts.clock.advance(OFFER_SECONDS)
    await room.decisions.on_press(press(4, yes, user_id=ADMIN))
    assert room.house.decided == []
    assert all(words for _, words in room.chat.settled)
    assert not await room.decisions.on_press(press(5, "ask:x:once", user_id=ADMIN))


async def test_what_cannot_be_done_is_said(room: CommandsFixture) -> None:
    """A daemon that is away, a duration that is none: one sentence, and nothing is decided."""
    await room.say("/resume")
    room.house.is_away = True
    await room.decisions.on_press(press(2, room.choice("Yes, resume"), user_id=ADMIN))
    assert "Not done: Wakeful is not running" in room.chat.edits[-1][1]
    assert "Invalid duration" in await room.say("/mute claude-a soon")
    assert "Invalid session id" in await room.say("/mute ../etc 2h")
    assert "Which session" in await room.say("/mute")


async def test_the_report_comes_by_chat(room: CommandsFixture) -> None:
    """For the last twelve hours, or since the given time; an invalid time gets an explanation."""
    assert await room.say("/report") == "The last 12 h 0 min\nNo sessions were active."
    assert (await room.say("/report 22:00")).startswith("The last 9 h 0 min")
    assert await room.say("/report teatime") == "Not done: 'teatime' is no moment"
