"""Claims about the chat gateway as its operator runs it: `wakeful up` with a token, the real clients, a scripted Bot API."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot_api import BotApi
from bot_rooms import Said
from clients import ClaudeHome, ClientHome, CodexHome, wait_for
from daemons import RunningDaemon
from wakeful.testing.scripted_model import script

USER, STRANGER = 42, 66
SECONDS_MAX = 60.0


@pytest.fixture
def api() -> Iterator[BotApi]:
    with BotApi() as api:
        yield api


class Chat:
    """One person in front of the bot, and the machine behind it."""

    def __init__(self, api: BotApi, daemon: RunningDaemon, home: ClientHome, provider: str) -> None:
        self.api = api
        self.daemon = daemon
        self.home = home
        config = daemon.home / "wakeful.toml"
        config.write_text(
            f'[gateway]\nallow = [{USER}]\nadmins = [{USER}]\nprovider = "{provider}"\napi = "{api.url}"\n'
            f'[gateway.chats.default]\nfolder = "{home.project}"\n[response_actions]\nenabled = false\n'
            "[gateway.host]\nwatch_seconds = 1\n"
        )
        daemon.watch(
            **home.environ(),
            WAKEFUL_CONFIG=config,
            WAKEFUL_GATEWAY__TOKEN=api.token,
            WAKEFUL_HEAL__CONFIRM_SECONDS="1",
        )
        daemon.up()

    @property
    def log(self) -> str:
        path = Path(self.daemon.environ["WAKEFUL_HOME"]) / "logs" / "gateway.log"
        return path.read_text() if path.exists() else ""

    @property
    def gateway_pid(self) -> int:
        found = re.search(r"gateway: runs \(pid (\d+)\)", self.daemon.run("status").out)
        assert found is not None, self.daemon.run("status").out
        return int(found[1])

    def ours(self) -> list[Said]:
        return [each for each in self.api.room(USER).messages if each.is_ours and not each.is_deleted]

    def ask(self, *steps: dict[str, object], thread: int | None = None) -> None:
        self.api.says(script(*steps), user=USER, thread=thread)

    def sees(self, words: str) -> Said:
        """The message that says so, once it is there."""

        def look() -> Said | None:
            return next((each for each in self.ours() if words in each.text), None)

        try:
            return wait_for(look, f"{words!r} in the chat", SECONDS_MAX)
        except AssertionError as error:
            error.add_note(f"seen: {self.api.seen(USER)}\nlog: {self.log}")
            raise

    def times(self, words: str) -> int:
        return sum(words in each.text for each in self.ours())

    def press(self, said: Said, label: str) -> None:
        choice = next(
            button["callback_data"] for row in said.buttons for button in row if button["text"] == label
        )
        self.api.presses(said, choice, user=USER)


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_claude_answers_asks_survives_and_is_healed(
    api: BotApi, daemon: RunningDaemon, claude: ClaudeHome
) -> None:
    """A turn, a permission by button, a killed agent, a killed gateway: each message is answered once, in its place."""
    chat = Chat(api, daemon, claude, "claude")
    api.says("let me in", user=STRANGER)
    chat.ask({"text": "Hello from the agent"})
    answered = chat.sees("Hello from the agent")
    assert answered.labels == ["Context"]
    assert api.seen(STRANGER) == []
    assert f"allow = [{STRANGER}]" in chat.log
    (session,) = daemon.sessions()
    assert session["managed"]

    chat.ask({"tool": "Bash", "input": {"command": "touch made.txt"}}, {"text": "made it"})
    chat.press(chat.sees("May the agent use Bash?"), "Allow for this session")
    chat.sees("made it")
    assert (claude.project / "made.txt").exists()

    chat.ask({"tool": "Bash", "input": {"command": "sleep 300"}}, {"text": "never said"})
    running = daemon.wait_for_session(lambda record: "sleep 300" in str(record), "a running tool")
    os.kill(running["pid"], signal.SIGKILL)
    wait_for(lambda: all(each.text != "…" for each in chat.ours()) or None, "an end of the turn", SECONDS_MAX)
    assert daemon.sessions()[0]["id"] == session["id"]

    chat.ask({"tool": "Bash", "input": {"command": "sleep 4"}}, {"text": "slept well"})
    daemon.wait_for_session(lambda record: "sleep 4" in str(record), "a running tool")
    before = chat.gateway_pid
    os.kill(before, signal.SIGKILL)
    chat.sees("slept well")
    assert chat.gateway_pid != before
    assert [chat.times(words) for words in ("Hello from the agent", "made it", "slept well")] == [1, 1, 1]
    assert chat.times("…") == 0

    api.says("/health", user=USER)
    assert "Login: claude good" in chat.sees("Mode: mine").text
    api.says("/report 1h", user=USER)
    assert session["project"] in chat.sees("The last 60 min").text
    last = chat.gateway_pid
    daemon.end()
    assert ended(last)


def test_codex_answers_and_goes_on_in_its_thread(
    api: BotApi, daemon: RunningDaemon, codex: CodexHome
) -> None:
    """Two messages of one topic are one conversation, and both answers stay in it."""
    chat = Chat(api, daemon, codex, "codex")
    chat.ask({"text": "first from codex"}, thread=7)
    first = chat.sees("first from codex")
    chat.ask({"text": "second from codex"}, thread=7)
    second = chat.sees("second from codex")
    assert (first.thread_id, second.thread_id) == (7, 7)
    (session,) = daemon.sessions()
    assert (session["provider"], session["managed"]) == ("codex", True)


def test_a_lost_login_is_told_once_and_comes_back_by_itself(
    api: BotApi, daemon: RunningDaemon, claude: ClaudeHome
) -> None:
    """A 401: nobody sees the client's words, nothing more is started, the admin is told; new credentials end it."""
    chat = Chat(api, daemon, claude, "claude")
    chat.ask({"status": 401})
    chat.sees("its login has to be renewed")
    chat.sees("critical: The login of claude is gone")
    asked = len(claude.transcripts())
    chat.ask({"text": "too early"})
    wait_for(lambda: chat.times("its login has to be renewed") == 2 or None, "a refusal at once", SECONDS_MAX)
    assert len(claude.transcripts()) == asked
    (claude.home / ".claude" / "settings.json").write_text("{}")
    chat.sees("info: The login of claude works again")
    chat.ask({"text": "back again"})
    chat.sees("back again")
    assert [chat.times(words) for words in ("critical:", "401", "too early")] == [1, 0, 0]
