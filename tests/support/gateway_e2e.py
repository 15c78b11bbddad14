"""A Telegram user and the bot's machine: `wakeful up` with a token, a real client, a scripted Bot API."""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from support.daemon_process import RunningDaemon
from support.real_clients import ClientHome, CodexHome, wait_for
from support.telegram_chats import ChatMessage
from support.telegram_server import BotApi
from wakeful.testing.scripted_model import script

T = TypeVar("T")
USER, STRANGER = 42, 66
# All users of a test with many conversations.
CROWD = range(100, 200)
SECONDS_MAX = 60.0
EMPTY = "…"


class TelegramUser:
    """One admin. `settings`: configuration lines beside those that every test needs."""

    def __init__(
        self, api: BotApi, daemon: RunningDaemon, home: ClientHome, settings: str = "", provider: str = ""
    ) -> None:
        self.api = api
        self.daemon = daemon
        self.home = home
        self.provider = provider or ("codex" if isinstance(home, CodexHome) else "claude")
        config = daemon.home / "wakeful.toml"
        # Codex's own sandbox needs more of a kernel than every test machine has.
        mode = 'permission_mode = "bypassPermissions"\n' if self.provider == "codex" else ""
        config.write_text(
            f"[gateway]\nallow = {[USER, *CROWD]}\nadmins = [{USER}]\n"
            f'provider = "{self.provider}"\napi = "{api.url}"\n{settings}\n'
            f'[gateway.chats.default]\nfolder = "{home.project}"\n{mode}'
        )
        daemon.watch(
            **home.environ(),
            WAKEFUL_CONFIG=config,
            WAKEFUL_GATEWAY__TOKEN=api.token,
            WAKEFUL_GATEWAY__HOST__WATCH_SECONDS="1",
            # The load of the test machine must not cause alerts.
            WAKEFUL_GATEWAY__HOST__LOAD_PER_CORE="1000",
            WAKEFUL_RESPONSE_ACTIONS__ENABLED="false",
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

    @property
    def model_calls(self) -> int:
        """The number of requests to the model."""
        return sum(each.kind != "other" for each in self.home.model.requests)

    def ours(self, user: int = USER) -> list[ChatMessage]:
        return [each for each in self.api.room(user).messages if each.is_ours and not each.is_deleted]

    def words(self, user: int = USER) -> list[str]:
        """The bot's messages there, without empty ones."""
        return [each.text for each in self.ours(user) if each.text != EMPTY]

    def ask(self, *steps: dict[str, Any], user: int = USER, thread: int | None = None) -> None:
        self.api.says(script(*steps), user=user, thread=thread)

    def says(self, text: str) -> None:
        self.api.says(text, user=USER)

    def sees(self, words: str, user: int = USER) -> ChatMessage:
        """The message with this text, once it is there."""
        return self.until(
            lambda: next((each for each in self.ours(user) if words in each.text), None), repr(words)
        )

    def answered(self, count: int, user: int = USER) -> list[str]:
        """The bot's messages there, once there are this many and none is empty."""

        def look() -> list[str] | None:
            words = self.words(user)
            return words if len(words) >= count and len(words) == len(self.ours(user)) else None

        return self.until(look, f"{count} answers")

    def until(self, look: Callable[[], T | None], what: str) -> T:
        try:
            return wait_for(look, what, SECONDS_MAX)
        except AssertionError as error:
            error.add_note(f"seen: {self.api.seen(USER)}\nlog: {self.log}")
            raise

    def times(self, words: str) -> int:
        return sum(words in each.text for each in self.ours())

    def times_seen(self, words: str, count: int) -> None:
        """Return once this many messages have the text."""
        self.until(lambda: self.times(words) == count or None, f"{count} times {words!r}")

    def says_until(self, text: str, words: str) -> None:
        """Send it every second until a message has these words."""

        def look() -> bool | None:
            self.says(text)
            time.sleep(1)
            return self.times(words) > 0 or None

        self.until(look, repr(words))

    def press(self, said: ChatMessage, label: str) -> None:
        choice = next(
            button["callback_data"] for row in said.buttons for button in row if button["text"] == label
        )
        self.api.presses(said, choice, user=USER)

    def busy(self, command: str) -> dict[str, Any]:
        """A step in which the client runs this command."""
        if self.provider == "codex":
            return {"tool": "exec_command", "input": {"cmd": command}}
        return {"tool": "Bash", "input": {"command": command}}

    def running(self, command: str) -> dict[str, Any]:
        """The session of this tool, once it runs."""
        return self.daemon.wait_for_session(lambda record: command in str(record), f"running {command!r}")


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def evictions(log: str) -> Sequence[tuple[str, str]]:
    """Who left the pool, by key, and why, in order."""
    return re.findall(r"conversationKey=(\S+) sessionId=\S+ evictionReason=(\w+)", log)
