"""Claims about the chat gateway as its operator runs it: `wakeful up` with a token, the real clients, a scripted Bot API.

The suite takes both clients through the first rounds; `WAKEFUL_ENDURANCE=1` takes them through all of them, and through
thirty conversations on five places.
"""

import os
import signal
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from support.gateway_e2e import CROWD, STRANGER, USER, TelegramUser, ended, evictions
from support.real_clients import ClaudeHome, ClientHome, CodexHome
from support.stub_claude import install
from support.telegram_server import BotApi
from wakeful.testing.scripted_model import ScriptedModel

ENDURANCE = "WAKEFUL_ENDURANCE" in os.environ
LOGIN_GONE = "its login has to be renewed"
OPEN_SECONDS = 6
PLACES, KEYS = 5, 30
# What the suite cannot wait for: as delivered it is a second. And the chat approves though nothing else may.
QUICK = "edit_seconds = 0.1\napprove_only_in_chat = true\n"
# Short where a round waits for it, else as delivered.
ROUNDS = f"""turn_seconds = 3
[gateway.{{provider}}]
open_seconds = {OPEN_SECONDS}
[conversation]
max_active_sessions = {PLACES}"""


@pytest.fixture(params=["claude", "codex"])
def home(request: pytest.FixtureRequest) -> ClientHome:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, ClientHome)
    return found


def normal_turn(phone: TelegramUser) -> None:
    """One message, one answer, one managed session."""
    phone.api.says("let me in", user=STRANGER)
    phone.ask({"text": "Hello from the agent"})
    answered = phone.sees("Hello from the agent")
    assert answered.labels == ["Context"]
    phone.press(answered, "Context")
    assert f"Provider: {phone.provider}" in phone.sees("Tokens of this answer: ").text
    (session,) = phone.daemon.sessions()
    assert (session["provider"], session["managed"]) == (phone.provider, True)
    assert phone.api.seen(STRANGER) == []
    # The whole line: a person who copies it keeps everyone who is in already.
    assert f"allow = [{USER}, {STRANGER}, {CROWD[0]}, " in phone.log


def streaming_in_a_topic(phone: TelegramUser) -> None:
    """Text from before the tool call appears before the tool is done; all of it stays in the topic."""
    phone.ask({"text": "Let me look."} | phone.busy("sleep 2"), {"text": "Looked."}, thread=7)
    half = phone.sees("Let me look.")
    assert ("Looked." in half.text, half.thread_id) == (False, 7)
    assert phone.sees("Looked.").message_id == half.message_id


def permissions_by_buttons(phone: TelegramUser) -> None:
    """What is denied does not happen; exactly what is allowed for the session is not asked again. Codex never asks."""
    if phone.provider == "codex":
        return
    for number, choice in enumerate(("Deny", "Allow for this session")):
        phone.ask(phone.busy(f"touch made-{number}"), {"text": f"end {number}"})
        phone.press(phone.sees(f"touch made-{number}"), choice)
        phone.sees(f"end {number}")
    if not ENDURANCE:
        (session, *_) = phone.daemon.sessions()
        refused = phone.daemon.run("session", "revive", session["id"], "--yes")
        assert (refused.exit_code, "only in the chat" in refused.err) == (1, True)
    made = phone.home.project / "made-1"
    made.unlink()
    phone.ask(phone.busy("touch made-1"), {"text": "end 2"})
    phone.sees("end 2")
    assert (made.exists(), phone.times("May the agent use Bash?")) == (True, 2)
    phone.ask(phone.busy("rm -rf made-1"), {"text": "end 3"})
    phone.press(phone.sees("rm -rf made-1"), "Deny")
    phone.sees("end 3")
    assert [each.name for each in phone.home.project.glob("made-*")] == ["made-1"]


def crash_in_a_turn(phone: TelegramUser) -> None:
    """The healer brings the agent back in the same conversation, and it says its end in the same message."""
    sessions = {each["id"] for each in phone.daemon.sessions()}
    phone.ask(phone.busy("sleep 301"), {"text": "after the crash"})
    os.kill(phone.running("sleep 301")["pid"], signal.SIGKILL)
    phone.sees("after the crash")
    assert {each["id"] for each in phone.daemon.sessions()} == sessions


def gateway_killed_in_a_turn(phone: TelegramUser) -> None:
    """The turn goes on without it, and the next gateway fills the placeholder."""
    phone.ask(phone.busy("sleep 3.5"), {"text": "slept well"})
    phone.running("sleep 3.5")
    before = phone.gateway_pid
    os.kill(before, signal.SIGKILL)
    phone.sees("slept well")
    assert (phone.gateway_pid != before, phone.times("slept well")) == (True, 1)


def hang_in_a_stream(phone: TelegramUser) -> None:
    """Given up after its limit with one sentence, and the next message is answered."""
    phone.ask({"text": "Half of it", "hang": "mid"})
    phone.sees("This took too long and was stopped.")
    phone.ask({"text": "after the hang"})
    phone.sees("after the hang")
    assert phone.times("Half of it") == 0


