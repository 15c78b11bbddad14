"""Alerts through a Telegram bot. The token is part of every address there: none of them leaves this module.

The library is imported by the first message, in a thread: it takes a third of a second. A refusal is an answer with a
status, or a connection that was never made; whatever broke off after that is in doubt.
"""

import asyncio
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from wakeful.adapters.system.hush import hush
from wakeful.domain.plaintext import plain
from wakeful.domain.redact import redact
from wakeful.ports.messenger import NotDelivered, Refused

if TYPE_CHECKING:
    from telegram import Bot, LinkPreviewOptions
    from telegram.error import RetryAfter

NAME: Final = "telegram"
# Telegram takes 4,096 characters.
TEXT_CHARS_MAX: Final = 4000
CONNECT_SECONDS_MAX: Final = 5.0
ANSWER_SECONDS_MAX: Final = 10.0
SEND_SECONDS_MAX: Final = 20.0
REASON_CHARS_MAX: Final = 200
# Telegram's own gateway gave up on its answer.
_GATEWAY_TIMEOUT: Final = "Gateway Timeout"
# What the HTTP library calls a connection that was never made.
_NEVER_SENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL"}
)


class TelegramMessenger:
    """One bot and the chat it writes to."""

    name = NAME

    def __init__(self, token: str, chat: str, api: str) -> None:
        self._token = token
        self._chat = chat
        self._api = api.rstrip("/")
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
        except Exception as problem:  # noqa: BLE001 - an answer nobody foresaw must not end the daemon
            raise self._explained(problem) from None

    async def close(self) -> None:
        if self._bot is not None:
            await self._bot.shutdown()
            for request in self._bot._request:  # noqa: SLF001 - `shutdown` does nothing for a bot that never polled
                await request.shutdown()

    def _explained(self, problem: Exception) -> NotDelivered:
        """The same as an error of ours, without any address."""
        from telegram.error import NetworkError, RetryAfter, TelegramError  # noqa: PLC0415 - loaded by now

        reason = self._safe(str(problem)) or type(problem).__name__
        if isinstance(problem, RetryAfter):
            return Refused(channel=NAME, reason=reason, retry_after_seconds=_asked_seconds(problem))
        if not isinstance(problem, TelegramError):
            return NotDelivered(channel=NAME, reason=f"an answer we do not understand: {reason}")
        cause = problem.__cause__
        if isinstance(problem, NetworkError) and type(cause).__module__.startswith("httpx"):
            kind = type(cause).__name__
            return (Refused if kind in _NEVER_SENT else NotDelivered)(channel=NAME, reason=kind)
        if _GATEWAY_TIMEOUT in reason or str(problem) == "Invalid server response":
            return NotDelivered(channel=NAME, reason=reason)
        return Refused(channel=NAME, reason=reason)

    def _safe(self, text: str) -> str:
        return plain(redact(text.replace(self._token, "[bot token]")), REASON_CHARS_MAX)


def _asked_seconds(problem: "RetryAfter") -> float:
    asked = problem.retry_after
    return asked.total_seconds() if isinstance(asked, timedelta) else float(asked)


def _open_bot(token: str, api: str) -> "Bot":
    """Raises Refused where no bot can be made of it."""
    hush()
    try:
        import httpx  # noqa: PLC0415 - only where alerts go this way
        from telegram import Bot  # noqa: PLC0415 - the same
        from telegram.error import InvalidToken  # noqa: PLC0415 - the same
        from telegram.request import HTTPXRequest  # noqa: PLC0415 - the same
        from telegram.warnings import PTBDeprecationWarning  # noqa: PLC0415 - the same
    except ImportError:
        raise Refused(channel=NAME, reason="python-telegram-bot is not installed") from None
    # It announces another type for a flood's length at every flood; both are understood here.
    warnings.filterwarnings("ignore", category=PTBDeprecationWarning)
    # A connection that is kept may be closed by the time it is needed, and then nobody knows what arrived.
    limits = httpx.Limits(max_connections=4, max_keepalive_connections=0)
    request = HTTPXRequest(
        connect_timeout=CONNECT_SECONDS_MAX,
        read_timeout=ANSWER_SECONDS_MAX,
        write_timeout=ANSWER_SECONDS_MAX,
        httpx_kwargs={"limits": limits},
    )
    try:
        return Bot(token, base_url=f"{api}/bot", request=request, get_updates_request=request)
    except InvalidToken:
        raise Refused(channel=NAME, reason="the token is not one") from None


def _no_preview() -> "LinkPreviewOptions":
    """Links are not to be fetched by Telegram's servers."""
    from telegram import LinkPreviewOptions  # noqa: PLC0415 - loaded by now

    return LinkPreviewOptions(is_disabled=True)
