"""Interfaces of the gateway: the chat service, and the host it runs on.

A chat is one bot whose updates have one reader at a time. The host gives its figures, the processes of the
gateway's sessions, and the cleaning of the gateway's own files.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from wakeful.core.errors import WorldError
from wakeful.gateway.rules.host import Hog, HostReading
from wakeful.gateway.rules.messages import Buttons, ConversationKey, Place, Update

log = logging.getLogger("wakeful.gateway")


class ChatFailed(WorldError):
    """Not confirmed by the chat: {reason}."""

    # In doubt: it may have arrived.
    code = "chat-failed"


class ChatRefused(ChatFailed):
    """The chat refused the message: {reason}."""

    # Definite: nothing arrived.
    code = "chat-refused"


class ChatFlooded(ChatRefused):
    """The chat is rate-limited for {retry_after_seconds:g} s: {reason}."""

    code = "chat-flooded"

    @property
    def retry_after_seconds(self) -> float:
        return float(str(self.facts["retry_after_seconds"]))


class ChatUnreachable(ChatRefused):
    """The chat could not be reached: {reason}."""

    # Nothing arrived, and the same may arrive later.
    code = "chat-unreachable"


class BotInUse(WorldError):
    """Another program reads the updates of this bot. A token works for one gateway only: stop the other program."""

    code = "chat-taken"


class BotRejected(WorldError):
    """The chat does not know this bot: {reason}. Set gateway.token again."""

    code = "chat-locked"


class Chat(Protocol):
    """Every call has a deadline of its own. Raises ChatFlooded, ChatUnreachable, ChatRefused or ChatFailed, without address or token."""

    async def me(self) -> str:
        """The bot's own name, which proves that the token is valid. Raises BotRejected too."""

    async def updates(self, after: int, wait_seconds: float) -> Sequence[Update]:
        """Updates beyond this number, oldest first, as soon as there are some; none when the time is up.

        The call confirms everything up to `after`: it is never sent again. Raises BotInUse, BotRejected too.
        """

    async def send(
        self, place: Place, text: str, *, buttons: Buttons = (), reply_to: int | None = None
    ) -> int:
        """Send plain text; returns the number of the new message."""

    async def edit(self, place: Place, message_id: int, text: str, *, buttons: Buttons = ()) -> None:
        """Replace the text of a message; the same text is no error."""

    async def draft(self, place: Place, draft_id: int, text: str) -> None:
        """Show a text that is still being written; private chats only."""

    async def typing(self, place: Place) -> None:
        """Show for some seconds that an answer is being written."""

    async def send_file(
        self, place: Place, path: Path, caption: str = "", *, within: Path | None = None
    ) -> int:
        """Send a file; returns the number of the new message.

        Only a regular file of 50 MB at most, inside `within` if that is given; no link is followed there.
        """

    async def send_as_file(self, place: Place, name: str, text: str) -> int:
        """Send a text as a file of this name; returns the number of the new message."""

    async def answer_press(self, press_id: str, words: str = "") -> None:
        """Answer the press of a button; `words` appear for a moment."""

    async def call(self, method: str, parameters: Mapping[str, Any]) -> Any:
        """Any other method of the service, by its own name."""

    async def close(self) -> None:
        """Close the connections."""


async def send_notice(chat: Chat, place: Place, words: str) -> None:
    """Send a message that is not worth a retry: when this fails, it may still have arrived."""
    try:
        await chat.send(place, words)
    except ChatFailed as problem:
        log.warning("unverified in %s: %s", place.key, problem)


async def try_answer_press(chat: Chat, press_id: str, words: str = "") -> None:
    """Answer a press; a failure is only logged. The person's client shows a wait until it is answered."""
    try:
        await chat.answer_press(press_id, words)
    except ChatFailed as problem:
        log.info("a button press was not acknowledged: %s", problem)


class Host(Protocol):
    """No method raises: a value that cannot be read is None in the reading, and its process counts as no hog."""

    async def read(self) -> HostReading:
        """The host now, without the figures of the gateway itself: Telegram and its errors."""

    async def hogs(self, sessions: Mapping[str, ConversationKey], cpu_percent_max: float) -> tuple[Hog, ...]:
        """The providers' processes of these sessions, and their usage since the last call."""

    async def collect_memory(self) -> None:
        """Free unused memory of this process."""

    async def clean_files(self) -> int:
        """Remove the gateway's own old files, and nothing else; returns how many."""