def breaker_opens_and_closes(phone: TelegramUser) -> None:
    """Three failures open it, its rest makes it half-open, two answers close it; the failures are reported as a pattern."""
    for number in range(1, 4):
        phone.ask({"status": 500})
        phone.times_seen("Something went wrong with the agent", number)
    asked = phone.model_calls
    phone.ask({"text": "not asked"})
    phone.sees("requests are on hold")
    assert phone.model_calls == asked
    phone.says("/session")
    phone.sees("breaker open")
    phone.says_until("/session", "breaker half-open")
    for number in range(2):
        phone.ask({"text": f"back {number}"})
        phone.sees(f"back {number}")
    phone.says("/session")
    phone.sees("breaker closed")
    phone.says("/errors patterns")
    assert "unknown: 3" in phone.sees("Failures in the last 10 minutes").text


def login_lost_and_found(phone: TelegramUser) -> None:
    """A 401: the chat does not show the client's words, no process starts, the admin gets one message; new credentials end it."""
    phone.ask({"status": 401})
    phone.sees(LOGIN_GONE)
    phone.sees(f"critical: The login of {phone.provider} is gone")
    asked = phone.model_calls
    phone.ask({"text": "too early"})
    phone.times_seen(LOGIN_GONE, 2)
    assert phone.model_calls == asked
    renewed = ".claude/settings.json" if phone.provider == "claude" else ".codex/auth.json"
    (phone.home.home / renewed).write_text("{}")
    phone.sees(f"info: The login of {phone.provider} works again")
    phone.ask({"text": "back again"})
    phone.sees("back again")
    assert [phone.times(words) for words in ("critical:", "401", "too early")] == [1, 0, 0]


def thirty_conversations(phone: TelegramUser) -> None:
    """All are answered on five places; who was idle longest makes room, and goes on in its own conversation."""
    crowd = CROWD[:KEYS]
    for user in crowd:
        phone.ask({"text": f"hello {user}"}, user=user)
    for user in crowd:
        phone.sees(f"hello {user}", user=user)
    assert_pooled(phone, KEYS)
    known = {each["id"] for each in phone.daemon.sessions()}
    phone.ask({"text": "once more"}, user=crowd[0])
    phone.sees("once more", user=crowd[0])
    assert {each["id"] for each in phone.daemon.sessions()} == known


def assert_pooled(phone: TelegramUser, keys: int) -> None:
    """Every session is an ordinary managed one, and no more of them live than have a place."""
    sessions = phone.daemon.sessions()
    assert len(sessions) >= keys
    assert all(each["managed"] for each in sessions)
    phone.until(
        lambda: sum(each["pid"] is not None for each in phone.daemon.sessions()) <= PLACES or None,
        "an end of those who made room",
    )
    reasons = [reason for key, reason in evictions(phone.log) if key != f"chat:{USER}:thread:main"]
    assert reasons.count("lru_limit") >= keys - PLACES


FIRST = (
    normal_turn,
    permissions_by_buttons,
    streaming_in_a_topic,
    crash_in_a_turn,
    gateway_killed_in_a_turn,
)
ALL = (*FIRST, hang_in_a_stream, breaker_opens_and_closes, login_lost_and_found, thirty_conversations)


def test_rounds_with_a_real_client(api: BotApi, daemon: RunningDaemon, home: ClientHome) -> None:
    """Whatever happens in between, each message is answered once, in its place, and none is left empty."""
    provider = "codex" if isinstance(home, CodexHome) else "claude"
    phone = TelegramUser(api, daemon, home, ROUNDS.format(provider=provider) if ENDURANCE else QUICK)
    for play in ALL if ENDURANCE else FIRST:
        play(phone)
    assert [phone.times(words) for words in ("Hello from", "after the crash", "slept well")] == [1, 1, 1]
    assert len(phone.words()) == len(phone.ours())
    phone.says("/health")
    assert f"Login: {provider} good" in phone.sees("Mode: mine").text
    phone.says("/report 1h")
    assert home.project.name in phone.sees("The last 60 min").text
    last = phone.gateway_pid
    daemon.end()
    assert ended(last)


def test_a_lost_login_is_told_once_and_comes_back_by_itself(
    api: BotApi, daemon: RunningDaemon, claude: ClaudeHome
) -> None:
    """The mode is entered by a refused turn and left by a probe."""
    login_lost_and_found(TelegramUser(api, daemon, claude, QUICK))


class CheapHome(ClientHome):
    """A home of an agent that thinks nothing."""

    client = ClaudeHome.client

    def environ(self) -> dict[str, str]:
        program = Path(install(self.home / "bin"))
        return super().environ() | {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_thirty_keys_share_five_places(api: BotApi, daemon: RunningDaemon, tmp_path: Path) -> None:
    """Thirty chats, five processes at most; each is answered, and the first one goes on in its own conversation."""
    with ScriptedModel() as model, CheapHome(tmp_path, model) as home:
        phone = TelegramUser(api, daemon, home, f"{QUICK}[conversation]\nmax_active_sessions = {PLACES}")
        for user in CROWD[:KEYS]:
            api.says(f"Please say hello to {user} for me.", user=user)
        for user in CROWD[:KEYS]:
            phone.answered(1, user=user)
        assert_pooled(phone, KEYS)
        api.says("And once more, please, to everybody.", user=CROWD[0])
        phone.answered(2, user=CROWD[0])
        assert len(daemon.sessions()) == KEYS
