"""What arrives from a chat, and where an answer goes. What people wrote is text and never an order to us."""

from typing import Final, NewType

from msgspec import Struct

ConversationKey = NewType("ConversationKey", str)
"""One conversation of the gateway: `chat:<chat id>:thread:<thread id or main>`."""

MAIN_THREAD: Final = "main"


class Place(Struct, frozen=True):
    """A chat, or one topic of it. `is_private`: nobody else reads it."""

    chat_id: int
    thread_id: int | None = None
    is_private: bool = False

    @property
    def key(self) -> ConversationKey:
        thread = MAIN_THREAD if self.thread_id is None else self.thread_id
        return ConversationKey(f"chat:{self.chat_id}:thread:{thread}")


class Quoted(Struct, frozen=True):
    """The message that was replied to; `author` is as they call themselves."""

    author: str
    text: str


class Incoming(Struct, frozen=True, tag="message"):
    """A message. `text` is its text or caption, empty for media without one; `edited`, `forwarded`: so it says."""

    update_id: int
    place: Place
    message_id: int
    user_id: int
    at: float
    text: str
    quoted: Quoted | None = None
    edited: bool = False
    forwarded: bool = False


class Pressed(Struct, frozen=True, tag="press"):
    """A button under one of our messages. `choice` is the data it carries, as the client sent it: anybody can forge it."""

    update_id: int
    place: Place
    message_id: int
    user_id: int
    at: float
    press_id: str
    choice: str


class Ignored(Struct, frozen=True, tag="ignored"):
    """Something else that arrived. It has a number, and is done with."""

    update_id: int


Update = Incoming | Pressed | Ignored


class Button(Struct, frozen=True):
    """A button: what it says, and the choice it carries, at most 64 bytes."""

    label: str
    choice: str


Buttons = tuple[tuple[Button, ...], ...]
"""Rows of buttons."""
