"""Telegram Bot API: opens the bot of alerts and chat, decodes answers, classifies failures, sends alerts.

The token is part of every address, so no address and no text of the library leaves this module unredacted.
Telegram repeats an update until its number is confirmed: one that cannot be decoded is confirmed by the
number found in its bytes, so that it blocks no other. A refusal is an answer with a status or a connection
that was never made; any later failure leaves the delivery in doubt. The library takes a third of a second to
import: only when a bot opens.
"""

import asyncio
import re
import warnings
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from wakeful.alerts.delivery import NotDelivered, Refused
from wakeful.core.decoding import decode_json_leniently
from wakeful.core.errors import WorldError
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.linux.logging import silence_libraries

if TYPE_CHECKING:
    from telegram import Bot, LinkPreviewOptions

_RESULT: Final = re.compile(r'"result"\s*:\s*\[')
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{},]', re.DOTALL)
# The first match counts: Telegram writes the number first, and a chat message comes later.
_NUMBER: Final = re.compile(r'"update_id"\s*:\s*(\d{1,18})\b')


def read_answer(payload: bytes) -> Any:
    """The whole answer. If a list of updates cannot be decoded at once, each update is decoded by itself.

    Raises msgspec.DecodeError for anything else that cannot be decoded.
    """
    text = payload.decode("utf-8", "replace")
    try:
        return decode_json_leniently(text)
    except msgspec.DecodeError:
        begin = _RESULT.search(text)
        if begin is None:
            raise
        return {"ok": True, "result": list(_each(text, begin.end()))}


def _each(text: str, begin: int) -> Iterator[Any]:
    for piece in _elements(text, begin):
        try:
            yield decode_json_leniently(piece)
        except msgspec.DecodeError:
            number = _NUMBER.search(piece)
            if number is not None:
                yield {"update_id": int(number[1])}


def _elements(text: str, begin: int) -> Iterator[str]:
    """The texts between the commas of a list, found by brackets and quotes alone, at any depth of nesting."""
    depth, start = 0, begin
    for token in _TOKEN.finditer(text, begin):
        sign = token[0]
        if sign in {"[", "{"}:
            depth += 1
        elif depth == 0 and sign in {"]", ","}:
            yield text[start : token.start()]
            start = token.end()
            if sign == "]":
                return
        elif sign in {"]", "}"}:
            depth -= 1
    # The text was cut: the last element may still have its number.
    yield text[start:]


CONNECT_SECONDS_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 64
REASON_CHARS_MAX: Final = 200
# The HTTP library's errors for a connection that was never made.
_NEVER_SENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL"}
)
# The library's own text.
INVALID_ANSWER: Final = "Invalid server response"
# The only proxy error that is about the request itself.
_TOO_LARGE: Final = "Too Large"


class BotNotOpened(WorldError):
    """No bot: {reason}."""

    code = "bot-not-opened"


class TelegramFailureKind(Enum):
    REFUSED = "refused"
    """Telegram refuses the call, and would refuse it again."""
    FLOODED = "flooded"
    """Telegram refuses it for now."""
    LOCKED = "locked"
    """Telegram does not know the token."""
    TAKEN = "taken"
    """Another program reads this bot's updates."""
    UNREACHED = "unreached"
    """No connection was made: nothing arrived."""
    BROKEN = "broken"
    """Telegram's servers failed with a status."""
    DOUBT = "doubt"
    """The connection broke: the outcome is unknown."""


class TelegramFailure(Struct, frozen=True):
    """`reason` contains no address and no token."""

    meaning: TelegramFailureKind
    reason: str
    retry_after_seconds: float = 0.0


def open_bot(token: str, api: str, *, answer_seconds_max: float, kept_connections: int) -> "Bot":
    """A bot that has made no call yet. Raises BotNotOpened."""
    silence_libraries()
    try:
        import httpx  # noqa: PLC0415 - only if Telegram is used
        from telegram import Bot  # noqa: PLC0415 - the same
        from telegram._utils.types import JSONDict  # noqa: PLC0415 - the same
        from telegram.error import InvalidToken, TelegramError  # noqa: PLC0415 - the same
        from telegram.request import HTTPXRequest  # noqa: PLC0415 - the same
    except ImportError:
        raise BotNotOpened(
            reason="python-telegram-bot is not installed: pip install 'wakeful[alerts]'"
        ) from None
    _ignore_advice()
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=kept_connections)

    class _BotRequest(HTTPXRequest):
        @staticmethod
        def parse_json_payload(payload: bytes) -> JSONDict:
            try:
                answer: JSONDict = read_answer(payload)
            except msgspec.DecodeError as problem:
                raise TelegramError(INVALID_ANSWER) from problem
            return answer

    request = _BotRequest(
        connect_timeout=CONNECT_SECONDS_MAX,
        read_timeout=answer_seconds_max,
        write_timeout=answer_seconds_max,
        pool_timeout=answer_seconds_max,
        httpx_kwargs={"limits": limits},
    )
    try:
        return Bot(token, base_url=f"{api.rstrip('/')}/bot", request=request, get_updates_request=request)
    except InvalidToken:
        raise BotNotOpened(reason="the token is not one") from None


async def close_bot(bot: "Bot") -> None:
    await bot.shutdown()
    for request in bot._request:  # noqa: SLF001 - `shutdown` does nothing for a bot that never polled
        await request.shutdown()


