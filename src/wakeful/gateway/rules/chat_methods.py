"""Lists the Bot API methods that an answer may call, and their allowed parameters. Pure.

The list is closed: a method sends something to the chat that the answer belongs to, or makes a small change
there that a person can undo. None reads, deletes, forwards, invites, fetches an address or changes the bot
itself.
"""

from collections.abc import Mapping
from typing import Final

from wakeful.core.errors import OperatorError
from wakeful.core.text import plain
from wakeful.gateway.rules.messages import Place
from wakeful.gateway.rules.shown_text import display_text

_QUIET: Final = "disable_notification"
METHODS: Final[Mapping[str, frozenset[str]]] = {
    "sendMessage": frozenset({"text", _QUIET}),
    "sendPoll": frozenset(
        {
            "question",
            "options",
            "is_anonymous",
            "type",
            "allows_multiple_answers",
            "correct_option_id",
            _QUIET,
        }
    ),
    "sendDice": frozenset({"emoji", _QUIET}),
    "sendLocation": frozenset({"latitude", "longitude", _QUIET}),
    "sendVenue": frozenset({"latitude", "longitude", "title", "address", _QUIET}),
    "sendContact": frozenset({"phone_number", "first_name", "last_name", _QUIET}),
    "sendChatAction": frozenset({"action"}),
    "stopPoll": frozenset({"message_id"}),
    "setMessageReaction": frozenset({"message_id", "reaction"}),
    "pinChatMessage": frozenset({"message_id", _QUIET}),
    "unpinChatMessage": frozenset({"message_id"}),
    "createForumTopic": frozenset({"name", "icon_color"}),
    "editForumTopic": frozenset({"name"}),
    "closeForumTopic": frozenset(),
    "reopenForumTopic": frozenset(),
}
_BY_NAME: Final = {name.lower(): name for name in METHODS}
# Wakeful sets the place, whatever the answer says.
_FORCED: Final = frozenset({"chat_id", "message_thread_id"})
VALUE_CHARS_MAX: Final = 4096


class MethodRefused(OperatorError):
    """{reason}."""

    code = "method-refused"


def check_call(
    method: str, given: Mapping[str, str], place: Place
) -> tuple[str, dict[str, str | int | None]]:
    """The method and parameters of the call, in this place. Raises MethodRefused."""
    name = _BY_NAME.get(method.lower())
    if name is None:
        raise MethodRefused(reason="not a method that answers may use")
    refused = sorted(given.keys() - METHODS[name] - _FORCED)
    if refused:
        raise MethodRefused(reason=f"its {plain(refused[0], 40)} may not be used by answers")
    allowed = {
        key: display_text(value[:VALUE_CHARS_MAX]) for key, value in given.items() if key not in _FORCED
    }
    return name, {**allowed, "chat_id": place.chat_id, "message_thread_id": place.thread_id}