def classify_failure(problem: Exception, token: str) -> TelegramFailure:
    """The failure behind an exception of a call. The library is loaded by now."""
    from telegram.error import Conflict, InvalidToken, NetworkError, RetryAfter, TelegramError  # noqa: PLC0415

    reason = without_token(str(problem), token) or type(problem).__name__
    if isinstance(problem, RetryAfter):
        after = problem.retry_after
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        return TelegramFailure(TelegramFailureKind.FLOODED, reason, seconds)
    if not isinstance(problem, TelegramError):
        return TelegramFailure(TelegramFailureKind.DOUBT, f"an unknown answer: {reason}")
    if isinstance(problem, InvalidToken):
        # An unknown token or an unknown method: the library raises the same error for both.
        cause = without_token(str(problem.__cause__ or ""), token)
        meaning = TelegramFailureKind.REFUSED if "not found" in cause.lower() else TelegramFailureKind.LOCKED
        return TelegramFailure(meaning, cause or reason)
    if isinstance(problem, Conflict):
        return TelegramFailure(TelegramFailureKind.TAKEN, reason)
    if isinstance(problem, NetworkError) and type(problem.__cause__).__module__.startswith("httpx"):
        kind = type(problem.__cause__).__name__
        if kind in _NEVER_SENT:
            return TelegramFailure(TelegramFailureKind.UNREACHED, f"Telegram cannot be reached ({kind})")
        return TelegramFailure(TelegramFailureKind.DOUBT, f"no answer came back ({kind})")
    if str(problem) == INVALID_ANSWER:
        return TelegramFailure(TelegramFailureKind.DOUBT, reason)
    # The exact type: in the library a bad request is a subclass of a network error.
    is_status = type(problem) is NetworkError and _TOO_LARGE not in reason
    return TelegramFailure(TelegramFailureKind.BROKEN if is_status else TelegramFailureKind.REFUSED, reason)


def without_token(text: str, token: str) -> str:
    """One line of the text, without the token."""
    return plain(redact(text.replace(token, "[bot token]")), REASON_CHARS_MAX)


def _ignore_advice() -> None:
    from telegram.warnings import PTBDeprecationWarning, PTBUserWarning  # noqa: PLC0415 - loaded by now

    # At every flood it announces another type for `retry_after`; this module reads both.
    warnings.filterwarnings("ignore", category=PTBDeprecationWarning)
    # For every call it advises its own method; those cannot read an update of an unknown kind.
    warnings.filterwarnings("ignore", message="Please use 'Bot", category=PTBUserWarning)


NAME: Final = "telegram"
# Telegram takes 4,096 characters.
TEXT_CHARS_MAX: Final = 4000
ANSWER_SECONDS_MAX: Final = 10.0
SEND_SECONDS_MAX: Final = 20.0
# Telegram's own gateway got no answer in time.
_GATEWAY_TIMEOUT: Final = "Gateway Timeout"


class TelegramMessenger:
    name = NAME

    def __init__(self, token: str, chat: str, api: str) -> None:
        self._token = token
        self._chat = chat
        self._api = api
        self._bot: Bot | None = None

    async def send(self, text: str, *, chat: str | None = None) -> None:
        target = chat or self._chat
        if not target:
            raise Refused(channel=NAME, reason="no chat is set: alerts.telegram_chat")
        if self._bot is None:
            self._bot = await asyncio.to_thread(_open_bot, self._token, self._api)
        try:
            async with asyncio.timeout(SEND_SECONDS_MAX):
                await self._bot.send_message(
                    target, text[:TEXT_CHARS_MAX], link_preview_options=_no_preview()
                )
        except TimeoutError:
            raise NotDelivered(channel=NAME, reason=f"no answer within {SEND_SECONDS_MAX:g} s") from None
        except Exception as problem:  # noqa: BLE001 - an unforeseen answer must not end the daemon
            raise _delivery_error(problem, self._token) from None

    async def close(self) -> None:
        if self._bot is not None:
            await close_bot(self._bot)


def _delivery_error(problem: Exception, token: str) -> NotDelivered:
    """The error of the channel for this failure, without any address."""
    failure = classify_failure(problem, token)
    if failure.meaning is TelegramFailureKind.DOUBT or _GATEWAY_TIMEOUT in failure.reason:
        return NotDelivered(channel=NAME, reason=failure.reason)
    if failure.meaning is TelegramFailureKind.FLOODED:
        return Refused(channel=NAME, reason=failure.reason, retry_after_seconds=failure.retry_after_seconds)
    return Refused(channel=NAME, reason=failure.reason)


def _open_bot(token: str, api: str) -> "Bot":
    """Raises Refused."""
    try:
        # A kept connection may be closed by the time of the next call, and then the delivery is in doubt.
        return open_bot(token, api, answer_seconds_max=ANSWER_SECONDS_MAX, kept_connections=0)
    except BotNotOpened as problem:
        raise Refused(channel=NAME, reason=str(problem.facts["reason"])) from None


def _no_preview() -> "LinkPreviewOptions":
    """Options without link previews: Telegram's servers must not fetch the links."""
    from telegram import LinkPreviewOptions  # noqa: PLC0415 - loaded by now

    return LinkPreviewOptions(is_disabled=True)
